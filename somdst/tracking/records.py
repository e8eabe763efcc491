"""The records of a conversation: `Change`, `Pending`, `Refused`, `Entry`, `Snapshot` and what they are made of.

Each is defined here once, as a frozen dataclass. Its fields, their types and the docstrings under them are the only
definition: the JSON in the database, the HTTP answers, the OpenAPI file, the client and the Parquet schema are derived
from it through `JsonRecord`. pydantic does that, and is imported when the first record becomes JSON, so that tracking
without JSON starts without it.

Does not say how entries add up to a snapshot (`log.py`) or how they are made (`edits.py`, `step.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from threading import RLock
from typing import Annotated, Any, ClassVar, Literal, Self

from somdst.errors import StateError
from somdst.memory.dialogue import Turn
from somdst.memory.operations import FOUR, Operation
from somdst.memory.schema import Schema
from somdst.memory.state import DontCare, State, Value, value_from_json, value_to_json
from somdst.model.prediction import Evidence

Kind = Literal["turn", "correction", "pin", "unpin", "confirm", "reject", "undo", "redo", "start", "schema"]
Source = Literal["model", "person", "api"]

WINDOW = 16
"""How many turns a snapshot keeps: the longest history that a model may read. Stored logs depend on it."""


def now() -> datetime:
    """The time of an entry that is made now, in UTC."""
    return datetime.now(UTC)


# Records as JSON, and back


@dataclass(frozen=True, slots=True)
class AsJson:
    """Annotates a type with the JSON that it becomes: `Annotated[State, AsJson(State, dict[str, str], ...)]`."""

    kind: type
    """Values of this type are taken as they are."""
    shape: Any
    """The type that pydantic knows: what is in the JSON."""
    read: Callable[[Any], Any]
    """From the shape to the value."""
    write: Callable[[Any], Any]
    """From the value to the shape."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        shape = handler.generate_schema(self.shape)
        writer = core_schema.plain_serializer_function_ser_schema(self.write, return_schema=shape)
        return core_schema.no_info_wrap_validator_function(self._validate, shape, serialization=writer)

    def _validate(self, value: object, shaped: Callable[[object], object]) -> object:
        return value if isinstance(value, self.kind) else self.read(shaped(value))


class JsonRecord:
    """Base of the dataclasses that leave the process. Unknown keys are ignored, so that a newer log still reads."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, Any]] = {
        "use_attribute_docstrings": True,
        "json_schema_serialization_defaults_required": True,
    }

    def to_json(self, *, defaults: bool = True) -> dict[str, Any]:
        """Every field; with `defaults=False`, as in storage, only those that differ from their default."""
        kind: Any = type(self)
        data: dict[str, Any] = adapter(kind).dump_python(self, mode="json", exclude_defaults=not defaults)
        return data

    @classmethod
    def from_json(cls, data: object) -> Self:
        """What `to_json` gave, with or without defaults. Anything else is a `StateError` of one sentence."""
        from pydantic import ValidationError

        kind: Any = cls
        try:
            record: Self = adapter(kind).validate_python(data)
        except ValidationError as error:
            raise StateError(_sentence(cls, error.errors(include_url=False)[0])) from error
        return record

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        """Inherited fields keep their descriptions: pydantic reads docstrings from the class's own body only."""
        found: dict[str, Any] = handler(schema)
        parent = cls.__mro__[1]
        if parent is not JsonRecord:
            above = adapter(parent).json_schema()["properties"]
            for name, field in handler.resolve_ref_schema(found)["properties"].items():
                if "description" in above.get(name, {}):
                    field.setdefault("description", above[name]["description"])
        return found


_BUILDING = RLock()


def adapter(kind: Any) -> Any:
    """The `TypeAdapter` of a record's class."""
    # pydantic parses the source of a class for its docstrings, and Python 3.11 fails at that in threads
    with _BUILDING:
        return _build_adapter(kind)


@cache
def _build_adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    built = TypeAdapter(kind)
    # pydantic looks for it here. Without it, the source would be parsed again wherever the record is used.
    kind.__pydantic_core_schema__ = built.core_schema
    return built


