"""The paper's error analysis (section 6.2): the truth in place of each part, in all eight combinations.

From the accuracies follow relative error rates, the shares of the error that come from operations and from values,
and how many times the error grows because predicted states are fed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from somdst.evaluate.metrics import joint_goal_accuracy
from somdst.evaluate.run import ORACLES, DialogueRun, Oracles, run
from somdst.memory.dialogue import Dialogue
from somdst.memory.schema import Schema
from somdst.model.prediction import Predictor

COMBINATIONS: tuple[Oracles, ...] = tuple(
    frozenset(chosen) for size in range(len(ORACLES) + 1) for chosen in combinations(ORACLES, size)
)


@dataclass(frozen=True, slots=True)
class Shares:
    """Of the error without oracles, in percent: what each part is responsible for at most and at least."""

    operations_most: float
    operations_least: float
    values_most: float
    values_least: float
    both: float


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Four joint goal accuracies with the same kind of previous state, predicted or gold."""

    none: float
    values: float
    operations: float
    operations_values: float

    def relative_error(self, accuracy: float) -> float:
        """The error in percent of the error without oracles."""
        return 100.0 * (100.0 - accuracy) / (100.0 - self.none) if self.none < 100.0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """Relative error rates and the shares that follow from them, in percent."""
        oracles = ("values", "operations", "operations_values")
        relative = {name: round(self.relative_error(getattr(self, name)), 4) for name in oracles}
        return {"relative_error": relative, "shares": {k: round(v, 4) for k, v in asdict(self.shares()).items()}}

    def shares(self) -> Shares:
        """Operations cause what gold values do not correct; values cause what gold operations do not correct."""
        operations, values = self.relative_error(self.values), self.relative_error(self.operations)
        both = operations + values - 100.0 if self.none < 100.0 else 0.0
        return Shares(operations, operations - both, values, values - both, both)


@dataclass(frozen=True, slots=True)
class ErrorAnalysis:
    accuracy: Mapping[frozenset[str], float]
    """Joint goal accuracy of each combination of oracles."""

    def group(self, *, gold_state: bool) -> ErrorGroup:
        state = ["state"] if gold_state else []
        parts: tuple[list[str], ...] = ([], ["values"], ["operations"], ["operations", "values"])
        return ErrorGroup(*(self.accuracy[frozenset(state + chosen)] for chosen in parts))

    @property
    def propagation(self) -> float:
        """How many times the error grows when predicted states are fed instead of gold ones."""
        with_gold = 100.0 - self.accuracy[frozenset({"state"})]
        return (100.0 - self.accuracy[frozenset()]) / with_gold if with_gold else 1.0

    def to_json(self) -> dict[str, Any]:
        return {
            "joint_goal_accuracy": {
                ",".join(o for o in ORACLES if o in chosen) or "none": round(value, 4)
                for chosen, value in self.accuracy.items()
            },
            "propagation": round(self.propagation, 4),
            "predicted_states": self.group(gold_state=False).to_json(),
            "gold_states": self.group(gold_state=True).to_json(),
        }


def analyse_errors(
    predictor: Predictor,
    dialogues: Sequence[Dialogue],
    *,
    schema: Schema | None,
    predicted: Sequence[DialogueRun],
    batch_size: int,
    progress: Callable[[int], None] | None,
) -> ErrorAnalysis:
    """Run all combinations of oracles; `predicted` are the runs without any."""
    accuracy: dict[frozenset[str], float] = {frozenset(): joint_goal_accuracy(predicted)}
    for oracle in filter(None, COMBINATIONS):
        runs = run(predictor, dialogues, schema=schema, oracle=oracle, batch_size=batch_size, progress=progress)
        accuracy[frozenset(oracle)] = joint_goal_accuracy(runs)
    return ErrorAnalysis(accuracy)
