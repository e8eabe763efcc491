"""The tables, as they are after the last migration (`migrations.py`); a test compares the two."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

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
    # its first snapshot, its log and its keys, as text
    Column("bytes", BigInteger, nullable=False, server_default="0"),
    Index("conversations_by_tenant", "tenant", "created_at", "id"),
    Index("conversations_by_subject", "tenant", "subject", "created_at", "id"),
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
    Column("version", Integer, nullable=False),  # that the request made
    Column("created_at", Double, nullable=False),
    Column("snapshot", Text, nullable=False),  # JSON: what was answered
    Column("expires_at", Double),  # of the conversation, as it was answered
    Index("idempotency_keys_by_conversation", "conversation"),
    Index("idempotency_keys_by_age", "created_at"),
)

schemas = Table(
    "schemas",
    metadata,
    Column("tenant", String(100), primary_key=True),
    Column("id", String(24), primary_key=True),  # a hash of the content
    Column("created_at", Double, nullable=False),
    Column("schema", Text, nullable=False),  # JSON
    Index("schemas_by_age", "tenant", "created_at", "id"),
)

schema_uses = Table(  # every schema that the log of a conversation names: they stay until it is erased
    "schema_uses",
    metadata,
    Column("conversation", String(32), ForeignKey("conversations.id", ondelete="CASCADE"), primary_key=True),
    Column("tenant", String(100), nullable=False),
    Column("schema", String(24), primary_key=True),
    ForeignKeyConstraint(["tenant", "schema"], ["schemas.tenant", "schemas.id"]),
    Index("schema_uses_by_schema", "tenant", "schema"),
)

actions = Table(
    "actions",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("at", Double, nullable=False),
    Column("tenant", String(100), nullable=False),  # empty where all tenants were meant
    Column("action", String(40), nullable=False),
    Column("detail", String(200), nullable=False),
    Index("actions_by_time", "at"),
)

migrations = Table(
    "migrations",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("applied_at", Double, nullable=False),
)
