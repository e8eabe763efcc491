"""`somdst export`: a trained model as ONNX, checked against torch."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from somdst.errors import InputError, ModelError

if TYPE_CHECKING:
    from somdst.evaluate.agreement import Agreement
    from somdst.memory.dialogue import Dialogue
    from somdst.model.folder import ModelFolder

WORST = 0.5
"""Points of joint goal accuracy that int8 may cost."""


def export(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model's folder, as `somdst train` writes it.")],
    check: Annotated[
        str | None,
        typer.Option(
            "--check", metavar="CORPUS", help="Labelled dialogues to compare with torch on.", show_default=False
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Dialogues to compare on.")] = 200,
    float32: Annotated[bool, typer.Option("--float32/--no-float32", help="Also write the float32 graphs.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, for programs.")] = False,
) -> None:
    """Write a trained model as ONNX, so that it runs without torch, in int8 and float32.

    With --check the results are compared with torch's, and nothing is written where int8 costs more than half a point.

    Example: `somdst export runs/first --check multiwoz-2.1/dev.jsonl.xz`
    """
    from somdst.cli.train import require_torch

    require_torch()
    from somdst.learn.export import export as write
    from somdst.model.folder import ModelFolder

    folder = ModelFolder.open(model)
    dialogues = _dialogues(check, limit)
    precisions = ("int8", "float32") if float32 else ("int8",)
    with tempfile.TemporaryDirectory(dir=folder.path, prefix=".export-") as name:
        draft = Path(name)
        files = write(folder, precisions, out=draft)
        results = _compare(folder, draft, precisions, dialogues) if dialogues else {}
        if results and results["int8"].change < -WORST:
            lost = -results["int8"].change
            raise ModelError(
                f"int8 costs {lost:.2f} points of joint goal accuracy, more than {WORST}: nothing was written."
            )
        for file in files:
            file.replace(folder.path / file.name)
    _print(folder, [folder.path / file.name for file in files], results, as_json=as_json)


def _dialogues(check: str | None, limit: int) -> tuple[Dialogue, ...]:
    if check is None:
        return ()
    from somdst.corpora import open_corpus

    dialogues = open_corpus(check).dialogues[:limit]
    if not dialogues:
        raise InputError(f"{check} has no dialogue to compare on.")
    return dialogues


def _compare(
    folder: ModelFolder, draft: Path, precisions: tuple[str, ...], dialogues: tuple[Dialogue, ...]
) -> dict[str, Agreement]:
    from rich.console import Console
    from rich.progress import track

    from somdst.evaluate.agreement import agreement
    from somdst.learn.torch_predictor import TorchPredictor
    from somdst.model.folder import ModelFolder
    from somdst.model.runtime import Runtime

    folder.link_text(draft)
    torch = TorchPredictor.open(folder.path)
    opened = {precision: Runtime(ModelFolder.open(draft), precision=precision) for precision in precisions}
    bar = track(opened.items(), description="comparing with torch", console=Console(stderr=True))
    return {precision: agreement(torch, runtime, dialogues) for precision, runtime in bar}


def _print(folder: ModelFolder, files: list[Path], results: dict[str, Agreement], *, as_json: bool) -> None:
    if as_json:
        content: dict[str, Any] = {
            "model": str(folder.path),
            "files": {file.name: file.stat().st_size for file in files},
        }
        content["agreement"] = {precision: result.to_json() for precision, result in results.items()}
        typer.echo(json.dumps(content))
        return
    for file in files:
        typer.echo(f"{file}  {file.stat().st_size / 1e6:.1f} MB")
    for precision, result in results.items():
        typer.echo(
            f"{precision} against torch on {result.turns:,} turns: operations {result.operations:.3f}% alike, "
            f"values {result.values:.2f}% alike, joint goal accuracy {result.joint_goal_accuracy:.2f} -> "
            f"{result.other_joint_goal_accuracy:.2f} ({result.change:+.2f})"
        )
