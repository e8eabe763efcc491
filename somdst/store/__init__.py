"""Conversations in SQL, on SQLite or PostgreSQL: `Store`. Nothing here predicts, and nothing knows of HTTP."""

from somdst.errors import Conflict, KeyReused, NotFound, Unavailable
from somdst.store.auditing import Damage, export, verify
from somdst.store.conversations import Page, Record, Store
from somdst.store.schemas import StoredSchema
from somdst.store.writes import Key, Repeated, Write

__all__ = [
    "Conflict",
    "Damage",
    "Key",
    "KeyReused",
    "NotFound",
    "Page",
    "Record",
    "Repeated",
    "Store",
    "StoredSchema",
    "Unavailable",
    "Write",
    "export",
    "verify",
]
