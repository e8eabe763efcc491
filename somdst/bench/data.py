"""How fast a corpus is read, its operations derived and its turns encoded, on one core.

Each figure is the median of several repeats. Every repeat starts cold: the file is read again, and the encoder's memory
of texts it has seen is empty. Rates count by the clock on the wall; beside it stands the rate by the processor time
that was used, which other work on the machine disturbs less. Models are measured elsewhere.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from somdst.corpora import Corpus
from somdst.memory.operations import FOUR, OperationSet
from somdst.memory.state import State
from somdst.model.encoding import Encoder
from somdst.model.prediction import TurnInput


class Seconds(NamedTuple):
    wall: float
    processor: float


@dataclass(frozen=True, slots=True)
class Rate:
    """How long the same work took, again and again."""

    name: str
    turns: int
    repeats: tuple[Seconds, ...]

    @property
    def turns_per_second(self) -> float:
        return self.turns / median(seconds.wall for seconds in self.repeats)

    @property
    def turns_per_processor_second(self) -> float:
        return self.turns / median(seconds.processor for seconds in self.repeats)

    def to_json(self) -> dict[str, Any]:
        return {
            "turns": self.turns,
            "repeats": len(self.repeats),
            "turns_per_second": round(self.turns_per_second, 1),
            "turns_per_processor_second": round(self.turns_per_processor_second, 1),
            "seconds": [round(seconds.wall, 4) for seconds in self.repeats],
        }


def measure_reading(read: Callable[[], Corpus], *, repeats: int, operation_set: OperationSet = FOUR) -> Rate:
    """Read a corpus from its file and derive the operations of every turn."""

    def work() -> int:
        return sum(_derive_all(dialogue.states(), operation_set) for dialogue in read().dialogues)

    return _measure("reading and deriving", work, repeats=repeats)


def _derive_all(states: list[State], operation_set: OperationSet) -> int:
    before = State()
    for after in states:
        operation_set.derive(before, after)
        before = after
    return len(states)


def measure_encoding(name: str, make: Callable[[], Encoder], inputs: list[TurnInput], *, repeats: int) -> Rate:
    """Encode turns one at a time, in every repeat with a new encoder."""

    def work() -> int:
        encode = make().encode
        for input in inputs:
            encode(input)
        return len(inputs)

    return _measure(name, work, repeats=repeats)


def turn_inputs(corpus: Corpus, *, most: int) -> list[TurnInput]:
    """The first turns of a corpus, each with the turn and the state before it."""
    inputs: list[TurnInput] = []
    for dialogue in corpus.dialogues:
        state, previous = State(), None
        for turn in dialogue.turns:
            if len(inputs) == most:
                return inputs
            inputs.append(TurnInput(previous, turn, state))
            state, previous = turn.state if turn.state is not None else state, turn
    return inputs


def _measure(name: str, work: Callable[[], int], *, repeats: int) -> Rate:
    turns, taken = 0, []
    with one_core():
        for _ in range(repeats):
            wall, processor = time.perf_counter(), time.process_time()
            turns = work()
            taken.append(Seconds(time.perf_counter() - wall, time.process_time() - processor))
    return Rate(name, turns, tuple(taken))


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this process on one core, where the system can do that."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
