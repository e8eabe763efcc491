"""What each way of typing costs: a model measured again on perturbed user texts, one kind at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from somdst.corpora.perturbation import Kind, perturb_all
from somdst.evaluate.metrics import Metrics, measure
from somdst.evaluate.run import Oracles, run
from somdst.memory.dialogue import Dialogue
from somdst.model.prediction import Predictor


@dataclass(frozen=True, slots=True)
class Perturbed:
    kind: Kind
    turns_changed: int
    """Turns whose text the perturbation changed at all."""
    metrics: Metrics

    def to_json(self) -> dict[str, Any]:
        return {"turns_changed": self.turns_changed} | self.metrics.to_json()


def measure_perturbed(
    predictor: Predictor,
    dialogues: Sequence[Dialogue],
    kind: Kind,
    *,
    seed: int = 0,
    oracle: Oracles = frozenset(),
    threshold: float = 0.0,
    batch_size: int = 64,
    progress: Callable[[int], None] | None = None,
) -> Perturbed:
    changed = perturb_all(dialogues, kind, seed=seed)
    runs = run(predictor, changed, oracle=oracle, threshold=threshold, batch_size=batch_size, progress=progress)
    metrics = measure(runs, schema=predictor.schema, operation_set=predictor.operation_set)
    return Perturbed(kind, _differing(dialogues, changed), metrics)


def _differing(before: Sequence[Dialogue], after: Sequence[Dialogue]) -> int:
    pairs = zip(before, after, strict=True)
    return sum(a.user != b.user for one, two in pairs for a, b in zip(one.turns, two.turns, strict=True))
