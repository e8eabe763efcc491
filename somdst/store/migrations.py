"""Numbered steps that bring a database of any age to the present tables. A step that was released never changes.

Every step is plain SQL that SQLite and PostgreSQL both understand. Several processes may start at once: the first
takes a lock and does the work, the others wait and find it done. There is no way back: take a copy before.
"""

from __future__ import annotations

import time

from sqlalchemy import Connection, inspect, text

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
