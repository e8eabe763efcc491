"""Routes of stored conversations: make, read, list and erase them, and look into their past."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from somdst.service import openapi_examples as examples
from somdst.service.bodies import MAX_VERSION, SUBJECT, NewConversation
from somdst.service.requests import (
    Authorised,
    ConversationId,
    Core,
    Idempotency,
    Limit,
    Subject,
    Tenant,
    answers,
    decode_cursor,
    encode_cursor,
)
from somdst.service.views import (
    ConversationView,
    EntryView,
    Erased,
    HistoryView,
    LogView,
    PageView,
    Summary,
    TurnDetail,
    TurnsView,
    VersionView,
)
from somdst.tracking import audit
from somdst.tracking.log import Entry, replay

router = APIRouter(prefix="/v1", tags=["conversations"], dependencies=[Authorised])


@router.post(
    "/conversations", status_code=201, responses=answers(examples.NEW_CONVERSATION, 404, 409, 413, 415, status=201)
)
async def create_conversation(
    core: Core, tenant: Tenant, key: Idempotency, body: NewConversation | None = None
) -> ConversationView:
    """Start a conversation with an empty memory."""
    subject = body.subject if body else None
    return ConversationView.of(await asyncio.to_thread(core.store.create, tenant, subject=subject, key=key))


@router.get("/conversations", responses=answers(examples.PAGE))
async def list_conversations(
    core: Core,
    tenant: Tenant,
    limit: Limit = 50,
    cursor: Annotated[str | None, Query(max_length=200, description="`next` of the page before")] = None,
    subject: Annotated[str | None, Query(pattern=SUBJECT, description="only those of this subject")] = None,
) -> PageView:
    """The conversations of this tenant, newest first, a page at a time."""
    after = decode_cursor(cursor)
    page = await asyncio.to_thread(core.store.page, tenant, limit=limit, after=after, subject=subject)
    return PageView(conversations=list(map(Summary.of, page.records)), next=encode_cursor(page.next))


@router.get("/conversations/{id}", responses=answers(examples.CONVERSATION, 404))
async def read_conversation(core: Core, tenant: Tenant, id: ConversationId) -> ConversationView:
    """A conversation as it is now."""
    return ConversationView.of(await asyncio.to_thread(core.store.read, tenant, id))


@router.delete("/conversations/{id}", status_code=204, responses=answers(None, 404, status=204))
async def erase_conversation(core: Core, tenant: Tenant, id: ConversationId) -> Response:
    """Erase a conversation for good, its log included."""
    await asyncio.to_thread(core.store.erase, tenant, id)
    return Response(status_code=204)


@router.delete("/subjects/{subject}", responses=answers(examples.ERASED))
async def erase_subject(core: Core, tenant: Tenant, subject: Subject) -> Erased:
    """Erase all conversations of a subject for good."""
    return Erased(erased=await asyncio.to_thread(core.store.erase_subject, tenant, subject))


@router.get("/conversations/{id}/versions/{version}", responses=answers(examples.VERSION, 404))
async def read_version(
    core: Core, tenant: Tenant, id: ConversationId, version: Annotated[int, Path(ge=0, le=MAX_VERSION, examples=[1])]
) -> VersionView:
    """The conversation as it was at a past version; 0 is the start."""
    return VersionView.of(id, await asyncio.to_thread(core.store.at, tenant, id, version))


@router.get("/conversations/{id}/log", responses=answers(examples.LOG, 404))
async def read_log(core: Core, tenant: Tenant, id: ConversationId) -> LogView:
    """Everything that ever happened in the conversation, oldest first, undone or not."""
    log = await asyncio.to_thread(core.store.log, tenant, id)
    entries = [EntryView.of(entry, version=number) for number, entry in enumerate(log, 1)]
    return LogView(id=id, version=len(log), entries=entries)


@router.get("/conversations/{id}/turns", responses=answers(examples.TURNS, 404))
async def read_turns(core: Core, tenant: Tenant, id: ConversationId) -> TurnsView:
    """The turns that have not been undone, each with its changes and the memory after it."""
    log = await asyncio.to_thread(core.store.log, tenant, id)
    return TurnsView(id=id, version=len(log), turns=_turns(log))


@router.get("/conversations/{id}/slots/{slot}/history", responses=answers(examples.HISTORY, 404))
async def read_slot_history(
    core: Core, tenant: Tenant, id: ConversationId, slot: Annotated[str, Path(max_length=200, examples=["hotel-area"])]
) -> HistoryView:
    """Why is this slot so? Everything that happened to it, oldest first."""
    log = await asyncio.to_thread(core.store.log, tenant, id)
    state = replay(log).state
    if slot not in state:
        core.models.tracker.slot(slot)  # a misspelt slot is an error, a slot that was never written is not
    events = [event.to_json() for event in audit.slot_history(log, slot)]
    return HistoryView.model_validate({"id": id, "slot": slot, "value": state.to_json().get(slot), "events": events})


def _turns(log: list[Entry]) -> list[TurnDetail]:
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
    return [TurnDetail.model_validate(row) for row in rows]
