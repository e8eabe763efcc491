"""What comes in: the bodies of requests with their limits and examples, who asks, idempotency keys, places in a list.

What goes out is in `views.py`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Annotated, Literal

from fastapi import Depends, Header, Path, Query, Request, Security
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field

from somdst.errors import InputError
from somdst.service.core import Service
from somdst.service.openapi import ID
from somdst.store import Key
from somdst.tracking.tracker import MAX_TEXT, MAX_VALUE

SUBJECT = r"^[A-Za-z0-9._:@+-]{1,200}$"
MAX_TURNS = 200
MAX_VERSION = 1_000_000

SlotName = Annotated[str, Field(max_length=200)]
Value = Annotated[str, Field(max_length=MAX_VALUE)]
Utterance = Annotated[str, Field(max_length=MAX_TEXT)]


# Bodies


class Body(BaseModel):
    """A request: what it does not know it refuses, so that a misspelt field is noticed."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Versioned(Body):
    version: Annotated[
        int | None,
        Field(ge=0, le=MAX_VERSION, description="the version that was seen; 409 if the conversation has moved on"),
    ] = None


class Edit(Versioned):
    source: Literal["person", "api"] = Field(
        default="api", description="who does it: a person, or a program of its own"
    )
    model_config = ConfigDict(json_schema_extra={"example": {"source": "person"}})


class NewConversation(Body):
    subject: str | None = Field(None, pattern=SUBJECT, description="whom it is about, so that it can be erased")
    model_config = ConfigDict(json_schema_extra={"example": {"subject": "customer-17"}})


class SpokenTurn(Body):
    user: Utterance = Field("", description="what the user said")
    system: Utterance = Field("", description="what the system said before; empty where the user spoke first")
    model_config = ConfigDict(json_schema_extra={"example": {"user": "A cheap hotel in the north, please."}})


class NewTurn(Versioned, SpokenTurn):
    model_config = ConfigDict(
        json_schema_extra={"example": {"system": "How can I help?", "user": "A cheap hotel in the north, please."}}
    )


class Correction(Edit):
    values: dict[SlotName, Value | None] = Field(
        min_length=1, max_length=100, description='slot to value; null deletes, "dontcare" says any will do'
    )
    pin: bool = Field(False, description="from now on only new evidence in a later utterance changes these slots")
    model_config = ConfigDict(json_schema_extra={"example": {"values": {"hotel-area": "south"}, "pin": True}})


class Slots(Edit):
    slots: list[SlotName] = Field(min_length=1, max_length=100)
    model_config = ConfigDict(json_schema_extra={"example": {"slots": ["hotel-area"]}})


class PendingSlots(Edit):
    slots: list[SlotName] = Field(default_factory=list, max_length=100, description="none: all that are pending")
    model_config = ConfigDict(json_schema_extra={"example": {"slots": ["hotel-area"]}})


class NewDialogue(Body):
    turns: list[SpokenTurn] = Field(min_length=1, max_length=MAX_TURNS)
    state: dict[SlotName, Value] = Field(default_factory=dict, max_length=200, description="the memory to start from")
    model_config = ConfigDict(
        json_schema_extra={"example": {"turns": [{"user": "A cheap hotel in the north, please."}], "state": {}}}
    )


class NewReplay(Body):
    model: str = Field(max_length=200, description="one of `other_models` of GET /v1/model")
    conversations: list[Annotated[str, Field(pattern="^[0-9a-f]{32}$")]] | None = Field(
        None, min_length=1, max_length=100, description="which ones; without it the newest"
    )
    limit: int = Field(20, ge=1, le=100, description="how many of the newest, where none are named")
    model_config = ConfigDict(json_schema_extra={"example": {"model": "candidate", "limit": 20}})


# Everything else

bearer = HTTPBearer(
    auto_error=False, scheme_name="API key", description="One key a tenant; not needed where the service has none."
)
Authorised = Security(bearer)
"""Only for the OpenAPI file: keys are checked in `guards.py`, before anything is read."""


# These are coroutines although they wait for nothing: FastAPI sends plain functions through a thread, twice a request.


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
ConversationId = Annotated[str, Path(pattern="^[0-9a-f]{32}$", examples=[ID])]
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
