"""What comes in: the bodies of requests, with their limits and examples. What goes out is in `views.py`.

Also the cursors of lists, which are given out and come back. Who asks and idempotency keys: see `routes.py`.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from somdst.errors import InputError
from somdst.service.schema_input import MAX_NAME
from somdst.tracking.step import MAX_TEXT
from somdst.tracking.tracker import MAX_VALUE

SUBJECT = r"^[A-Za-z0-9._:@+-]{1,200}$"
MAX_TURNS = 200
MAX_VERSION = 2**31 - 1
"""As far as the database can count."""

SCHEMA_ID = "^[0-9a-f]{24}$"
MAX_SCHEMA_TEXT = 200_000
"""Characters of a schema that is sent as text."""

MAX_SLOT = 2 * MAX_NAME + 1
"""Characters of a domain, a hyphen and a name."""
SlotName = Annotated[str, Field(max_length=MAX_SLOT)]
Value = Annotated[str, Field(max_length=MAX_VALUE)]
Utterance = Annotated[str, Field(max_length=MAX_TEXT)]
SchemaObject = dict[str, Any]
"""A schema as JSON: in somdst's own form, JSON Schema, or a tool definition."""
GivenSchema = Annotated[str, Field(pattern=SCHEMA_ID)] | SchemaObject
PIZZA: JsonDict = {
    "domains": {"pizza": {"size": {"values": ["small", "large"]}, "topping": {"description": "what is on it"}}}
}


class Body(BaseModel):
    """Base of all requests. Unknown fields are refused, so that a misspelt one is noticed."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Versioned(Body):
    version: Annotated[
        int | None,
        Field(ge=0, le=MAX_VERSION, description="the version that was seen; 409 if the conversation has moved on"),
    ] = None


class Edit(Versioned):
    source: Literal["person", "api"] = Field(default="api", description="who does it: a person, or a program")
    model_config = ConfigDict(json_schema_extra={"example": {"source": "person"}})


class NewConversation(Body):
    subject: str | None = Field(None, pattern=SUBJECT, description="whom it is about, so that it can be erased")
    given: GivenSchema | None = Field(
        None, alias="schema", description="the id of a stored schema, or a whole one; without it, the service's own"
    )
    model_config = ConfigDict(json_schema_extra={"example": {"subject": "customer-17"}})


class SpokenTurn(Body):
    user: Utterance = Field("", description="what the user said")
    system: Utterance = Field("", description="what the system said before; empty if the user spoke first")
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
    given: GivenSchema | None = Field(
        None, alias="schema", description="the id of a stored schema, or a whole one; without it, the service's own"
    )
    model_config = ConfigDict(
        json_schema_extra={"example": {"turns": [{"user": "A cheap hotel in the north, please."}], "state": {}}}
    )


class NewSchema(Body):
    given: Annotated[str, Field(max_length=MAX_SCHEMA_TEXT)] | SchemaObject = Field(
        alias="schema",
        description="as JSON: somdst's own form, JSON Schema or a tool definition; or the text of a file with one",
    )
    model_config = ConfigDict(json_schema_extra={"example": {"schema": PIZZA}})


class OtherSchema(Edit):
    given: GivenSchema | None = Field(
        alias="schema", description="the id of a stored schema, or a whole one; null for the service's own"
    )
    model_config = ConfigDict(json_schema_extra={"example": {"schema": PIZZA, "source": "person"}})


class NewReplay(Body):
    model: str = Field(max_length=200, description="one of `other_models` of GET /v1/model")
    conversations: list[Annotated[str, Field(pattern="^[0-9a-f]{32}$")]] | None = Field(
        None, min_length=1, max_length=100, description="which ones; without it the newest"
    )
    limit: int = Field(20, ge=1, le=100, description="how many of the newest, if none are named")
    model_config = ConfigDict(json_schema_extra={"example": {"model": "candidate", "limit": 20}})


# Places in a list


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
