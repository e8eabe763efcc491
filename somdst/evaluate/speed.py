"""How fast a model is on this machine: milliseconds per turn, turns per second in batches, cold start, memory.

What `somdst bench` measures. Comparisons with other ways to run a model, with training and with the service are in
`benchmarks/`, beside the package.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any, TypeVar

from somdst.memory.dialogue import Dialogue
from somdst.memory.operations import FOUR, Operation
from somdst.memory.state import State
from somdst.model.prediction import Predictor, TurnInput
from somdst.tracking.step import input_at

Item = TypeVar("Item")
BATCH = 32
"""Turns in a batch, as in the service and in bulk annotation."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds per turn."""

    p50: float
    p95: float
    turns: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Latency:
        p95 = quantiles(seconds, n=20)[-1] if len(seconds) > 1 else seconds[0]
        return cls(1000 * median(seconds), 1000 * p95, len(seconds))

    def to_json(self) -> dict[str, Any]:
        return {"p50": round(self.p50, 3), "p95": round(self.p95, 3), "turns": self.turns}


@dataclass(frozen=True, slots=True)
class Work:
    """One turn to run, and how many slots it updates."""

    input: TurnInput
    updates: int


Variant = Callable[[Work], object]


@dataclass(frozen=True, slots=True)
class Speed:
    """What `somdst bench` says of a model."""

    model: str
    turn: Latency
    batch_turns_per_s: float
    cold_start_s: float
    peak_mb: float

    def to_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "turn_ms": self.turn.to_json(),
            "batch_turns_per_s": round(self.batch_turns_per_s, 1),
            "cold_start_s": round(self.cold_start_s, 3),
            "peak_mb": round(self.peak_mb, 1),
        }


def measure_speed(model: str, predictor: Predictor, dialogues: Sequence[Dialogue], *, turns: int, rounds: int) -> Speed:
    """Run everything. `model` is the name that a new process opens the model by, for cold start and memory."""
    work = work_of(dialogues, most=turns)
    latency = measure_latencies({"": predicting(predictor)}, work, rounds=rounds)[""]
    batched = batch_throughput(predictor, [one.input for one in work], repeats=rounds)
    seconds, megabytes = cold_start(model, repeats=rounds)
    return Speed(predictor.model_id, latency, batched, seconds, megabytes)


def work_of(dialogues: Sequence[Dialogue], *, most: int) -> list[Work]:
    """Every turn on its gold memory; at most this many, evenly spread."""
    found: list[Work] = []
    for dialogue in dialogues:
        before = State()
        for number, after in enumerate(dialogue.states()):
            input = input_at(dialogue.turns[: number + 1], before, history=number)
            found.append(Work(input, len(FOUR.derive(before, after).values)))
            before = after
    return evenly(found, most)


def evenly(items: Sequence[Item], count: int) -> list[Item]:
    """This many of them, or all, evenly spread."""
    count = min(count, len(items))
    return [items[i * len(items) // count] for i in range(count)]


def seconds_of(predictor: Predictor, given: TurnInput, operations: Mapping[str, Operation] | None = None) -> float:
    """What one turn takes."""
    start = time.perf_counter()
    predictor.predict([given], operations=None if operations is None else [operations])
    return time.perf_counter() - start


def predicting(predictor: Predictor) -> Variant:
    return lambda work: predictor.predict([work.input])


def measure_latencies(
    variants: Mapping[str, Variant],
    work: Sequence[Work],
    *,
    rounds: int,
    few: Mapping[str, int] | None = None,
    progress: Callable[[], None] = lambda: None,
) -> dict[str, Latency]:
    """Each variant's latency, one turn at a time. `few` limits the turns per round of slow variants.

    The variants alternate, round after round, so that whatever else the machine does disturbs all of them alike.
    """
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for run in variants.values():
        for one in work[:3]:  # warm up
            run(one)
    for _ in range(rounds):
        for name, run in variants.items():
            for one in work[: (few or {}).get(name)]:
                start = time.perf_counter()
                run(one)
                seconds[name].append(time.perf_counter() - start)
            progress()
    return {name: Latency.of(times) for name, times in seconds.items()}


def batch_throughput(predictor: Predictor, inputs: Sequence[TurnInput], *, repeats: int = 5) -> float:
    """Turns per second, in batches; the median of the repeats."""
    rates = []
    for _ in range(repeats):
        start = time.perf_counter()
        for first in range(0, len(inputs), BATCH):
            predictor.predict(inputs[first : first + BATCH])
        rates.append(len(inputs) / (time.perf_counter() - start))
    return median(rates)


_COLD_START = """
import time; start = time.perf_counter()
import sys
from somdst import Tracker
conversation = Tracker.from_pretrained(sys.argv[1]).start()
conversation.update(user="I need a cheap hotel in the north for two nights.")
seconds = time.perf_counter() - start
import json, resource
from pathlib import Path
kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
status = Path("/proc/self/status")
if status.exists():  # ru_maxrss also counts the process that started this one
    kilobytes = int(next(line for line in status.read_text().splitlines() if line.startswith("VmHWM")).split()[1])
print(json.dumps({"seconds": seconds, "megabytes": kilobytes / 1024}))
"""


def cold_start(model: str, *, repeats: int = 5) -> tuple[float, float]:
    """Seconds from import to the first answer (median), and peak memory in megabytes (maximum), in new processes."""
    runs: list[dict[str, Any]] = []
    for _ in range(repeats):
        done = subprocess.run([sys.executable, "-c", _COLD_START, model], capture_output=True, text=True, check=True)
        runs.append(json.loads(done.stdout))
    return median(run["seconds"] for run in runs), max(run["megabytes"] for run in runs)
