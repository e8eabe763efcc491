"""A small training in a process of its own, which ends itself at a chosen place."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, Literal

import torch

from somdst.corpora.synthetic import SYNTHETIC_SCHEMA, synthetic_dialogues
from somdst.learn import checkpoints
from somdst.learn.progress import Progress
from somdst.learn.settings import load_settings
from somdst.learn.start import new_model
from somdst.learn.trainer import Trainer

SETTINGS: dict[str, Any] = {
    "encoder": "tiny",
    "normalisation": "lowercase",
    "precision": "fp32",
    "batch_size": 8,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "teacher_forcing": 0.5,
    "epochs": 2.0,
    "checkpoint_minutes": 1e-6,  # at every step
    "evaluate_every": 100.0,
}
Place = Literal["after a step", "while a checkpoint is written", "between the two renames"]


def train(out: Path, finished: Any, step: int = -1, number: int = 0, place: Place = "after a step") -> None:
    """Train, and send the signal to this very process at a step."""
    torch.set_num_threads(1)
    settings = load_settings("cpu", **SETTINGS)
    dialogues = synthetic_dialogues(dialogues=10)
    model, encoder = new_model(settings, SYNTHETIC_SCHEMA, dialogues)

    def report(progress: Progress) -> None:
        if progress.done != step:
            return
        if place == "after a step":
            os.kill(os.getpid(), number)
        elif place == "while a checkpoint is written":
            _end_while_writing()
        else:
            _end_between_renames()

    outcome = Trainer(model, encoder, settings, dialogues, out, report=report).run()
    finished.value = outcome.finished


def _end_while_writing() -> None:
    def half(content: Any, stream: Any) -> None:
        stream.write(b"half of a checkpoint")
        stream.flush()
        os.kill(os.getpid(), signal.SIGKILL)

    checkpoints.torch.save = half  # type: ignore[assignment]


def _end_between_renames() -> None:
    replace = Path.replace

    def once(self: Path, target: Path) -> Path:
        moved = replace(self, target)
        if Path(target).name == checkpoints.PREVIOUS:
            os.kill(os.getpid(), signal.SIGKILL)
        return moved

    Path.replace = once  # type: ignore[method-assign,assignment]
