"""`Store`: conversations in a database, each an append-only log with a snapshot beside it.

A write has the version that it was made from and is refused where the conversation has moved on, so that any number of
processes can share a database and none loses a turn. Many writes go into one transaction (`append_many`): one sync of
the disk for all of them. Reading, appending and undoing cost the same however long a conversation is.

Does not decide what to write (`tracking/`). Checking and exporting whole databases is in `auditing.py`.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, delete, insert, or_, select, update

from somdst.errors import Conflict, KeyReused, NotFound, StateError, StoreError, Unavailable
from somdst.memory.schema import Schema
from somdst.store.actions import Action, record_action
from somdst.store.database import Database, Place, newest_page
from somdst.store.layout import conversations, entries
from somdst.store.schemas import Schemas, hold_schemas, insert_schema, insert_uses, schema_not_found
from somdst.store.writes import (
    Claim,
    Key,
    PreparedWrite,
    Repeated,
    Write,
    claim_keys,
    dump,
    find_keys,
    forget_keys,
    moved_on,
    not_found,
    refusal,
    with_free_keys,
)
from somdst.tracking.edits import start
from somdst.tracking.log import EMPTY, replay
from somdst.tracking.records import Entry, HasSnapshot, Snapshot

KEY_LIFETIME = timedelta(days=7)

# What every turn asks for, made once: building a statement takes longer than SQLite takes to execute it.
ALIVE = or_(conversations.c.expires_at.is_(None), conversations.c.expires_at > bindparam("now"))
"""Nothing is served after its time; `Store.moment` says what time it is."""
_NAMED = conversations.c.id.in_(bindparam("ids", expanding=True)), ALIVE
_READ = select(conversations).where(*_NAMED)
_LOCK = (
    select(conversations.c.tenant, conversations.c.id, conversations.c.version)
    .where(*_NAMED)
    .order_by(conversations.c.id)
    .with_for_update()
)
_UPDATE = (
    update(conversations)
    .where(conversations.c.id == bindparam("row"))
    .values(bytes=conversations.c.bytes + bindparam("added"))
)
_INSERT = insert(entries)


@dataclass(frozen=True, slots=True)
class Record(HasSnapshot):
    """A conversation as it is stored."""

    id: str
    tenant: str
    subject: str | None
    created_at: float
    """Seconds since 1970."""
    updated_at: float
    expires_at: float | None
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Page:
    """Some of a tenant's conversations, newest first, and where the next ones start."""

    records: tuple[Record, ...]
    next: Place | None


