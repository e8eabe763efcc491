"""A conversation as an append-only log: `Entry`, what happened, and `Snapshot`, what it all comes to.

`append` adds one entry to a snapshot, `replay` is many appends from the empty one. An entry carries everything it does
(values with what stood there before, turns, pins, writes held back), so that appending needs no look back, and an undo
is just an entry that does the opposite. Nothing is ever removed; the version of a conversation is its number of
entries. Everything is immutable and goes to JSON and back.

How entries come about is `edits.py`'s and `tracker.py`'s concern, and what can be read out of a log (why is this slot
so?) is `audit.py`'s. Nothing here knows a schema, a model or a database.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, cast, get_args

from somdst.errors import StateError
from somdst.memory.dialogue import Turn
from somdst.memory.operations import FOUR, Operation
from somdst.memory.state import State, Value, value_from_json, value_to_json
from somdst.model.prediction import Evidence

Kind = Literal["turn", "correction", "pin", "unpin", "confirm", "reject", "undo", "redo"]
Source = Literal["model", "person", "api"]


def now() -> datetime:
    """The time of an entry that is made now, in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to one slot: from `before` to `after`, None being NULL."""

    slot: str
    operation: Operation
    before: Value | None
    after: Value | None
    probability: float | None = None
    """Calibrated probability that the change is right; None where a person made it."""
    evidence: Evidence | None = None

    def inverse(self) -> Change:
        """What takes it back: nobody's prediction, so without its probability and evidence."""
        return Change(self.slot, FOUR.classify(self.before), self.after, self.before)

    def to_json(self) -> dict[str, Any]:
        return {
            "slot": self.slot,
            "operation": str(self.operation),
            "before": _value_to_json(self.before),
            "after": _value_to_json(self.after),
            "probability": self.probability,
            "evidence": evidence_to_json(self.evidence),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Change:
        return cls(
            slot=_read(data, "slot", str),
            operation=Operation(data["operation"]),
            before=_value_from_json(data["before"]),
            after=_value_from_json(data["after"]),
            probability=_read(data, "probability", (int, float), default=None),
            evidence=evidence_from_json(data.get("evidence")),
        )


@dataclass(frozen=True, slots=True)
class Pending:
    """A write that was held back because it was not probable enough, with the question to ask about it."""

    change: Change
    question: str
    turn: int
    """Number of the turn that asked for the write; the first turn is 1."""

    @property
    def slot(self) -> str:
        return self.change.slot

    def to_json(self) -> dict[str, Any]:
        return {**self.change.to_json(), "question": self.question, "turn": self.turn}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Pending:
        return cls(Change.from_json(data), _read(data, "question", str), _read(data, "turn", int))


@dataclass(frozen=True, slots=True)
class Refused:
    """A write that was asked for and not made, and why: a pinned slot, or a value outside a closed list."""

    change: Change
    reason: str

    @property
    def slot(self) -> str:
        return self.change.slot

    def to_json(self) -> dict[str, Any]:
        return {**self.change.to_json(), "reason": self.reason}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Refused:
        return cls(Change.from_json(data), _read(data, "reason", str))


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened, with all that it does.

    An undo takes `turn` away instead of adding it. For the other fields it already carries the opposite.
    """

    kind: Kind
    source: Source
    time: datetime = field(default_factory=now)
    model: str | None = None
    """Id of the model, where one predicted."""
    turn: Turn | None = None
    domain: str | None = None
    """What the model says the turn is about."""
    changes: tuple[Change, ...] = ()
    held: tuple[Pending, ...] = ()
    """Writes that become pending."""
    released: tuple[Pending, ...] = ()
    """Writes that are no longer pending."""
    pinned: tuple[str, ...] = ()
    unpinned: tuple[str, ...] = ()
    refused: tuple[Refused, ...] = ()
    """Told, not done: nothing of this enters the snapshot."""
    target: int | None = None
    """For undo and redo: the number of the entry that is taken back or done again. The first entry is 1."""

    def to_json(self) -> dict[str, Any]:
        """Fields that say nothing are left out."""
        data: dict[str, Any] = {"kind": self.kind, "source": self.source, "time": self.time.isoformat()}
        data |= {name: value for name in ("model", "domain", "target") if (value := getattr(self, name)) is not None}
        if self.turn is not None:
            data["turn"] = turn_to_json(self.turn)
        for name in ("changes", "held", "released", "refused"):
            if items := getattr(self, name):
                data[name] = [item.to_json() for item in items]
        return data | {name: list(slots) for name in ("pinned", "unpinned") if (slots := getattr(self, name))}

    @classmethod
    def from_json(cls, data: object) -> Entry:
        with _Reading("an entry of a conversation", data) as fields:
            if fields["kind"] not in get_args(Kind) or fields["source"] not in get_args(Source):
                raise ValueError(f"kind {fields['kind']!r} from source {fields['source']!r}")
            return cls(
                kind=fields["kind"],
                source=fields["source"],
                time=datetime.fromisoformat(fields["time"]),
                model=_read(fields, "model", str, default=None),
                turn=turn_from_json(fields["turn"]) if "turn" in fields else None,
                domain=_read(fields, "domain", str, default=None),
                changes=tuple(map(Change.from_json, fields.get("changes", ()))),
                held=tuple(map(Pending.from_json, fields.get("held", ()))),
                released=tuple(map(Pending.from_json, fields.get("released", ()))),
                pinned=_read_names(fields.get("pinned", ())),
                unpinned=_read_names(fields.get("unpinned", ())),
                refused=tuple(map(Refused.from_json, fields.get("refused", ()))),
                target=_read(fields, "target", int, default=None),
            )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What all entries so far come to. The empty one is the start of every conversation."""

    version: int = 0
    """Number of entries."""
    state: State = field(default_factory=State)
    turns: tuple[Turn, ...] = ()
    """The turns that have not been undone."""
    pinned: frozenset[str] = frozenset()
    pending: Mapping[str, Pending] = field(default_factory=dict)
    done: tuple[int, ...] = ()
    """Numbers of the entries in force, oldest first: the next undo takes back the last of them."""
    undone: tuple[int, ...] = ()
    """Numbers of the entries taken back: the next redo does the last of them again. A new entry empties this."""

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "state": self.state.to_json(),
            "turns": [turn_to_json(turn) for turn in self.turns],
            "pinned": sorted(self.pinned),
            "pending": [self.pending[slot].to_json() for slot in sorted(self.pending)],
            "done": list(self.done),
            "undone": list(self.undone),
        }

    @classmethod
    def from_json(cls, data: object) -> Snapshot:
        with _Reading("a snapshot of a conversation", data) as fields:
            pending = [Pending.from_json(item) for item in fields["pending"]]
            return cls(
                version=_read(fields, "version", int),
                state=State.from_json(fields["state"]),
                turns=tuple(map(turn_from_json, fields["turns"])),
                pinned=frozenset(_read_names(fields["pinned"])),
                pending={item.slot: item for item in pending},
                done=tuple(fields["done"]),
                undone=tuple(fields["undone"]),
            )


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


