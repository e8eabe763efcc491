"""The schemas of each tenant in SQL: `Schemas`. A schema is stored once, under the id that its content gives it.

A conversation that uses a schema, now or anywhere in its log, keeps it from being deleted. Schemas that were read stay
in memory, up to a bound; as an id never means another content, none of them gets out of date. Does not decide which
schemas are accepted (`service/schema_input.py`).
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from threading import Lock

from sqlalchemy import ColumnElement, Connection, and_, delete, func, or_, select

from somdst.errors import Conflict, InputError, NotFound, StoreError
from somdst.memory.schema import Schema
from somdst.store.database import Database, Place, newest_page
from somdst.store.layout import schema_uses, schemas
from somdst.store.writes import insert_missing

MOST = 10_000
"""Schemas that a tenant may have."""
CACHED = 16 * 2**20
"""Characters of stored schemas that stay in memory as objects, which take some five times as many bytes."""


@dataclass(frozen=True, slots=True)
class StoredSchema:
    schema: Schema
    created_at: float
    """Seconds since 1970."""

    @property
    def id(self) -> str:
        return self.schema.id


class Schemas:
    """The schemas in one database."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self.database, self.clock = database, clock
        self._cache: OrderedDict[tuple[str, str], tuple[Schema, int]] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def add(self, tenant: str, schema: Schema) -> StoredSchema:
        """Store a schema. One that is there already stays as it is."""
        with self.database.write() as connection:
            insert_schema(connection, tenant, schema, self.clock())
            query = select(schemas.c.created_at).where(_is(tenant, schema.id))
            return StoredSchema(schema, connection.execute(query).scalar_one())

    def read(self, tenant: str, id: str) -> StoredSchema:
        """One schema of this tenant, or `NotFound`."""
        with self.database.read() as connection:
            row = connection.execute(select(schemas).where(_is(tenant, id))).one_or_none()
        if row is None:
            raise schema_not_found(id)
        return StoredSchema(_parse(row.schema), row.created_at)

    def page(
        self, tenant: str, *, limit: int = 50, after: Place | None = None
    ) -> tuple[list[StoredSchema], Place | None]:
        """A tenant's schemas, newest first, and where the next page starts."""
        query = select(schemas).where(schemas.c.tenant == tenant)
        with self.database.read() as connection:
            rows, more = newest_page(connection, query, schemas, limit=limit, after=after)
        return [StoredSchema(_parse(row.schema), row.created_at) for row in rows], more

    def delete(self, tenant: str, id: str) -> None:
        """Delete a schema that no conversation uses."""
        used = select(schema_uses.c.conversation).where(schema_uses.c.tenant == tenant, schema_uses.c.schema == id)
        with self.database.write() as connection:
            # The lock lets those finish that begin to use it at this moment, and keeps out the next ones.
            if connection.execute(select(schemas.c.id).where(_is(tenant, id)).with_for_update()).scalar() is None:
                raise schema_not_found(id)
            if connection.execute(used.limit(1)).scalar() is not None:
                raise Conflict(f"The schema {id} is used by a conversation: erase its conversations first.")
            connection.execute(delete(schemas).where(_is(tenant, id)))
        with self._lock:
            self._size -= self._cache.pop((tenant, id), (None, 0))[1]

    def in_memory(self, tenant: str, id: str) -> Schema | None:
        """A schema that was read before, if it is still in memory."""
        with self._lock:
            if (tenant, id) not in self._cache:
                return None
            self._cache.move_to_end((tenant, id))
            return self._cache[tenant, id][0]

    def of_conversation(self, tenant: str, id: str) -> Schema:
        """The schema that a conversation names. It stays in memory for the next turns."""
        if (found := self.in_memory(tenant, id)) is not None:
            return found
        try:
            schema = self.read(tenant, id).schema
        except NotFound as error:
            raise StoreError(f"The schema {id} of this conversation is missing: put a backup in place.") from error
        with self._lock:
            if (tenant, id) not in self._cache:
                size = len(json.dumps(schema.to_json()))
                self._cache[tenant, id] = schema, size
                self._size += size
            while self._size > CACHED:
                self._size -= self._cache.popitem(last=False)[1][1]
        return schema


def insert_schema(connection: Connection, tenant: str, schema: Schema, now: float) -> None:
    """Store a schema if it is missing. Until the transaction ends, nobody deletes it."""
    if hold_schemas(connection, [(tenant, schema.id)]):
        return
    count = select(func.count()).select_from(schemas).where(schemas.c.tenant == tenant)
    if connection.execute(count).scalar_one() >= MOST:
        raise InputError(f"You have {MOST:,} schemas, which is the maximum: delete those that are not used.")
    row = {"tenant": tenant, "id": schema.id, "created_at": now, "schema": json.dumps(schema.to_json())}
    insert_missing(connection, schemas, [row])


def hold_schemas(connection: Connection, wanted: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
    """Those of these schemas, by tenant and id, that are stored. Until the transaction ends, nobody deletes them."""
    theirs = or_(*(_is(tenant, id) for tenant, id in wanted))
    query = select(schemas.c.tenant, schemas.c.id).where(theirs).order_by(schemas.c.tenant, schemas.c.id)
    return {(row.tenant, row.id) for row in connection.execute(query.with_for_update(read=True, key_share=True))}


def insert_uses(connection: Connection, uses: Sequence[tuple[str, str, str]]) -> None:
    """Note which conversations use which schemas: the tenant, the conversation and the schema's id of each."""
    rows = [{"tenant": tenant, "conversation": id, "schema": schema} for tenant, id, schema in sorted(uses)]
    insert_missing(connection, schema_uses, rows)


def _is(tenant: str, id: str) -> ColumnElement[bool]:
    return and_(schemas.c.tenant == tenant, schemas.c.id == id)


def _parse(text: str) -> Schema:
    return Schema.from_json(json.loads(text))


def schema_not_found(id: str) -> NotFound:
    return NotFound(f"There is no schema {id}: it was never stored, or was deleted.")
