"""Logs replayed under another model: which states would be different?

What a person did (corrections, pins, answers to pending writes, another schema) is repeated at the same place, because
the next turn started from it. Where it no longer applies, such as an answer to a question that the other model does not
ask, it is left out. Nothing is stored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from somdst.errors import InputError
from somdst.memory.dialogue import Turn
from somdst.memory.schema import Schema
from somdst.memory.state import State
from somdst.tracking import edits
from somdst.tracking.audit import in_force, turns
from somdst.tracking.log import EMPTY, Result, replay
from somdst.tracking.records import Entry, JsonRecord, JsonValue, Snapshot
from somdst.tracking.tracker import Tracker


@dataclass(frozen=True, slots=True)
class Difference(JsonRecord):
    """A slot that would hold something else after a turn."""

    turn: int
    """Number of the turn; the first is 1."""
    slot: str
    stored: JsonValue | None
    """What it holds in the stored conversation."""
    replayed: JsonValue | None
    """What it would hold under the other model."""


@dataclass(slots=True)
class _Rerun:
    """One conversation on its way through the other model."""

    todo: deque[Entry]
    trackers: Mapping[str | None, Tracker]
    states: list[State] = field(default_factory=list)  # as stored, after each turn
    snapshot: Snapshot = EMPTY
    differences: list[Difference] = field(default_factory=list)

    @property
    def tracker(self) -> Tracker:
        """The one with the schema that the conversation has at this place."""
        return self.trackers[self.snapshot.schema]

    def next_turn(self) -> Turn | None:
        """Repeat what a person did, up to the next turn; None at the end."""
        while self.todo:
            entry = self.todo[0]
            if entry.turn is not None:
                return entry.turn
            repeated = _repeat(self.snapshot, self.todo.popleft(), self.trackers)
            if repeated is not None:
                self.snapshot = repeated.snapshot
        return None

    def take(self, after: Snapshot) -> None:
        self.todo.popleft()
        self.snapshot = after
        number = after.turn_count
        self.differences += compare(self.states[number - 1], after.state, turn=number)


def rerun(
    tracker: Tracker, logs: Mapping[str, Sequence[Entry]], *, schemas: Mapping[str, Schema] | None = None
) -> dict[str, list[Difference]]:
    """What would be different in each conversation. In each run of the model all of them go one turn further. `schemas`
    are those that the logs name, by their ids."""
    trackers: dict[str | None, Tracker] = {id: tracker.under(schema) for id, schema in (schemas or {}).items()}
    trackers[None] = tracker
    runs = {id: _prepare(log, trackers) for id, log in logs.items()}
    while waiting := [(run, turn) for run in runs.values() if (turn := run.next_turn()) is not None]:
        steps = [(run.snapshot, turn) for run, turn in waiting]
        results = tracker.step_many(steps, under=[run.tracker for run, _ in waiting])
        for (run, _), result in zip(waiting, results, strict=True):
            run.take(result.snapshot)
    return {id: run.differences for id, run in runs.items()}


def compare(stored: State, replayed: State, *, turn: int) -> list[Difference]:
    slots = sorted({*stored, *replayed})
    pairs = [(slot, stored.get(slot), replayed.get(slot)) for slot in slots]
    return [Difference(turn, slot, old, new) for slot, old, new in pairs if old != new]


def _prepare(log: Sequence[Entry], trackers: Mapping[str | None, Tracker]) -> _Rerun:
    started = replay(entry for entry in log[:1] if entry.kind == "start")
    todo = deque(in_force(log))
    return _Rerun(todo, trackers, [turn.state for turn in turns(log)], started)


def _repeat(snapshot: Snapshot, entry: Entry, trackers: Mapping[str | None, Tracker]) -> Result | None:
    """What a person did, done to this snapshot."""
    slots = [item.slot for item in entry.released if item.slot in snapshot.pending]
    try:
        match entry.kind:
            case "correction":
                values = {change.slot: change.after for change in entry.changes}
                return edits.correct(snapshot, values, pin=bool(entry.pinned), source=entry.source)
            case "pin":
                return edits.pin(snapshot, entry.pinned, source=entry.source)
            case "unpin":
                return edits.unpin(snapshot, entry.unpinned, source=entry.source)
            case "confirm":
                return edits.confirm(snapshot, slots, source=entry.source) if slots else None
            case "reject":
                return edits.reject(snapshot, slots, source=entry.source) if slots else None
            case "schema" if entry.schema is not None:
                id = entry.schema.after
                return edits.change_schema(snapshot, trackers[id].schema, id=id, source=entry.source)
            case _:
                return None
    except InputError:
        return None