# JSON


def turn_to_json(turn: Turn) -> dict[str, str]:
    return {"system": turn.system, "user": turn.user}


def turn_from_json(data: Mapping[str, Any]) -> Turn:
    if not isinstance(data["system"], str) or not isinstance(data["user"], str):
        raise ValueError("a turn whose texts are not text")
    return Turn(system=data["system"], user=data["user"])


def evidence_to_json(evidence: Evidence | None) -> dict[str, Any] | None:
    """Characters of an utterance, or the slot that was copied."""
    if evidence is None:
        return None
    if evidence.source == "slot":
        return {"source": "slot", "slot": evidence.slot, "text": evidence.text}
    return {
        "source": evidence.source,
        "start": evidence.start,
        "end": evidence.end,
        "text": evidence.text,
        "turns_ago": evidence.turns_ago,
    }


def evidence_from_json(data: Mapping[str, Any] | None) -> Evidence | None:
    if data is None:
        return None
    if data["source"] not in ("user", "system", "slot"):
        raise ValueError(f"evidence from the source {data['source']!r}")
    return Evidence(
        source=data["source"],
        start=_read(data, "start", int, default=0),
        end=_read(data, "end", int, default=0),
        text=_read(data, "text", str, default=""),
        slot=_read(data, "slot", str, default=None),
        turns_ago=_read(data, "turns_ago", int, default=0),
    )


_REQUIRED: Any = object()


def _read(data: Mapping[str, Any], key: str, kind: type | tuple[type, ...], *, default: Any = _REQUIRED) -> Any:
    """A field that must be of this kind, or None where that is what it is by default."""
    value = data[key] if default is _REQUIRED else data.get(key, default)
    if value is not default and (not isinstance(value, kind) or isinstance(value, bool)):
        raise ValueError(f"`{key}` is {value!r}")
    return value


def _read_names(data: object) -> tuple[str, ...]:
    if not isinstance(data, (list, tuple)) or not all(isinstance(name, str) for name in data):
        raise ValueError(f"{data!r} is not a list of slots")
    return tuple(data)


def _value_to_json(value: Value | None) -> str | None:
    return None if value is None else value_to_json(value)


def _value_from_json(value: object) -> Value | None:
    return None if value is None else value_from_json(value)


class _Reading:
    """Turns whatever goes wrong while JSON is read into one sentence."""

    def __init__(self, what: str, data: object) -> None:
        self.what, self.data = what, data

    def __enter__(self) -> Mapping[str, Any]:
        if not isinstance(self.data, Mapping):
            raise StateError(f"Expected {self.what} as a JSON object, not {type(self.data).__name__}.")
        return cast(Mapping[str, Any], self.data)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KeyError):
            raise StateError(f"This is not {self.what}: the key {error} is missing.") from error
        if isinstance(error, (TypeError, ValueError, AttributeError)):
            raise StateError(f"This is not {self.what}: {error}.") from error
