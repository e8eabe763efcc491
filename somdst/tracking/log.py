"""A conversation as an append-only log: `append` adds an entry to a snapshot, `replay` adds many to the empty one.

An entry carries everything it does (values with what was there before, turns, pins, writes held back), so appending
never looks back in the log, and an undo is an entry that does the opposite. Nothing is ever removed; the version of a
conversation is its number of entries.

Does not make entries; see `edits.py` and `step.py`. What can be read out of a log (why does this slot have this
value?) is in `audit.py`. Nothing here knows a schema, a model or a database.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from somdst.errors import StateError
from somdst.memory.dialogue import Turn
from somdst.memory.state import State, Value
from somdst.tracking.records import Entry, Pending, Snapshot

EMPTY = Snapshot()


def append(snapshot: Snapshot, entry: Entry) -> Snapshot:
    """The snapshot after one more entry. An entry that was made for another snapshot is refused."""
    done, undone = _order(snapshot, entry)
    return Snapshot(
        version=snapshot.version + 1,
        state=_write(snapshot, entry),
        turns=_turns(snapshot, entry),
        pinned=snapshot.pinned.union(entry.pinned).difference(entry.unpinned),
        pending=_pending(snapshot, entry),
        done=done,
        undone=undone,
    )


def replay(entries: Iterable[Entry], start: Snapshot = EMPTY) -> Snapshot:
    """The snapshot after all these entries. `replay(entries[:n])` is the conversation as it was at version n."""
    for entry in entries:
        start = append(start, entry)
    return start


def _write(snapshot: Snapshot, entry: Entry) -> State:
    for change in entry.changes:
        held = snapshot.state.get(change.slot)
        if held != change.before:
            raise _misfit(snapshot, f'"{change.slot}" should hold {_say(change.before)} and holds {_say(held)}')
    return snapshot.state.with_values({change.slot: change.after for change in entry.changes})


def _turns(snapshot: Snapshot, entry: Entry) -> tuple[Turn, ...]:
    if entry.turn is None:
        return snapshot.turns
    if entry.kind != "undo":
        return (*snapshot.turns, entry.turn)
    if not snapshot.turns or snapshot.turns[-1] != entry.turn:
        raise _misfit(snapshot, "it takes back a turn that is not the last one")
    return snapshot.turns[:-1]


def _pending(snapshot: Snapshot, entry: Entry) -> Mapping[str, Pending]:
    if not entry.held and not entry.released:
        return snapshot.pending
    for item in entry.released:
        if snapshot.pending.get(item.slot) != item:
            raise _misfit(snapshot, f'it releases a write of "{item.slot}" that is not pending')
    released = {item.slot for item in entry.released}
    kept = {slot: item for slot, item in snapshot.pending.items() if slot not in released}
    return kept | {item.slot: item for item in entry.held}


def _order(snapshot: Snapshot, entry: Entry) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if entry.kind not in ("undo", "redo"):
        return (*snapshot.done, snapshot.version + 1), ()
    taken, given = (snapshot.done, snapshot.undone) if entry.kind == "undo" else (snapshot.undone, snapshot.done)
    if not taken or taken[-1] != entry.target:
        raise _misfit(snapshot, f"entry {entry.target} is not the next to {entry.kind}")
    taken, given = taken[:-1], (*given, taken[-1])
    return (taken, given) if entry.kind == "undo" else (given, taken)


def _misfit(snapshot: Snapshot, problem: str) -> StateError:
    return StateError(
        f"Entry {snapshot.version + 1} does not fit this conversation: {problem}; "
        "it was made from another version, or the log is damaged."
    )


def _say(value: Value | None) -> str:
    return "nothing" if value is None else f'"{value}"'
