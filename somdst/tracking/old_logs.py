"""Logs that version 0.1.0 wrote: its entries have no numbers and do not point to each other.

`read_log` reads a log of any version. The store uses it once per conversation, when it migrates an old database;
`Conversation.from_json` uses it for files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from somdst.errors import InputError, StateError
from somdst.tracking import edits
from somdst.tracking.log import EMPTY, append, leaving
from somdst.tracking.records import Entry, Snapshot


def read_log(data: Sequence[object]) -> list[Entry]:
    """The entries of a log in JSON. Those of version 0.1.0 get their numbers and pointers."""
    numbered = [
        {"version": number, **item} if isinstance(item, Mapping) else item for number, item in enumerate(data, 1)
    ]
    entries = [Entry.from_json(item) for item in numbered]
    if all(isinstance(item, Mapping) and "version" in item for item in data):
        return entries
    return _linked(entries)


def _linked(entries: Sequence[Entry]) -> list[Entry]:
    linked: list[Entry] = []
    snapshot = EMPTY
    for entry in entries:
        linked.append(_link(snapshot, entry, linked))
        snapshot = append(snapshot, linked[-1])
    return linked


def _link(snapshot: Snapshot, entry: Entry, before: Sequence[Entry]) -> Entry:
    """The entry with the pointers that it would get if it was made today."""
    if entry.kind not in ("undo", "redo"):
        dropped = leaving(snapshot) if entry.turn is not None else 0
        return replace(entry, previous=snapshot.head, dropped=dropped)
    make = edits.undo if entry.kind == "undo" else edits.redo
    try:
        made = make(snapshot, lambda number: before[number - 1]).entry
    except InputError as error:
        raise StateError(f"Entry {entry.version} does not fit this conversation: {error}") from error
    return replace(entry, previous=made.previous, dropped=made.dropped, returned=made.returned, undone=made.undone)
