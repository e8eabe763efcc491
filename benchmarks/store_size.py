#!/usr/bin/env python
"""What a store costs as it grows: `python benchmarks/store_size.py --conversations 1000000`.

First as one conversation gets longer, then as there are more conversations: a tenth, then all of them. Each figure is
the median of some repeats, in milliseconds. Does not run a model. `--database` takes PostgreSQL too; what was there
before stays, and what this wrote is erased at the end. `--postgres` starts a server of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from conversation_length import TENANT, fill, measure, spoken
from postgres import own_postgres
from sqlalchemy import delete, insert

from somdst.cli import options
from somdst.cli.main import run_alone
from somdst.cli.output import print_json, print_tables, working
from somdst.errors import InputError
from somdst.evaluate.tables import Table
from somdst.store import Key, Store, Write
from somdst.store.auditing import usage
from somdst.store.database import count_rows
from somdst.store.layout import conversations, entries, idempotency_keys
from somdst.store.writes import dump

LENGTHS = (10, 1_000, 20_000)
BATCH = 10_000
SUBJECTS = 10
"""Conversations per subject."""
TURNS = 8
"""In a batch."""
SPREAD = 300
"""Conversations for each repeat, so that at a tenth of them what is read and what is erased are different ones."""


def main(
    database: Annotated[str | None, typer.Option(help="A file or URL to write to. Default: a new file.")] = None,
    number: Annotated[int, typer.Option("--conversations", min=100, help="Conversations to store.")] = 20_000,
    longest: Annotated[int, typer.Option(min=10, help="Leave out longer conversations.")] = LENGTHS[-1],
    repeats: Annotated[int, typer.Option(min=1, help="How often each thing is measured.")] = 50,
    postgres: Annotated[bool, typer.Option(help="On a PostgreSQL of this machine instead of a new file.")] = False,
    as_json: options.JsonOption = False,
) -> None:
    if number < SPREAD * repeats:
        raise InputError(f"{repeats} repeats need at least {SPREAD * repeats:,} conversations: give fewer repeats.")
    if postgres and database:
        raise InputError("Give either --database or --postgres.")
    with ExitStack() as stack, working("measuring"):
        if postgres:
            database = stack.enter_context(own_postgres()).new_database()
        folder = stack.enter_context(TemporaryDirectory())
        store = Store(database or str(Path(folder) / "conversations.sqlite"))
        by_length = [measure(store, length, repeats=repeats) for length in LENGTHS if length <= longest]
        by_number: list[dict[str, float]] = []
        for start, end in ((0, number // 10), (number // 10, number)):
            stock(store, start, end)
            by_number.append(measure_store(store, end, repeats=repeats))
        clear(store)
        store.close()
    if as_json:
        print_json({"by_length": by_length, "by_number": by_number})
        return
    print_tables([_table("A conversation as it grows", by_length), _table("A store as it grows", by_number)])


def _table(title: str, rows: list[dict[str, float]]) -> Table:
    cells = tuple(tuple(row.values()) for row in rows)
    return Table(title.replace(" ", "-"), title, tuple(rows[0]), cells, "Medians in milliseconds.")


def stock(store: Store, start: int, end: int) -> None:
    """Write conversations with one turn and its key each, many per transaction. Their ids are their numbers."""
    template = fill(store, 1)
    record, [entry] = store.read(TENANT, template), store.log(TENANT, template)
    text, said = dump(record.snapshot), dump(entry)
    now = store.clock()
    for first in range(start, end, BATCH):
        numbers = range(first, min(end, first + BATCH))
        made = [
            {
                "id": id_of(number),
                "tenant": TENANT,
                "created_at": now + number,
                "updated_at": now + number,
                "version": 1,
                "snapshot": text,
                "subject": subject_of(number),
                "expires_at": now + 1e9,
            }
            for number in numbers
        ]
        logs = [
            {"conversation": id_of(number), "version": 1, "kind": "turn", "source": "model", "entry": said}
            for number in numbers
        ]
        keys = [
            {
                "tenant": TENANT,
                "key": f"key-{id_of(number)}",
                "fingerprint": "f" * 64,
                "conversation": id_of(number),
                "version": 1,
                "created_at": now,
                "snapshot": text,
            }
            for number in numbers
        ]
        with store.database.write() as connection:
            connection.execute(insert(conversations), made)
            connection.execute(insert(entries), logs)
            connection.execute(insert(idempotency_keys), keys)
    with store.database.write() as connection:
        count_rows(connection)
    store.erase(TENANT, template)


def id_of(number: int) -> str:
    return f"{number:032x}"


def subject_of(number: int) -> str:
    return f"subject-{number // SUBJECTS}"


def measure_store(store: Store, number: int, *, repeats: int) -> dict[str, float]:
    """Milliseconds of each operation among so many conversations, and of counting them all."""
    work = {"usage": lambda _: usage(store, TENANT), **operations(store, number, repeats)}
    row: dict[str, float] = {"conversations": number}
    for name, one in work.items():
        times: list[float] = []
        for repeat in range(repeats):
            began = time.perf_counter()
            one(repeat)
            times.append((time.perf_counter() - began) * 1000)
        row[name] = median(times)
    return row


def operations(store: Store, number: int, repeats: int) -> dict[str, Callable[[int], object]]:
    """What is done to a store with so many conversations, at most `repeats` times each. Whole subjects are erased from
    the end, and single conversations before them."""
    middle, single = number // 2, number - SUBJECTS * repeats - 1
    page = store.page(TENANT, limit=50)

    def turn(repeat: int) -> object:
        record = store.read(TENANT, id_of(middle + repeat))
        return store.append(Write(TENANT, record.id, spoken(record.snapshot, repeat)))

    def batch(repeat: int) -> object:
        """Turns of several conversations in one transaction, each with a key, as the service writes them."""
        ids = [id_of(single // 4 + TURNS * repeat + one) for one in range(TURNS)]
        records = [store.read(TENANT, id) for id in ids]
        keys = [Key(f"turn-{repeat}-{number}-{one}", "f") for one in range(TURNS)]
        store.find_keys([(tenant, key) for tenant in (TENANT, "another") for key in keys])
        made = zip(records, keys, strict=True)
        return store.append_many([Write(TENANT, one.id, spoken(one.snapshot, repeat), key) for one, key in made])

    return {
        "read": lambda repeat: store.read(TENANT, id_of(middle + repeat)),
        "log": lambda repeat: store.log(TENANT, id_of(middle + repeat)),
        "turn": turn,
        "batch": batch,
        "create": lambda _: store.create(TENANT, subject="new"),
        "first page": lambda _: store.page(TENANT, limit=50),
        "next page": lambda _: store.page(TENANT, limit=50, after=page.next),
        "page of a subject": lambda repeat: store.page(TENANT, limit=50, subject=subject_of(repeat * SUBJECTS)),
        "erase": lambda repeat: store.erase(TENANT, id_of(single - repeat)),
        "erase a subject": lambda repeat: store.erase_subject(TENANT, subject_of(number - SUBJECTS * repeat - 1)),
        "expire": lambda _: store.expire(),
    }


def clear(store: Store) -> None:
    with store.database.write() as connection:
        connection.execute(delete(conversations).where(conversations.c.tenant == TENANT))


if __name__ == "__main__":
    run_alone(main)
