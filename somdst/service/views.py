"""What goes out: the bodies of answers, with the sentences of the OpenAPI file. What comes in is in `requests.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from somdst.corpora.examples import Example
from somdst.memory.schema import Schema
from somdst.memory.state import Value, value_to_json
from somdst.service.core import Replayed, Written
from somdst.store import Record
from somdst.tracking import audit
from somdst.tracking.log import replay
from somdst.tracking.records import Entry, Snapshot
from somdst.tracking.step import Result
from somdst.tracking.tracker import Tracker

Memory = Annotated[dict[str, str], Field(description="slot to value; a slot that is absent is not known")]


class View(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(frozen=True)


class Problem(View):
    error: str = Field(description="one sentence: what came, what was expected, what to do next")
    version: int | None = Field(None, description="for 409: the version that the conversation has")
    model_config = ConfigDict(json_schema_extra={"example": {"error": "There is nothing to undo."}})


class Evidence(View):
    source: Literal["user", "system", "slot"]
    start: int = Field(0, description="first character in that utterance, as it was typed")
    end: int = Field(0, description="one after the last character")
    text: str = ""
    slot: str | None = Field(None, description='the slot that was copied, where the source is "slot"')
    turns_ago: int = Field(0, description="whose utterance it is: 0 is the turn of the change, 1 the turn before it")


class Change(View):
    slot: str
    operation: Literal["carryover", "delete", "dontcare", "update", "yes", "no"]
    before: str | None
    after: str | None
    probability: float | None = Field(description="that the change is right; null where a person made it")
    evidence: Evidence | None


class Pending(Change):
    question: str = Field(description="what to ask the user")
    turn: int = Field(description="number of the turn that asked for the write")


class Refused(Change):
    reason: str


class TurnView(View):
    system: str
    user: str


class EntryView(View):
    """One entry of the log: what happened, and all that it did."""

    version: int = Field(description="the version that it made")
    kind: Literal["turn", "correction", "pin", "unpin", "confirm", "reject", "undo", "redo"]
    source: Literal["model", "person", "api"]
    time: str
    model: str | None = None
    domain: str | None = Field(None, description="what the model says the turn is about")
    turn: TurnView | None = None
    changes: list[Change] = []
    held: list[Pending] = Field([], description="writes that became pending")
    released: list[Pending] = Field([], description="writes that are no longer pending")
    refused: list[Refused] = []
    pinned: list[str] = []
    unpinned: list[str] = []
    target: int | None = Field(None, description="for undo and redo: the entry that was taken back or done again")

    @classmethod
    def of(cls, entry: Entry, *, version: int) -> EntryView:
        return cls.model_validate({**entry.to_json(), "version": version})


class SnapshotView(View):
    """A conversation at one version."""

    version: int = Field(description="number of entries in the log; changes with every write")
    state: Memory
    pinned: list[str]
    pending: list[Pending]
    can_undo: bool
    can_redo: bool


class WrittenView(SnapshotView):
    """The answer to a write: the memory after it, and what was done."""

    id: str
    entry: EntryView

    @classmethod
    def of(cls, written: Written) -> WrittenView:
        snapshot = written.snapshot
        entry = EntryView.of(written.entry, version=snapshot.version)
        return cls.model_validate({**snapshot_fields(snapshot), "id": written.conversation, "entry": entry})


class ConversationView(SnapshotView):
    id: str
    subject: str | None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    turns: list[TurnView] = Field(description="the turns that have not been undone")

    @classmethod
    def of(cls, record: Record) -> ConversationView:
        turns = record.snapshot.to_json()["turns"]
        return cls.model_validate({**snapshot_fields(record.snapshot), **_record_fields(record), "turns": turns})


class VersionView(SnapshotView):
    id: str
    turns: list[TurnView]

    @classmethod
    def of(cls, id: str, snapshot: Snapshot) -> VersionView:
        turns = snapshot.to_json()["turns"]
        return cls.model_validate({**snapshot_fields(snapshot), "id": id, "turns": turns})


class Summary(View):
    id: str
    subject: str | None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    version: int
    turns: int = Field(description="how many turns have not been undone")
    state: Memory

    @classmethod
    def of(cls, record: Record) -> Summary:
        snapshot = record.snapshot
        return cls.model_validate(
            {
                **_record_fields(record),
                "version": record.version,
                "turns": len(snapshot.turns),
                "state": snapshot.state.to_json(),
            }
        )


class PageView(View):
    conversations: list[Summary]
    next: str | None = Field(description="give it as `cursor` for the next page; null at the end")


class LogView(View):
    id: str
    version: int
    entries: list[EntryView]

    @classmethod
    def of(cls, id: str, log: Sequence[Entry]) -> LogView:
        entries = [EntryView.of(entry, version=number) for number, entry in enumerate(log, 1)]
        return cls(id=id, version=len(log), entries=entries)


class TurnDetail(TurnView):
    """A turn that has not been undone, with the memory after it."""

    number: int = Field(description="1 for the first")
    version: int = Field(description="the entry that it is in the log")
    model: str | None
    domain: str | None
    changes: list[Change]
    held: list[Pending]
    refused: list[Refused]
    state: Memory
    corrected: dict[str, str] = Field(
        description="the memory as it stood before the next turn, or now: with what a person changed after this turn"
    )


class TurnsView(View):
    id: str
    version: int
    turns: list[TurnDetail]

    @classmethod
    def of(cls, id: str, log: Sequence[Entry]) -> TurnsView:
        in_force = replay(log).done
        rows: list[dict[str, Any]] = []
        for number, after in zip(in_force, audit.snapshots(log[n - 1] for n in in_force), strict=True):
            entry, state = log[number - 1], after.state.to_json()
            if entry.turn is not None:
                told = {"changes": [], "held": [], "refused": [], "model": None, "domain": None, **entry.to_json()}
                said = {"system": entry.turn.system, "user": entry.turn.user}
                rows.append({**told, **said, "number": len(rows) + 1, "version": number, "state": state})
            if rows:
                rows[-1]["corrected"] = state
        return cls(id=id, version=len(log), turns=[TurnDetail.model_validate(row) for row in rows])


class SlotEventView(View):
    version: int
    kind: Literal["turn", "correction", "pin", "unpin", "confirm", "reject", "undo", "redo"]
    source: Literal["model", "person", "api"]
    time: str
    in_force: bool = Field(description="false where it has been undone since")
    model: str | None = None
    turn: TurnView | None = None
    change: Change | None = None
    pending: Pending | None = None
    refused: Refused | None = None


class HistoryView(View):
    id: str
    slot: str
    value: str | None
    events: list[SlotEventView] = Field(description="oldest first; the last change in force is why it is so")

    @classmethod
    def of(cls, id: str, slot: str, log: Sequence[Entry]) -> HistoryView:
        events = [event.to_json() for event in audit.slot_history(log, slot)]
        value = replay(log).state.to_json().get(slot)
        return cls.model_validate({"id": id, "slot": slot, "value": value, "events": events})


class Erased(View):
    erased: int = Field(description="how many conversations there were")


class TrackedTurn(View):
    state: Memory
    changes: list[Change]
    pending: list[Pending]
    refused: list[Refused]
    domain: str | None

    @classmethod
    def of(cls, result: Result) -> TrackedTurn:
        return cls.model_validate(result.to_json())


class TrackedView(View):
    model: str
    state: Memory
    turns: list[TrackedTurn]

    @classmethod
    def of(cls, model: str, results: Sequence[Result]) -> TrackedView:
        return cls(model=model, state=results[-1].state.to_json(), turns=list(map(TrackedTurn.of, results)))


class DifferenceView(View):
    turn: int
    slot: str
    stored: str | None
    replayed: str | None


class ReplayedConversation(View):
    id: str
    turns: int
    differences: list[DifferenceView]


class ReplayView(View):
    model: str
    turns: int
    changed_turns: int = Field(description="turns whose state would be different")
    changed_conversations: int
    conversations: list[ReplayedConversation]

    @classmethod
    def of(cls, replayed: Replayed) -> ReplayView:
        conversations = [
            ReplayedConversation(
                id=id,
                turns=replayed.turns[id],
                differences=[
                    DifferenceView(
                        turn=item.turn, slot=item.slot, stored=_text(item.stored), replayed=_text(item.replayed)
                    )
                    for item in differences
                ],
            )
            for id, differences in replayed.differences.items()
        ]
        return cls(
            model=replayed.model,
            turns=sum(conversation.turns for conversation in conversations),
            changed_turns=sum(len({item.turn for item in conversation.differences}) for conversation in conversations),
            changed_conversations=sum(bool(conversation.differences) for conversation in conversations),
            conversations=conversations,
        )


class SlotView(View):
    slot: str
    domain: str
    name: str
    description: str
    values: list[str] | None = Field(description="the closed list of values; null where any text may be written")


class SchemaView(View):
    domains: list[str]
    slots: list[SlotView]

    @classmethod
    def of(cls, schema: Schema) -> SchemaView:
        slots = [
            SlotView(
                slot=str(slot),
                domain=slot.domain,
                name=slot.name,
                description=slot.description,
                values=None if slot.values is None else list(slot.values),
            )
            for slot in schema.slots
        ]
        return cls(domains=list(schema.domains), slots=slots)


class ModelView(View):
    id: str
    operations: list[str]
    history: int = Field(description="how many turns before the current one the model reads")
    threshold: float = Field(description="writes less probable than this are held back")
    slots: int
    other_models: list[str] = Field(description="what stored conversations can be replayed under")

    @classmethod
    def of(cls, tracker: Tracker, *, others: list[str]) -> ModelView:
        return cls(
            id=tracker.predictor.model_id,
            operations=[str(operation) for operation in tracker.predictor.operation_set.operations],
            history=tracker.predictor.history,
            threshold=tracker.threshold,
            slots=len(tracker.schema),
            other_models=others,
        )


class ExampleView(View):
    name: str
    title: str
    about: str
    turns: list[TurnView]


class ExamplesView(View):
    examples: list[ExampleView]

    @classmethod
    def of(cls, found: Mapping[str, Example]) -> ExamplesView:
        return cls(
            examples=[
                ExampleView(
                    name=name,
                    title=example.title,
                    about=example.about,
                    turns=[TurnView(system=turn.system, user=turn.user) for turn in example.dialogue.turns],
                )
                for name, example in found.items()
            ]
        )


class Health(View):
    status: Literal["ok"]


class Readiness(View):
    ready: bool
    model: str


def snapshot_fields(snapshot: Snapshot) -> dict[str, Any]:
    data = snapshot.to_json()
    return {
        **{name: data[name] for name in ("version", "state", "pinned", "pending")},
        "can_undo": bool(snapshot.done),
        "can_redo": bool(snapshot.undone),
    }


def _record_fields(record: Record) -> dict[str, Any]:
    return {
        "id": record.id,
        "subject": record.subject,
        "created_at": _time(record.created_at),
        "updated_at": _time(record.updated_at),
        "expires_at": None if record.expires_at is None else _time(record.expires_at),
    }


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _text(value: Value | None) -> str | None:
    return None if value is None else value_to_json(value)
