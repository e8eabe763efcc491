"""A small training in a process of its own, for tests that stop or kill it. Made to be preloaded by a fork server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from somdst.corpora.synthetic import SYNTHETIC_SCHEMA, synthetic_dialogues
from somdst.learn.settings import load_settings
from somdst.learn.start import new_model
from somdst.learn.training import Trainer

SETTINGS: dict[str, Any] = {
    "encoder": "tiny",
    "normalisation": "lowercase",
    "precision": "fp32",
    "batch_size": 8,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "teacher_forcing": 0.5,
    "epochs": 5.0,
    "checkpoint_minutes": 1e-6,  # at every step
    "evaluate_every": 100.0,
}


def train(out: Path, finished: Any) -> None:
    torch.set_num_threads(1)
    settings = load_settings("cpu", **SETTINGS)
    dialogues = synthetic_dialogues(dialogues=10)
    model, encoder = new_model(settings, SYNTHETIC_SCHEMA, dialogues)
    outcome = Trainer(model, encoder, settings, dialogues, out).run()
    finished.value = outcome.finished
