"""What goes out: the answers of the service, each defined once. The routes send them, the client reads them, and the
OpenAPI file describes them by their fields and the docstrings under these.

Everything about a conversation is made of the records of `tracking/records.py`. What comes in is in `requests.py`.
Nothing here imports the store or the web framework, so that a client needs neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from somdst.memory.schema import Schema, Slot, SlotType
from somdst.tracking import audit
from somdst.tracking.audit import SlotEvent, TurnInForce
from somdst.tracking.log import replay
from somdst.tracking.patches import Patches
from somdst.tracking.questions import Question
from somdst.tracking.records import (
    Entry,
    JsonRecord,
    JsonSlots,
    JsonState,
    JsonTurn,
    JsonValue,
    Pending,
    Snapshot,
    TrackedTurn,
    in_order,
)
from somdst.tracking.replays import Difference
from somdst.tracking.step import reads_schemas

if TYPE_CHECKING:
    from somdst.corpora.examples import Example
    from somdst.service.core import Written
    from somdst.service.replaying import Replayed
    from somdst.store import Page, Record
    from somdst.tracking.log import Result
    from somdst.tracking.tracker import Tracker


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem(JsonRecord):
    """An error. A version that is null is left out."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"use_attribute_docstrings": True}

    error: str
    """One sentence: what came, what was expected, what to do next."""
    version: int | None = None
    """For 409: the version that the conversation has."""


