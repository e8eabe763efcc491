"""What the routes take from a request besides its body: who asks, the idempotency key, the place in a list."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Query, Request, Security
from fastapi.security import HTTPBearer

from somdst.errors import InputError
from somdst.service import openapi_examples as examples
from somdst.service.bodies import SUBJECT
from somdst.service.core import Service
from somdst.service.views import Problem
from somdst.store import Key

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
ConversationId = Annotated[str, Path(pattern="^[0-9a-f]{32}$", examples=[examples.ID])]
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


def answers(
    example: object, *problems: int, status: int = 200, description: str = ""
) -> dict[int | str, dict[str, Any]]:
    """For a route's `responses`: an example of what goes well, and of everything that may go wrong."""
    well: dict[str, Any] = {} if example is None else {"content": {"application/json": {"example": example}}}
    if description:
        well["description"] = description
    result: dict[int | str, dict[str, Any]] = {status: well}
    for code in sorted({400, 401, 422, 503, *problems}):
        example_problem = {"error": examples.PROBLEMS[code]}
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
WRITES = (404, 409, 413, 415)
