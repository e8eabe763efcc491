"""Two predictions of the same dialogues: which turns got better, which worse, and whether that is more than chance.

The interval is a paired bootstrap over dialogues, not turns, because the turns of a dialogue depend on each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from somdst.errors import CorpusError
from somdst.evaluate.run import DialogueRun, TurnRun


@dataclass(frozen=True, slots=True)
class TurnPair:
    """The same turn in A and in B."""

    dialogue: str
    number: int
    a: TurnRun
    b: TurnRun

    @property
    def wrong(self) -> TurnRun:
        return self.b if self.a.correct else self.a

    def to_json(self) -> dict[str, Any]:
        return {
            "dialogue": self.dialogue,
            "turn": self.number,
            "user": self.a.turn.user,
            "gold": self.a.gold.to_json(),
            "wrong": self.wrong.predicted.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    dialogues: int
    turns: int
    a: float
    """Joint goal accuracy of A on the common dialogues."""
    b: float
    low: float
    """The 95% interval of b - a, in points."""
    high: float
    better: tuple[TurnPair, ...]
    """Wrong in A, right in B."""
    worse: tuple[TurnPair, ...]

    @property
    def difference(self) -> float:
        return self.b - self.a

    @property
    def clear(self) -> bool:
        """The interval leaves out zero."""
        return self.low > 0 or self.high < 0

    def to_json(self) -> dict[str, Any]:
        return {
            "dialogues": self.dialogues,
            "turns": self.turns,
            "a": round(self.a, 4),
            "b": round(self.b, 4),
            "difference": round(self.difference, 4),
            "interval": [round(self.low, 4), round(self.high, 4)],
            "better": [pair.to_json() for pair in self.better],
            "worse": [pair.to_json() for pair in self.worse],
        }


def compare(a: Sequence[DialogueRun], b: Sequence[DialogueRun], *, samples: int = 10_000, seed: int = 0) -> Comparison:
    """Compare the dialogues that both have."""
    pairs = _paired(a, b)
    turns = [TurnPair(one.id, t + 1, x, y) for one, two in pairs for t, (x, y) in enumerate(_turns(one, two))]
    counts, right_a = per_dialogue([one for one, _ in pairs])
    _, right_b = per_dialogue([two for _, two in pairs])
    low, high = interval(right_a, right_b, counts, samples=samples, seed=seed)
    return Comparison(
        dialogues=len(pairs),
        turns=len(turns),
        a=100.0 * sum(right_a) / len(turns),
        b=100.0 * sum(right_b) / len(turns),
        low=low,
        high=high,
        better=tuple(pair for pair in turns if pair.b.correct and not pair.a.correct),
        worse=tuple(pair for pair in turns if pair.a.correct and not pair.b.correct),
    )


def _paired(a: Sequence[DialogueRun], b: Sequence[DialogueRun]) -> list[tuple[DialogueRun, DialogueRun]]:
    others = {run.id: run for run in b}
    pairs = [(run, others[run.id]) for run in a if run.id in others]
    if not any(one.turns for one, _ in pairs):
        raise CorpusError("The two predictions have no dialogue in common: predict the same corpus with both models.")
    for one, two in pairs:
        if [turn.gold for turn in one.turns] != [turn.gold for turn in two.turns]:
            raise CorpusError(
                f"The dialogue {one.id} has other labels in B than in A: predict the same corpus with both."
            )
    return pairs


def _turns(one: DialogueRun, two: DialogueRun) -> list[tuple[TurnRun, TurnRun]]:
    return list(zip(one.turns, two.turns, strict=True))


def per_dialogue(runs: Sequence[DialogueRun]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The turns of each dialogue, and how many of them have the gold state."""
    return tuple(len(one.turns) for one in runs), tuple(sum(turn.correct for turn in one.turns) for one in runs)


def interval(
    right_a: Sequence[int], right_b: Sequence[int], turns: Sequence[int], *, samples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """The 95% interval of b - a in points, from the right turns and all turns of each dialogue."""
    gains, lengths = np.array(right_b) - np.array(right_a), np.array(turns)
    rng = np.random.default_rng(seed)
    differences = []
    for start in range(0, samples, 500):  # a few megabytes at a time
        drawn = rng.integers(len(gains), size=(min(500, samples - start), len(gains)))
        differences.append(100.0 * gains[drawn].sum(axis=1) / lengths[drawn].sum(axis=1))
    low, high = np.percentile(np.concatenate(differences), [2.5, 97.5])
    return float(low), float(high)
