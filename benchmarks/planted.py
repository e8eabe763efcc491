"""Bugs to plant into the store of a replica, to show that the torture finds them: `PLANTS`.

Each replaces a function by one that does less. A name that no longer exists in the store is an error, not a plant
without effect. Does not look for them (`hunt` in `torture.py`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlalchemy import Connection, Insert, delete

from somdst.store import Key, Record, Store, writes
from somdst.store import conversations as module
from somdst.store import database as connections
from somdst.store.layout import entries
from somdst.store.writes import PreparedWrite
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

    def replacing(real: Callable[..., None]) -> Callable[..., None]:
        def insert(connection: Connection, rows: Sequence[PreparedWrite], now: float) -> None:
            for row in rows:
                same = entries.c.conversation == row.write.conversation, entries.c.version == row.write.result.version
                connection.execute(delete(entries).where(*same))
            real(connection, rows, now)

        return insert

    swap(module, "refusal", lambda real: lambda write, version: real(write, None if version is None else write.before))
    swap(module, "_insert", replacing)


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
    """The version of a conversation and its entry are written in two transactions. Between them is a pause, without
    which kills and reads would hardly ever fall there."""

    def split(real: Callable[..., Any]) -> Callable[..., Any]:
        def append_many(store: Store, many: Sequence[Any]) -> Any:
            _KEPT.list = []
            outcomes = real(store, many)
            time.sleep(0.2)
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
    swap(Store, "moment", lambda real: lambda store: {"now": 0.0})


@dataclass(frozen=True, slots=True)
class Plant:
    install: Callable[[], None]
    breaks: frozenset[str]
    """Promises; a run finds at least one of them broken."""
    faults: tuple[str, ...] = ()
    """Those that bring it out: one for each kind of database."""
    portable: bool = True
    """False: it is a bug on SQLite only."""


PLANTS = {
    "version-check": Plant(version_check, frozenset({"versions", "durable"})),
    "key-check": Plant(key_check, frozenset({"keys"})),
    "create": Plant(doubled_create, frozenset({"keys"})),
    "fsync": Plant(fsync, frozenset({"durable"}), ("power cuts", "database restarts")),
    "transaction": Plant(transaction, frozenset({"prefixes", "replay", "versions", "durable"}), ("kills",)),
    "replay": Plant(skipping_replay, frozenset({"replay"})),
    "stale-read": Plant(stale_read, frozenset({"order"})),
    "erasure": Plant(erasure, frozenset({"erased"}), portable=False),
    "expiry": Plant(late_expiry, frozenset({"expired"})),
}
