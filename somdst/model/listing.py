"""`find_models`: which models are on this machine, with their size and how good they are. Does not load any weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from somdst.errors import InputError, ModelError
from somdst.model.folder import DEFAULT, PRECISIONS, WEIGHTS, ModelFolder, shipped_path

DEPTHS = ("config.json", "*/config.json", "*/*/config.json")
"""Models are looked for at most two levels down, so that a folder of runs is found and a disk is not searched."""


@dataclass(frozen=True, slots=True)
class ModelSummary:
    name: str
    path: str
    slots: int
    megabytes: float
    dev_joint_goal_accuracy: float | None
    """On the dev part of the model's own corpus, in percent, as its metrics.json says."""
    engines: tuple[str, ...]
    """What it runs on: int8, float32, torch."""

    @classmethod
    def of(cls, name: str, folder: ModelFolder) -> ModelSummary:
        files = [file for file in folder.path.iterdir() if file.suffix in (".json", ".onnx", ".bin", ".safetensors")]
        accuracy = folder.metrics().get("dev_joint_goal_accuracy")
        engines = [precision for precision in PRECISIONS if (folder.path / f"encoder.{precision}.onnx").exists()]
        if (folder.path / WEIGHTS).exists():
            engines.append("torch")
        return cls(
            name=name,
            path=str(folder.path),
            slots=len(folder.schema),
            megabytes=round(sum(file.stat().st_size for file in files) / 1e6, 1),
            dev_joint_goal_accuracy=accuracy if isinstance(accuracy, (int, float)) else None,
            engines=tuple(engines),
        )


def find_models(folders: Sequence[Path]) -> tuple[list[ModelSummary], list[ModelError]]:
    """The model that is built in and those in the folders, and what is wrong with models that cannot be opened."""
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"There is no folder {folder} to look in.")
    configs = {config for folder in folders for pattern in DEPTHS for config in folder.glob(pattern)}
    paths = sorted(config.parent for config in configs if (config.parent / "schema.json").exists())
    places = [DEFAULT] if (shipped_path() / "config.json").exists() else []
    found, damaged = [], []
    for place in (*places, *map(str, paths)):
        try:
            found.append(ModelSummary.of(place, ModelFolder.open(place)))
        except ModelError as error:
            damaged.append(error)
    return found, damaged
