"""What was erased and which keys came and went, for whoever has to account for it: `Action`, one row each.

An erasure is noted in the transaction that does it, so there is none without the other. A key is noted when a service
has read it (`service/housekeeping.py`). A note has nothing of what was erased: no subject and no words, only the id of
a conversation or how many there were. No row is changed or removed.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, insert, select

from somdst.store.database import Database
from somdst.store.layout import actions

ADDED, REMOVED = "key added", "key removed"


@dataclass(frozen=True, slots=True)
class Action:
    at: float
    """Seconds since 1970."""
    tenant: str
    """Empty where all tenants were meant."""
    action: str
    """`conversation erased`, `subject erased`, `expired`, `key added` or `key removed`."""
    detail: str
    """The id of the conversation or of the key, or how many conversations."""


def record_action(connection: Connection, action: Action) -> None:
    connection.execute(insert(actions).values({"id": secrets.token_hex(16), **asdict(action)}))


def read_actions(database: Database) -> Iterator[Action]:
    """All actions, oldest first."""
    with database.read() as connection:
        for row in connection.execute(select(actions).order_by(actions.c.at, actions.c.id)):
            yield Action(row.at, row.tenant, row.action, row.detail)


def record_keys(database: Database, keys: Mapping[str, str], now: float) -> None:
    """Note which keys are new and which are gone since they were last noted. `keys`: tenant by the key's id."""
    query = select(actions).where(actions.c.action.in_((ADDED, REMOVED))).order_by(actions.c.at, actions.c.id)
    with database.write() as connection:
        if not database.sqlite:  # where a write transaction does not lock out others: replicas note one after the other
            connection.exec_driver_sql("LOCK TABLE actions IN SHARE ROW EXCLUSIVE MODE")
        noted = {row.detail: row for row in connection.execute(query)}
        before = {id: row.tenant for id, row in noted.items() if row.action == ADDED}
        for id, tenant in sorted(keys.items() - before.items()):
            record_action(connection, Action(now, tenant, ADDED, id))
        for id, tenant in sorted(before.items() - keys.items()):
            if id not in keys:
                record_action(connection, Action(now, tenant, REMOVED, id))
