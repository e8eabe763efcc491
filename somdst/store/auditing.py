"""What an operator does with a whole store: check every log against its snapshot, count, export corrected dialogues."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select

from somdst.errors import SomdstError, StateError, StoreError
from somdst.memory.dialogue import Dialogue
from somdst.store.conversations import ALIVE, Store, read_entries
from somdst.store.layout import conversations, entries, schemas
from somdst.tracking import audit
from somdst.tracking.log import replay
from somdst.tracking.records import Snapshot


@dataclass(frozen=True, slots=True)
class Damage:
    """A conversation that cannot be read, or whose log and snapshot disagree."""

    conversation: str
    problem: str


def verify(store: Store) -> Iterator[Damage | None]:
    """Replay every conversation of every tenant. Yields for each what is wrong with it, or None."""
    for id in _ids(store):
        with store.database.read() as connection:
            query = select(conversations.c.version, conversations.c.snapshot).where(conversations.c.id == id)
            row = connection.execute(query).one_or_none()
            if row is None:  # erased in the meantime
                continue
            count = select(entries.c.version).where(entries.c.conversation == id).order_by(entries.c.version)
            numbers = list(connection.execute(count).scalars())
            problem = None
            if numbers != list(range(1, row.version + 1)):
                problem = f"its version is {row.version} and its log has the entries {_ranges(numbers)}"
            else:
                try:
                    log = read_entries(connection, id, upto=row.version)
                    snapshot = replay(log)
                    if snapshot != Snapshot.from_json(json.loads(row.snapshot)):
                        problem = "its log does not replay to its snapshot"
                    elif snapshot.recent != audit.recent_turns(log):
                        problem = "an undo brought back another turn than the one that was dropped"
                except (SomdstError, json.JSONDecodeError) as error:
                    problem = f"its log cannot be replayed: {error}"
        yield Damage(id, problem) if problem else None


@dataclass(frozen=True, slots=True)
class Usage:
    """What a tenant has stored."""

    conversations: int
    stored_bytes: int
    """Characters of all logs, of the snapshots as they were at the start, of those kept with idempotency keys, and of
    stored schemas."""


def usage(store: Store, tenant: str) -> Usage:
    """Counted now; takes as long as the tenant has conversations and schemas."""
    query = select(func.count(), func.coalesce(func.sum(conversations.c.bytes), 0))
    texts = select(func.coalesce(func.sum(func.length(schemas.c.schema)), 0))
    with store.database.read() as connection:
        count, stored = connection.execute(query.where(conversations.c.tenant == tenant)).one()
        written = connection.execute(texts.where(schemas.c.tenant == tenant)).scalar_one()
    return Usage(count, int(stored) + int(written))


def export(
    store: Store,
    *,
    tenant: str | None = None,
    every: bool = False,
    redacted: Sequence[str] = (),
    damaged: Callable[[Damage], object] | None = None,
) -> Iterator[Dialogue]:
    """Conversations that a person corrected, as dialogues to train on; with `every`, all that have a turn. Private
    values are hidden: of the slots that a conversation's own log and schema name, and of `redacted`. A damaged
    conversation is left out, and `damaged` is told; without it, it is an error."""
    damaged = damaged or _refuse
    for id in _ids(store, tenant=tenant, alive=True):
        with store.database.read() as connection:
            query = select(conversations.c.tenant, conversations.c.version).where(conversations.c.id == id)
            row = connection.execute(query).one_or_none()
            try:
                log = read_entries(connection, id, upto=row.version) if row else []
            except (StateError, ValueError) as error:  # ValueError: not even JSON
                damaged(Damage(id, str(error)))
                continue
        if row is None or not (every or audit.corrected(log)):
            continue
        try:
            own = replay(log).schema
            schema = store.schemas.of_conversation(row.tenant, own) if own else None
            dialogue = audit.to_dialogue(log, id=id, schema=schema, redacted=redacted)
        except StateError as error:
            damaged(Damage(id, str(error)))
            continue
        if dialogue.turns:
            yield dialogue


def _refuse(damage: Damage) -> None:
    raise StoreError(
        f"The conversation {damage.conversation} cannot be exported: {damage.problem} See `somdst store verify`."
    )


def _ids(store: Store, *, tenant: str | None = None, alive: bool = False) -> Iterator[str]:
    """The ids of all conversations, a thousand per query, so that no transaction is open for long. With `alive`, those
    that have expired are left out."""
    last = ""
    while True:
        query = select(conversations.c.id).where(conversations.c.id > last)
        if tenant is not None:
            query = query.where(conversations.c.tenant == tenant)
        if alive:
            query = query.where(ALIVE).params(store.moment())
        with store.database.read() as connection:
            ids = list(connection.execute(query.order_by(conversations.c.id).limit(1000)).scalars())
        if not ids:
            return
        yield from ids
        last = ids[-1]


def _ranges(numbers: list[int]) -> str:
    return f"{numbers[0]} to {numbers[-1]} ({len(numbers)} of them)" if numbers else "none"
