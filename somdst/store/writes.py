"""Writes, each of which is done once: `Write`, and the idempotency keys that recognise a request that comes again.

A key is claimed in the transaction that does the work, so that both are in the database or neither is. The row of the
key keeps the answer's snapshot: a repeated request is answered as it was then, without reading the log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Table, and_, delete, func, or_, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from somdst.errors import Conflict, KeyReused, NotFound, StoreError
from somdst.store.layout import conversations, entries, idempotency_keys
from somdst.tracking.log import Result
from somdst.tracking.records import Entry, HasSnapshot, Snapshot


@dataclass(frozen=True, slots=True)
class Key:
    """An idempotency key and the fingerprint of the one request that may use it."""

    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Write:
    """One entry to add, with the snapshot after it; refused if the snapshot before it is no longer the last one."""

    tenant: str
    conversation: str
    result: Result
    key: Key | None = None

    @property
    def before(self) -> int:
        """The version that it was made from."""
        return self.result.version - 1


@dataclass(frozen=True, slots=True)
class Repeated(HasSnapshot):
    """The request was done before, with the same key: this is what it led to."""

    conversation: str
    snapshot: Snapshot
    entry: Entry | None
    """The entry that it added; None where it made the conversation."""
    expires_at: float | None = None
    """When the conversation was to expire, as seen then."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A row of the table of keys, to be taken if the key is free."""

    tenant: str
    key: Key
    conversation: str
    version: int
    snapshot: str
    """As JSON text, as it is stored with the conversation."""
    expires_at: float | None


def find_keys(connection: Connection, wanted: Sequence[tuple[str, Key]]) -> list[Repeated | KeyReused | None]:
    """What the request with each tenant's key did; None for one that was not done before."""
    if not wanted:
        return []
    keys = idempotency_keys.c
    added = and_(entries.c.conversation == keys.conversation, entries.c.version == keys.version)
    # Tenant by tenant: for pairs of columns in a list, SQLite would read the whole table.
    by_tenant: dict[str, list[str]] = {}
    for tenant, key in wanted:
        by_tenant.setdefault(tenant, []).append(key.key)
    theirs = or_(*(and_(keys.tenant == tenant, keys.key.in_(own)) for tenant, own in by_tenant.items()))
    query = select(idempotency_keys, entries.c.entry).outerjoin(entries, added).where(theirs)
    rows = {(row.tenant, row.key): row for row in connection.execute(query)}
    return [_repeated(rows.get((tenant, key.key)), key) for tenant, key in wanted]


def _repeated(row: Row[Any] | None, key: Key) -> Repeated | KeyReused | None:
    if row is None:
        return None
    if row.fingerprint != key.fingerprint:
        return KeyReused("This idempotency key was used before for another request: use a new key for each request.")
    entry = None if row.entry is None else Entry.from_json(json.loads(row.entry))
    return Repeated(row.conversation, Snapshot.from_json(json.loads(row.snapshot)), entry, row.expires_at)


def claim_keys(connection: Connection, claims: Sequence[Claim], now: float) -> set[tuple[str, str]]:
    """Take those of the keys that are free; the others belong to requests that were done before."""
    if not claims:
        return set()
    rows = [
        {
            "tenant": claim.tenant,
            "key": claim.key.key,
            "fingerprint": claim.key.fingerprint,
            "conversation": claim.conversation,
            "version": claim.version,
            "snapshot": claim.snapshot,
            "expires_at": claim.expires_at,
            "created_at": now,
        }
        # In one order, so that two processes with overlapping keys never wait for each other in a circle.
        for claim in sorted(claims, key=lambda claim: (claim.tenant, claim.key.key))
    ]
    return {(row.tenant, row.key) for row in insert_missing(connection, idempotency_keys, rows)}


