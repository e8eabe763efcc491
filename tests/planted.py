"""Bugs to plant into the store of a replica, so that a test can show that the torture finds them.

Each replaces a function by one that does less. A name that no longer exists in the store is an error, not a plant
without effect.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import Connection, Insert

from somdst.store import Key, Record, Store, Unavailable, writes
from somdst.store import conversations as module
from somdst.store import database as connections
from somdst.tracking.records import Entry, Snapshot


def swap(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Put what `make` makes of the real one in its place."""
    setattr(owner, name, make(getattr(owner, name)))


def pragma(setting: str) -> None:
    """Every connection to SQLite gets this setting last."""

    def set_up(real: Callable[..., None], connection: Any, record: object) -> None:
        real(connection, record)
        connection.execute(f"PRAGMA {setting}")

    swap(connections, "_set_up_sqlite", lambda real: partial(set_up, real))


def version_check() -> None:
    """The last writer wins. Both parts are needed: alone, the table's key would still refuse a version given twice."""
    swap(module, "refusal", lambda real: lambda write, version: real(write, None if version is None else write.before))
    swap(module, "insert", lambda real: lambda table: real(table).prefix_with("OR REPLACE"))


def key_check() -> None:
    """Every key is new."""
    for owner in (module, writes):
        swap(owner, "claim_keys", lambda real: lambda _, claims, now: {(one.tenant, one.key.key) for one in claims})
    swap(module, "find_keys", lambda real: lambda _, wanted: [None] * len(wanted))


def doubled_create() -> None:
    """A create that comes again gets the same answer, and makes another conversation that nobody hears of."""

    def doubled(real: Callable[..., Record]) -> Callable[..., Record]:
        def create(store: Store, tenant: str, *, key: Key | None = None, **options: Any) -> Record:
            if key is not None and store.find_keys([(tenant, key)])[0] is not None:
                real(store, tenant, **options)
            return real(store, tenant, key=key, **options)

        return create

    swap(Store, "create", doubled)


def fsync() -> None:
    """A commit is answered before it is on the disk."""
    pragma("synchronous=OFF")
    swap(
        connections, "_postgres_limits", lambda real: lambda url: {**real(url), "options": "-c synchronous_commit=off"}
    )


class Late:
    """A connection that keeps what is to be inserted for later."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def execute(self, statement: Any, rows: Any) -> Any:
        if isinstance(statement, Insert):
            _KEPT.list.append((statement, rows))
            return None
        return self.connection.execute(statement, rows)


_KEPT = threading.local()


def transaction() -> None:
    """The version of a conversation and its entry are written in two transactions, and the second one may fail."""
    batches = itertools.count(1)

    def split(real: Callable[..., Any]) -> Callable[..., Any]:
        def append_many(store: Store, many: Sequence[Any]) -> Any:
            _KEPT.list = []
            outcomes = real(store, many)
            if next(batches) % 5 == 0:
                raise Unavailable("The disk is full.")
            for statement, rows in _KEPT.list:
                with store.database.write() as connection:
                    connection.execute(statement, rows)
            return outcomes

        return append_many

    swap(module, "_insert", lambda real: lambda connection, rows, now: real(Late(connection), rows, now))
    swap(Store, "append_many", split)


def skipping_replay() -> None:
    """A past version is shown without its last entry."""

    def skipping(real: Callable[..., Snapshot]) -> Callable[..., Snapshot]:
        def replay(entries: Sequence[Entry]) -> Snapshot:
            return replace(real(entries[:-1]), version=len(entries))

        return replay

    swap(module, "replay", skipping)


def stale_read() -> None:
    """A replica shows a conversation as it first saw it."""
    seen: dict[tuple[str, str], Record] = {}

    def kept(real: Callable[..., Record]) -> Callable[..., Record]:
        def read(store: Store, tenant: str, conversation: str) -> Record:
            record = real(store, tenant, conversation)
            return seen.setdefault((tenant, conversation), record)

        return read

    swap(Store, "read", kept)


def erasure() -> None:
    """Erased text stays in the file."""
    pragma("secure_delete=OFF")


def late_expiry() -> None:
    """A conversation that has expired is served until it is erased."""
    swap(Store, "alive", lambda real: lambda store: module.conversations.c.id.is_not(None))


PLANTS: dict[str, Callable[[], None]] = {
    "version-check": version_check,
    "key-check": key_check,
    "create": doubled_create,
    "fsync": fsync,
    "transaction": transaction,
    "replay": skipping_replay,
    "stale-read": stale_read,
    "erasure": erasure,
    "expiry": late_expiry,
}
