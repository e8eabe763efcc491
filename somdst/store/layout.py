"""The tables, and the numbered steps that bring a database of any age to them. A released step never changes.

Every step is plain SQL that SQLite and PostgreSQL both understand. Several processes may start at once: the first
takes a lock and does the work, the others wait and find it done. There is no way back: take a copy before.
"""

from __future__ import annotations

import time

from sqlalchemy import (
    Column,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    inspect,
    text,
)

from somdst.errors import StoreError

MIGRATIONS: dict[int, tuple[str, ...]] = {
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
}
LATEST = max(MIGRATIONS)

_LOCK = 0x50D57  # any number that nothing else locks in the same PostgreSQL database


def migrate(connection: Connection, *, upto: int = LATEST) -> list[int]:
    """Apply what is missing, within the connection's write transaction; the numbers of the steps that were applied."""
    if connection.dialect.name == "postgresql":  # in SQLite the write transaction itself is the lock
        connection.execute(text("SET LOCAL statement_timeout = 0"))  # a step may take its time on a big table
        connection.execute(text("SET LOCAL lock_timeout = 0"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    applied = current(connection)
    if applied > LATEST:
        raise StoreError(
            f"The database was made by a newer somdst (layout {applied}, this one knows {LATEST}): upgrade somdst."
        )
    if applied == 0:
        connection.execute(
            text("CREATE TABLE migrations (number INTEGER PRIMARY KEY, applied_at DOUBLE PRECISION NOT NULL)")
        )
    missing = [number for number in sorted(MIGRATIONS) if applied < number <= upto]
    for number in missing:
        for statement in MIGRATIONS[number]:
            connection.execute(text(statement))
        connection.execute(text("INSERT INTO migrations VALUES (:number, :at)"), {"number": number, "at": time.time()})
    return missing


def current(connection: Connection) -> int:
    """The last step that was applied; 0 for an empty database."""
    if not inspect(connection).has_table("migrations"):
        return 0
    return int(connection.execute(text("SELECT max(number) FROM migrations")).scalar() or 0)


# The tables as they are after the last step; a test compares the two

metadata = MetaData()

conversations = Table(
    "conversations",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("tenant", String(100), nullable=False),
    Column("created_at", Double, nullable=False),  # seconds since 1970, in all tables
    Column("updated_at", Double, nullable=False),
    Column("version", Integer, nullable=False),  # how many entries the log has
    Column("snapshot", Text, nullable=False),  # JSON: what the log replays to
    Column("subject", String(200)),  # whom the conversation is about, for erasure
    Column("expires_at", Double),
    Index("conversations_by_tenant", "tenant", "created_at", "id"),
    Index("conversations_by_subject", "tenant", "subject"),
    Index("conversations_by_expiry", "expires_at"),
)

entries = Table(
    "entries",
    metadata,
    Column("conversation", String(32), ForeignKey("conversations.id", ondelete="CASCADE"), primary_key=True),
    Column("version", Integer, primary_key=True),  # 1 for the first entry
    Column("kind", String(20), nullable=False),
    Column("source", String(20), nullable=False),
    Column("entry", Text, nullable=False),  # JSON
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("tenant", String(100), primary_key=True),
    Column("key", String(200), primary_key=True),
    Column("fingerprint", String(64), nullable=False),  # of the request: another request may not use the key
    Column("conversation", String(32), ForeignKey("conversations.id", ondelete="CASCADE"), nullable=False),
    Column("version", Integer, nullable=False),  # the answer is the conversation at this version
    Column("created_at", Double, nullable=False),
    Index("idempotency_keys_by_conversation", "conversation"),
    Index("idempotency_keys_by_age", "created_at"),
)

migrations = Table(
    "migrations",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("applied_at", Double, nullable=False),
)
