"""How long one turn takes: the shipped way, and the ways it is compared with, in one run on this machine.

Every variant does the same turns, tokenisation and decoding included, one at a time. The variants take turns at it,
round after round, so that whatever else the machine does hits all of them alike. Cold start, memory and throughput are
in `footprint.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from somdst.memory.dialogue import Dialogue
from somdst.memory.operations import FOUR, Operation
from somdst.memory.state import State
from somdst.model.prediction import Predictor, TurnInput


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds a turn."""

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
    """One turn to be done, and how many slots it updates."""

    input: TurnInput
    updates: int


Variant = Callable[[Work], object]


def work_of(dialogues: Sequence[Dialogue], *, most: int) -> list[Work]:
    """Every turn on its gold memory, at most so many."""
    found: list[Work] = []
    for dialogue in dialogues:
        before = State()
        for number, after in enumerate(dialogue.states()):
            turns = dialogue.turns
            input = TurnInput(turns[number - 1] if number else None, turns[number], before, turns[: max(0, number - 1)])
            operations = FOUR.derive(before, after).operations
            found.append(Work(input, sum(operation is Operation.UPDATE for operation in operations.values())))
            before = after
    step = max(1, len(found) // most)
    return found[::step][:most]


def predicting(predictor: Predictor) -> Variant:
    return lambda work: predictor.predict([work.input])


def every_slot(predictor: Predictor) -> Variant:
    """All slots are generated at every turn, as in TRADE."""
    operations = [dict.fromkeys(map(str, predictor.schema), Operation.UPDATE)]
    return lambda work: predictor.predict([work.input], operations=operations)


def measure(
    variants: Mapping[str, Variant],
    work: Sequence[Work],
    *,
    rounds: int,
    few: Mapping[str, int],
    progress: Callable[[], None] = lambda: None,
) -> dict[str, Latency]:
    """Each variant's latency. `few` names slow variants that do only so many of the turns a round."""
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for run in variants.values():
        for one in work[:3]:  # warm up
            run(one)
    for _ in range(rounds):
        for name, run in variants.items():
            for one in work[: few.get(name)]:
                start = time.perf_counter()
                run(one)
                seconds[name].append(time.perf_counter() - start)
            progress()
    return {name: Latency.of(times) for name, times in seconds.items()}


def torch_variants(model: str, folder: Path) -> dict[str, Variant]:
    """What needs torch: the same model on it, its float32 graphs (made here), and the released way."""
    from somdst.learn.export import export
    from somdst.learn.released import ReleasedWay
    from somdst.learn.torch_predictor import TorchPredictor
    from somdst.model.folder import ModelFolder
    from somdst.model.runtime import Runtime

    opened = ModelFolder.open(model)
    if not (opened.path / "encoder.float32.onnx").exists():
        export(opened, ("float32",), out=folder)
        opened.link_text(folder)
        opened = ModelFolder.open(folder)
    released = ReleasedWay(opened.encoder())
    return {
        "float32": predicting(Runtime(opened, precision="float32", threads=2)),
        "torch": predicting(TorchPredictor.open(model)),
        "released way, BERT-base": lambda work: released.run(work.input, work.updates),
    }
