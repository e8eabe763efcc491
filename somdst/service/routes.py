"""The routes under /v1, in the order of docs/service.md: read a request, call `core.py`, answer with a view.

A write takes the version that was seen (409 if the conversation has moved on) and an Idempotency-Key (done once,
answered alike), and answers with the memory and the entry that was added to the log, or with a patch. Nothing is
decided here. The routes of schemas are in `schema_routes.py`.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response, Security
from fastapi.responses import StreamingResponse
from fastapi.security import HTTPBearer

from somdst.corpora.examples import examples as bundled_examples
from somdst.corpora.jsonlines import dialogue_to_json
from somdst.memory.dialogue import Turn
from somdst.memory.state import State, value_from_json
from somdst.service import openapi
from somdst.service.core import Make, Service, Written
from somdst.service.monitoring import log
from somdst.service.negotiation import reply
from somdst.service.openapi import WRITES, answers, edit_answers, write_answers
from somdst.service.requests import (
    MAX_SLOT,
    MAX_VERSION,
    SUBJECT,
    Correction,
    Edit,
    NewConversation,
    NewDialogue,
    NewReplay,
    NewTurn,
    PendingSlots,
    SlotName,
    Slots,
    decode_cursor,
    encode_cursor,
)
from somdst.service.views import (
    Answer,
    ConversationView,
    Erased,
    ExamplesView,
    HistoryView,
    LogView,
    ModelView,
    PageView,
    QuestionsView,
    ReplayView,
    SchemaView,
    TrackedView,
    TurnsView,
    VersionView,
)
from somdst.store import Damage, Key, export
from somdst.tracking import edits
from somdst.tracking.log import Result
from somdst.tracking.records import Snapshot
from somdst.tracking.redaction import HIDDEN

# What a route takes besides a body

Authorised = Security(
    HTTPBearer(auto_error=False, scheme_name="API key", description="One per tenant; not needed if there are none.")
)
"""Only for the OpenAPI file: keys are checked in `guards.py`, before anything is read."""


# These are coroutines although they wait for nothing: FastAPI would run plain functions in a thread.


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _tenant(request: Request) -> str:
    return str(request.state.tenant)


async def _key(
    request: Request,
    idempotency_key: Annotated[
        str | None,
        Header(
            pattern="^[!-~]{1,200}$",
            description="any text of your own: the same request with the same key is done once and answered alike",
            examples=["f3b0c6d2-turn-7"],
        ),
    ] = None,
) -> Key | None:
    return None if idempotency_key is None else await key_of(request, idempotency_key)


async def key_of(request: Request, text: str) -> Key:
    """An idempotency key with the fingerprint of its request."""
    parts = (request.method.encode(), request.url.path.encode(), await request.body())
    return Key(text, hashlib.sha256(b"\0".join(parts)).hexdigest())


Core = Annotated[Service, Depends(_service)]
Tenant = Annotated[str, Depends(_tenant)]
Idempotency = Annotated[Key | None, Depends(_key)]
ConversationId = Annotated[str, Path(pattern="^[0-9a-f]{32}$", examples=[openapi.ID])]
Subject = Annotated[str, Path(pattern=SUBJECT, examples=["customer-17"])]
Limit = Annotated[int, Query(ge=1, le=200, description="how many at most")]


router = APIRouter(prefix="/v1", dependencies=[Authorised])

# Conversations


@router.post(
    "/conversations",
    tags=["conversations"],
    status_code=201,
    responses=answers(openapi.NEW_CONVERSATION, *WRITES, status=201),
)
async def create_conversation(
    core: Core, tenant: Tenant, key: Idempotency, body: NewConversation | None = None
) -> ConversationView:
    """Start a conversation with an empty memory. With a schema of its own it has version 1, which names that schema."""
    subject, schema = (body.subject, await core.schema(tenant, body.given)) if body else (None, None)
    record = await core.write(core.store.create, tenant, subject=subject, schema=schema, key=key)
    return ConversationView.stored(record)


@router.get("/conversations", tags=["conversations"], responses=answers(openapi.PAGE))
async def list_conversations(
    core: Core,
    tenant: Tenant,
    limit: Limit = 50,
    cursor: Annotated[str | None, Query(max_length=200, description="`next` of the page before")] = None,
    subject: Annotated[str | None, Query(pattern=SUBJECT, description="only those of this subject")] = None,
) -> PageView:
    """The conversations of this tenant, newest first, a page at a time."""
    after = decode_cursor(cursor)
    page = await core.read(core.store.page, tenant, limit=limit, after=after, subject=subject)
    return PageView.of(page, next=encode_cursor(page.next))


@router.get("/conversations/{id}", tags=["conversations"], responses=answers(openapi.CONVERSATION, 404))
async def read_conversation(core: Core, tenant: Tenant, id: ConversationId) -> ConversationView:
    """A conversation as it is now."""
    return ConversationView.stored(await core.read(core.store.read, tenant, id))


@router.delete("/conversations/{id}", tags=["conversations"], status_code=204, responses=answers(None, 404, status=204))
async def erase_conversation(core: Core, tenant: Tenant, id: ConversationId) -> Response:
    """Erase a conversation for good, its log included."""
    await core.write(core.store.erase, tenant, id)
    return Response(status_code=204)


@router.delete("/subjects/{subject}", tags=["conversations"], responses=answers(openapi.ERASED))
async def erase_subject(core: Core, tenant: Tenant, subject: Subject) -> Erased:
    """Erase all conversations of a subject for good."""
    return Erased(erased=await core.write(core.store.erase_subject, tenant, subject))


@router.get("/conversations/{id}/versions/{version}", tags=["conversations"], responses=answers(openapi.VERSION, 404))
async def read_version(
    core: Core, tenant: Tenant, id: ConversationId, version: Annotated[int, Path(ge=0, le=MAX_VERSION, examples=[1])]
) -> VersionView:
    """The conversation as it was at a past version; 0 is the start."""
    return VersionView.of(id, await core.read(core.store.at, tenant, id, version))


@router.get("/conversations/{id}/log", tags=["conversations"], responses=answers(openapi.LOG, 404))
async def read_log(
    core: Core,
    tenant: Tenant,
    id: ConversationId,
    after: Annotated[int, Query(ge=0, le=MAX_VERSION, description="only entries after this version")] = 0,
    limit: Annotated[int | None, Query(ge=1, le=1000, description="how many at most; without it, all")] = None,
) -> LogView:
    """Everything that ever happened in the conversation, oldest first, undone or not."""
    version, entries = await core.read(core.store.log_part, tenant, id, after=after, limit=limit)
    return LogView(id=id, version=version, entries=tuple(entries))


@router.get("/conversations/{id}/turns", tags=["conversations"], responses=answers(openapi.TURNS, 404))
async def read_turns(core: Core, tenant: Tenant, id: ConversationId) -> TurnsView:
    """The turns that have not been undone, each with its changes and the memory after it."""
    return await core.read(lambda: TurnsView.of(id, core.store.log(tenant, id)))


SlotInPath = Annotated[str, Path(max_length=MAX_SLOT, examples=["hotel-area"])]
SLOT_HISTORY = "/conversations/{id}/slots/{slot:path}/history"  # a name may have a slash


@router.get(SLOT_HISTORY, tags=["conversations"], responses=answers(openapi.HISTORY, 404))
async def read_slot_history(core: Core, tenant: Tenant, id: ConversationId, slot: SlotInPath) -> HistoryView:
    """Why does this slot have its value? Everything that happened to it, oldest first."""
    history = await core.read(lambda: HistoryView.of(id, slot, core.store.log(tenant, id)))
    if not history.events:  # a misspelt slot is an error, a slot that was never written is not
        snapshot = (await core.read(core.store.read, tenant, id)).snapshot
        (await core.tracker(tenant, snapshot)).slot(slot)
    return history


@router.get("/conversations/{id}/questions", tags=["conversations"], responses=answers(openapi.QUESTIONS, 404))
async def what_to_ask(
    core: Core,
    tenant: Tenant,
    id: ConversationId,
    slot: Annotated[list[SlotName], Query(max_length=100, description="ask for these, if they are empty")] = [],  # noqa: B006
) -> QuestionsView:
    """What to ask the user next: writes to confirm, then empty slots: those named, or all that the schema requires, or,
    if it requires none, those of the domains that the conversation is about. They are in the order in which the schema
    was written, domains that the conversation is about first."""
    snapshot = (await core.read(core.store.read, tenant, id)).snapshot
    tracker = await core.tracker(tenant, snapshot)
    return QuestionsView(id=id, version=snapshot.version, questions=tracker.what_to_ask(snapshot, slot))


# Writes


@dataclass(frozen=True, slots=True)
class Target:
    """The conversation that a request writes to, and the form in which it wants the answer."""

    core: Service
    tenant: str
    id: str
    key: Key | None
    accept: str

    async def edit(self, body: Edit, make: Make) -> Answer | Response:
        return self.reply(await self.core.edit(self.tenant, self.id, make, version=body.version, key=self.key))

    def reply(self, written: Written) -> Answer | Response:
        answer = Answer.of(written)
        return reply(answer, self.accept) if "patch" in self.accept.lower() else answer


async def _target(request: Request, core: Core, tenant: Tenant, id: ConversationId, key: Idempotency) -> Target:
    return Target(core, tenant, id, key, ",".join(request.headers.getlist("accept")))


To = Annotated[Target, Depends(_target)]


def writing(name: str, responses: dict[int | str, dict[str, Any]]) -> dict[str, Any]:
    """What all routes that write to a conversation have in common."""
    return {
        "path": f"/conversations/{{id}}/{name}",
        "tags": ["writes"],
        "response_model": Answer,
        "responses": responses,
    }


@router.post(**writing("turns", write_answers(openapi.WRITTEN)))
async def add_turn(to: To, body: NewTurn) -> Answer | Response:
    """Track one turn: what the system said, if anything, and what the user said to it.

    `Accept: application/json-patch+json` or `application/merge-patch+json` gets only what changed, here and from every
    other write.
    """
    turn = Turn(system=body.system, user=body.user)
    written = await to.core.add_turn(to.tenant, to.id, turn, version=body.version, key=to.key)
    if to.core.settings.log_utterances:
        said = Turn(HIDDEN, HIDDEN) if written.snapshot.redacted else turn
        log("turn", conversation=to.id, version=written.snapshot.version, system=said.system, user=said.user)
    return to.reply(written)


@router.post(**writing("corrections", edit_answers("correction")))
async def correct(to: To, body: Correction) -> Answer | Response:
    """Write values by hand. They are the next turn's input, and can be exported to train on."""
    values = {slot: None if value is None else value_from_json(value) for slot, value in body.values.items()}
    _ = to.core.models.tracker  # without a model it is refused before anything is read

    async def make(snapshot: Snapshot) -> Result:
        tracker = await to.core.tracker(to.tenant, snapshot)
        return tracker.correct(snapshot, values, pin=body.pin, source=body.source)

    return await to.edit(body, make)