# One conversation


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotView(JsonRecord):
    """A conversation at one version."""

    id: str
    version: int
    """Number of entries in the log; every write adds one."""
    state: JsonState
    """Slot to value; a slot that is absent is not known."""
    pinned: JsonSlots
    """Slots that only new evidence in a later utterance changes."""
    pending: tuple[Pending, ...]
    """Writes that wait for an answer."""
    can_undo: bool
    can_redo: bool
    schema: str | None = None
    """Id of its own schema; null if it uses the service's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(SnapshotView, Patches):
    """The answer to a write: the conversation after it, and the entry that was added to its log."""

    entry: Entry

    @classmethod
    def of(cls, written: Written) -> Answer:
        return cls(**_snapshot(written.conversation, written.snapshot), entry=written.entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionView(SnapshotView):
    """A conversation as it was at a version."""

    turn_count: int
    """How many turns have not been undone."""
    turns: tuple[JsonTurn, ...]
    """The last 16 of them; `GET .../turns` has all."""

    @classmethod
    def of(cls, id: str, snapshot: Snapshot) -> VersionView:
        recent = tuple(item.turn for item in snapshot.recent)
        return cls(**_snapshot(id, snapshot), turn_count=snapshot.turn_count, turns=recent)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationView(VersionView):
    """A conversation as it is."""

    subject: str | None
    """Whom it is about."""
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    """When it is erased, if nobody writes to it before; null if nothing is ever erased."""

    @classmethod
    def stored(cls, record: Record) -> ConversationView:
        return cls(**_parts(VersionView.of(record.id, record.snapshot)), **_dates(record))


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary(JsonRecord):
    """A conversation in a list."""

    id: str
    subject: str | None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    version: int
    turns: int
    """How many turns have not been undone."""
    state: JsonState
    schema: str | None = None
    """Id of its own schema; null if it uses the service's."""

    @classmethod
    def of(cls, record: Record) -> Summary:
        now = record.snapshot
        parts: dict[str, Any] = {"version": now.version, "turns": now.turn_count, "state": now.state}
        return cls(id=record.id, **_dates(record), **parts, schema=now.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView(JsonRecord):
    conversations: tuple[Summary, ...]
    next: str | None
    """Give it as `cursor` to get the next page; null at the end."""

    @classmethod
    def of(cls, page: Page, *, next: str | None) -> PageView:
        return cls(conversations=tuple(map(Summary.of, page.records)), next=next)


# Its past


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView(JsonRecord):
    id: str
    version: int
    """Number of entries in the whole log."""
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsView(JsonRecord):
    id: str
    version: int
    turns: tuple[TurnInForce, ...]

    @classmethod
    def of(cls, id: str, log: Sequence[Entry]) -> TurnsView:
        return cls(id=id, version=len(log), turns=audit.turns(log))


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryView(JsonRecord):
    """Everything that happened to a slot."""

    id: str
    slot: str
    value: JsonValue | None
    """Its value now; null if nothing is known."""
    events: tuple[SlotEvent, ...]
    """Oldest first. The last change in force is why the slot has its value."""

    @classmethod
    def of(cls, id: str, slot: str, log: Sequence[Entry]) -> HistoryView:
        return cls(id=id, slot=slot, value=replay(log).state.get(slot), events=audit.slot_history(log, slot))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionsView(JsonRecord):
    id: str
    version: int
    questions: tuple[Question, ...]
    """Writes to confirm, oldest first, then slots that are empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased(JsonRecord):
    erased: int
    """How many conversations there were."""


# Whole dialogues


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedView(JsonRecord):
    model: str
    state: JsonState
    """The memory at the end."""
    turns: tuple[TrackedTurn, ...]

    @classmethod
    def of(cls, model: str, results: Sequence[Result]) -> TrackedView:
        return cls(model=model, state=results[-1].state, turns=tuple(result.tracked for result in results))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedConversation(JsonRecord):
    id: str
    turns: int
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayView(JsonRecord):
    """Stored conversations under another model."""

    model: str
    turns: int
    changed_turns: int
    """Turns whose state would be different."""
    changed_conversations: int
    conversations: tuple[ReplayedConversation, ...]

    @classmethod
    def of(cls, replayed: Replayed) -> ReplayView:
        found = tuple(
            ReplayedConversation(id=id, turns=replayed.turns[id], differences=tuple(differences))
            for id, differences in replayed.differences.items()
        )
        return cls(
            model=replayed.model,
            turns=sum(conversation.turns for conversation in found),
            changed_turns=sum(len({item.turn for item in conversation.differences}) for conversation in found),
            changed_conversations=sum(bool(conversation.differences) for conversation in found),
            conversations=found,
        )


# The model


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotView(JsonRecord):
    slot: str
    domain: str
    name: str
    description: str
    values: tuple[str, ...] | None
    """The closed list of values; null if any text may be written."""
    type: SlotType = "text"
    """What applications convert the text to."""
    required: bool = False
    """Whether an application cannot go on without it."""
    redact: bool = False
    """Whether its values are private."""
    ask: str = ""
    """What to ask while it is empty, in words of the schema's own."""
    confirm: str = ""
    """What to ask about a write that was held back, with `{value}` for the value."""

    @classmethod
    def of(cls, slot: Slot) -> SlotView:
        same = {field.name: getattr(slot, field.name) for field in fields(cls) if field.name != "slot"}
        return cls(slot=str(slot), **same)

    def back(self) -> Slot:
        """The slot that it was made of."""
        entry = _parts(self)
        return Slot.of(**{key: value for key, value in entry.items() if key != "slot"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaView(JsonRecord):
    domains: tuple[str, ...]
    slots: tuple[SlotView, ...]
    different: tuple[tuple[str, str], ...]
    """Pairs of slots that never have the same value."""
    id: str = ""
    """A hash of the content."""
    definition: dict[str, Any] | None = None
    """The same in the form that a schema file has."""

    @classmethod
    def of(cls, schema: Schema) -> SchemaView:
        slots = tuple(map(SlotView.of, schema.slots))
        parts: dict[str, Any] = {"domains": schema.domains, "slots": slots, "different": schema.different}
        return cls(**parts, id=schema.id, definition=schema.to_json())

    def schema(self) -> Schema:
        """The schema that it was made of."""
        if self.definition is not None:
            return Schema.from_json(self.definition)
        return Schema((slot.back() for slot in self.slots), different=self.different)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelView(JsonRecord):
    id: str
    operations: tuple[str, ...]
    history: int
    """How many turns before the current one the model reads."""
    threshold: float
    """Writes less probable than this are held back."""
    slots: int
    any_schema: bool = False
    """Whether it tracks any schema, or only slots that it was trained with."""
    other_models: tuple[str, ...]
    """The models that stored conversations can be replayed under."""

    @classmethod
    def of(cls, tracker: Tracker, *, others: Sequence[str]) -> ModelView:
        return cls(
            id=tracker.predictor.model_id,
            operations=tuple(map(str, tracker.predictor.operation_set.operations)),
            history=tracker.predictor.history,
            threshold=tracker.threshold,
            slots=len(tracker.schema),
            any_schema=reads_schemas(tracker.predictor),
            other_models=tuple(others),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleView(JsonRecord):
    name: str
    title: str
    about: str
    turns: tuple[JsonTurn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamplesView(JsonRecord):
    examples: tuple[ExampleView, ...]

    @classmethod
    def of(cls, found: Mapping[str, Example]) -> ExamplesView:
        views = (
            ExampleView(name=name, title=example.title, about=example.about, turns=example.dialogue.turns)
            for name, example in found.items()
        )
        return cls(examples=tuple(views))


@dataclass(frozen=True, slots=True, kw_only=True)
class Health(JsonRecord):
    status: Literal["ok"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness(JsonRecord):
    ready: bool
    model: str


def _parts(record: VersionView | SlotView) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}


def _snapshot(id: str, snapshot: Snapshot) -> dict[str, Any]:
    return {
        "id": id,
        "version": snapshot.version,
        "state": snapshot.state,
        "pinned": snapshot.pinned,
        "pending": in_order(snapshot.pending),
        "can_undo": bool(snapshot.head),
        "can_redo": bool(snapshot.undone),
        "schema": snapshot.schema,
    }


def _dates(record: Record) -> dict[str, Any]:
    seconds = {name: getattr(record, name) for name in ("created_at", "updated_at", "expires_at")}
    times = {name: None if time is None else datetime.fromtimestamp(time, UTC) for name, time in seconds.items()}
    return {"subject": record.subject, **times}
