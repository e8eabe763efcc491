#!/usr/bin/env python
"""Tries to make the service break its contract (docs/contract.md): `python benchmarks/torture.py --seed 7`.

Many clients write to a few conversations through several replicas on one database, repeat what got no answer, send
requests twice, reuse keys and hang up. Meanwhile replicas are killed and paused and the database breaks (`nemesis.py`).
Every call is recorded, and at the end `history.py` says what contradicts the contract. Exit code 1 if anything does.

    python benchmarks/torture.py                                        replicas of its own on a new SQLite file
    python benchmarks/torture.py --postgres                             ... on a PostgreSQL of its own, which it crashes
    python benchmarks/torture.py --database postgresql://me@host/empty  ... on yours; it drops connections
    python benchmarks/torture.py --url http://a:8000 --url http://b:8000   your own replicas: it only uses them
    python benchmarks/torture.py --plant all                            how soon it finds bugs that it plants itself

Bounded by `--writes` (some more are sent where the faults are not done by then) and `--seconds`. The same seed makes
the same requests and faults; how they fall together is up to the machine, and no verdict depends on how fast that is.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from clients import Bounds, Clients
from history import History, Stored, Violation, check, count
from nemesis import DAY, RETENTION, Nemesis, Replica, start_replicas
from planted import PLANTS
from postgres import PostgresServer, own_postgres
from sqlalchemy import MetaData, select

from somdst.cli import options
from somdst.cli.main import run_alone
from somdst.cli.output import print_json, print_tables, working
from somdst.errors import InputError
from somdst.evaluate.tables import Table
from somdst.store import Store, verify
from somdst.store.layout import conversations as conversation_table
from somdst.store.layout import entries as entry_table
from somdst.tracking.records import Entry


@dataclass(frozen=True, slots=True)
class Outcome:
    counts: dict[str, int]
    violations: list[Violation]


def main(
    url: Annotated[
        list[str] | None, typer.Option(help="A running replica; may be given again. No faults then.")
    ] = None,
    api_key: Annotated[str | None, typer.Option(help="Key of a tenant at these replicas.")] = None,
    database: Annotated[str | None, typer.Option(help="An empty PostgreSQL database to start replicas on.")] = None,
    postgres: Annotated[bool, typer.Option(help="Start a PostgreSQL of this machine, and crash it too.")] = False,
    seed: Annotated[int, typer.Option(help="Of the first run; the next one has the next seed.")] = 1,
    runs: Annotated[int, typer.Option(min=1)] = 1,
    replicas: Annotated[int, typer.Option(min=1, max=8, help="How many replicas to start.")] = 2,
    writers: Annotated[int, typer.Option(min=1, max=100, help="Clients at once.")] = 6,
    writes: Annotated[int, typer.Option(min=1, help="Requests of all clients, without repeats.")] = 600,
    faults: Annotated[int, typer.Option(min=0, help="How often something is broken.")] = 20,
    seconds: Annotated[float, typer.Option(min=1, help="No new request after this time.")] = 120.0,
    plant: Annotated[
        str | None, typer.Option(help="Plant a bug into the store and look for it: a name of planted.py, or all.")
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    if plant is not None:
        if url or database:
            raise InputError("Bugs are planted into a database of their own: leave out --url and --database.")
        hunt_all(plant, postgres=postgres, seed=seed, seconds=seconds, as_json=as_json)
        return
    bounds = Bounds(writers=writers, writes=writes, faults=faults, seconds=seconds)
    outcomes: list[Outcome] = []
    with working("torturing") as show:
        for number in range(seed, seed + runs):
            show(f"seed {number}")
            if url:
                outcomes.append(torture_running(url, seed=number, bounds=bounds, api_key=api_key))
                continue
            with _database(database, postgres=postgres) as (target, server):
                outcomes.append(torture(target, seed=number, bounds=bounds, replicas=replicas, server=server))
    violations = [violation for outcome in outcomes for violation in outcome.violations]
    names = list(dict.fromkeys(name for outcome in outcomes for name in outcome.counts))
    counts = {name: sum(outcome.counts.get(name, 0) for outcome in outcomes) for name in names}
    if as_json:
        print_json({"runs": runs, "counts": counts, "violations": [_shown(violation) for violation in violations]})
    else:
        rows = (*counts.items(), ("violations", len(violations)))
        print_tables([Table("torture", f"Runs: {runs}, seeds from {seed}", ("", "times"), tuple(rows))])
        for line in dict.fromkeys(map(_shown, violations)):
            typer.echo(line)
    if violations:
        raise typer.Exit(1)


def _shown(violation: Violation) -> str:
    return f"{violation.promise}: {violation.conversation or 'everywhere'}: {violation.problem}"


# A whole run


def torture(
    database: str,
    *,
    seed: int,
    bounds: Bounds,
    replicas: int = 2,
    server: PostgresServer | None = None,
    only: Sequence[str] | None = None,
    plant: str | None = None,
) -> Outcome:
    """Start replicas on an empty database, use and break them, and check. `only`: the faults to choose from."""
    with tempfile.TemporaryDirectory(prefix="somdst-torture-") as name:
        folder = Path(name)
        started = start_replicas(replicas, database, folder, "--disk", name, *(["--plant", plant] if plant else []))
        nemesis = Nemesis(started, database, folder, server=server)
        clients = Clients([replica.url for replica in started], seed=seed, bounds=bounds, nemesis=nemesis)
        with ExitStack() as running:
            for replica in started:
                running.enter_context(replica)
            _use_and_break(clients, nemesis, seed=seed, bounds=bounds, only=only)
        stored, damages = read_database(database)
        _expire(started[0], clients, nemesis)
        remains = _remains(database, clients)
    history = History(clients.calls, stored, remains, complete=True)
    violations = [*check(history), *damages]
    return Outcome({**count(history), **nemesis.counts, "seconds": round(clients.elapsed)}, violations)


def torture_running(urls: Sequence[str], *, seed: int, bounds: Bounds, api_key: str | None) -> Outcome:
    """Use replicas that run already, break nothing, and check what they show."""
    clients = Clients(urls, seed=seed, bounds=bounds, api_key=api_key)
    _use_and_break(clients, None, seed=seed, bounds=bounds)
    stored: dict[str, Stored] = {}
    for id in clients.made - clients.erased:
        log, shown = clients.sent("log", id), clients.sent("read", id)
        stored[id] = Stored(shown.answer["version"], shown.answer["state"], log.answer["entries"])
    history = History(clients.calls, stored)
    return Outcome({**count(history), "seconds": round(clients.elapsed)}, check(history))


def _use_and_break(
    clients: Clients, nemesis: Nemesis | None, *, seed: int, bounds: Bounds, only: Sequence[str] | None = None
) -> None:
    clients.begin()
    with ThreadPoolExecutor(bounds.writers) as threads:
        writers = [threads.submit(clients.write, number) for number in range(bounds.writers)]
        try:
            if nemesis is not None:
                _break(clients, nemesis, seed=seed, bounds=bounds, only=only)
        finally:
            clients.finish()
        for writer in writers:
            writer.result()
    clients.end()


def _break(clients: Clients, nemesis: Nemesis, *, seed: int, bounds: Bounds, only: Sequence[str] | None = None) -> None:
    chance = random.Random(f"{seed} nemesis")
    chosen = [name for name in nemesis.faults if only is None or name in only]
    for number in range(bounds.faults):
        goal = (number + 1) * bounds.writes // (bounds.faults + 1)
        if not clients.reach(goal):
            break
        # Each fault once before any comes again.
        if number % len(chosen) == 0:
            chance.shuffle(chosen)
        nemesis.do(chosen[number % len(chosen)], chance, clients.wait_for)


def _expire(replica: Replica, clients: Clients, nemesis: Nemesis) -> None:
    """Nothing is served after its time, also before it is erased."""
    replica.start()
    late = RETENTION + 10 * DAY
    for one in nemesis.replicas:
        one.set_clock(late)
    clients.urls = [replica.url]
    for id in sorted(clients.made - clients.erased):
        for kind in ("read", "log", "turn"):
            clients.sent(kind, id)
    replica.stop()
    store = Store(nemesis.database, clock=lambda: time.time() + late)
    store.expire()
    store.close()


def read_database(database: str) -> tuple[dict[str, Stored], list[Violation]]:
    """All conversations as they are stored, and what `somdst store verify` says of them."""
    store = Store(database)
    damages = [Violation("replay", damage.conversation, damage.problem) for damage in verify(store) if damage]
    stored: dict[str, Stored] = {}
    with store.database.read() as connection:
        logs: dict[str, list[dict[str, Any]]] = {}
        for row in connection.execute(select(entry_table).order_by(entry_table.c.conversation, entry_table.c.version)):
            logs.setdefault(row.conversation, []).append(Entry.from_json(json.loads(row.entry)).to_json())
        for row in connection.execute(select(conversation_table)):
            stored[row.id] = Stored(row.version, json.loads(row.snapshot).get("state", {}), logs.get(row.id, []))
    store.close()
    return stored, damages


def _remains(database: str, clients: Clients) -> list[str]:
    """Where text of the conversations is found after all were erased: in the files of SQLite, or in any table."""
    words = sorted({call.mark.removeprefix("hotel name ") for call in clients.calls if call.mark})
    if "://" not in database:
        files = [path for path in Path(database).parent.glob(f"{Path(database).name}*") if path.is_file()]
        return [path.name for path in files if any(word.encode() in path.read_bytes() for word in words)]
    store = Store(database)
    tables = MetaData()
    left: list[str] = []
    with store.database.read() as connection:
        tables.reflect(connection)
        for table in tables.sorted_tables:
            rows = str(connection.execute(select(table)).all())
            if any(word in rows for word in words):
                left.append(table.name)
    store.close()
    return left


# Planted bugs

HUNT = Bounds(writers=4, writes=120, faults=6, conversations=1)


def hunt_all(plant: str, *, postgres: bool, seed: int, seconds: float, as_json: bool) -> None:
    """Plant one bug after the other, or the one with this name, and print what found it and how soon."""
    names = [name for name, one in PLANTS.items() if plant in (name, "all") and (one.portable or not postgres)]
    if not names:
        raise InputError(f"There is no bug {plant} to plant here: give all, or one of {', '.join(PLANTS)}.")
    rows: list[tuple[str | int, ...]] = []
    with working("hunting") as show:
        for name in names:
            show(name)
            with _database(None, postgres=postgres) as (target, server):
                outcome = hunt(name, target, seed=seed, bounds=replace(HUNT, seconds=seconds), server=server)
            found = {violation.promise for violation in outcome.violations} & PLANTS[name].breaks
            rows.append((name, ", ".join(sorted(found)), outcome.counts["calls"], outcome.counts["seconds"]))
    columns = ("bug", "promises found broken", "requests", "seconds")
    if as_json:
        print_json({"bugs": [dict(zip(columns, row, strict=True)) for row in rows]})
    else:
        note = "Requests with their repeats; seconds from the first to the last of them."
        print_tables([Table("hunt", "Planted bugs", columns, tuple(rows), note)])
    if any(not row[1] for row in rows):
        raise typer.Exit(1)


def hunt(
    plant: str, database: str, *, seed: int, bounds: Bounds = HUNT, server: PostgresServer | None = None
) -> Outcome:
    """A run with a planted bug, and with the faults that bring it out."""
    faults = PLANTS[plant].faults
    size = replace(bounds, faults=bounds.faults if faults else 0)
    return torture(database, seed=seed, bounds=size, server=server, only=faults, plant=plant)


@contextmanager
def _database(database: str | None, *, postgres: bool) -> Iterator[tuple[str, PostgresServer | None]]:
    if database is not None:
        if "://" not in database:
            raise InputError("Give a PostgreSQL URL, or nothing for a new SQLite file.")
        yield database, None
    elif postgres:
        # What was not synced stays in its memory for long, so that a crash shows it.
        with own_postgres("wal_writer_delay=10s") as server:
            yield server.new_database(), server
    else:
        with tempfile.TemporaryDirectory(prefix="somdst-torture-") as folder:
            yield f"{folder}/conversations.sqlite", None


if __name__ == "__main__":
    run_alone(main)