class Store:
    """Conversations in an SQLite file or in PostgreSQL.

    >>> import tempfile
    >>> store = Store(tempfile.mkdtemp() + "/conversations.sqlite")
    >>> record = store.create("me")
    >>> store.read("me", record.id).version
    0
    >>> store.erase("me", record.id)
    """

    def __init__(
        self,
        url: str,
        *,
        retention: timedelta | None = None,
        clock: Callable[[], float] = time.time,
        upgrade: bool = True,
    ) -> None:
        """`upgrade`: bring the tables of an older somdst up to date; without it, they are refused."""
        self.database = Database(url, upgrade=upgrade)
        self.retention = retention
        self.clock = clock
        self.schemas = Schemas(self.database, clock)

    def close(self) -> None:
        self.database.close()

    # Reading

    def read(self, tenant: str, conversation: str) -> Record:
        """One conversation of this tenant, or `NotFound`."""
        found = self.read_many([(tenant, conversation)])[0]
        if isinstance(found, StoreError):
            raise found
        return found

    def read_many(self, wanted: Sequence[tuple[str, str]]) -> list[Record | StoreError]:
        """Conversations by tenant and id, all in one query. One that is missing or damaged stops no other."""
        named = {"ids": list({id for _, id in wanted}), **self.moment()}
        with self.database.read() as connection:
            found = {(row.tenant, row.id): _record_or_error(row) for row in connection.execute(_READ, named)}
        return [found.get(pair) or not_found(pair[1]) for pair in wanted]

    def page(self, tenant: str, *, limit: int = 50, after: Place | None = None, subject: str | None = None) -> Page:
        """A tenant's conversations, newest first; `after` is the `next` of the page before."""
        query = select(conversations).where(conversations.c.tenant == tenant, ALIVE).params(self.moment())
        if subject is not None:
            query = query.where(conversations.c.subject == subject)
        with self.database.read() as connection:
            rows, more = newest_page(connection, query, conversations, limit=limit, after=after)
        records = map(_record_or_error, rows)  # `verify` finds what is damaged; the others are listed
        return Page(tuple(record for record in records if isinstance(record, Record)), more)

    def log(self, tenant: str, conversation: str, *, upto: int | None = None) -> list[Entry]:
        """The entries of a conversation, from the first to version `upto`, or all."""
        version, found = self.log_part(tenant, conversation, limit=upto)
        if upto is not None and not 0 <= upto <= version:
            raise NotFound(f"The conversation {conversation} has versions 0 to {version}, not {upto}.")
        return found

    def log_part(
        self, tenant: str, conversation: str, *, after: int = 0, limit: int | None = None
    ) -> tuple[int, list[Entry]]:
        """The version of a conversation, and at most `limit` entries after version `after`."""
        with self.database.read() as connection:
            version = self._version(connection, tenant, conversation)
            upto = version if limit is None else min(version, after + limit)
            with _intact(conversation):
                return version, read_entries(connection, conversation, after=after, upto=upto)

    def at(self, tenant: str, conversation: str, version: int) -> Snapshot:
        """The conversation as it was at a past version."""
        log = self.log(tenant, conversation, upto=version)
        with _intact(conversation):
            return replay(log)

    def entry(self, tenant: str, conversation: str, version: int) -> Entry:
        """The entry that made this version."""
        with self.database.read() as connection:
            self._version(connection, tenant, conversation)
            query = select(entries.c.entry).where(entries.c.conversation == conversation, entries.c.version == version)
            text = connection.execute(query).scalar()
        if text is None:
            raise NotFound(f"The conversation {conversation} has no entry {version}.")
        with _intact(conversation):
            return Entry.from_json(json.loads(text))

    def find_keys(self, wanted: Sequence[tuple[str, Key]]) -> list[Repeated | KeyReused | None]:
        """What the request with each tenant's key did; None for one that was not done before."""
        if not wanted:
            return []
        with self.database.read() as connection:
            return find_keys(connection, wanted)

    def ping(self) -> None:
        """Raises `Unavailable` where the database does not answer."""
        with self.database.read() as connection:
            connection.execute(select(1))

    # Writing

    def create(
        self, tenant: str, *, subject: str | None = None, schema: Schema | None = None, key: Key | None = None
    ) -> Record:
        """A new, empty conversation. One with a schema of its own has the version 1, which names it. With a key that
        was used before, the one that was made then, as it was then."""
        now = self.clock()
        started = None if schema is None else start(schema.id)
        snapshot = started.snapshot if started else EMPTY
        record = Record(secrets.token_hex(16), tenant, subject, now, now, self._expiry(now), snapshot)
        kept = [dump(snapshot)] * (1 if key is None else 2) + ([dump(started.entry)] if started else [])
        size = sum(map(len, kept))  # the snapshot, once more with the key, and the first entry
        with self.database.write() as connection:
            connection.execute(insert(conversations).values({**_row_of(record), "bytes": size}))
            if schema is not None and started is not None:
                insert_schema(connection, tenant, schema, now)
                insert_uses(connection, [(tenant, record.id, schema.id)])
                connection.execute(insert(entries).values(_entry_row(record.id, started.entry, dump(started.entry))))
            if key is None:
                return record
            claim = Claim(tenant, key, record.id, record.version, dump(snapshot), record.expires_at)
            if claim_keys(connection, [claim], now):
                return record
            repeated = find_keys(connection, [(tenant, key)])[0]
            if not isinstance(repeated, Repeated):  # raised in the transaction, which then leaves nothing behind
                raise repeated or Conflict("The same request is being handled by another process: try again.")
            connection.execute(delete(conversations).where(conversations.c.id == record.id))
        made = self.read(tenant, repeated.conversation)
        return replace(made, updated_at=made.created_at, expires_at=repeated.expires_at, snapshot=repeated.snapshot)

    def append(self, write: Write) -> Snapshot:
        """Add one entry, and give the snapshot after it; `Conflict` where the conversation has moved on."""
        outcome = self.append_many([write])[0]
        if isinstance(outcome, StoreError):
            raise outcome
        return outcome.snapshot if isinstance(outcome, Repeated) else outcome

    def append_many(self, writes: Sequence[Write]) -> list[Snapshot | Repeated | StoreError]:
        """Add entries to many conversations in one transaction, each for itself: one that is refused stops no other.

        All rows are locked in the order of their ids, then all keys in their order, so that two processes with
        overlapping batches wait for each other and never in a circle.
        """
        now = self.clock()
        rows = [PreparedWrite(write, self._expiry(now)) for write in writes]
        outcomes: list[Snapshot | Repeated | StoreError | None] = [None] * len(writes)
        with self.database.write() as connection:
            versions = self._lock(connection, {write.conversation for write in writes})
            named = {use for write in writes if (use := _schema_used(write))}
            stored = hold_schemas(connection, named) if named else named
            accepted: list[int] = []
            for i, write in enumerate(writes):
                refused = refusal(write, versions.get((write.tenant, write.conversation)))
                if not refused and (use := _schema_used(write)) and use not in stored:
                    refused = schema_not_found(use[1])
                if refused:
                    outcomes[i] = refused
                else:
                    accepted.append(i)
                    versions[write.tenant, write.conversation] = write.result.version
            accepted = with_free_keys(connection, rows, accepted, now)
            _insert(connection, [rows[i] for i in accepted], now)
            for i in accepted:
                outcomes[i] = writes[i].result.snapshot
            # What was not done may have been done before: its key is taken, or the conversation has moved on since.
            done = set(accepted)
            late = [(i, key) for i, write in enumerate(writes) if (key := write.key) and i not in done]
            done_before = find_keys(connection, [(writes[i].tenant, key) for i, key in late])
            for (i, _), repeated in zip(late, done_before, strict=True):
                outcomes[i] = repeated or outcomes[i]
        return [outcome or moved_on(write) for write, outcome in zip(writes, outcomes, strict=True)]

    def _lock(self, connection: Connection, ids: set[str]) -> dict[tuple[str, str], int]:
        rows = connection.execute(_LOCK, {"ids": list(ids), **self.moment()})
        return {(row.tenant, row.id): row.version for row in rows}

    # Erasing

    def erase(self, tenant: str, conversation: str) -> None:
        """Delete one conversation for good: its log, its snapshot, its keys."""
        mine = conversations.c.tenant == tenant, conversations.c.id == conversation
        if not self._delete(*mine, action=(tenant, "conversation erased", conversation)):
            raise not_found(conversation)

    def erase_subject(self, tenant: str, subject: str) -> int:
        """Delete all conversations of one subject for good, and say how many there were."""
        theirs = conversations.c.tenant == tenant, conversations.c.subject == subject
        return self._delete(*theirs, action=(tenant, "subject erased", None))

    def expire(self, *, unused_for: timedelta | None = None) -> int:
        """Delete for good what has expired and, with `unused_for`, what was not written to for that long; forget old
        idempotency keys. Returns the number of conversations deleted."""
        now = self.clock()
        with self.database.write() as connection:
            forget_keys(connection, before=now - KEY_LIFETIME.total_seconds())
        due = conversations.c.expires_at <= now
        if unused_for is not None:
            due = or_(due, conversations.c.updated_at <= now - unused_for.total_seconds())
        deleted = self._delete(due, action=("", "expired", None))
        self.database.scrub()  # text that was erased by another process, or while a reader was in the way
        return deleted

    def _delete(self, *conditions: ColumnElement[bool], action: tuple[str, str, str | None]) -> int:
        tenant, name, detail = action
        with self.database.write() as connection:
            if not self.database.sqlite:  # lock the rows in the order of writes, so that nobody waits in a circle
                rows = select(conversations.c.id).where(*conditions).order_by(conversations.c.id)
                connection.execute(rows.with_for_update())
            deleted = connection.execute(delete(conversations).where(*conditions)).rowcount
            if deleted:
                record_action(connection, Action(self.clock(), tenant, name, detail or f"{deleted} conversations"))
        if deleted:
            with suppress(Unavailable):  # where a reader or a full disk is in the way, the next `expire` does it
                self.database.scrub()
        return deleted

    # Helpers

    def moment(self) -> dict[str, float]:
        """The parameter of `ALIVE`."""
        return {"now": self.clock()}

    def _expiry(self, now: float) -> float | None:
        return None if self.retention is None else now + self.retention.total_seconds()

    def _version(self, connection: Connection, tenant: str, conversation: str) -> int:
        mine = and_(conversations.c.tenant == tenant, conversations.c.id == conversation, ALIVE)
        query = select(conversations.c.version).where(mine)
        version: int | None = connection.execute(query, self.moment()).scalar()
        if version is None:
            raise not_found(conversation)
        return version


