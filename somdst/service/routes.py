"""The routes under /v1, in the order of docs/service.md: read a request, call `core.py`, answer with a view.

A write takes the version that was seen (409 if the conversation has moved on) and an Idempotency-Key (done once,
answered alike), and answers with the memory and the entry that was added to the log. Nothing is decided here. The
routes of schemas are in `schema_routes.py`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response, Security
from fastapi.responses import StreamingResponse
from fastapi.security import HTTPBearer

from somdst.corpora.examples import examples as bundled_examples
from somdst.corpora.jsonlines import dialogue_to_json
from somdst.errors import InputError
from somdst.memory.dialogue import Turn
from somdst.memory.state import State, value_from_json
from somdst.service import openapi
from somdst.service.core import Make, Service
from somdst.service.monitoring import log
from somdst.service.negotiation import reply, with_patches
from somdst.service.openapi import WRITES, answers, edit_answers
from somdst.service.requests import (
    MAX_VERSION,
    SUBJECT,
    Correction,
    Edit,
    NewConversation,
    NewDialogue,
    NewReplay,
    NewTurn,
    PendingSlots,
    Slots,
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
    ReplayView,
    SchemaView,
    TrackedView,
    TurnsView,
    VersionView,
)
from somdst.store import Key, export
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
    if idempotency_key is None:
        return None
    parts = (request.method.encode(), request.url.path.encode(), await request.body())
    return Key(idempotency_key, hashlib.sha256(b"\0".join(parts)).hexdigest())


Core = Annotated[Service, Depends(_service)]
Tenant = Annotated[str, Depends(_tenant)]
Idempotency = Annotated[Key | None, Depends(_key)]
ConversationId = Annotated[str, Path(pattern="^[0-9a-f]{32}$", examples=[openapi.ID])]
Subject = Annotated[str, Path(pattern=SUBJECT, examples=["customer-17"])]
Limit = Annotated[int, Query(ge=1, le=200, description="how many at most")]


def encode_cursor(place: tuple[float, str] | None) -> str | None:
    if place is None:
        return None
    created_at, id = place
    return base64.urlsafe_b64encode(f"{created_at!r} {id}".encode()).decode().rstrip("=")


def decode_cursor(cursor: str | None) -> tuple[float, str] | None:
    if cursor is None:
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
        created_at, id = text.split(" ")
        if not id.isalnum():
            raise ValueError(id)
        return float(created_at), id
    except (ValueError, binascii.Error) as error:
        raise InputError("This cursor is not one that the service gave: start again without it.") from error


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
    record = await core.call(core.store.create, tenant, subject=subject, schema=schema, key=key)
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
    page = await core.call(core.store.page, tenant, limit=limit, after=after, subject=subject)
    return PageView.of(page, next=encode_cursor(page.next))


@router.get("/conversations/{id}", tags=["conversations"], responses=answers(openapi.CONVERSATION, 404))
async def read_conversation(core: Core, tenant: Tenant, id: ConversationId) -> ConversationView:
    """A conversation as it is now."""
    return ConversationView.stored(await core.call(core.store.read, tenant, id))


@router.delete("/conversations/{id}", tags=["conversations"], status_code=204, responses=answers(None, 404, status=204))
async def erase_conversation(core: Core, tenant: Tenant, id: ConversationId) -> Response:
    """Erase a conversation for good, its log included."""
    await core.call(core.store.erase, tenant, id)
    return Response(status_code=204)


@router.delete("/subjects/{subject}", tags=["conversations"], responses=answers(openapi.ERASED))
async def erase_subject(core: Core, tenant: Tenant, subject: Subject) -> Erased:
    """Erase all conversations of a subject for good."""
    return Erased(erased=await core.call(core.store.erase_subject, tenant, subject))


@router.get("/conversations/{id}/versions/{version}", tags=["conversations"], responses=answers(openapi.VERSION, 404))
async def read_version(
    core: Core, tenant: Tenant, id: ConversationId, version: Annotated[int, Path(ge=0, le=MAX_VERSION, examples=[1])]
) -> VersionView:
    """The conversation as it was at a past version; 0 is the start."""
    return VersionView.of(id, await core.call(core.store.at, tenant, id, version))


@router.get("/conversations/{id}/log", tags=["conversations"], responses=answers(openapi.LOG, 404))
async def read_log(
    core: Core,
    tenant: Tenant,
    id: ConversationId,
    after: Annotated[int, Query(ge=0, le=MAX_VERSION, description="only entries after this version")] = 0,
    limit: Annotated[int | None, Query(ge=1, le=1000, description="how many at most; without it, all")] = None,
) -> LogView:
    """Everything that ever happened in the conversation, oldest first, undone or not."""
    version, entries = await core.call(core.store.log_part, tenant, id, after=after, limit=limit)
    return LogView.of(id, entries, version=version)


@router.get("/conversations/{id}/turns", tags=["conversations"], responses=answers(openapi.TURNS, 404))
async def read_turns(core: Core, tenant: Tenant, id: ConversationId) -> TurnsView:
    """The turns that have not been undone, each with its changes and the memory after it."""
    return TurnsView.of(id, await core.call(core.store.log, tenant, id))


@router.get("/conversations/{id}/slots/{slot}/history", tags=["conversations"], responses=answers(openapi.HISTORY, 404))
async def read_slot_history(
    core: Core, tenant: Tenant, id: ConversationId, slot: Annotated[str, Path(max_length=200, examples=["hotel-area"])]
) -> HistoryView:
    """Why does this slot have its value? Everything that happened to it, oldest first."""
    history = HistoryView.of(id, slot, await core.call(core.store.log, tenant, id))
    if not history.events:  # a misspelt slot is an error, a slot that was never written is not
        snapshot = (await core.call(core.store.read, tenant, id)).snapshot
        (await core.tracker(tenant, snapshot)).slot(slot)
    return history


# Writes


@router.post(
    "/conversations/{id}/turns",
    tags=["writes"],
    response_model=Answer,
    responses=with_patches(answers(openapi.WRITTEN, *WRITES), openapi.WRITTEN),
)
async def add_turn(
    request: Request, core: Core, tenant: Tenant, id: ConversationId, key: Idempotency, body: NewTurn
) -> Answer | Response:
    """Track one turn: what the system said, if anything, and what the user said to it.

    `Accept: application/json-patch+json` or `application/merge-patch+json` gets only what changed.
    """
    turn = Turn(system=body.system, user=body.user)
    written = await core.add_turn(tenant, id, turn, version=body.version, key=key)
    if core.settings.log_utterances:
        said = Turn(HIDDEN, HIDDEN) if written.snapshot.redacted else turn
        log("turn", conversation=id, version=written.snapshot.version, system=said.system, user=said.user)
    accept = ",".join(request.headers.getlist("accept"))
    return reply(Answer.of(written), accept) if "patch" in accept.lower() else Answer.of(written)


@router.post("/conversations/{id}/corrections", tags=["writes"], responses=edit_answers("correction"))
async def correct(core: Core, tenant: Tenant, id: ConversationId, key: Idempotency, body: Correction) -> Answer:
    """Write values by hand. They are the next turn's input, and can be exported to train on."""
    values = {slot: None if value is None else value_from_json(value) for slot, value in body.values.items()}
    _ = core.models.tracker  # without a model it is refused before anything is read

    async def make(snapshot: Snapshot) -> Result:
        tracker = await core.tracker(tenant, snapshot)
        return tracker.correct(snapshot, values, pin=body.pin, source=body.source)

    return await _edit(core, tenant, id, key, body, make)


