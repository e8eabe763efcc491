"""The routes of schemas: store one, list them, read, check and delete one, and give a conversation another.

The routes of conversations and of tracking are in `routes.py`; which schemas are accepted is in `schema_input.py`.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from somdst.service import openapi
from somdst.service.openapi import answers, edit_answers
from somdst.service.requests import SCHEMA_ID, NewSchema, OtherSchema, decode_cursor, encode_cursor
from somdst.service.routes import (
    Authorised,
    Core,
    Limit,
    Tenant,
    To,
    writing,
)
from somdst.service.schema_input import read_schema
from somdst.service.schema_views import CheckedSchemaView, SchemaPageView
from somdst.service.views import Answer, SchemaView

router = APIRouter(prefix="/v1", dependencies=[Authorised])
SchemaId = Annotated[str, Path(pattern=SCHEMA_ID, examples=[openapi.SCHEMA.id])]


@router.post("/schemas", tags=["schemas"], status_code=201, responses=answers(openapi.SCHEMA, 413, 415, status=201))
async def add_schema(core: Core, tenant: Tenant, body: NewSchema) -> SchemaView:
    """Store a schema for conversations to name. Its id is made of its content, so the same one is stored once."""
    schema = await core.read(read_schema, body.given)
    core.models.tracker.under(schema)
    return SchemaView.of((await core.write(core.store.schemas.add, tenant, schema)).schema)


@router.post("/schemas/check", tags=["schemas"], responses=answers(openapi.CHECKED, 413, 415))
async def check_schema(core: Core, tenant: Tenant, body: NewSchema) -> CheckedSchemaView:
    """Read a schema as `POST /v1/schemas` does, with the same errors, store nothing, and say what could be better."""
    schema = await core.read(read_schema, body.given)
    core.models.tracker.under(schema)
    return await core.read(CheckedSchemaView.checked, schema)


@router.get("/schemas", tags=["schemas"], responses=answers(openapi.SCHEMAS))
async def list_schemas(
    core: Core,
    tenant: Tenant,
    limit: Limit = 50,
    cursor: Annotated[str | None, Query(max_length=200, description="`next` of the page before")] = None,
) -> SchemaPageView:
    """The schemas of this tenant, newest first, a page at a time."""
    found, next = await core.read(core.store.schemas.page, tenant, limit=limit, after=decode_cursor(cursor))
    return SchemaPageView.of(found, next=encode_cursor(next))


@router.get("/schemas/{id}", tags=["schemas"], responses=answers(openapi.SCHEMA, 404))
async def read_stored_schema(core: Core, tenant: Tenant, id: SchemaId) -> SchemaView:
    """A schema that was stored."""
    return SchemaView.of((await core.read(core.store.schemas.read, tenant, id)).schema)


@router.delete("/schemas/{id}", tags=["schemas"], status_code=204, responses=answers(None, 404, 409, status=204))
async def delete_schema(core: Core, tenant: Tenant, id: SchemaId) -> Response:
    """Delete a schema; 409 while a conversation has it, or had it and could go back to it."""
    await core.write(core.store.schemas.delete, tenant, id)
    return Response(status_code=204)


@router.post(**writing("schema", edit_answers("schema")))
async def change_schema(to: To, body: OtherSchema) -> Answer | Response:
    """Go on under another schema. What still fits is kept; `refused` of the entry says what does not. Undo takes it
    back, with everything that it took out."""
    schema = await to.core.schema(to.tenant, body.given)
    written = await to.core.change_schema(
        to.tenant, to.id, schema, source=body.source, version=body.version, key=to.key
    )
    return to.reply(written)
