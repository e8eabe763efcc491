#!/usr/bin/env python
"""Tries to make the service break its contract (docs/contract.md): `python benchmarks/torture.py --seed 7`.

Many clients write to a few conversations through several replicas on one database, repeat what got no answer, send
requests twice, reuse keys and hang up. Meanwhile replicas are killed and paused and the database breaks (`nemesis.py`).
Every call is recorded, and at the end `history.py` says what contradicts the contract. Exit code 1 if anything does.

    python benchmarks/torture.py                                        replicas of its own on a new SQLite file
    python benchmarks/torture.py --postgres                             ... on a PostgreSQL of its own, which it crashes
    python benchmarks/torture.py --database postgresql://me@host/empty  ... on yours; it drops connections
    python benchmarks/torture.py --url http://a:8000 --url http://b:8000   your own replicas: it only uses them

Bounded by `--writes` and `--seconds`. The same seed makes the same requests and faults; how they fall together is up to
the machine, and no verdict depends on how fast that is.
"""

from __future__ import annotations

import http.client
import itertools
import json
import random
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from history import READS, Call, History, Stored, Violation, check, count
from nemesis import DAY, RETENTION, Nemesis, Replica, TortureError, start_replicas
from postgres import PostgresServer, own_postgres
from sqlalchemy import select

from somdst.cli import options
from somdst.cli.main import run_alone
from somdst.cli.output import print_json, print_tables, working
from somdst.errors import InputError
from somdst.evaluate.tables import Table
from somdst.store import Store, verify
from somdst.store.layout import conversations as conversation_table
from somdst.store.layout import entries as entry_table
from somdst.tracking.records import Entry

ATTEMPTS = 40
"""How often a request is sent that gets no answer or 503."""
KINDS = {"turn": 50, "correction": 14, "undo": 8, "redo": 4, "read": 10, "log": 6, "version": 8}


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
    plant: Annotated[str | None, typer.Option(help="Plant a bug of tests/planted.py into the store.")] = None,
    as_json: options.JsonOption = False,
) -> None:
    bounds = Bounds(writers=writers, writes=writes, faults=faults, seconds=seconds)
    outcomes: list[Outcome] = []
    with working("torturing") as show:
        for number in range(seed, seed + runs):
            show(f"seed {number}")
            if url:
                outcomes.append(torture_running(url, seed=number, bounds=bounds, api_key=api_key))
                continue
            with _database(database, postgres=postgres) as (target, server):
                outcomes.append(
                    torture(target, seed=number, bounds=bounds, replicas=replicas, server=server, plant=plant)
                )
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


@dataclass(frozen=True, slots=True)
class Bounds:
    writers: int = 6
    writes: int = 600
    faults: int = 20
    seconds: float = 120.0
    conversations: int = 3


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
        _use_and_break(clients, nemesis, seed=seed, bounds=bounds, only=only)
        for replica in started:
            replica.stop()
        stored, damages = read_database(database)
        _expire(started[0], clients, nemesis)
        remains = _remains(database, clients)
    history = History(clients.calls, stored, remains)
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
        if nemesis is not None:
            chance = random.Random(f"{seed} nemesis")
            chosen = list(only or nemesis.faults)
            for number in range(bounds.faults):
                goal = (number + 1) * bounds.writes // (bounds.faults + 1)
                if not clients.reach(goal):
                    break
                # Each fault once before any comes again.
                if number % len(chosen) == 0:
                    chance.shuffle(chosen)
                nemesis.do(chosen[number % len(chosen)], chance, clients.wait_for)
        for writer in writers:
            writer.result()
    clients.end()


def _expire(replica: Replica, clients: Clients, nemesis: Nemesis) -> None:
    """Nothing is served after its time, also before it is erased."""
    replica.start()
    nemesis.set_clock(RETENTION + 10 * DAY)
    clients.urls = [replica.url]
    for id in sorted(clients.made - clients.erased):
        for kind in ("read", "log", "turn"):
            clients.sent(kind, id)
    replica.stop()
    store = Store(nemesis.database, clock=lambda: time.time() + nemesis.offset)
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
    """Where text of the conversations is found after all were erased: in the files of SQLite, or in a table."""
    words = sorted({call.mark for call in clients.calls if call.mark})
    if "://" not in database:
        files = [path for path in Path(database).parent.glob(f"{Path(database).name}*") if path.is_file()]
        return [path.name for path in files if any(word.encode() in path.read_bytes() for word in words)]
    store = Store(database)
    with store.database.read() as connection:
        tables = (conversation_table, entry_table)
        left = [table.name for table in tables if connection.execute(select(table).limit(1)).first()]
    store.close()
    return left


