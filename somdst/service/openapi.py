"""What the OpenAPI file says of answers besides their shape: examples, which a test checks, and what may go wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from somdst.service.views import Problem

ID = "5d0f3c1e9a7b48f2a6c4e8d0b1f29374"
TIME = "2026-03-01T12:00:00Z"
STATE = {"hotel-area": "north", "hotel-pricerange": "cheap"}
TURN = {"system": "How can I help?", "user": "A cheap hotel in the north, please."}
CHANGE: dict[str, Any] = {
    "slot": "hotel-area",
    "operation": "update",
    "before": None,
    "after": "north",
    "probability": 0.97,
    "evidence": {"source": "user", "start": 21, "end": 26, "text": "north", "slot": None},
}
PENDING = {
    **CHANGE,
    "slot": "hotel-type",
    "after": "hotel",
    "probability": 0.4,
    "evidence": None,
    "question": "Did you mean hotel for the hotel type?",
    "turn": 1,
}
ENTRY: dict[str, Any] = {
    "version": 1,
    "kind": "turn",
    "source": "model",
    "time": "2026-03-01T12:00:00+00:00",
    "model": "somdst",
    "domain": "hotel",
    "turn": TURN,
    "changes": [CHANGE],
    "held": [PENDING],
}
SNAPSHOT = {
    "version": 1,
    "state": STATE,
    "pinned": [],
    "pending": [PENDING],
    "can_undo": True,
    "can_redo": False,
}
WRITTEN = {**SNAPSHOT, "id": ID, "entry": ENTRY}
RECORD = {"id": ID, "subject": "customer-17", "created_at": TIME, "updated_at": TIME, "expires_at": None}
CONVERSATION = {**RECORD, **SNAPSHOT, "turns": [TURN]}
NEW_CONVERSATION: dict[str, Any] = {
    **RECORD,
    "version": 0,
    "state": {},
    "pinned": [],
    "pending": [],
    "can_undo": False,
    "can_redo": False,
    "turns": [],
}
VERSION = {**SNAPSHOT, "id": ID, "turns": [TURN]}
PAGE = {"conversations": [{**RECORD, "version": 1, "turns": 1, "state": STATE}], "next": None}
LOG = {"id": ID, "version": 1, "entries": [ENTRY]}
TURNS = {
    "id": ID,
    "version": 1,
    "turns": [
        {
            **TURN,
            "number": 1,
            "version": 1,
            "model": "somdst",
            "domain": "hotel",
            "changes": [CHANGE],
            "held": [],
            "refused": [],
            "state": STATE,
            "corrected": STATE,
        }
    ],
}
HISTORY = {
    "id": ID,
    "slot": "hotel-area",
    "value": "north",
    "events": [
        {
            "version": 1,
            "kind": "turn",
            "source": "model",
            "time": TIME,
            "in_force": True,
            "model": "somdst",
            "turn": TURN,
            "change": CHANGE,
        }
    ],
}
ERASED = {"erased": 1}
TRACKED = {
    "model": "somdst",
    "state": STATE,
    "turns": [{"state": STATE, "changes": [CHANGE], "pending": [], "refused": [], "domain": "hotel"}],
}
REPLAY = {
    "model": "candidate",
    "turns": 12,
    "changed_turns": 1,
    "changed_conversations": 1,
    "conversations": [
        {
            "id": ID,
            "turns": 12,
            "differences": [{"turn": 3, "slot": "hotel-area", "stored": "north", "replayed": "centre"}],
        }
    ],
}
SCHEMA = {
    "domains": ["hotel"],
    "slots": [
        {
            "slot": "hotel-area",
            "domain": "hotel",
            "name": "area",
            "description": "part of town",
            "values": ["north", "south", "centre"],
        }
    ],
}
MODEL = {
    "id": "somdst",
    "operations": ["carryover", "delete", "dontcare", "update"],
    "history": 1,
    "threshold": 0.5,
    "slots": 30,
    "other_models": ["candidate"],
}
EXAMPLES = {
    "examples": [{"name": "hotel", "title": "A cheap hotel", "about": "One turn, two values.", "turns": [TURN]}],
}
HEALTH = {"status": "ok"}
READY = {"ready": True, "model": "somdst"}
PROBLEMS = {
    400: "The body is not valid JSON: send a JSON object.",
    401: "This needs an API key: send it as `Authorization: Bearer KEY`.",
    404: f"There is no conversation {ID}: it was never made, was erased or has expired.",
    409: f"The conversation {ID} is at version 4, not 3: read it again.",
    413: "The body has 300000 bytes and at most 262144 are read: send less.",
    415: "The body must be JSON: send it with `Content-Type: application/json`.",
    422: 'There is no slot "hotel-aera" among the 30 of this tracker. Did you mean "hotel-area"?',
    503: "128 turns are under way, the most there can be: try again in a moment.",
}
EXPORT = (
    '{"id": "5d0f3c1e9a7b48f2a6c4e8d0b1f29374", "turns": [{"system": "", "user": "A hotel in the north, please.", '
    '"state": {"hotel-area": "north"}}]}\n'
)

WRITES = (404, 409, 413, 415)
"""What may go wrong with a write, besides what may go wrong with any request."""


def answers(
    example: object, *problems: int, status: int = 200, description: str = ""
) -> dict[int | str, dict[str, Any]]:
    """For a route's `responses`: an example of what goes well, and of everything that may go wrong."""
    well: dict[str, Any] = {} if example is None else {"content": {"application/json": {"example": example}}}
    if description:
        well["description"] = description
    result: dict[int | str, dict[str, Any]] = {status: well}
    for code in sorted({400, 401, 422, 503, *problems}):
        example_problem = {"error": PROBLEMS[code]}
        result[code] = {
            "model": Problem,
            "description": _DESCRIPTIONS[code],
            "content": {"application/json": {"example": example_problem}},
        }
        if code == 503:
            result[code]["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "seconds"}}
    return result


_DESCRIPTIONS = {
    400: "Not JSON, or nested too deeply",
    401: "No API key, or an unknown one",
    404: "No such conversation, or another tenant's",
    409: "The conversation has moved on",
    413: "Too big",
    415: "Not sent as JSON",
    422: "Something in the request cannot be used",
    503: "Too busy, no model, or no database: nothing was done, try again",
}


def edit_answers(kind: str) -> dict[int | str, dict[str, Any]]:
    """For a route that edits the memory."""
    entry = {"version": 2, "kind": kind, "source": "person", "time": ENTRY["time"]}
    return answers({**WRITTEN, "version": 2, "entry": entry}, *WRITES)


def description(app: FastAPI, routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """FastAPI's description with whole examples: its own lose every field that is null."""
    if app.openapi_schema is None:
        app.openapi_schema = FastAPI.openapi(app)
        for route in routes:
            if isinstance(route, APIRoute) and route.include_in_schema:
                [method] = list(route.methods or [])
                operation = app.openapi_schema["paths"][route.path][method.lower()]
                for status, answer in route.responses.items():
                    for kind, media in answer.get("content", {}).items():
                        operation["responses"][str(status)]["content"][kind]["example"] = media["example"]
    return app.openapi_schema
