"""Accuracy per service, as schema-guided corpora count it: a turn has a frame for each of its services, and a frame is
right if all slots of that service are.

Services that the model was trained on are told apart from those that it sees for the first time. The empty state is
measured beside the model: many frames have nothing in them, and a tracker that never writes gets those right.
Does not count anything else; see `metrics.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Set
from dataclasses import asdict, dataclass
from typing import Any

from somdst.evaluate.run import DialogueRun, TurnRun
from somdst.evaluate.tables import Table


@dataclass(frozen=True, slots=True)
class FrameMetrics:
    service: str
    frames: int
    accuracy: float
    """Percent of the frames in which every slot of the service is right."""
    empty_accuracy: float
    """The same for a tracker that never writes."""
    seen: bool | None = None
    """Whether the model was trained on this service; None where nobody said."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def measure_frames(runs: Iterable[DialogueRun], *, seen: Set[str] | None = None) -> tuple[FrameMetrics, ...]:
    """One row per service, by name; empty where the corpus has no frames. `seen` names the services of training."""
    found: defaultdict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for run in runs:
        for turn in run.turns:
            for service in turn.turn.frames or ():
                found[service].append(_frame(turn, service))
    return tuple(_row(service, found[service], None if seen is None else service in seen) for service in sorted(found))


def totals(rows: Iterable[FrameMetrics]) -> tuple[FrameMetrics, ...]:
    """All frames, and those of seen and unseen services where that is known."""
    rows = list(rows)
    groups: dict[str, tuple[bool | None, list[FrameMetrics]]] = {
        "all services": (None, rows),
        "seen services": (True, [row for row in rows if row.seen]),
        "unseen services": (False, [row for row in rows if row.seen is False]),
    }
    return tuple(_sum(name, seen, group) for name, (seen, group) in groups.items() if group)


def table(rows: Iterable[FrameMetrics]) -> Table:
    """For the terminal and the report."""
    rows = list(rows)
    kinds = {None: "", True: "seen", False: "new"}
    shown = tuple(
        (row.service, kinds[row.seen], row.frames, row.accuracy, row.empty_accuracy) for row in [*totals(rows), *rows]
    )
    columns = ("service", "in training", "frames", "right", "empty state")
    note = "A frame is right if all slots of its service are. Empty state: a tracker that never writes."
    return Table("frames", "Frames by service", columns, shown, note)


def _frame(turn: TurnRun, service: str) -> tuple[bool, bool]:
    """Whether the frame is right, and whether nothing would be."""
    prefix = f"{service}-"
    wrong = any(slot.startswith(prefix) for slot in turn.predicted.differing(turn.gold))
    return not wrong, not any(slot.startswith(prefix) for slot in turn.gold)


def _row(service: str, frames: list[tuple[bool, bool]], seen: bool | None) -> FrameMetrics:
    right, empty = (100.0 * sum(column) / len(frames) for column in zip(*frames, strict=True))
    return FrameMetrics(service, len(frames), right, empty, seen)


def _sum(name: str, seen: bool | None, rows: list[FrameMetrics]) -> FrameMetrics:
    count = sum(row.frames for row in rows)
    right = sum(row.frames * row.accuracy for row in rows) / count
    return FrameMetrics(name, count, right, sum(row.frames * row.empty_accuracy for row in rows) / count, seen)
