"""How the shipped tracker was made: `RUNS`, each of which goes on from the one before, with the preset `cpu`.

Short inputs first, which teach most of it in half the time; then with older turns in sight; then also on the mistakes
that the model itself made on the training dialogues. docs/experiments.md has what each run was worth.
"""

from __future__ import annotations

from typing import Any, NamedTuple

NAME = "shipped"
"""Of this recipe among the presets of `somdst train`."""


class Run(NamedTuple):
    name: str
    settings: dict[str, Any]
    """What differs from the preset `cpu`."""
    learns_from_mistakes: bool = False
    """Whether it is also fed the memories that the model before it had on the training dialogues."""

    def __str__(self) -> str:
        words = [f"--{name.replace('_', '-')} {value}" for name, value in self.settings.items()]
        return " ".join([*words, *(["on its own mistakes too"] if self.learns_from_mistakes else [])])


RUNS = (
    Run("one", {"history": 1, "epochs": 1.5}),
    Run("two", {"epochs": 0.75}),
    Run("three", {"epochs": 2.0, "own_rate": 0.4}, learns_from_mistakes=True),
    Run("four", {"epochs": 2.0, "own_rate": 0.4}, learns_from_mistakes=True),
)
