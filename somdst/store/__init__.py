"""Conversations in SQL, on SQLite or PostgreSQL: `Store`. Nothing here predicts, and nothing knows of HTTP."""

from somdst.errors import Conflict, Full, KeyReused, NotFound, Unavailable
from somdst.store.auditing import Damage, export, verify
from somdst.store.conversations import Store
from somdst.store.records import Key, Page, Record, Repeated, Write

__all__ = [
    "Conflict",
    "Damage",
    "Full",
    "Key",
    "KeyReused",
    "NotFound",
    "Page",
    "Record",
    "Repeated",
    "Store",
    "Unavailable",
    "Write",
    "export",
    "verify",
]