def _sentence(kind: type, problem: Any) -> str:
    name = re.sub(r"(?<!^)(?=[A-Z])", " ", kind.__name__).lower()
    name = f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
    if not problem["loc"]:
        return f"Expected {name} as a JSON object, not {type(problem['input']).__name__}."
    place = ".".join(map(str, problem["loc"]))
    if problem["type"] == "missing":
        return f"This is not {name}: the key `{place}` is missing."
    reason = problem["msg"].removeprefix("Value error, ")
    # Never what was found there: it may be private, and this sentence is printed and logged.
    return f"This is not {name}: at `{place}`, {reason[:1].lower()}{reason[1:].rstrip('.')}."


# Types that pydantic does not know, with the JSON that they become


@dataclass(frozen=True, slots=True)
class TurnText:
    """A turn in JSON: what was said, without the labels that a corpus has."""

    system: str
    """What the system said; empty where the user spoke first."""
    user: str
    """What the user said then."""


JsonValue = Annotated[Value, AsJson(DontCare, str, value_from_json, value_to_json)]
JsonState = Annotated[State, AsJson(State, dict[str, str], State.from_json, State.to_json)]
JsonTime = Annotated[datetime, AsJson(datetime, str, datetime.fromisoformat, datetime.isoformat)]
JsonSlots = Annotated[frozenset[str], AsJson(frozenset, tuple[str, ...], frozenset, lambda slots: tuple(sorted(slots)))]
JsonTurn = Annotated[
    Turn,
    AsJson(
        Turn,
        TurnText,
        lambda text: Turn(system=text.system, user=text.user),
        lambda turn: TurnText(system=turn.system, user=turn.user),
    ),
]


# The records


