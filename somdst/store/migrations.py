"""The numbered steps that bring a database of any age to today's tables. A released step never changes.

A step is SQL that SQLite and PostgreSQL both understand, or a function. Several processes may start at once: the first
one takes a lock and does the work, the others wait and find it done. There is no way back: take a copy before.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, inspect, text

from somdst.errors import SomdstError, StoreError
from somdst.store.layout import metadata
from somdst.store.writes import dump
from somdst.tracking import audit
from somdst.tracking.old_logs import read_log
from somdst.tracking.records import WINDOW, Snapshot

# Step 4: version 0.1.0 kept every turn in the snapshot, had no pointers between entries, and kept no answers


def rewrite_conversations(connection: Connection) -> None:
    """Rewrite snapshots, entries and idempotency keys, one conversation at a time."""
    last = ""
    while ids := list(connection.execute(_NEXT, {"last": last}).scalars()):
        for id in ids:
            _rewrite(connection, id)
        last = ids[-1]


def _rewrite(connection: Connection, id: str) -> None:
    row = connection.execute(_CONVERSATION, {"id": id}).one()
    log = list(connection.execute(_LOG, {"id": id}))
    texts, snapshots = _upgrade(row, log)
    connection.execute(_SET_SNAPSHOT, {"id": id, "snapshot": dump(snapshots[-1])})
    if log:
        connection.execute(
            _SET_ENTRY,
            [{"id": id, "version": item.version, "entry": entry} for item, entry in zip(log, texts, strict=True)],
        )
    for key in list(connection.execute(_KEYS, {"id": id})):
        answer = {
            "tenant": key.tenant,
            "key": key.key,
            "snapshot": dump(snapshots[min(key.version, len(snapshots) - 1)]),
            # As long after the request as the conversation now expires after its last use.
            "expires_at": row.expires_at and key.created_at + row.expires_at - row.updated_at,
        }
        connection.execute(_SET_ANSWER, answer)


def _upgrade(row: Any, log: list[Any]) -> tuple[list[str], list[Snapshot]]:
    """The texts of the entries, and the snapshot at every version."""
    data = [json.loads(item.entry) for item in log]
    try:
        entries = read_log(data)
        snapshots = list(audit.snapshots(entries))
        if [item.version for item in log] == list(range(1, row.version + 1)):
            return list(map(dump, entries)), snapshots
    except SomdstError:
        pass
    # A damaged log stays damaged, and `somdst store verify` says so. What can be read of the conversation is kept.
    texts = [json.dumps({"version": item.version, **entry}) for item, entry in zip(log, data, strict=True)]
    return texts, [_salvaged(json.loads(row.snapshot))]


def _salvaged(old: dict[str, Any]) -> Snapshot:
    """A snapshot of 0.1.0 without its log: the memory and the last turns, and nothing that can be undone."""
    recent = [{"number": 0, "turn": turn} for turn in old["turns"][-WINDOW:]]
    kept = {name: old[name] for name in ("version", "state", "pinned", "pending")}
    return Snapshot.from_json({**kept, "recent": recent, "turn_count": len(recent)})


_NEXT = text("SELECT id FROM conversations WHERE id > :last ORDER BY id LIMIT 1000")
_CONVERSATION = text("SELECT version, snapshot, updated_at, expires_at FROM conversations WHERE id = :id")
_LOG = text("SELECT version, entry FROM entries WHERE conversation = :id ORDER BY version")
_KEYS = text("SELECT tenant, key, version, created_at FROM idempotency_keys WHERE conversation = :id")
_SET_SNAPSHOT = text("UPDATE conversations SET snapshot = :snapshot WHERE id = :id")
_SET_ENTRY = text("UPDATE entries SET entry = :entry WHERE conversation = :id AND version = :version")
_SET_ANSWER = text(
    "UPDATE idempotency_keys SET snapshot = :snapshot, expires_at = :expires_at WHERE tenant = :tenant AND key = :key"
)


# All steps

MIGRATIONS: dict[int, tuple[str | Callable[[Connection], None], ...]] = {
    1: (
        """CREATE TABLE conversations (
            id VARCHAR(32) PRIMARY KEY,
            tenant VARCHAR(100) NOT NULL,
            created_at DOUBLE PRECISION NOT NULL,
            updated_at DOUBLE PRECISION NOT NULL,
            version INTEGER NOT NULL,
            snapshot TEXT NOT NULL)""",
        "CREATE INDEX conversations_by_tenant ON conversations (tenant, created_at, id)",
        """CREATE TABLE entries (
            conversation VARCHAR(32) NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
            version INTEGER NOT NULL,
            kind VARCHAR(20) NOT NULL,
            source VARCHAR(20) NOT NULL,
            entry TEXT NOT NULL,
            PRIMARY KEY (conversation, version))""",
    ),
    2: (
        """CREATE TABLE idempotency_keys (
            tenant VARCHAR(100) NOT NULL,
            key VARCHAR(200) NOT NULL,
            fingerprint VARCHAR(64) NOT NULL,
            conversation VARCHAR(32) NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
            version INTEGER NOT NULL,
            created_at DOUBLE PRECISION NOT NULL,
            PRIMARY KEY (tenant, key))""",
        "CREATE INDEX idempotency_keys_by_conversation ON idempotency_keys (conversation)",
        "CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at)",
    ),
    3: (
        "ALTER TABLE conversations ADD COLUMN subject VARCHAR(200)",
        "ALTER TABLE conversations ADD COLUMN expires_at DOUBLE PRECISION",
        "CREATE INDEX conversations_by_subject ON conversations (tenant, subject)",
        "CREATE INDEX conversations_by_expiry ON conversations (expires_at)",
    ),
    4: (
        "ALTER TABLE idempotency_keys ADD COLUMN snapshot TEXT NOT NULL DEFAULT '{}'",
        "ALTER TABLE idempotency_keys ADD COLUMN expires_at DOUBLE PRECISION",
        rewrite_conversations,
    ),
    5: (
        """CREATE TABLE schemas (
            tenant VARCHAR(100) NOT NULL,
            id VARCHAR(24) NOT NULL,
            created_at DOUBLE PRECISION NOT NULL,
            schema TEXT NOT NULL,
            PRIMARY KEY (tenant, id))""",
        "CREATE INDEX schemas_by_age ON schemas (tenant, created_at, id)",
        """CREATE TABLE schema_uses (
            conversation VARCHAR(32) NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
            tenant VARCHAR(100) NOT NULL,
            schema VARCHAR(24) NOT NULL,
            PRIMARY KEY (conversation, schema),
            FOREIGN KEY (tenant, schema) REFERENCES schemas (tenant, id))""",
        "CREATE INDEX schema_uses_by_schema ON schema_uses (tenant, schema)",
    ),
    6: (
        "DROP INDEX conversations_by_subject",  # listing a subject's conversations walked over all of the tenant's
        "CREATE INDEX conversations_by_subject ON conversations (tenant, subject, created_at, id)",
        "ALTER TABLE conversations ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0",
        """UPDATE conversations SET bytes = length(snapshot)
            + (SELECT coalesce(sum(length(entry)), 0) FROM entries WHERE entries.conversation = conversations.id)""",
        """CREATE TABLE actions (
            id VARCHAR(32) PRIMARY KEY,
            at DOUBLE PRECISION NOT NULL,
            tenant VARCHAR(100) NOT NULL,
            action VARCHAR(40) NOT NULL,
            detail VARCHAR(200) NOT NULL)""",
        "CREATE INDEX actions_by_time ON actions (at)",
    ),
    7: (  # the snapshots that are kept with keys count too
        """UPDATE conversations SET bytes = bytes + (SELECT coalesce(sum(length(idempotency_keys.snapshot)), 0)
            FROM idempotency_keys WHERE idempotency_keys.conversation = conversations.id)""",
    ),
}
LATEST = max(MIGRATIONS)

_LOCK = 0x50D57  # any number that nothing else locks in the same PostgreSQL database


def migrate(connection: Connection, *, upto: int = LATEST) -> list[int]:
    """Apply what is missing, in the connection's write transaction. Returns the numbers of the steps applied."""
    if connection.dialect.name == "postgresql":  # in SQLite the write transaction itself is the lock
        connection.execute(text("SET LOCAL statement_timeout = 0"))  # a step may take its time on a big table
        connection.execute(text("SET LOCAL lock_timeout = 0"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    applied = current(connection)
    refuse_newer(applied)
    if applied == 0:
        # A PostgreSQL database may have other tables beside ours, as long as no name is taken.
        ours = None if connection.dialect.name == "sqlite" else metadata.tables
        if others := [name for name in inspect(connection).get_table_names() if ours is None or name in ours]:
            raise _not_ours(f"a table {others[0]}")
        connection.execute(
            text("CREATE TABLE migrations (number INTEGER PRIMARY KEY, applied_at DOUBLE PRECISION NOT NULL)")
        )
    missing = [number for number in sorted(MIGRATIONS) if applied < number <= upto]
    for number in missing:
        for step in MIGRATIONS[number]:
            if isinstance(step, str):
                connection.execute(text(step))
            else:
                step(connection)
        connection.execute(text("INSERT INTO migrations VALUES (:number, :at)"), {"number": number, "at": time.time()})
    return missing


def check_layout(connection: Connection) -> None:
    """Refuse a database that is not up to date."""
    applied = current(connection)
    refuse_newer(applied)
    if applied == 0:
        others = inspect(connection).get_table_names()
        raise _not_ours(f"a table {others[0]}" if others else "no tables")
    if applied < LATEST:
        raise StoreError(
            f"The database is of an older somdst (layout {applied}, this one reads {LATEST}): make a copy with "
            "`somdst store backup`, then run `somdst store upgrade`."
        )


def _not_ours(what: str) -> StoreError:
    return StoreError(f"This is not a somdst database: it has {what}. Give another file or database.")


def refuse_newer(applied: int) -> None:
    if applied > LATEST:
        raise StoreError(
            f"The database was made by a newer somdst (layout {applied}, this one knows {LATEST}): upgrade somdst."
        )


def current(connection: Connection) -> int:
    """The last step that was applied; 0 for an empty database."""
    if not inspect(connection).has_table("migrations"):
        return 0
    if "number" not in {column["name"] for column in inspect(connection).get_columns("migrations")}:
        raise _not_ours("a table migrations that something else made")
    return int(connection.execute(text("SELECT max(number) FROM migrations")).scalar() or 0)