@router.post(**writing("pin", edit_answers("pin")))
async def pin(to: To, body: Slots) -> Answer | Response:
    """From now on only new evidence in a later utterance changes these slots."""
    _ = to.core.models.tracker

    async def make(snapshot: Snapshot) -> Result:
        return (await to.core.tracker(to.tenant, snapshot)).pin(snapshot, body.slots, source=body.source)

    return await to.edit(body, make)


@router.post(**writing("unpin", edit_answers("unpin")))
async def unpin(to: To, body: Slots) -> Answer | Response:
    """Let every prediction change these slots again."""
    return await to.edit(body, lambda snapshot: edits.unpin(snapshot, body.slots, source=body.source))


@router.post(**writing("confirm", edit_answers("confirm")))
async def confirm(to: To, body: PendingSlots) -> Answer | Response:
    """Make writes that were held back as pending."""
    return await to.edit(body, lambda now: edits.confirm(now, body.slots, source=body.source))


@router.post(**writing("reject", edit_answers("reject")))
async def reject(to: To, body: PendingSlots) -> Answer | Response:
    """Drop writes that were held back as pending; the memory stays as it is."""
    return await to.edit(body, lambda now: edits.reject(now, body.slots, source=body.source))


@router.post(**writing("undo", edit_answers("undo")))
async def undo(to: To, body: Edit | None = None) -> Answer | Response:
    """Take back the last thing that happened, a turn or an edit. It stays in the log; more undos go further back."""
    body = body or Edit()
    return to.reply(await to.core.undo(to.tenant, to.id, source=body.source, version=body.version, key=to.key))


