"""Many turns through the model at once, on all cores: parts of a batch, each in a thread, each on one core.

Splitting by turns uses cores better than splitting every matrix product among them, as a single run has to: nothing
waits for the other core. Within a part all inputs are padded to the longest, so that turns of a like length go
together; and parts are small, because what is computed for a turn should stay in the core's cache.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from somdst.conversation import Result
from somdst.dialogue import Turn
from somdst.log import Snapshot
from somdst.tracker import Tracker

PART = 8
"""Most turns in one run of the model on one core."""

Step = tuple[Snapshot, Turn]


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Stepper:
    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="step")

    def __call__(self, tracker: Tracker, steps: Sequence[Step]) -> list[Result | Exception]:
        """What each turn does, or why it cannot be done: a bad turn spoils no other."""
        places = _parts(steps, workers=self._workers)
        if len(places) == 1:
            return _step(tracker, steps)
        done = self._threads.map(lambda part: _step(tracker, [steps[i] for i in part]), places)
        results: dict[int, Result | Exception] = {}
        for part, outcome in zip(places, done, strict=True):
            results.update(zip(part, outcome, strict=True))
        return [results[i] for i in range(len(steps))]

    def close(self) -> None:
        self._threads.shutdown()


def _parts(steps: Sequence[Step], *, workers: int) -> list[list[int]]:
    """Indices of turns that go together, turns of a like length side by side."""
    size = min(PART, -(-len(steps) // workers))
    order = sorted(range(len(steps)), key=lambda i: _length(*steps[i]))
    return [order[start : start + size] for start in range(0, len(order), size)]


def _length(snapshot: Snapshot, turn: Turn) -> int:
    """Roughly how much the model has to read."""
    turns = (*snapshot.turns[-1:], turn)
    return sum(len(turn.system) + len(turn.user) for turn in turns) + 8 * len(snapshot.state)


def _step(tracker: Tracker, steps: Sequence[Step]) -> list[Result | Exception]:
    try:
        return list(tracker.step_many(steps))
    except Exception as error:
        if len(steps) == 1:
            return [error]
    return [result for step in steps for result in _step(tracker, [step])]
