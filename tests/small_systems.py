"""Systems of seconds: the first turns of a few synthetic dialogues, on the encoder `tiny`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import small_runs

from somdst.corpora.synthetic import SYNTHETIC_SCHEMA, synthetic_dialogues
from somdst.learn.kinds import kind_of
from somdst.learn.settings import Settings, load_settings

DIALOGUES = tuple(replace(one, turns=one.turns[:3]) for one in synthetic_dialogues(dialogues=8))
SMALL: dict[str, Any] = small_runs.SMALL | {
    "operation_weight": 10.0,
    "perturb": 0.0,
    "lexicon_cutoff": 0.0,
    "max_value_length": 8,
    "evaluate_every": 1000.0,
}


def settings(system: str, **changes: Any) -> Settings:
    return kind_of(system).settings(load_settings("cpu", **SMALL | {"system": system} | changes))


def untrained(system: str, **changes: Any) -> Any:
    """The system's network, as it is before training, ready to decide."""
    model, _ = kind_of(system).new_model(settings(system, **changes), SYNTHETIC_SCHEMA, DIALOGUES)
    return model.eval()
