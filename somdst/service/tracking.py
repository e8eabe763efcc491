"""Routes that store nothing: track a whole dialogue, the schema, the model, examples, a replay, an export."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from somdst.corpora.examples import examples as bundled_examples
from somdst.corpora.jsonlines import dialogue_to_json
from somdst.errors import Overloaded
from somdst.memory.dialogue import Turn
from somdst.memory.state import State, value_to_json
from somdst.service import openapi_examples as examples
from somdst.service.bodies import NewDialogue, NewReplay
from somdst.service.core import Service
from somdst.service.replays import Difference, rerun
from somdst.service.requests import Authorised, Core, Tenant, answers
from somdst.service.views import (
    DifferenceView,
    ExamplesView,
    ExampleView,
    ModelView,
    ReplayedConversation,
    ReplayView,
    SchemaView,
    SlotView,
    TrackedTurn,
    TrackedView,
    TurnView,
)
from somdst.store import export
from somdst.tracking.log import Entry

router = APIRouter(prefix="/v1", tags=["tracking"], dependencies=[Authorised])


@router.post("/track", responses=answers(examples.TRACKED, 413, 415))
async def track(core: Core, tenant: Tenant, body: NewDialogue) -> TrackedView:
    """Track a whole dialogue at once; nothing is stored."""
    start = State.from_json(body.state)
    results = await core.track([Turn(turn.system, turn.user) for turn in body.turns], state=start)
    return TrackedView(
        model=core.models.tracker.predictor.model_id,
        state=results[-1].state.to_json(),
        turns=list(map(TrackedTurn.of, results)),
    )


@router.get("/schema", responses=answers(examples.SCHEMA))
async def read_schema(core: Core, tenant: Tenant) -> SchemaView:
    """The slots that are tracked, in alphabetical order."""
    schema = core.models.tracker.schema
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
    return SchemaView(domains=list(schema.domains), slots=slots)


@router.get("/model", responses=answers(examples.MODEL))
async def read_model(core: Core, tenant: Tenant) -> ModelView:
    """The model that tracks."""
    tracker = core.models.tracker
    return ModelView(
        id=tracker.predictor.model_id,
        operations=[str(operation) for operation in tracker.predictor.operation_set.operations],
        history=tracker.predictor.history,
        threshold=tracker.threshold,
        slots=len(tracker.schema),
        other_models=core.models.names,
    )


@router.get("/examples", responses=answers(examples.EXAMPLES))
async def read_examples(core: Core, tenant: Tenant) -> ExamplesView:
    """The bundled dialogues, to try the tracker with."""
    found = await asyncio.to_thread(bundled_examples)
    return ExamplesView(
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


@router.post("/replays", responses=answers(examples.REPLAY, 404, 413, 415))
async def replay(core: Core, tenant: Tenant, body: NewReplay) -> ReplayView:
    """Run stored conversations under another model and show which states would be different. Nothing is changed."""
    if core.replaying.locked():
        raise Overloaded("Another replay is running: try again when it is done.")
    async with core.replaying:
        return await asyncio.to_thread(_replay, core, tenant, body)


def _replay(core: Service, tenant: str, body: NewReplay) -> ReplayView:
    tracker = core.models.other(body.model)
    ids = body.conversations or [record.id for record in core.store.page(tenant, limit=body.limit).records]
    logs = {id: core.store.log(tenant, id) for id in ids}
    conversations = [_replayed(id, logs[id], found) for id, found in rerun(tracker, logs).items()]
    return ReplayView(
        model=tracker.predictor.model_id,
        turns=sum(conversation.turns for conversation in conversations),
        changed_turns=sum(len({item.turn for item in conversation.differences}) for conversation in conversations),
        changed_conversations=sum(bool(conversation.differences) for conversation in conversations),
        conversations=conversations,
    )


def _replayed(id: str, log: list[Entry], differences: list[Difference]) -> ReplayedConversation:
    views = [
        DifferenceView(
            turn=item.turn,
            slot=item.slot,
            stored=None if item.stored is None else value_to_json(item.stored),
            replayed=None if item.replayed is None else value_to_json(item.replayed),
        )
        for item in differences
    ]
    turns = sum((entry.turn is not None) * (-1 if entry.kind == "undo" else 1) for entry in log)
    return ReplayedConversation(id=id, turns=turns, differences=views)


@router.get(
    "/export",
    response_class=StreamingResponse,
    responses={
        **answers(None),
        200: {
            "description": "One dialogue a line, as JSON",
            "content": {"application/x-ndjson": {"schema": {"type": "string"}, "example": examples.EXPORT}},
        },
    },
)
async def export_corrections(
    core: Core,
    tenant: Tenant,
    every: bool = Query(False, description="all conversations with a turn, not only the corrected ones"),
) -> StreamingResponse:
    """Conversations that a person corrected, as dialogues to train on, in the project's JSON lines."""
    await asyncio.to_thread(core.store.ping)  # while the status can still say so

    def lines() -> Iterator[str]:
        for dialogue in export(core.store, tenant=tenant, every=every):
            yield json.dumps(dialogue_to_json(dialogue)) + "\n"

    return StreamingResponse(lines(), media_type="application/x-ndjson")
