"""How much faster many dialogues are together than one turn at a time: evaluation, and annotating on all cores.

All do the same work, the same dialogues on their own predicted states, and take turns, so that whatever else the
machine does meets all of them. The model is opened before the clock starts; annotating starts its processes within it,
as its users do. The same weights in torch, turn by turn, are how a training script without a runtime would evaluate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Literal, get_args

from somdst.bulk.annotating import Opener
from somdst.bulk.local import annotate_all
from somdst.evaluate.run import run
from somdst.memory.dialogue import Dialogue
from somdst.model.prediction import Predictor
from somdst.tracking.conversation import Conversation
from somdst.tracking.tracker import Tracker

Way = Literal["one_at_a_time", "evaluate", "annotate", "torch_one_at_a_time"]
WAYS: tuple[Way, ...] = get_args(Way)


def measure_bulk(
    opener: Opener,
    dialogues: Sequence[Dialogue],
    *,
    repeats: int,
    torch: Predictor | None = None,
    progress: Callable[[Way, float], None] = lambda way, rate: None,
) -> dict[Way, float]:
    """Turns a second, the median of the repeats. `progress` hears of each measurement."""
    tracker = opener()
    ways: dict[Way, Callable[[], object]] = {
        "one_at_a_time": lambda: _one_at_a_time(tracker, dialogues),
        "evaluate": lambda: run(tracker.predictor, dialogues),
        "annotate": lambda: list(annotate_all(opener, dialogues)),
    }
    if torch is not None:
        ways["torch_one_at_a_time"] = lambda: run(torch, dialogues, batch_size=1)
    turns = sum(len(dialogue.turns) for dialogue in dialogues)
    rates: dict[Way, list[float]] = {way: [] for way in ways}
    _one_at_a_time(tracker, dialogues[:2])  # warm up
    for _ in range(repeats):
        for way, work in ways.items():
            start = time.perf_counter()
            work()
            rates[way].append(turns / (time.perf_counter() - start))
            progress(way, rates[way][-1])
    return {way: median(found) for way, found in rates.items()}


def _one_at_a_time(tracker: Tracker, dialogues: Sequence[Dialogue]) -> None:
    for dialogue in dialogues:
        conversation: Conversation = tracker.start()
        for turn in dialogue.turns:
            conversation.update(user=turn.user, system=turn.system)
