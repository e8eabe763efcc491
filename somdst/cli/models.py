"""`somdst models`: the models that are here, with their size and how good they are."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from somdst.cli import options
from somdst.cli.output import notice, print_json

if TYPE_CHECKING:
    from somdst.model.folder import ModelFolder


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    path: str
    slots: int
    megabytes: float
    dev_joint_goal_accuracy: float | None
    engines: tuple[str, ...]


def models(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FOLDER]...", help="Where to look besides the package; by default here.", show_default=False
        ),
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """List models: the one that is built in, and those in the folders below.

    The accuracy is the one on the dev part of the model's own corpus, in percent, from its metrics.json.

    Example: `somdst models runs`
    """
    from somdst.errors import InputError, ModelError
    from somdst.model.folder import DEFAULT, ModelFolder, shipped_path

    for folder in folders or ():
        if not folder.is_dir():
            raise InputError(f"There is no folder {folder} to look in.")
    rows: list[Row] = []
    if (shipped_path() / "config.json").exists():
        rows.append(_row(DEFAULT, ModelFolder.open(DEFAULT)))
    for path in _found(folders or [Path()]):
        try:
            rows.append(_row(str(path), ModelFolder.open(path)))
        except ModelError as error:
            notice(f"passed over: {error}")
    if as_json:
        print_json({"models": [asdict(row) for row in rows]})
    elif rows:
        _print(rows)
    else:
        notice("No model was found: train one with `somdst train`, or name the folder to look in.")


def _found(folders: list[Path]) -> list[Path]:
    """Model folders at most two levels down."""
    patterns = ("config.json", "*/config.json", "*/*/config.json")
    configs = {config for folder in folders for pattern in patterns for config in folder.glob(pattern)}
    return sorted(config.parent for config in configs if (config.parent / "schema.json").exists())


def _row(name: str, folder: ModelFolder) -> Row:
    files = [file for file in folder.path.iterdir() if file.suffix in (".json", ".onnx", ".bin", ".safetensors")]
    accuracy = folder.metrics().get("dev_joint_goal_accuracy")
    engines = [precision for precision in ("int8", "float32") if (folder.path / f"encoder.{precision}.onnx").exists()]
    if (folder.path / "model.safetensors").exists():
        engines.append("torch")
    return Row(
        name=name,
        path=str(folder.path),
        slots=len(folder.schema),
        megabytes=round(sum(file.stat().st_size for file in files) / 1e6, 1),
        dev_joint_goal_accuracy=accuracy if isinstance(accuracy, (int, float)) else None,
        engines=tuple(engines),
    )


def _print(rows: list[Row]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("model", "slots", "MB", "dev accuracy", "runs on", "folder"):
        table.add_column(heading, justify="right" if heading in ("slots", "MB", "dev accuracy") else "left")
    for row in rows:
        accuracy = "" if row.dev_joint_goal_accuracy is None else f"{row.dev_joint_goal_accuracy:.2f}"
        table.add_row(row.name, str(row.slots), f"{row.megabytes:.1f}", accuracy, ", ".join(row.engines), row.path)
    Console(highlight=False).print(table)