@dataclass(frozen=True, slots=True)
class Change(JsonRecord):
    """What happened to one slot."""

    slot: str
    operation: Operation
    before: JsonValue | None
    """The value before; null where nothing was known."""
    after: JsonValue | None
    """The value after; null where nothing is known any more."""
    probability: float | None = None
    """Calibrated probability that the change is right; null where a person made it."""
    evidence: Evidence | None = None
    """Where the value was copied from."""

    def inverse(self) -> Change:
        """What takes it back: nobody's prediction, so without its probability and evidence."""
        return Change(self.slot, FOUR.classify(self.before), self.after, self.before)

    @property
    def change(self) -> Change:
        """The write alone, without the question of a `Pending` or the reason of a `Refused`."""
        return Change(*_parts(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending(Change):
    """A write that was held back because it was not probable enough, with the question to ask about it."""

    question: str
    """What to ask the user."""
    turn: int
    """Number of the turn that asked for the write; the first turn is 1."""

    @classmethod
    def of(cls, change: Change, *, question: str, turn: int) -> Pending:
        return cls(*_parts(change), question=question, turn=turn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Change):
    """A write that was asked for and not made: a pinned slot, a value outside a closed list, or, where the schema of a
    conversation was changed, a value that the new schema has no place for."""

    reason: str
    """Why it was not made, in one sentence."""

    @classmethod
    def of(cls, change: Change, *, reason: str) -> Refused:
        return cls(*_parts(change), reason=reason)


Parts = tuple[str, Operation, Value | None, Value | None, float | None, Evidence | None]


def _parts(change: Change) -> Parts:
    return change.slot, change.operation, change.before, change.after, change.probability, change.evidence


@dataclass(frozen=True, slots=True)
class SchemaChange(JsonRecord):
    """Another schema for a conversation. Both are ids (`Schema.id`); null is the tracker's own schema."""

    before: str | None = None
    after: str | None = None

    def inverse(self) -> SchemaChange:
        return SchemaChange(self.after, self.before)


@dataclass(frozen=True, slots=True)
class RecentTurn(JsonRecord):
    """A turn in force, with the number of its entry."""

    number: int
    turn: JsonTurn


@dataclass(frozen=True, slots=True)
class Entry(JsonRecord):
    """One entry of the log: what happened, and all that it did.

    An undo takes `turn` away instead of adding it. In `changes`, `held`, `released`, `pinned`, `unpinned` and `schema`
    it already carries the opposite. `target` and the fields after it, except `schema`, point to other entries, so that
    an undo or a redo reads one or two rows of the log, however long it is.
    """

    version: int
    """The version that it made, which is also its number in the log; the first is 1."""
    kind: Kind
    source: Source
    time: JsonTime
    model: str | None = None
    """Id of the model, where one predicted."""
    turn: JsonTurn | None = None
    domain: str | None = None
    """What the model says the turn is about."""
    changes: tuple[Change, ...] = ()
    held: tuple[Pending, ...] = ()
    """Writes that become pending."""
    released: tuple[Pending, ...] = ()
    """Writes that are no longer pending."""
    pinned: tuple[str, ...] = ()
    """Slots that become pinned: only new evidence in a later utterance changes them."""
    unpinned: tuple[str, ...] = ()
    """Slots that are no longer pinned."""
    refused: tuple[Refused, ...] = ()
    """Writes that were not made. They are reported and leave no trace in the snapshot."""
    target: int | None = None
    """For undo and redo: the number of the entry that is taken back or done again."""
    previous: int = 0
    """The entry in force before this one; for undo and redo, before `target`. 0 if there is none."""
    dropped: int = 0
    """For a turn: the turn that it pushed out of the snapshot's `recent`. 0 if there is none."""
    returned: RecentTurn | None = None
    """For an undo: the turn that comes back into the snapshot's `recent`."""
    undone: int = 0
    """For undo and redo: the undo that can be redone after this one is. 0 if there is none."""
    schema: SchemaChange | None = None
    """The schema that holds from here on, where this entry changes it."""
    redacted: tuple[str, ...] = ()
    """Slots that the schema marks with `redact`, and that no entry before named. Undo does not take this back."""

    @classmethod
    def after(
        cls,
        snapshot: Snapshot,
        kind: Kind,
        source: Source,
        time: datetime | None = None,
        *,
        schema: Schema | None = None,
    ) -> Entry:
        """The next entry, which does nothing yet. `schema` is the one that it is made under, where it writes values."""
        redacted = tuple(slot for slot in schema.redacted if slot not in snapshot.redacted) if schema else ()
        return cls(snapshot.version + 1, kind, source, time or now(), previous=snapshot.head, redacted=redacted)


def _by_slot(items: tuple[Pending, ...]) -> Mapping[str, Pending]:
    return {item.slot: item for item in items}


def in_order(pending: Mapping[str, Pending]) -> tuple[Pending, ...]:
    return tuple(pending[slot] for slot in sorted(pending))


JsonPending = Annotated[Mapping[str, Pending], AsJson(dict, tuple[Pending, ...], _by_slot, in_order)]


@dataclass(frozen=True, slots=True)
class Snapshot(JsonRecord):
    """What all entries so far add up to. The empty one is the start of every conversation.

    Its size does not grow with the log: of the turns it has the last ones, and of the entries in force the last one.
    """

    version: int = 0
    """Number of entries in the log; every write adds one."""
    state: JsonState = field(default_factory=State)
    """Slot to value; a slot that is absent is not known."""
    pinned: JsonSlots = frozenset()
    """Slots that only new evidence in a later utterance changes."""
    pending: JsonPending = field(default_factory=dict)
    """Writes that wait for an answer."""
    turn_count: int = 0
    """How many turns have not been undone."""
    recent: tuple[RecentTurn, ...] = ()
    """The last of them, oldest first, at most `WINDOW`."""
    head: int = 0
    """Number of the last entry in force, which an undo takes back. 0 if there is none."""
    undone: int = 0
    """Number of the undo that a redo takes back. 0 if there is none: a new entry ends what can be redone."""
    schema: str | None = None
    """Id of the schema in force; null is the tracker's own."""
    redacted: JsonSlots = frozenset()
    """Slots whose values are private, by any schema that the conversation had."""


class HasSnapshot:
    """The properties of everything that has a snapshot."""

    __slots__ = ()
    snapshot: Snapshot

    @property
    def state(self) -> State:
        return self.snapshot.state

    @property
    def version(self) -> int:
        return self.snapshot.version

    @property
    def pending(self) -> tuple[Pending, ...]:
        """Every write that waits for an answer, from this turn or an earlier one."""
        return in_order(self.snapshot.pending)


@dataclass(frozen=True, slots=True)
class TrackedTurn(JsonRecord):
    """What a turn led to, for those who keep no log: `POST /v1/track` and annotated dialogues."""

    state: JsonState
    """The memory after the turn."""
    changes: tuple[Change, ...]
    pending: tuple[Pending, ...]
    """Every write that waits for an answer, from this turn or an earlier one."""
    refused: tuple[Refused, ...]
    domain: str | None
    """What the model says the turn is about."""
