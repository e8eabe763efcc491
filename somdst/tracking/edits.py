"""The entries that a person (or a program for one) can add to a conversation: correct, pin, confirm, undo and the like.

Each function looks at a snapshot and gives the `Entry` to append; none changes anything. What a model adds is
`tracker.py`'s concern, and so is whether a slot and a value are in the schema.

>>> from somdst.tracking.log import EMPTY, append
>>> correction = correct(EMPTY, {"hotel-area": "north"})
>>> snapshot = append(EMPTY, correction)
>>> append(snapshot, undo(snapshot, correction)).state
State({})
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from somdst.errors import InputError
from somdst.memory.operations import FOUR, Operation
from somdst.memory.state import Value
from somdst.tracking.records import Change, Entry, Pending, Snapshot, Source, now


def correct(
    snapshot: Snapshot,
    values: Mapping[str, Value | None],
    *,
    pin: bool = False,
    source: Source = "person",
    time: datetime | None = None,
) -> Entry:
    """Write these values, None deleting; with `pin`, only new evidence in a later utterance changes them again.

    A value that is right already is recorded too, as a carry-over: somebody looked at it.
    """
    changes = tuple(_correction(snapshot, slot, value) for slot, value in sorted(values.items()))
    return Entry(
        kind="correction",
        source=source,
        time=time or now(),
        changes=changes,
        released=tuple(snapshot.pending[slot] for slot in sorted(values) if slot in snapshot.pending),
        pinned=tuple(slot for slot in sorted(values) if slot not in snapshot.pinned) if pin else (),
    )


def pin(snapshot: Snapshot, slots: Iterable[str], *, source: Source = "person", time: datetime | None = None) -> Entry:
    """From now on only new evidence in a later utterance changes these slots."""
    free = tuple(sorted(set(slots) - snapshot.pinned))
    if not free:
        raise InputError("There is nothing to pin: these slots are pinned already.")
    return Entry(kind="pin", source=source, time=time or now(), pinned=free)


def unpin(
    snapshot: Snapshot, slots: Iterable[str], *, source: Source = "person", time: datetime | None = None
) -> Entry:
    """Let every prediction change these slots again."""
    held = tuple(sorted(set(slots) & snapshot.pinned))
    if not held:
        raise InputError("There is nothing to unpin: none of these slots is pinned.")
    return Entry(kind="unpin", source=source, time=time or now(), unpinned=held)


def confirm(
    snapshot: Snapshot, slots: Iterable[str], *, source: Source = "person", time: datetime | None = None
) -> Entry:
    """Make writes that were pending."""
    items = _find_pending(snapshot, slots)
    changes = tuple(replace(item.change, before=snapshot.state.get(item.slot)) for item in items)
    return Entry(kind="confirm", source=source, time=time or now(), changes=changes, released=items)


def reject(
    snapshot: Snapshot, slots: Iterable[str], *, source: Source = "person", time: datetime | None = None
) -> Entry:
    """Drop writes that were pending; the memory stays as it is."""
    return Entry(kind="reject", source=source, time=time or now(), released=_find_pending(snapshot, slots))


def undo_target(snapshot: Snapshot) -> int:
    """Number of the entry that an undo takes back: the last one in force, whatever its kind."""
    if not snapshot.done:
        raise InputError("There is nothing to undo.")
    return snapshot.done[-1]


def redo_target(snapshot: Snapshot) -> int:
    """Number of the entry that a redo does again."""
    if not snapshot.undone:
        raise InputError("There is nothing to redo: the last entry was no undo.")
    return snapshot.undone[-1]


def undo(snapshot: Snapshot, target: Entry, *, source: Source = "person", time: datetime | None = None) -> Entry:
    """Take back entry number `undo_target(snapshot)`, given as `target`."""
    return replace(
        target,
        kind="undo",
        source=source,
        time=time or now(),
        changes=tuple(change.inverse() for change in reversed(target.changes)),
        held=target.released,
        released=target.held,
        pinned=target.unpinned,
        unpinned=target.pinned,
        refused=(),
        target=undo_target(snapshot),
    )


def redo(snapshot: Snapshot, target: Entry, *, source: Source = "person", time: datetime | None = None) -> Entry:
    """Do entry number `redo_target(snapshot)`, given as `target`, again: the same turn, the same changes, no model."""
    return replace(target, kind="redo", source=source, time=time or now(), target=redo_target(snapshot))


def _correction(snapshot: Snapshot, slot: str, value: Value | None) -> Change:
    before = snapshot.state.get(slot)
    operation = Operation.CARRYOVER if before == value else FOUR.classify(value)
    return Change(slot, operation, before, value)


def _find_pending(snapshot: Snapshot, slots: Iterable[str]) -> tuple[Pending, ...]:
    names = sorted(set(slots))
    if not names:
        raise InputError("There is no write to confirm or reject: nothing is pending.")
    if missing := [slot for slot in names if slot not in snapshot.pending]:
        known = f"pending are {', '.join(sorted(snapshot.pending))}" if snapshot.pending else "nothing is pending"
        raise InputError(f'No write of "{missing[0]}" is pending: {known}.')
    return tuple(snapshot.pending[slot] for slot in names)