@router.post(**writing("redo", edit_answers("redo")))
async def redo(to: To, body: Edit | None = None) -> Answer | Response:
    """Do again what the last undo took back."""
    body = body or Edit()
    return to.reply(await to.core.redo(to.tenant, to.id, source=body.source, version=body.version, key=to.key))


# Everything else


@router.post("/track", tags=["tracking"], responses=answers(openapi.TRACKED, 404, 413, 415))
async def track(core: Core, tenant: Tenant, body: NewDialogue) -> TrackedView:
    """Track a whole dialogue at once, under any schema; nothing is stored."""
    turns = [Turn(turn.system, turn.user) for turn in body.turns]
    schema = await core.schema(tenant, body.given)
    results = await core.track(tenant, turns, state=State.from_json(body.state), schema=schema)
    return TrackedView.of(core.models.tracker.predictor.model_id, results)


@router.get("/schema", tags=["tracking"], responses=answers(openapi.SCHEMA))
async def read_schema(core: Core, tenant: Tenant) -> SchemaView:
    """The slots that are tracked in a conversation without a schema of its own, in alphabetical order."""
    return SchemaView.of(core.models.tracker.schema)


@router.get("/model", tags=["tracking"], responses=answers(openapi.MODEL))
async def read_model(core: Core, tenant: Tenant) -> ModelView:
    """The model that tracks."""
    return ModelView.of(core.models.tracker, others=core.models.names)


