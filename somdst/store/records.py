"""What goes into the store and comes out of it, and how that is written into a row."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Row

from somdst.tracking.log import Entry, Snapshot, append


@dataclass(frozen=True, slots=True)
class Record:
    """A conversation as it is stored."""

    id: str
    tenant: str
    subject: str | None
    created_at: float
    updated_at: float
    expires_at: float | None
    snapshot: Snapshot

    @property
    def version(self) -> int:
        return self.snapshot.version


@dataclass(frozen=True, slots=True)
class Page:
    """Some of a tenant's conversations, newest first, and where the next ones start."""

    records: tuple[Record, ...]
    next: tuple[float, str] | None


@dataclass(frozen=True, slots=True)
class Key:
    """An idempotency key and the fingerprint of the one request that may use it."""

    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Write:
    """One entry to add, made from a snapshot; refused if that is no longer the last one."""

    tenant: str
    conversation: str
    entry: Entry
    before: Snapshot
    key: Key | None = None
    after: Snapshot = field(init=False)

    def __post_init__(self) -> None:
        # Here and not in the transaction, so that an entry that does not fit spoils no other write.
        object.__setattr__(self, "after", append(self.before, self.entry))


@dataclass(frozen=True, slots=True)
class Repeated:
    """The request was done before, under the same key: it made this version of the conversation."""

    conversation: str
    version: int


def record_of(row: Row[Any]) -> Record:
    snapshot = Snapshot.from_json(json.loads(row.snapshot))
    return Record(row.id, row.tenant, row.subject, row.created_at, row.updated_at, row.expires_at, snapshot)


def row_of(record: Record) -> dict[str, Any]:
    return {
        "id": record.id,
        "tenant": record.tenant,
        "subject": record.subject,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "expires_at": record.expires_at,
        "version": record.version,
        "snapshot": dump(record.snapshot.to_json()),
    }


def dump(data: dict[str, Any]) -> str:
    # Escaped to ASCII, so that a NUL character, which PostgreSQL's text cannot hold, is stored like any other.
    return json.dumps(data, separators=(",", ":"))
