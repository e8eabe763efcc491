"""Idempotency keys: the same request with the same key is done once, whichever process gets it.

A key is claimed in the transaction that does the work, so that both are there or neither is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite

from somdst.errors import Conflict, KeyReused, StoreError
from somdst.store.layout import idempotency_keys
from somdst.store.records import Key, Repeated, Write


def find_keys(connection: Connection, wanted: Sequence[tuple[str, Key]]) -> list[Repeated | KeyReused | None]:
    pairs = tuple_(idempotency_keys.c.tenant, idempotency_keys.c.key)
    query = select(idempotency_keys).where(pairs.in_([(tenant, key.key) for tenant, key in wanted]))
    rows = {(row.tenant, row.key): row for row in connection.execute(query)}
    return [_repeated(rows.get((tenant, key.key)), key) for tenant, key in wanted]


def _repeated(row: Row[Any] | None, key: Key) -> Repeated | KeyReused | None:
    if row is None:
        return None
    if row.fingerprint != key.fingerprint:
        return KeyReused("This Idempotency-Key was used before for another request: use a new key for each request.")
    return Repeated(row.conversation, row.version)


def claim_keys(connection: Connection, claims: Sequence[tuple[str, Key, str, int]], now: float) -> set[tuple[str, str]]:
    """Take those of the keys that are free; the others belong to requests that were done before."""
    if not claims:
        return set()
    rows = [
        {
            "tenant": tenant,
            "key": key.key,
            "fingerprint": key.fingerprint,
            "conversation": conversation,
            "version": version,
            "created_at": now,
        }
        for tenant, key, conversation, version in sorted(claims, key=lambda claim: (claim[0], claim[1].key))
    ]
    returned = (idempotency_keys.c.tenant, idempotency_keys.c.key)
    if connection.dialect.name == "sqlite":
        query = sqlite.insert(idempotency_keys).values(rows).on_conflict_do_nothing().returning(*returned)
        return {(row.tenant, row.key) for row in connection.execute(query)}
    statement = postgresql.insert(idempotency_keys).values(rows).on_conflict_do_nothing().returning(*returned)
    return {(row.tenant, row.key) for row in connection.execute(statement)}


def repeat(connection: Connection, tenant: str, key: Key | None) -> Repeated | StoreError:
    """What an earlier request with the same key did."""
    found = find_keys(connection, [(tenant, key)])[0] if key else None
    return found or Conflict("The same request is being handled by another process: try again.")


def with_free_keys(connection: Connection, writes: Sequence[Write], accepted: list[int], now: float) -> list[int]:
    """Those of the accepted writes whose keys, if they have any, were free."""
    claims: dict[tuple[str, str], int] = {}
    for i in accepted:
        if key := writes[i].key:
            claims.setdefault((writes[i].tenant, key.key), i)  # of two with the same key the first is done
    rows = [
        (writes[i].tenant, key, writes[i].conversation, writes[i].after.version)
        for i in claims.values()
        if (key := writes[i].key)
    ]
    claimed = claim_keys(connection, rows, now)
    return [
        i
        for i in accepted
        if (key := writes[i].key) is None or ((pair := (writes[i].tenant, key.key)) in claimed and claims[pair] == i)
    ]
