"""A conversation as an append-only log: `append` adds an entry to a snapshot, `replay` adds many to the empty one.

An entry carries everything it does (values with what was there before, turns, pins, writes held back), so appending
never looks back in the log, and an undo is an entry that does the opposite. Nothing is ever removed; the version of a
conversation is its number of entries.

Entries in force form a chain: the snapshot has the number of the last one (`head`), and each has the number of the one
before it (`previous`). An undo moves the head back along the chain, a redo moves it forward again. What can be redone
is a chain too, of undo entries, that starts at the snapshot's `undone`. An entry of kind `start`, which a conversation
with a schema of its own begins with, is not in the chain: it cannot be undone.

Does not make entries; see `edits.py` and `step.py`. What can be read out of a log (why does this slot have this
value?) is in `audit.py`. Nothing here knows a schema, a model or a database.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from somdst.errors import StateError
from somdst.memory.state import State
from somdst.model.prediction import Prediction
from somdst.tracking.patches import Patches
from somdst.tracking.records import WINDOW, Entry, HasSnapshot, Pending, RecentTurn, Snapshot, TrackedTurn

EMPTY = Snapshot()


def append(snapshot: Snapshot, entry: Entry) -> Snapshot:
    """The snapshot after one more entry. An entry that was made for another snapshot is refused."""
    if entry.version != snapshot.version + 1:
        raise _misfit(snapshot, f"it was made as entry {entry.version}")
    head, undone = _order(snapshot, entry)
    turn_count, recent = _turns(snapshot, entry)
    return Snapshot(
        version=entry.version,
        state=_write(snapshot, entry),
        pinned=snapshot.pinned.union(entry.pinned).difference(entry.unpinned),
        pending=_pending(snapshot, entry),
        turn_count=turn_count,
        recent=recent,
        head=head,
        undone=undone,
        schema=_schema(snapshot, entry),
        redacted=snapshot.redacted.union(entry.redacted),
    )


def replay(entries: Iterable[Entry]) -> Snapshot:
    """The snapshot after all these entries. `replay(entries[:n])` is the conversation as it was at version n."""
    return reduce(append, entries, EMPTY)


@dataclass(frozen=True, slots=True)
class Result(HasSnapshot, Patches):
    """What a turn or an edit led to: the snapshot after it, and the entry that was, or is to be, appended."""

    snapshot: Snapshot
    entry: Entry
    prediction: Prediction | None = field(default=None, repr=False, compare=False)
    """What the model said, before any rule; None for what a person did."""

    @classmethod
    def of(cls, before: Snapshot, entry: Entry, prediction: Prediction | None = None) -> Result:
        return cls(append(before, entry), entry, prediction)

    @property
    def domain(self) -> str | None:
        return self.entry.domain

    @property
    def tracked(self) -> TrackedTurn:
        """The same as one record, for callers that keep no log."""
        return TrackedTurn(self.state, self.changes, self.pending, self.refused, self.domain)

    def to_json(self) -> dict[str, Any]:
        return {"version": self.version, **self.tracked.to_json()}


# The parts of an append


def _write(snapshot: Snapshot, entry: Entry) -> State:
    for change in entry.changes:
        if snapshot.state.get(change.slot) != change.before:
            raise _misfit(snapshot, f'"{change.slot}" holds another value than the one that the entry changes')
    return snapshot.state.with_values({change.slot: change.after for change in entry.changes})


def _pending(snapshot: Snapshot, entry: Entry) -> Mapping[str, Pending]:
    if not entry.held and not entry.released:
        return snapshot.pending
    for item in entry.released:
        if snapshot.pending.get(item.slot) != item:
            raise _misfit(snapshot, f'it releases a write of "{item.slot}" that is not pending')
    released = {item.slot for item in entry.released}
    kept = {slot: item for slot, item in snapshot.pending.items() if slot not in released}
    return kept | {item.slot: item for item in entry.held}


def _schema(snapshot: Snapshot, entry: Entry) -> str | None:
    if entry.schema is None:
        return snapshot.schema
    if entry.schema.before != snapshot.schema:
        raise _misfit(snapshot, f"the schema should be {entry.schema.before} and is {snapshot.schema}")
    return entry.schema.after


def _order(snapshot: Snapshot, entry: Entry) -> tuple[int, int]:
    """The head after an entry, and the undo that can then be redone."""
    if entry.kind == "undo":
        if not snapshot.head or entry.target != snapshot.head or entry.previous >= snapshot.head:
            raise _misfit(snapshot, f"entry {entry.target} is not the next to undo")
        if entry.undone != snapshot.undone:
            raise _misfit(snapshot, f"the undo before it is {snapshot.undone}, not {entry.undone}")
        return entry.previous, entry.version
    if entry.previous != snapshot.head:
        raise _misfit(snapshot, f"the last entry in force is {snapshot.head}, not {entry.previous}")
    if entry.kind == "redo":
        if entry.target is None or not snapshot.head < entry.target < snapshot.undone > entry.undone:
            raise _misfit(snapshot, f"entry {entry.target} is not the next to redo")
        return entry.target, entry.undone
    if entry.kind == "start":
        if snapshot.version:
            raise _misfit(snapshot, "only the first entry can start a conversation")
        return 0, 0
    return entry.version, 0


def _turns(snapshot: Snapshot, entry: Entry) -> tuple[int, tuple[RecentTurn, ...]]:
    """How many turns are in force after an entry, and the last ones."""
    count, recent = snapshot.turn_count, snapshot.recent
    if entry.turn is None:
        return count, recent
    if entry.kind == "undo":
        if not recent or recent[-1] != RecentTurn(snapshot.head, entry.turn):
            raise _misfit(snapshot, "it takes back a turn that is not the last one")
        if (entry.returned is not None) != (count > len(recent)):
            raise _misfit(snapshot, "it does not say which turn comes back into view")
        return count - 1, (*((entry.returned,) if entry.returned else ()), *recent[:-1])
    if entry.dropped != leaving(snapshot):
        raise _misfit(snapshot, f"the turn that leaves the view is {leaving(snapshot)}, not {entry.dropped}")
    number = entry.version if entry.target is None else entry.target
    return count + 1, (*recent, RecentTurn(number, entry.turn))[-WINDOW:]


def leaving(snapshot: Snapshot) -> int:
    """Number of the turn that the next turn pushes out of `recent`, or 0."""
    return snapshot.recent[0].number if len(snapshot.recent) == WINDOW else 0


def _misfit(snapshot: Snapshot, problem: str) -> StateError:
    return StateError(
        f"Entry {snapshot.version + 1} does not fit this conversation: {problem}; "
        "it was made from another version, or the log is damaged."
    )
