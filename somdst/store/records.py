"""What goes into the store and comes out of it, and how that is written into a row."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row

from somdst.tracking.records import Entry, Snapshot
from somdst.tracking.step import Result


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
    """One entry to add, with the snapshot after it; refused if the snapshot before it is no longer the last one."""

    tenant: str
    conversation: str
    result: Result
    key: Key | None = None

    @property
    def after(self) -> Snapshot:
        return self.result.snapshot

    @property
    def entry(self) -> Entry:
        return self.result.entry

    @property
    def before(self) -> int:
        """The version that it was made from."""
        return self.after.version - 1


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
        "snapshot": dump(record.snapshot),
    }


def dump(record: Entry | Snapshot) -> str:
    # Escaped to ASCII, so that any text, half a surrogate pair included, can be stored.
    return json.dumps(record.to_json(defaults=False), separators=(",", ":"))
