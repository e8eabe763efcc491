"""What a person, or a program for one, can do to a conversation: correct, pin, confirm, undo, change its schema.

Each function takes a snapshot and gives a `Result`: the entry to append and the snapshot after it. None changes
anything. Does not predict (`step.py`) and does not check a correction against the schema (`tracker.py`).

>>> from somdst.tracking.log import EMPTY
>>> corrected = correct(EMPTY, {"hotel-area": "north"})
>>> undo(corrected.snapshot, {1: corrected.entry}.__getitem__).state
State({})
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from somdst.errors import InputError, StateError
from somdst.memory.operations import FOUR, Operation
from somdst.memory.schema import Schema
from somdst.memory.state import Value
from somdst.tracking.log import EMPTY, Result
from somdst.tracking.records import Change, Entry, Pending, RecentTurn, SchemaChange, Snapshot, Source, now
from somdst.tracking.step import refit

EntryAt = Callable[[int], Entry]
"""Reads an entry of the log by its number."""


def correct(
    snapshot: Snapshot,
    values: Mapping[str, Value | None],
    *,
    pin: bool = False,
    schema: Schema | None = None,
    source: Source = "person",
) -> Result:
    """Write these values; None deletes. With `pin`, only new evidence in a later utterance changes them again.
    `schema` says which of them are private.

    A value that is right already is recorded too, as a carry-over: somebody looked at it.
    """
    entry = replace(
        Entry.after(snapshot, "correction", source, schema=schema),
        changes=tuple(_correction(snapshot, slot, value) for slot, value in sorted(values.items())),
        released=tuple(snapshot.pending[slot] for slot in sorted(values) if slot in snapshot.pending),
        pinned=tuple(slot for slot in sorted(values) if slot not in snapshot.pinned) if pin else (),
    )
    return Result.of(snapshot, entry)


def pin(snapshot: Snapshot, slots: Iterable[str], *, source: Source = "person") -> Result:
    """From now on only new evidence in a later utterance changes these slots."""
    free = tuple(sorted(set(slots) - snapshot.pinned))
    if not free:
        raise InputError("There is nothing to pin: these slots are pinned already.")
    return Result.of(snapshot, replace(Entry.after(snapshot, "pin", source), pinned=free))


def unpin(snapshot: Snapshot, slots: Iterable[str], *, source: Source = "person") -> Result:
    """Let every prediction change these slots again."""
    held = tuple(sorted(set(slots) & snapshot.pinned))
    if not held:
        raise InputError("There is nothing to unpin: none of these slots is pinned.")
    return Result.of(snapshot, replace(Entry.after(snapshot, "unpin", source), unpinned=held))


def confirm(snapshot: Snapshot, slots: Iterable[str], *, source: Source = "person") -> Result:
    """Make writes that were pending: those of these slots, or all if none is named."""
    items = _find_pending(snapshot, slots)
    changes = tuple(replace(item.change, before=snapshot.state.get(item.slot)) for item in items)
    entry = replace(Entry.after(snapshot, "confirm", source), changes=changes, released=items)
    return Result.of(snapshot, entry)


def reject(snapshot: Snapshot, slots: Iterable[str], *, source: Source = "person") -> Result:
    """Drop writes that were pending: those of these slots, or all if none is named. The memory stays as it is."""
    items = _find_pending(snapshot, slots)
    return Result.of(snapshot, replace(Entry.after(snapshot, "reject", source), released=items))


def start(schema: str) -> Result:
    """The first entry of a conversation that has a schema of its own, named by its id. It cannot be undone."""
    entry = replace(Entry.after(EMPTY, "start", "api"), schema=SchemaChange(after=schema))
    return Result.of(EMPTY, entry)


def change_schema(snapshot: Snapshot, schema: Schema, *, id: str | None, source: Source = "person") -> Result:
    """Go on under another schema; `id` is how the log names it, None for the tracker's own.

    What still fits is kept. Values, pins and pending writes that do not fit are taken out, and `refused` says why.
    """
    if id == snapshot.schema:
        raise InputError("The conversation has this schema already.")
    changes, held, refused, released = refit(snapshot, schema)
    entry = replace(
        Entry.after(snapshot, "schema", source, schema=schema),
        changes=changes,
        held=held,
        released=released,
        unpinned=tuple(slot for slot in sorted(snapshot.pinned) if slot not in schema),
        refused=refused,
        schema=SchemaChange(snapshot.schema, id),
    )
    return Result.of(snapshot, entry)


def undo(snapshot: Snapshot, entry_at: EntryAt, *, source: Source = "person") -> Result:
    """Take back the last entry in force, whatever its kind. Reads that entry and, in a long conversation, a turn."""
    if not snapshot.head:
        raise InputError("There is nothing to undo.")
    target = entry_at(snapshot.head)
    entry = replace(
        target,
        version=snapshot.version + 1,
        kind="undo",
        source=source,
        time=now(),
        changes=tuple(change.inverse() for change in reversed(target.changes)),
        held=target.released,
        released=target.held,
        pinned=target.unpinned,
        unpinned=target.pinned,
        refused=(),
        target=snapshot.head,
        dropped=0,
        returned=_recent_turn(target.dropped, entry_at) if target.dropped else None,
        undone=snapshot.undone,
        schema=target.schema.inverse() if target.schema else None,
    )
    return Result.of(snapshot, entry)


def redo(snapshot: Snapshot, entry_at: EntryAt, *, source: Source = "person") -> Result:
    """Do again what the last undo took back: the same turn, the same changes, no model. Reads both entries."""
    if not snapshot.undone:
        raise InputError("There is nothing to redo: the last entry was not an undo.")
    taken_back = entry_at(snapshot.undone)
    entry = replace(
        entry_at(taken_back.target or 0),
        version=snapshot.version + 1,
        kind="redo",
        source=source,
        time=now(),
        target=taken_back.target,
        undone=taken_back.undone,
    )
    return Result.of(snapshot, entry)


def _recent_turn(number: int, entry_at: EntryAt) -> RecentTurn:
    turn = entry_at(number).turn
    if turn is None:
        raise StateError(f"Entry {number} should be a turn and has none: the log is damaged.")
    return RecentTurn(number, turn)


def _correction(snapshot: Snapshot, slot: str, value: Value | None) -> Change:
    before = snapshot.state.get(slot)
    operation = Operation.CARRYOVER if before == value else FOUR.classify(value)
    return Change(slot, operation, before, value)


def _find_pending(snapshot: Snapshot, slots: Iterable[str]) -> tuple[Pending, ...]:
    names = sorted(set(slots) or snapshot.pending)
    if not names:
        raise InputError("There is no write to confirm or reject: nothing is pending.")
    if missing := [slot for slot in names if slot not in snapshot.pending]:
        known = f"pending are {', '.join(sorted(snapshot.pending))}" if snapshot.pending else "nothing is pending"
        raise InputError(f'No write of "{missing[0]}" is pending: {known}.')
    return tuple(snapshot.pending[slot] for slot in names)
