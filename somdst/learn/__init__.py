"""The model and its training: `train`, `calibrate`, `export` and `ablate`, as the command line calls them.

    from somdst.learn import Settings, train
    result = train("train.jsonl", "runs/first", dev="dev.jsonl", settings=Settings(epochs=4))

`train`, `ablate` and `export` need torch. It is loaded when one of the names is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from somdst.learn.ablation import Ablation, ablate
    from somdst.learn.calibrating import Calibrated, calibrate
    from somdst.learn.exporting import Exported, export
    from somdst.learn.progress import Progress, TrainingRecord
    from somdst.learn.settings import Settings, load_settings
    from somdst.learn.task import Task, read_task
    from somdst.learn.training import TrainResult, train

_HOMES = {
    "ablation": ("Ablation", "ablate"),
    "calibrating": ("Calibrated", "calibrate"),
    "exporting": ("Exported", "export"),
    "progress": ("Progress", "TrainingRecord"),
    "settings": ("Settings", "load_settings"),
    "task": ("Task", "read_task"),
    "training": ("TrainResult", "train"),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Ablation",
    "Calibrated",
    "Exported",
    "Progress",
    "Settings",
    "Task",
    "TrainResult",
    "TrainingRecord",
    "ablate",
    "calibrate",
    "export",
    "load_settings",
    "read_task",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
