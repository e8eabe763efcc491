"""What can be read out of a log: why a slot has its value, and a training dialogue with corrected states.

Everything here looks at entries only, so it works for a conversation in memory and for one from a database.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.schema import Schema
from somdst.memory.state import State, Value
from somdst.model.text import whole_words
from somdst.tracking.log import EMPTY, append, replay
from somdst.tracking.records import (
    WINDOW,
    Change,
    Entry,
    JsonRecord,
    JsonState,
    JsonTime,
    JsonTurn,
    Kind,
    Pending,
    RecentTurn,
    Refused,
    Snapshot,
    Source,
)
from somdst.tracking.redaction import Redaction


@dataclass(frozen=True, slots=True)
class SlotEvent(JsonRecord):
    """One thing that happened to a slot: a change, a write held back or refused, a pin."""

    version: int
    """Number of the entry."""
    kind: Kind
    source: Source
    time: JsonTime
    model: str | None = None
    turn: JsonTurn | None = None
    change: Change | None = None
    pending: Pending | None = None
    refused: Refused | None = None
    in_force: bool = True
    """False where it has been undone since."""


@dataclass(frozen=True, slots=True)
class TurnInForce(JsonRecord):
    """A turn that has not been undone, with what it did and the memory after it."""

    number: int
    """1 for the first turn."""
    version: int
    """Number of its entry in the log."""
    system: str
    user: str
    model: str | None
    domain: str | None
    changes: tuple[Change, ...]
    held: tuple[Pending, ...]
    refused: tuple[Refused, ...]
    state: JsonState
    """The memory after the turn."""
    corrected: JsonState
    """The memory before the next turn, or now: with what a person changed after this turn."""


def in_force(entries: Sequence[Entry]) -> list[Entry]:
    """The entries that have not been undone, oldest first."""
    found: list[Entry] = []
    version = replay(entries).head
    while version:
        found.append(entries[version - 1])
        version = found[-1].previous
    return found[::-1]


def recent_turns(entries: Sequence[Entry]) -> tuple[RecentTurn, ...]:
    """The last turns in force, from the whole log: what the snapshot's `recent` should be."""
    return tuple(RecentTurn(entry.version, entry.turn) for entry in in_force(entries) if entry.turn)[-WINDOW:]


def turns(entries: Sequence[Entry]) -> tuple[TurnInForce, ...]:
    """The turns that have not been undone, oldest first."""
    found: list[TurnInForce] = []
    state = State()
    for entry in in_force(entries):
        state = _write(state, entry.changes)
        if entry.turn is not None:
            found.append(
                TurnInForce(
                    number=len(found) + 1,
                    version=entry.version,
                    system=entry.turn.system,
                    user=entry.turn.user,
                    model=entry.model,
                    domain=entry.domain,
                    changes=entry.changes,
                    held=entry.held,
                    refused=entry.refused,
                    state=state,
                    corrected=state,
                )
            )
        elif found:
            found[-1] = replace(found[-1], corrected=state)
    return tuple(found)


def slot_history(entries: Sequence[Entry], slot: str) -> tuple[SlotEvent, ...]:
    """Everything that happened to a slot, oldest first. The last change in force explains its value."""
    standing = {entry.version for entry in in_force(entries)}
    return tuple(
        event
        for entry in entries
        if (event := _event(entry, slot, entry.version in standing or entry.kind in ("undo", "redo"))) is not None
    )


def _event(entry: Entry, slot: str, in_force: bool) -> SlotEvent | None:
    change = next((change for change in entry.changes if change.slot == slot), None)
    pending = next((item for item in (*entry.held, *entry.released) if item.slot == slot), None)
    refused = next((item for item in entry.refused if item.slot == slot), None)
    if change is None and pending is None and refused is None and slot not in (*entry.pinned, *entry.unpinned):
        return None
    return SlotEvent(
        version=entry.version,
        kind=entry.kind,
        source=entry.source,
        time=entry.time,
        model=entry.model,
        turn=entry.turn,
        change=change,
        pending=pending,
        refused=refused,
        in_force=in_force,
    )


def snapshots(entries: Iterable[Entry]) -> tuple[Snapshot, ...]:
    """The empty snapshot, and the one after every entry: version 0, 1, 2 and so on."""
    return tuple(accumulate(entries, append, initial=EMPTY))


def corrected(entries: Sequence[Entry]) -> bool:
    """Whether a person changed or confirmed something that is in force: such a conversation is worth learning from."""
    return any(entry.kind in ("correction", "confirm") for entry in in_force(entries))


def to_dialogue(
    entries: Sequence[Entry], *, id: str, schema: Schema | None = None, redacted: Iterable[str] = ()
) -> Dialogue:
    """The turns in force with the states that they should have led to, as a dialogue to train on. With `schema`, the
    conversation's own, slots that are not in it are left out. Private values are hidden (`redaction.py`): those that
    the log or the schema names, and those of the slots `redacted`.

    What a person said about a slot holds from the turn that it is about. For a confirmed write this is the turn that
    asked for it. For a correction it is the latest turn that says the value, if the slot was not written after it, and
    else the last turn. Another schema holds from the first turn: its lists and slots are those of the whole dialogue.
    """
    start = State()
    spoken: list[Entry] = []
    turns: list[Turn] = []
    said: list[str] = []  # what the turns say, without capitals
    states: list[State] = []
    written: dict[str, int] = {}  # the last turn that wrote a slot
    for entry in in_force(entries):
        if entry.turn is not None:
            spoken.append(entry)
            turns.append(entry.turn)
            said.append(f"{entry.turn.system} {entry.turn.user}".casefold())
            states.append(_write(states[-1] if states else start, entry.changes))
            written |= {change.slot: len(turns) - 1 for change in entry.changes}
        elif not turns:
            start = _write(start, entry.changes)
        else:
            for change in entry.changes:
                first = _about(entry, change, said, written.get(change.slot, 0))
                states[first:] = [_write(state, [change]) for state in states[first:]]
                written[change.slot] = first
    if schema is not None:
        states = [state.within(schema) for state in states]
    if redaction := Redaction.of(entries, slots=(*redacted, *(schema.redacted if schema else ()))):
        turns, states = redaction.turns(spoken), [redaction.state(state) for state in states]
    labelled = (replace(turn, state=state) for turn, state in zip(turns, states, strict=True))
    return Dialogue(id=id, turns=tuple(labelled), schema=schema)


def _write(state: State, changes: Iterable[Change]) -> State:
    values: dict[str, Value | None] = {change.slot: change.after for change in changes}
    return state.with_values(values)


def _about(entry: Entry, change: Change, said: Sequence[str], earliest: int) -> int:
    """Index of the turn that a person's change is about."""
    if entry.kind == "schema":
        return 0
    asked = next((item.turn - 1 for item in entry.released if item.slot == change.slot), None)
    if entry.kind == "confirm" and asked is not None:
        return max(asked, earliest)
    if isinstance(change.after, str):
        value, last = whole_words(change.after.casefold()), len(said) - 1
        return next((place for place in range(last, earliest - 1, -1) if value.search(said[place])), last)
    return len(said) - 1
