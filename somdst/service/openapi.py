"""What the OpenAPI file says about answers besides their shape: an example of each, and what may go wrong.

The examples are made by the code that makes the answers, from one conversation with one turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from somdst.corpora.examples import Example
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.operations import Operation
from somdst.memory.schema import Schema, Slot
from somdst.model.prediction import Evidence
from somdst.service.core import Written
from somdst.service.negotiation import PATCHES, with_patches
from somdst.service.replaying import Replayed
from somdst.service.schema_views import CheckedSchemaView, SchemaPageView
from somdst.service.views import (
    Answer,
    ConversationView,
    Erased,
    ExamplesView,
    Health,
    HistoryView,
    LogView,
    ModelView,
    PageView,
    Problem,
    QuestionsView,
    Readiness,
    ReplayView,
    SchemaView,
    TrackedView,
    TurnsView,
    VersionView,
)
from somdst.store import Page, Record, StoredSchema
from somdst.tracking.log import EMPTY, Result, append
from somdst.tracking.questions import what_to_ask
from somdst.tracking.records import Change, Entry, JsonRecord, Kind, Pending, SchemaChange, Snapshot
from somdst.tracking.replays import Difference

ID = "5d0f3c1e9a7b48f2a6c4e8d0b1f29374"
TIME = datetime(2026, 3, 1, 12, tzinfo=UTC)
TURN = Turn(system="How can I help?", user="A cheap hotel in the north, please.")
AREA = Change("hotel-area", Operation.UPDATE, None, "north", 0.97, Evidence("user", 21, 26, "north"))
PRICE = Change("hotel-pricerange", Operation.UPDATE, None, "cheap", 0.99, Evidence("user", 2, 7, "cheap"))
TYPE = Pending.of(
    Change("hotel-type", Operation.UPDATE, None, "hotel", 0.4, Evidence("user", 8, 13, "hotel")),
    question="Did you mean hotel for the kind of place to stay?",
    turn=1,
)
ENTRY = Entry(
    version=1,
    kind="turn",
    source="model",
    time=TIME,
    model="somdst",
    turn=TURN,
    domain="hotel",
    changes=(AREA, PRICE),
    held=(TYPE,),
)
AFTER = append(EMPTY, ENTRY)


def _record(snapshot: Snapshot) -> Record:
    seconds = TIME.timestamp()
    return Record(ID, "acme", "customer-17", seconds, seconds, None, snapshot)


NEW_CONVERSATION = ConversationView.stored(_record(EMPTY))
CONVERSATION = ConversationView.stored(_record(AFTER))
VERSION = VersionView.of(ID, AFTER)
PAGE = PageView.of(Page((_record(AFTER),), None), next=None)
LOG = LogView(id=ID, version=1, entries=(ENTRY,))
TURNS = TurnsView.of(ID, [ENTRY])
QUESTIONS = QuestionsView(id=ID, version=1, questions=what_to_ask(AFTER, Schema.multiwoz(), ["hotel-book stay"]))
HISTORY = HistoryView.of(ID, "hotel-area", [ENTRY])
ERASED = Erased(erased=1)
WRITTEN = Answer.of(Written(ID, AFTER, ENTRY))
TRACKED = TrackedView.of("somdst", [Result(AFTER, ENTRY)])
REPLAY = ReplayView.of(Replayed("candidate", {ID: 12}, {ID: [Difference(3, "hotel-area", "north", "centre")]}))
SCHEMA = SchemaView.of(
    Schema(
        [
            Slot.of("hotel", "area", description="part of town", values=["north", "south", "centre"]),
            Slot.of("train", "departure", description="where the train leaves"),
            Slot.of("train", "destination", description="where the train goes"),
        ],
        different=[["train-departure", "train-destination"]],
    )
)
CHECKED = CheckedSchemaView.checked(Schema([Slot.of("pizza", "size", values=["small", "large"])]))
SCHEMAS = SchemaPageView.of([StoredSchema(SCHEMA.schema(), TIME.timestamp())], next=None)
MODEL = ModelView(
    id="somdst",
    operations=("carryover", "delete", "dontcare", "update"),
    history=1,
    threshold=0.5,
    slots=30,
    any_schema=True,
    other_models=("candidate",),
)
EXAMPLES = ExamplesView.of({"hotel": Example("A cheap hotel", "One turn, two values.", Dialogue("hotel", (TURN,)))})
HEALTH = Health(status="ok")
READY = Readiness(ready=True, model="somdst")
EXPORT = (
    '{"id": "5d0f3c1e9a7b48f2a6c4e8d0b1f29374", "turns": [{"system": "", "user": "A hotel in the north, please.", '
    '"state": {"hotel-area": "north"}}]}\n'
)
PROBLEMS = {
    400: "The body is not valid JSON: send a JSON object.",
    401: "This needs an API key: send it as `Authorization: Bearer KEY`.",
    404: f"There is no conversation {ID}: it was never made, was erased or has expired.",
    409: f"The conversation {ID} is at version 4, not 3: read it again.",
    413: "The body has 300000 bytes and at most 262144 are read: send less.",
    415: "The body must be JSON: send it with `Content-Type: application/json`.",
    422: 'There is no slot "hotel-aera" among the 30 of this tracker. Did you mean "hotel-area"?',
    429: "You have sent more than 5 turns per second: try again in 1 s.",
    503: "128 writes are in progress, which is the maximum: try again in a moment.",
}
WRITES = (404, 409, 413, 415)
"""What may go wrong with a write, besides what may go wrong with any request."""


def answers(example: JsonRecord | None, *problems: int, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """For a route's `responses`: an example of what goes well, and of everything that may go wrong."""
    result: dict[int | str, dict[str, Any]] = {status: {} if example is None else _content(example)}
    counted = {429} if 413 in problems else set()  # what takes a body counts for a tenant's limits
    for code in sorted({400, 401, 422, 503, *problems, *counted}):
        problem = Problem(error=PROBLEMS[code], version=4 if code == 409 else None)
        result[code] = {"model": Problem, "description": _DESCRIPTIONS[code], **_content(problem)}
        if code in (429, 503):
            result[code]["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "seconds"}}
    return result


def _content(example: JsonRecord) -> dict[str, Any]:
    return {"content": {"application/json": {"example": example.to_json(defaults=not isinstance(example, Problem))}}}


_DESCRIPTIONS = {
    400: "Not JSON, or nested too deeply",
    401: "No API key, or an unknown one",
    404: "No such conversation or schema, or another tenant's",
    409: "The conversation has moved on, or the schema is in use",
    413: "Too big",
    415: "Not sent as JSON",
    422: "Something in the request cannot be used",
    429: "More than a tenant may do or store: nothing was done",
    503: "Too busy, no model, or no database: nothing was done, try again",
}


def write_answers(example: Answer) -> dict[int | str, dict[str, Any]]:
    """For a route that writes to a conversation."""
    return with_patches(answers(example, *WRITES), example)


def edit_answers(kind: Kind) -> dict[int | str, dict[str, Any]]:
    """For a route that edits the memory."""
    other = SchemaChange(after=SCHEMA.id) if kind == "schema" else None
    entry = replace(Entry.after(AFTER, kind, "person", TIME), schema=other)
    after = replace(AFTER, version=2, schema=other.after if other else None)
    return write_answers(Answer.of(Written(ID, after, entry)))


def description(app: FastAPI, routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """FastAPI's description with whole examples: its own lose every field that is null."""
    if app.openapi_schema is None:
        app.openapi_schema = FastAPI.openapi(app)
        app.openapi_schema["components"]["schemas"] |= PATCHES
        for route in routes:
            if isinstance(route, APIRoute) and route.include_in_schema:
                [method] = list(route.methods or [])
                operation = app.openapi_schema["paths"][route.path_format][method.lower()]
                for status, answer in route.responses.items():
                    for kind, media in answer.get("content", {}).items():
                        operation["responses"][str(status)]["content"][kind]["example"] = media["example"]
    return app.openapi_schema