def read_entries(connection: Connection, conversation: str, *, upto: int, after: int = 0) -> list[Entry]:
    numbers = entries.c.version.between(after + 1, upto)
    query = select(entries.c.entry).where(entries.c.conversation == conversation, numbers)
    rows = connection.execute(query.order_by(entries.c.version))
    return [Entry.from_json(json.loads(row.entry)) for row in rows]


# Rows


def _insert(connection: Connection, rows: Sequence[PreparedWrite], now: float) -> None:
    if not rows:
        return
    connection.execute(
        _UPDATE,
        [
            {
                "row": row.write.conversation,
                "version": row.write.result.version,
                "snapshot": row.snapshot,
                "updated_at": now,
                "expires_at": row.expires_at,
                "added": row.added,
            }
            for row in rows
        ],
    )
    connection.execute(
        _INSERT,
        [_entry_row(row.write.conversation, row.write.result.entry, row.entry) for row in rows],
    )
    used = [(row.write.conversation, use) for row in rows if (use := _schema_used(row.write))]
    if used:
        insert_uses(connection, [(tenant, conversation, schema) for conversation, (tenant, schema) in used])


def _schema_used(write: Write) -> tuple[str, str] | None:
    """The tenant and the id of the schema that a write changes to."""
    change = write.result.entry.schema
    return (write.tenant, change.after) if change and change.after else None


def _entry_row(conversation: str, entry: Entry, text: str) -> dict[str, Any]:
    about = {"version": entry.version, "kind": entry.kind, "source": entry.source}
    return {"conversation": conversation, **about, "entry": text}


def _record_of(row: Row[Any]) -> Record:
    snapshot = Snapshot.from_json(json.loads(row.snapshot))
    return Record(row.id, row.tenant, row.subject, row.created_at, row.updated_at, row.expires_at, snapshot)


def _record_or_error(row: Row[Any]) -> Record | StoreError:
    try:
        with _intact(row.id):
            return _record_of(row)
    except StoreError as error:
        return error


@contextmanager
def _intact(id: str) -> Iterator[None]:
    """What is stored of a conversation is read here."""
    try:
        yield
    except (ValueError, StateError) as error:  # ValueError: not even JSON
        raise StoreError(f"The stored conversation {id} is damaged: `somdst store verify` says how.") from error


def _row_of(record: Record) -> dict[str, Any]:
    columns = ("id", "tenant", "subject", "created_at", "updated_at", "expires_at", "version")
    return {name: getattr(record, name) for name in columns} | {"snapshot": dump(record.snapshot)}
