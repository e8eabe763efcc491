"""Many turns through the model at once; a turn that cannot be tracked spoils no other."""

from __future__ import annotations

from collections.abc import Sequence

from somdst.memory.dialogue import Turn
from somdst.tracking.conversation import Result
from somdst.tracking.log import Snapshot
from somdst.tracking.tracker import Tracker

Step = tuple[Snapshot, Turn]


def step_all(tracker: Tracker, steps: Sequence[Step]) -> list[Result | Exception]:
    """What each turn does, or why it cannot be done."""
    try:
        return list(tracker.step_many(steps))
    except Exception as error:
        if len(steps) == 1:
            return [error]
    return [result for step in steps for result in step_all(tracker, [step])]