@router.get("/examples", tags=["tracking"], responses=answers(openapi.EXAMPLES))
async def read_examples(core: Core, tenant: Tenant) -> ExamplesView:
    """The bundled dialogues, to try the tracker with."""
    return ExamplesView.of(await core.read(bundled_examples))


@router.post("/replays", tags=["tracking"], responses=answers(openapi.REPLAY, 404, 413, 415))
async def replay(core: Core, tenant: Tenant, body: NewReplay) -> ReplayView:
    """Run stored conversations under another model and show which states would be different. Nothing is changed."""
    return ReplayView.of(await core.replay(tenant, body.model, conversations=body.conversations, limit=body.limit))


@router.get(
    "/export",
    tags=["tracking"],
    response_class=StreamingResponse,
    responses={
        **answers(None),
        200: {
            "description": "One dialogue per line, as JSON",
            "content": {"application/x-ndjson": {"schema": {"type": "string"}, "example": openapi.EXPORT}},
        },
    },
)
async def export_corrections(
    core: Core,
    tenant: Tenant,
    every: bool = Query(False, description="all conversations with a turn, not only the corrected ones"),
) -> StreamingResponse:
    """Conversations that a person corrected, as dialogues to train on, in the project's JSON lines. Values of slots
    with `redact` are hidden."""
    await core.read(core.store.ping)  # while the status can still say so
    redacted = core.models.tracker.schema.redacted

    def note_damage(damage: Damage) -> None:
        log("not exported", level=logging.ERROR, conversation=damage.conversation, reason="damaged")

    def lines() -> Iterator[str]:
        for dialogue in export(core.store, tenant=tenant, every=every, redacted=redacted, damaged=note_damage):
            yield json.dumps(dialogue_to_json(dialogue)) + "\n"

    return StreamingResponse(lines(), media_type="application/x-ndjson")