@contextmanager
def _database(database: str | None, *, postgres: bool) -> Iterator[tuple[str, PostgresServer | None]]:
    if database is not None:
        if "://" not in database:
            raise InputError("Give a PostgreSQL URL, or nothing for a new SQLite file.")
        yield database, None
    elif postgres:
        with own_postgres() as server:
            yield server.new_database(), server
    else:
        with tempfile.TemporaryDirectory(prefix="somdst-torture-") as folder:
            yield f"{folder}/conversations.sqlite", None


# The clients


class Clients:
    """Writers that share a few conversations, and the record of all that they saw."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        seed: int,
        bounds: Bounds,
        nemesis: Nemesis | None = None,
        api_key: str | None = None,
    ) -> None:
        self.urls, self.seed, self.bounds, self.nemesis = list(urls), seed, bounds, nemesis
        self.headers = {"content-type": "application/json"}
        if api_key:
            self.headers["authorization"] = f"Bearer {api_key}"
        self.prefix = f"{seed}-{random.SystemRandom().getrandbits(32):x}"
        """Keys of two runs on one deployment must differ."""
        self.calls: list[Call] = []
        self.made: set[str] = set()
        self.erased: set[str] = set()
        self.slots: list[str] = []
        self.elapsed = 0.0
        self._ticks, self._numbers = itertools.count(), itertools.count()
        self._done = 0
        self._progress = threading.Condition()
        self._working = 0
        self._chance = random.Random(f"{seed} alone")

    def begin(self) -> None:
        self._started = time.monotonic()
        self._working = self.bounds.writers
        self.slots = [self._create(self._chance) for _ in range(self.bounds.conversations)]

    def end(self) -> None:
        """Everything once, whatever chance did before; an erasure last, so that nothing overwrites what it leaves."""
        for id in sorted(self.made - self.erased):
            for version in range(self.sent("read", id).answer.get("version", 0) + 1):
                self.sent("version", id, named=version)
        id, key = self._create(self._chance), f"{self.prefix}-last"
        first, other = (self._request("turn", id, self._chance).with_key(key) for _ in range(2))
        self._call(first, self.urls[0], hang_up=True)
        for _ in range(2):
            self._insist(first, self._chance)
        self._call(other, self.urls[-1])
        self._erase(self._chance, id)
        self.elapsed = time.monotonic() - self._started

    # How far it is

    def reach(self, goal: int) -> bool:
        """Wait until so many requests are done; False if there will be no more."""
        with self._progress:
            self._progress.wait_for(lambda: self._done >= goal or not self._working)
            return self._working > 0

    def wait_for(self, more: int) -> None:
        """Wait for so many more requests; no longer than a few seconds, because a fault can stop everybody."""
        with self._progress:
            goal = self._done + more
            self._progress.wait_for(lambda: self._done >= goal or not self._working, timeout=3.0)

    # What a writer does

    def write(self, number: int) -> None:
        chance = random.Random(f"{self.seed} {number}")
        try:
            for _ in range(self.bounds.writes // self.bounds.writers):
                if time.monotonic() - self._started > self.bounds.seconds:
                    return
                self._one(chance)
                with self._progress:
                    self._done += 1
                    self._progress.notify_all()
        finally:
            with self._progress:
                self._working -= 1
                self._progress.notify_all()

    def _one(self, chance: random.Random) -> None:
        slot = chance.randrange(len(self.slots))
        id = self.slots[slot]
        if chance.random() < 0.01:
            self.slots[slot] = self._create(chance)
            self._erase(chance, id)
            return
        kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
        if kind in READS:
            self.sent(kind, id, chance)
        else:
            self._insist(self._request(kind, id, chance), chance)

    def _request(self, kind: str, id: str, chance: random.Random) -> Request:
        number = next(self._numbers)
        body: dict[str, Any] = {}
        mark = None
        if kind == "turn":
            mark = body["user"] = f"hotel name place {number}x"
        elif kind == "correction":
            mark = f"value {number}x"
            body = {"values": {"hotel-name": mark}, "pin": chance.random() < 0.2}
        named = self._last_version(id) if chance.random() < 0.2 else None
        if named is not None:
            body["version"] = named
        key = f"{self.prefix}-{number}" if chance.random() < 0.9 else None
        return Request(kind, id, json.dumps(body), key, mark, named)

    def _insist(self, request: Request, chance: random.Random) -> None:
        """Send it until it is answered, as often as a key allows it; then again, and the key with something else."""
        twin = request.key and chance.random() < 0.1
        if twin:
            thread = threading.Thread(target=self._call, args=(request, chance.choice(self.urls)))
            thread.start()
        fate = chance.random()
        if request.key and fate < 0.05:
            self._call(request, chance.choice(self.urls), hang_up=True)
        elif request.key and fate < 0.1:
            half = self._request(request.kind, request.conversation, chance)
            self._call(half, chance.choice(self.urls), half=True)
        for attempt in range(ATTEMPTS):
            call = self._call(request, chance.choice(self.urls))
            if not call.unknown or request.key is None:
                break
            time.sleep(min(0.02 * 2**attempt, 0.5))
        if twin:
            thread.join()
        if call.acknowledged and request.key and chance.random() < 0.1:
            self._call(request, chance.choice(self.urls))
        if call.acknowledged and request.key and chance.random() < 0.05:
            other = self._request(request.kind, request.conversation, chance)
            if other.body != request.body:
                self._call(other.with_key(request.key), chance.choice(self.urls))

    def _create(self, chance: random.Random) -> str:
        request = Request("create", "", "{}", f"{self.prefix}-{next(self._numbers)}", None, None)
        for _ in range(10 * ATTEMPTS):
            call = self._call(request, chance.choice(self.urls))
            if call.acknowledged:
                self.made.add(call.conversation)
                return call.conversation
            time.sleep(0.2)
        raise TortureError(f"No conversation could be made: the last answer was {call.status}.")

    def _erase(self, chance: random.Random, id: str) -> None:
        for _ in range(10 * ATTEMPTS):
            call = self._call(Request("erase", id, "", None, None, None), chance.choice(self.urls))
            if call.acknowledged or call.status == 404:
                self.erased.add(id)
                return
            time.sleep(0.2)
        raise TortureError(f"The conversation {id} could not be erased: the last answer was {call.status}.")

    def sent(self, kind: str, id: str, chance: random.Random | None = None, *, named: int | None = None) -> Call:
        """One request without a key, until it is answered. `named` is the version to read, by chance if it is None."""
        chance = chance or self._chance
        if kind == "version" and named is None:
            named = chance.randint(0, self._last_version(id))
        request = Request(kind, id, "", None, None, named) if kind in READS else self._request(kind, id, chance)
        for _ in range(ATTEMPTS):
            call = self._call(request, chance.choice(self.urls))
            if not call.unknown or kind not in READS:
                break
            time.sleep(0.1)
        return call

    def _last_version(self, id: str) -> int:
        """As the last calls saw it; it may be old, and is then refused."""
        for call in reversed(self.calls[-50:]):
            if call.conversation == id and call.acknowledged and "version" in call.answer:
                return int(call.answer["version"])
        return 0

    # One call

    def _clock(self) -> float | None:
        return None if self.nemesis is None else time.time() + self.nemesis.offset

    def _call(self, request: Request, url: str, *, hang_up: bool = False, half: bool = False) -> Call:
        clock, began = self._clock(), next(self._ticks)
        status, answer = self._send(request, url, hang_up=hang_up, half=half)
        ended = next(self._ticks)
        if clock is not None:
            clock = min(clock, self._clock() or clock)
        made = str(answer.get("id", "")) if request.kind == "create" and status == 201 else request.conversation
        expires = answer.get("expires_at")
        call = Call(
            request.kind,
            made,
            began,
            ended,
            status,
            request.body,
            request.key,
            request.mark,
            request.named,
            answer,
            clock,
            datetime.fromisoformat(expires).timestamp() if expires else None,
        )
        self.calls.append(call)
        return call

    def _send(self, request: Request, url: str, *, hang_up: bool, half: bool) -> tuple[int | None, Mapping[str, Any]]:
        place = urlsplit(url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=20)
        headers = {**self.headers, **({"idempotency-key": request.key} if request.key else {})}
        try:
            if half:
                connection.putrequest(request.method, request.path)
                for name, value in {**headers, "content-length": str(len(request.body))}.items():
                    connection.putheader(name, value)
                connection.endheaders(request.body[: len(request.body) // 2].encode())
                return 499, {}  # it never arrived, so it must never be done
            connection.request(request.method, request.path, request.body or None, headers)
            if hang_up:
                return None, {}
            response = connection.getresponse()
            text = response.read()
            return response.status, json.loads(text) if text else {}
        except (OSError, http.client.HTTPException, ValueError):
            return None, {}
        finally:
            connection.close()


@dataclass(frozen=True, slots=True)
class Request:
    kind: str
    conversation: str
    body: str
    """The same characters each time: they are part of what a key is bound to."""
    key: str | None
    mark: str | None
    named: int | None

    def with_key(self, key: str) -> Request:
        return Request(self.kind, self.conversation, self.body, key, self.mark, self.named)

    @property
    def method(self) -> str:
        return {"erase": "DELETE", "read": "GET", "log": "GET", "version": "GET"}.get(self.kind, "POST")

    @property
    def path(self) -> str:
        rest = {"turn": "/turns", "correction": "/corrections", "undo": "/undo", "redo": "/redo", "log": "/log"}
        if self.kind == "create":
            return "/v1/conversations"
        if self.kind == "version":
            return f"/v1/conversations/{self.conversation}/versions/{self.named}"
        return f"/v1/conversations/{self.conversation}{rest.get(self.kind, '')}"


if __name__ == "__main__":
    run_alone(main)
