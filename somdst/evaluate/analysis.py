"""All that the paper analyses about a model, measured together: what `somdst analyze` and the report show.

Also the cost of each way of typing: the model measured again on perturbed user texts, one kind at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from somdst.corpora.perturbation import Perturbation, perturb_all
from somdst.evaluate.calibration import Calibration, calibrate, scored_changes
from somdst.evaluate.efficiency import Batching, Efficiency, measure_batching, measure_efficiency
from somdst.evaluate.error_analysis import COMBINATIONS, ErrorAnalysis, analyse_errors
from somdst.evaluate.metrics import Metrics, measure
from somdst.evaluate.run import DialogueRun, Oracles, run
from somdst.memory.dialogue import Dialogue
from somdst.memory.schema import Schema
from somdst.model.prediction import Predictor


@dataclass(frozen=True, slots=True)
class Analysis:
    metrics: Metrics
    errors: ErrorAnalysis
    efficiency: Efficiency
    batching: Batching
    calibration: Calibration
    runs: tuple[DialogueRun, ...]
    """Without oracles."""

    def to_json(self) -> dict[str, Any]:
        return self.metrics.to_json() | {
            "error_analysis": self.errors.to_json(),
            "efficiency": self.efficiency.to_json(),
            "batching": self.batching.to_json(),
            "calibration": self.calibration.to_json(),
        }


def cost(turns: int, *, timed_turns: int) -> int:
    """How often `analyse` calls its progress, in turns."""
    return turns * len(COMBINATIONS) + min(timed_turns, turns)


def analyse(
    predictor: Predictor,
    dialogues: Sequence[Dialogue],
    *,
    schema: Schema | None = None,
    batch_size: int = 64,
    timed_turns: int = 100,
    progress: Callable[[int], None] | None = None,
) -> Analysis:
    """Run every oracle and every regime."""
    slots = schema or predictor.schema
    start = time.perf_counter()
    runs = run(predictor, dialogues, schema=slots, batch_size=batch_size, progress=progress)
    seconds = time.perf_counter() - start
    metrics = measure(runs, schema=slots, operation_set=predictor.operation_set)
    errors = analyse_errors(
        predictor, dialogues, schema=slots, predicted=runs, batch_size=batch_size, progress=progress
    )
    generate = metrics.slots_to_generate
    efficiency = measure_efficiency(
        predictor, runs, schema=slots, to_generate=generate, turns=timed_turns, progress=progress
    )
    return Analysis(
        metrics=metrics,
        errors=errors,
        efficiency=efficiency,
        batching=measure_batching(
            predictor, dialogues, schema=slots, batch_size=batch_size, turns=timed_turns, seconds=seconds
        ),
        calibration=calibrate(scored_changes(runs)),
        runs=tuple(runs),
    )


@dataclass(frozen=True, slots=True)
class Perturbed:
    kind: Perturbation
    turns_changed: int
    """Turns whose text the perturbation changed at all."""
    metrics: Metrics

    def to_json(self) -> dict[str, Any]:
        return {"turns_changed": self.turns_changed} | self.metrics.to_json()


def measure_perturbed(
    predictor: Predictor,
    dialogues: Sequence[Dialogue],
    kind: Perturbation,
    *,
    schema: Schema | None = None,
    seed: int = 0,
    oracle: Oracles = frozenset(),
    threshold: float = 0.0,
    batch_size: int = 64,
    progress: Callable[[int], None] | None = None,
) -> Perturbed:
    changed = perturb_all(dialogues, kind, seed=seed)
    slots = schema or predictor.schema
    runs = run(
        predictor,
        changed,
        schema=slots,
        oracle=oracle,
        threshold=threshold,
        batch_size=batch_size,
        progress=progress,
    )
    metrics = measure(runs, schema=slots, operation_set=predictor.operation_set)
    return Perturbed(kind, _differing(dialogues, changed), metrics)


def _differing(before: Sequence[Dialogue], after: Sequence[Dialogue]) -> int:
    pairs = zip(before, after, strict=True)
    return sum(a.user != b.user for one, two in pairs for a, b in zip(one.turns, two.turns, strict=True))
