"""Conversations in SQL, on SQLite or PostgreSQL: `Store`. Nothing here predicts, and nothing knows of HTTP."""

from somdst.store.actions import Action, read_actions, record_keys
from somdst.store.auditing import Damage, Usage, export, usage, verify
from somdst.store.conversations import Page, Record, Store
from somdst.store.copies import copy
from somdst.store.schemas import StoredSchema
from somdst.store.writes import Key, Repeated, Write

__all__ = [
    "Action",
    "Damage",
    "Key",
    "Page",
    "Record",
    "Repeated",
    "Store",
    "StoredSchema",
    "Usage",
    "Write",
    "copy",
    "export",
    "read_actions",
    "record_keys",
    "usage",
    "verify",
]
