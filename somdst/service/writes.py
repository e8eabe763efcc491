"""Routes that write to a conversation: a turn, and what a person or a program does to the memory.

All take the version that was seen (409 where the conversation has moved on) and an Idempotency-Key (done once,
answered alike), and all answer with the memory and the entry that was added to the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter

from somdst.memory.dialogue import Turn
from somdst.memory.state import value_from_json
from somdst.service import openapi_examples as examples
from somdst.service.bodies import Correction, Edit, NewTurn, PendingSlots, Slots
from somdst.service.core import Make
from somdst.service.logs import log
from somdst.service.requests import WRITES, Authorised, ConversationId, Core, Idempotency, Tenant, answers
from somdst.service.views import WrittenView
from somdst.tracking import edits
from somdst.tracking.log import Entry, Snapshot

router = APIRouter(prefix="/v1/conversations/{id}", tags=["writes"], dependencies=[Authorised])

_EDIT: dict[str, Any] = {
    **examples.WRITTEN,
    "version": 2,
    "entry": {"version": 2, "kind": "correction", "source": "person", "time": examples.ENTRY["time"]},
}


def _answers(kind: str) -> dict[int | str, dict[str, Any]]:
    return answers({**_EDIT, "entry": {**_EDIT["entry"], "kind": kind}}, *WRITES)


@router.post("/turns", responses=answers(examples.WRITTEN, *WRITES))
async def add_turn(core: Core, tenant: Tenant, id: ConversationId, key: Idempotency, body: NewTurn) -> WrittenView:
    """Track one turn: what the system said, if anything, and what the user said to it."""
    turn = Turn(system=body.system, user=body.user)
    written = await core.add_turn(tenant, id, turn, version=body.version, key=key)
    if core.settings.log_utterances:
        log("turn", conversation=id, version=written.snapshot.version, system=turn.system, user=turn.user)
    return WrittenView.of(written)


@router.post("/corrections", responses=_answers("correction"))
async def correct(core: Core, tenant: Tenant, id: ConversationId, key: Idempotency, body: Correction) -> WrittenView:
    """Write values by hand. They are the next turn's input, and can be exported to train on."""
    values = {slot: None if value is None else value_from_json(value) for slot, value in body.values.items()}
    tracker = core.models.tracker

    def make(snapshot: Snapshot) -> Entry:
        return tracker.correct(snapshot, values, pin=body.pin, source=body.source).entry

    return await _edit(core, tenant, id, key, body, _sync(make))


@router.post("/pin", responses=_answers("pin"))
async def pin(core: Core, tenant: Tenant, id: ConversationId, key: Idempotency, body: Slots) -> WrittenView:
    """From now on only new evidence in a later utterance changes these slots."""
    tracker = core.models.tracker

    def make(snapshot: Snapshot) -> Entry:
        return tracker.pin(snapshot, body.slots, source=body.source).entry

    return await _edit(core, tenant, id, key, body, _sync(make))


@router.post("/unpin", responses=_answers("unpin"))
async def unpin(core: Core, tenant: Tenant, id: ConversationId, key: Idempotency, body: Slots) -> WrittenView:
    """Let every prediction change these slots again."""
    make = _sync(lambda snapshot: edits.unpin(snapshot, body.slots, source=body.source))
    return await _edit(core, tenant, id, key, body, make)


@router.post("/confirm", responses=_answers("confirm"))
async def confirm(core: Core, tenant: Tenant, id: ConversationId, key: Idempotency, body: PendingSlots) -> WrittenView:
    """Make writes that were held back as pending."""
    make = _sync(lambda snapshot: edits.confirm(snapshot, body.slots or snapshot.pending, source=body.source))
    return await _edit(core, tenant, id, key, body, make)


@router.post("/reject", responses=_answers("reject"))
async def reject(core: Core, tenant: Tenant, id: ConversationId, key: Idempotency, body: PendingSlots) -> WrittenView:
    """Drop writes that were held back as pending; the memory stays as it is."""
    make = _sync(lambda snapshot: edits.reject(snapshot, body.slots or snapshot.pending, source=body.source))
    return await _edit(core, tenant, id, key, body, make)


@router.post("/undo", responses=_answers("undo"))
async def undo(
    core: Core, tenant: Tenant, id: ConversationId, key: Idempotency, body: Edit | None = None
) -> WrittenView:
    """Take back the last thing that happened, a turn or an edit. It stays in the log; more undos go further back."""
    body = body or Edit()
    return await _edit(core, tenant, id, key, body, core.undo(tenant, id, source=body.source))


@router.post("/redo", responses=_answers("redo"))
async def redo(
    core: Core, tenant: Tenant, id: ConversationId, key: Idempotency, body: Edit | None = None
) -> WrittenView:
    """Do again what the last undo took back."""
    body = body or Edit()
    return await _edit(core, tenant, id, key, body, core.redo(tenant, id, source=body.source))


async def _edit(core: Core, tenant: str, id: str, key: Idempotency, body: Edit, make: Make) -> WrittenView:
    return WrittenView.of(await core.edit(tenant, id, make, version=body.version, key=key))


def _sync(make: Callable[[Snapshot], Entry]) -> Make:
    async def made(snapshot: Snapshot) -> Entry:
        return make(snapshot)

    return made