@router.post("/conversations/{id}/pin", tags=["writes"], responses=edit_answers("pin"))
async def pin(core: Core, tenant: Tenant, id: ConversationId, key: Idempotency, body: Slots) -> Answer:
    """From now on only new evidence in a later utterance changes these slots."""
    _ = core.models.tracker

    async def make(snapshot: Snapshot) -> Result:
        return (await core.tracker(tenant, snapshot)).pin(snapshot, body.slots, source=body.source)

    return await _edit(core, tenant, id, key, body, make)


@router.post("/conversations/{id}/unpin", tags=["writes"], responses=edit_answers("unpin"))
async def unpin(core: Core, tenant: Tenant, id: ConversationId, key: Idempotency, body: Slots) -> Answer:
    """Let every prediction change these slots again."""
    return await _edit(
        core, tenant, id, key, body, lambda snapshot: edits.unpin(snapshot, body.slots, source=body.source)
    )


@router.post("/conversations/{id}/confirm", tags=["writes"], responses=edit_answers("confirm"))
async def confirm(core: Core, tenant: Tenant, id: ConversationId, key: Idempotency, body: PendingSlots) -> Answer:
    """Make writes that were held back as pending."""
    return await _edit(
        core,
        tenant,
        id,
        key,
        body,
        lambda snapshot: edits.confirm(snapshot, body.slots or snapshot.pending, source=body.source),
    )


@router.post("/conversations/{id}/reject", tags=["writes"], responses=edit_answers("reject"))
async def reject(core: Core, tenant: Tenant, id: ConversationId, key: Idempotency, body: PendingSlots) -> Answer:
    """Drop writes that were held back as pending; the memory stays as it is."""
    return await _edit(
        core,
        tenant,
        id,
        key,
        body,
        lambda snapshot: edits.reject(snapshot, body.slots or snapshot.pending, source=body.source),
    )


@router.post("/conversations/{id}/undo", tags=["writes"], responses=edit_answers("undo"))
async def undo(core: Core, tenant: Tenant, id: ConversationId, key: Idempotency, body: Edit | None = None) -> Answer:
    """Take back the last thing that happened, a turn or an edit. It stays in the log; more undos go further back."""
    body = body or Edit()
    return Answer.of(await core.undo(tenant, id, source=body.source, version=body.version, key=key))


@router.post("/conversations/{id}/redo", tags=["writes"], responses=edit_answers("redo"))
async def redo(core: Core, tenant: Tenant, id: ConversationId, key: Idempotency, body: Edit | None = None) -> Answer:
    """Do again what the last undo took back."""
    body = body or Edit()
    return Answer.of(await core.redo(tenant, id, source=body.source, version=body.version, key=key))


async def _edit(core: Core, tenant: str, id: str, key: Idempotency, body: Edit, make: Make) -> Answer:
    return Answer.of(await core.edit(tenant, id, make, version=body.version, key=key))


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
    return ExamplesView.of(await asyncio.to_thread(bundled_examples))


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
    await core.call(core.store.ping)  # while the status can still say so
    redacted = core.models.tracker.schema.redacted

    def lines() -> Iterator[str]:
        for dialogue in export(core.store, tenant=tenant, every=every, redacted=redacted):
            yield json.dumps(dialogue_to_json(dialogue)) + "\n"

    return StreamingResponse(lines(), media_type="application/x-ndjson")