def insert_missing(connection: Connection, table: Table, rows: Sequence[Mapping[str, object]]) -> Sequence[Row[Any]]:
    """Insert those of the rows whose primary keys are free. Returns these keys."""
    dialect: Any = sqlite if connection.dialect.name == "sqlite" else postgresql
    missing = dialect.insert(table).values(list(rows)).on_conflict_do_nothing()
    inserted: Sequence[Row[Any]] = connection.execute(missing.returning(*table.primary_key)).all()
    return inserted


def forget_keys(connection: Connection, *, before: float) -> None:
    """Remove the keys that were made before this time, and subtract their size from that of their conversations."""
    keys = idempotency_keys.c
    old = keys.created_at < before
    theirs = conversations.c.id.in_(select(keys.conversation).where(old))
    # Rows are locked in the order in which writes lock them, so that nobody waits in a circle.
    locked = select(conversations.c.id).where(theirs).order_by(conversations.c.id).with_for_update()
    if connection.execute(locked).first() is None:
        return
    size = select(func.sum(func.length(keys.snapshot))).where(old, keys.conversation == conversations.c.id)
    smaller = conversations.c.bytes - size.scalar_subquery()
    connection.execute(update(conversations).where(theirs).values(bytes=smaller))
    connection.execute(delete(idempotency_keys).where(old))


def dump(record: Entry | Snapshot) -> str:
    """A record as it is stored. Escaped to ASCII, so that any text can be, half a surrogate pair included."""
    return json.dumps(record.to_json(defaults=False), separators=(",", ":"))


# What is refused, and what is done


def not_found(conversation: str) -> NotFound:
    return NotFound(f"There is no conversation {conversation}: it was never made, was erased or has expired.")


class PreparedWrite:
    """A write with its records as text: each becomes JSON once, before the transaction."""

    def __init__(self, write: Write, expires_at: float | None) -> None:
        self.write = write
        self.expires_at = expires_at
        self.snapshot = dump(write.result.snapshot)
        self.entry = dump(write.result.entry)

    @property
    def added(self) -> int:
        """Characters that are stored for it: the entry, and the snapshot that is kept with its key."""
        return len(self.entry) + (len(self.snapshot) if self.write.key else 0)

    def claim(self, key: Key) -> Claim:
        write = self.write
        return Claim(write.tenant, key, write.conversation, write.result.version, self.snapshot, self.expires_at)


def refusal(write: Write, version: int | None) -> StoreError | None:
    if version is None:
        return not_found(write.conversation)
    return None if version == write.before else moved_on(write, version=version)


def moved_on(write: Write, *, version: int | None = None) -> Conflict:
    newer = "has moved on" if version is None else f"is at version {version}"
    return Conflict(
        f"The conversation {write.conversation} {newer} and the change was made from version {write.before}: "
        "read it again, then repeat the change.",
        version=version,
    )


def with_free_keys(connection: Connection, rows: Sequence[PreparedWrite], accepted: list[int], now: float) -> list[int]:
    """Those of the accepted writes whose keys, if they have any, were free, and that follow no other."""
    claims: dict[tuple[str, str], tuple[int, Claim]] = {}
    for i in accepted:
        if key := rows[i].write.key:
            claims.setdefault((rows[i].write.tenant, key.key), (i, rows[i].claim(key)))  # of two the first is done
    claimed = claim_keys(connection, [claim for _, claim in claims.values()], now)
    first = {i for pair, (i, _) in claims.items() if pair in claimed}
    kept: list[int] = []
    left_out: set[str] = set()  # what was made from a write that is not done cannot be done either
    for i in accepted:
        write = rows[i].write
        if write.conversation not in left_out and (write.key is None or i in first):
            kept.append(i)
        else:
            left_out.add(write.conversation)
    taken = [pair for pair, (i, _) in claims.items() if i in first and i not in kept]
    if taken:  # by writes that are left out: they are free for whoever tries again
        keys = idempotency_keys.c
        connection.execute(delete(idempotency_keys).where(tuple_(keys.tenant, keys.key).in_(taken)))
    return kept
