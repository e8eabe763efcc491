"""All that the paper analyses about a model, measured in one go: what `somdst analyze` and the report show."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from somdst.evaluate.calibration import Calibration, calibrate, scored_changes
from somdst.evaluate.efficiency import Batching, Efficiency, measure_batching, measure_efficiency
from somdst.evaluate.error_analysis import COMBINATIONS, ErrorAnalysis, analyse_errors
from somdst.evaluate.metrics import Metrics, measure
from somdst.evaluate.run import DialogueRun, run
from somdst.memory.dialogue import Dialogue
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
    batch_size: int = 64,
    timed_turns: int = 100,
    progress: Callable[[int], None] | None = None,
) -> Analysis:
    """Run every oracle and every regime."""
    start = time.perf_counter()
    runs = run(predictor, dialogues, batch_size=batch_size, progress=progress)
    seconds = time.perf_counter() - start
    metrics = measure(runs, schema=predictor.schema, operation_set=predictor.operation_set)
    errors = analyse_errors(predictor, dialogues, predicted=runs, batch_size=batch_size, progress=progress)
    generate = metrics.slots_to_generate
    efficiency = measure_efficiency(predictor, runs, to_generate=generate, turns=timed_turns, progress=progress)
    return Analysis(
        metrics=metrics,
        errors=errors,
        efficiency=efficiency,
        batching=measure_batching(predictor, dialogues, batch_size=batch_size, turns=timed_turns, seconds=seconds),
        calibration=calibrate(scored_changes(runs)),
        runs=tuple(runs),
    )
