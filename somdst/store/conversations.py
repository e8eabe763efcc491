"""`Store`: conversations in a database, each an append-only log with a snapshot beside it.

A write names the version it was made from and is refused where the conversation has moved on, so that any number of
processes can share a database and none loses a turn. Many writes go into one transaction (`append_many`): one sync of
the disk for all of them. What to write is decided elsewhere: by the tracker and by `edits.py`.
Checking and exporting is `auditing.py`'s concern.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, delete, insert, or_, select, tuple_, update

from somdst.errors import Conflict, Full, KeyReused, NotFound, StoreError
from somdst.store.database import Database
from somdst.store.idempotency import claim_keys, find_keys, repeat, with_free_keys
from somdst.store.layout import conversations, entries, idempotency_keys
from somdst.store.records import Key, Page, Record, Repeated, Write, dump, record_of, row_of
from somdst.tracking.log import EMPTY, replay
from somdst.tracking.records import Entry, Snapshot

KEY_LIFETIME = timedelta(days=7)
MAX_ENTRIES = 2000  # a snapshot carries its turns, so that an endless conversation would get ever slower


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
        max_entries: int = MAX_ENTRIES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.database = Database(url)
        self.retention = retention
        self.max_entries = max_entries
        self.clock = clock
        self._unscrubbed = False

    def close(self) -> None:
        self.database.close()

    # Reading

    def read(self, tenant: str, conversation: str) -> Record:
        """One conversation of this tenant, or `NotFound`."""
        found = self.read_many([(tenant, conversation)])[0]
        if isinstance(found, StoreError):
            raise found
        return found

    def read_many(self, wanted: Sequence[tuple[str, str]]) -> list[Record | NotFound]:
        """Conversations by tenant and id, all in one query."""
        query = select(conversations).where(conversations.c.id.in_({id for _, id in wanted}), self.alive())
        with self.database.read() as connection:
            found = {(row.tenant, row.id): record_of(row) for row in connection.execute(query)}
        return [found.get(pair) or _not_found(pair[1]) for pair in wanted]

    def page(
        self, tenant: str, *, limit: int = 50, after: tuple[float, str] | None = None, subject: str | None = None
    ) -> Page:
        """A tenant's conversations, newest first; `after` is the `next` of the page before."""
        query = select(conversations).where(conversations.c.tenant == tenant, self.alive())
        if subject is not None:
            query = query.where(conversations.c.subject == subject)
        order = (conversations.c.created_at, conversations.c.id)
        if after is not None:
            query = query.where(tuple_(*order) < tuple_(*after))
        query = query.order_by(*(column.desc() for column in order)).limit(limit + 1)
        with self.database.read() as connection:
            records = [record_of(row) for row in connection.execute(query)]
        last = records[limit - 1] if len(records) > limit else None
        return Page(tuple(records[:limit]), (last.created_at, last.id) if last else None)

    def log(self, tenant: str, conversation: str, *, upto: int | None = None) -> list[Entry]:
        """The entries of a conversation from the first on; `upto` a version, or all."""
        with self.database.read() as connection:
            row = self._find(connection, tenant, conversation)
            upto = row.version if upto is None else upto
            if not 0 <= upto <= row.version:
                raise NotFound(f"The conversation {conversation} has versions 0 to {row.version}, not {upto}.")
            return read_log(connection, conversation, upto=upto)

    def at(self, tenant: str, conversation: str, version: int) -> Snapshot:
        """The conversation as it was at a past version."""
        return replay(self.log(tenant, conversation, upto=version))

    def entry(self, tenant: str, conversation: str, version: int) -> Entry:
        """The entry that made this version."""
        with self.database.read() as connection:
            self._find(connection, tenant, conversation)
            query = select(entries.c.entry).where(entries.c.conversation == conversation, entries.c.version == version)
            text = connection.execute(query).scalar()
        if text is None:
            raise NotFound(f"The conversation {conversation} has no entry {version}.")
        return Entry.from_json(json.loads(text))

    def find_keys(self, wanted: Sequence[tuple[str, Key]]) -> list[Repeated | KeyReused | None]:
        """For each tenant's key what the request with it did, None where it was not done before."""
        if not wanted:
            return []
        with self.database.read() as connection:
            return find_keys(connection, wanted)

    def ping(self) -> None:
        """Raises `Unavailable` where the database does not answer."""
        with self.database.read() as connection:
            connection.execute(select(1))

    # Writing

    def create(self, tenant: str, *, subject: str | None = None, key: Key | None = None) -> Record:
        """A new, empty conversation; with a key that was used before, the one that was made then."""
        now = self.clock()
        record = Record(secrets.token_hex(16), tenant, subject, now, now, self._expiry(now), EMPTY)
        with self.database.write() as connection:
            connection.execute(insert(conversations).values(row_of(record)))
            if key is None or claim_keys(connection, [(tenant, key, record.id, 0)], now):
                return record
            repeated = repeat(connection, tenant, key)
            connection.execute(delete(conversations).where(conversations.c.id == record.id))
        if isinstance(repeated, StoreError):
            raise repeated
        return self.read(tenant, repeated.conversation)

    def append(self, write: Write) -> Snapshot:
        """Add one entry, and give the snapshot after it; `Conflict` where the conversation has moved on."""
        outcome = self.append_many([write])[0]
        if isinstance(outcome, StoreError):
            raise outcome
        if isinstance(outcome, Repeated):
            return self.at(write.tenant, outcome.conversation, outcome.version)
        return outcome

    def append_many(self, writes: Sequence[Write]) -> list[Snapshot | Repeated | StoreError]:
        """Add entries to many conversations in one transaction, each for itself: one that is refused stops no other.

        All rows are locked in the order of their ids, then all keys in their order, so that two processes with
        overlapping batches wait for each other and never in a circle.
        """
        now = self.clock()
        outcomes: list[Snapshot | Repeated | StoreError | None] = [None] * len(writes)
        with self.database.write() as connection:
            versions = self._lock(connection, {write.conversation for write in writes})
            accepted: list[int] = []
            for i, write in enumerate(writes):
                refusal = self._refusal(write, versions.get((write.tenant, write.conversation)))
                if refusal:
                    outcomes[i] = refusal
                else:
                    accepted.append(i)
                    versions[write.tenant, write.conversation] = write.after.version
            accepted = with_free_keys(connection, writes, accepted, now)
            self._insert(connection, [writes[i] for i in accepted], now)
            for i in accepted:
                outcomes[i] = writes[i].after
            for i, write in enumerate(writes):
                outcomes[i] = outcomes[i] or repeat(connection, write.tenant, write.key)
        return [outcome for outcome in outcomes if outcome is not None]

    def _lock(self, connection: Connection, ids: set[str]) -> dict[tuple[str, str], int]:
        query = select(conversations.c.tenant, conversations.c.id, conversations.c.version)
        query = query.where(conversations.c.id.in_(ids), self.alive()).order_by(conversations.c.id).with_for_update()
        return {(row.tenant, row.id): row.version for row in connection.execute(query)}

    def _refusal(self, write: Write, version: int | None) -> StoreError | None:
        if version is None:
            return _not_found(write.conversation)
        if version != write.before:
            return Conflict(
                f"The conversation {write.conversation} is at version {version} and the change was made from version "
                f"{write.before}: read it again, then repeat the change.",
                version=version,
            )
        if version >= self.max_entries:
            return Full(
                f"The conversation {write.conversation} has {version} entries, the most there can be: start a new one."
            )
        return None

    def _insert(self, connection: Connection, writes: Sequence[Write], now: float) -> None:
        if not writes:
            return
        connection.execute(
            update(conversations).where(conversations.c.id == bindparam("row")),
            [
                {
                    "row": write.conversation,
                    "version": write.after.version,
                    "snapshot": dump(write.after),
                    "updated_at": now,
                    "expires_at": self._expiry(now),
                }
                for write in writes
            ],
        )
        connection.execute(
            insert(entries),
            [
                {
                    "conversation": write.conversation,
                    "version": write.after.version,
                    "kind": write.entry.kind,
                    "source": write.entry.source,
                    "entry": dump(write.entry),
                }
                for write in writes
            ],
        )

    # Erasing

    def erase(self, tenant: str, conversation: str) -> None:
        """Delete one conversation for good: its log, its snapshot, its keys."""
        if not self._delete(conversations.c.tenant == tenant, conversations.c.id == conversation):
            raise _not_found(conversation)

    def erase_subject(self, tenant: str, subject: str) -> int:
        """Delete all conversations of one subject for good, and say how many there were."""
        return self._delete(conversations.c.tenant == tenant, conversations.c.subject == subject)

    def expire(self, *, unused_for: timedelta | None = None) -> int:
        """Delete what has expired, for good, and what was not written to for so long; forget old idempotency keys.

        The number of conversations that were deleted."""
        now = self.clock()
        with self.database.write() as connection:
            oldest = now - KEY_LIFETIME.total_seconds()
            connection.execute(delete(idempotency_keys).where(idempotency_keys.c.created_at < oldest))
        due = conversations.c.expires_at <= now
        if unused_for is not None:
            due = or_(due, conversations.c.updated_at <= now - unused_for.total_seconds())
        deleted = self._delete(due)
        if self._unscrubbed:
            self._scrub()
        return deleted

    def _delete(self, *conditions: ColumnElement[bool]) -> int:
        with self.database.write() as connection:
            deleted = connection.execute(delete(conversations).where(*conditions)).rowcount
        if deleted:
            self._scrub()
        return deleted

    def _scrub(self) -> None:
        # Where a reader was in the way, `expire` tries again.
        self._unscrubbed = not self.database.scrub()

    # Helpers

    def alive(self) -> ColumnElement[bool]:
        return or_(conversations.c.expires_at.is_(None), conversations.c.expires_at > self.clock())

    def _expiry(self, now: float) -> float | None:
        return None if self.retention is None else now + self.retention.total_seconds()

    def _find(self, connection: Connection, tenant: str, conversation: str) -> Row[Any]:
        mine = and_(conversations.c.tenant == tenant, conversations.c.id == conversation, self.alive())
        row = connection.execute(select(conversations).where(mine)).one_or_none()
        if row is None:
            raise _not_found(conversation)
        return row


def read_log(connection: Connection, conversation: str, *, upto: int) -> list[Entry]:
    query = select(entries.c.entry).where(entries.c.conversation == conversation, entries.c.version <= upto)
    rows = connection.execute(query.order_by(entries.c.version))
    return [Entry.from_json(json.loads(row.entry)) for row in rows]


def _not_found(conversation: str) -> NotFound:
    return NotFound(f"There is no conversation {conversation}: it was never made, was erased or has expired.")
