#!/usr/bin/env python
"""A service that is used for a long time, with a replica killed every minute: `python benchmarks/soak.py --minutes 60`.

First it finds out how many turns per second two replicas can do. Then turns arrive at random at 70% of that, each with
a key and sent again until it is acknowledged. The first replica is left alone, so that its memory and file handles show
what time does to it; the second one is killed every minute. At the end `history.py` checks that no turn was lost or
doubled, and a picture shows latency, memory and handles over time. Exit code 1 if a promise was broken, or if a figure
grew from the first half to the second by more than `BOUNDS` allows.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import typer
from history import Call, History, Violation, as_text, check, count
from load import Connections, arrivals, percentile, without_pause
from nemesis import Replica, start_replicas
from postgres import own_postgres
from torture import read_database

from somdst.cli import options
from somdst.cli.main import run_alone
from somdst.cli.output import notice, print_json, print_tables, working
from somdst.errors import InputError
from somdst.evaluate.tables import Table
from somdst.service.guards import RETRY_AFTER

SHARE = 0.7
WINDOW = 10.0
"""Seconds of one point of the picture."""
BOUNDS = {"p99_ms": 1.5, "memory_mb": 1.1, "handles": 1.1}
"""How many times as much a figure may be in the second half as in the first. Memory and handles should not grow at all;
a p99 is made by the one turn in a hundred that met a kill, so chance has a say in it."""
LONGEST_PAUSE = 0.5
LOST = (OSError, EOFError, TimeoutError)


def main(
    minutes: Annotated[float, typer.Option(min=0.2, max=600, help="How long turns arrive.")] = 10.0,
    conversations: Annotated[int, typer.Option(min=1, help="Conversations that the turns belong to.")] = 100,
    kill_every: Annotated[float, typer.Option(min=1, help="Seconds between two kills.")] = 60.0,
    calibrate: Annotated[float, typer.Option(min=0.5, help="Seconds to find out what it can do.")] = 15.0,
    postgres: Annotated[bool, typer.Option(help="On a PostgreSQL of this machine instead of SQLite.")] = False,
    picture: Annotated[Path | None, typer.Option(help="SVG file to write; needs matplotlib.")] = None,
    as_json: options.JsonOption = False,
) -> None:
    if picture is not None and picture.suffix != ".svg":
        raise InputError(f"The picture is an SVG file, not {picture.name}.")
    plan = Plan(minutes * 60, conversations, kill_every, calibrate)
    with tempfile.TemporaryDirectory(prefix="somdst-soak-") as folder, working("soaking"):
        if postgres:
            with own_postgres() as server:
                soaked = soak(server.new_database(), Path(folder), plan)
        else:
            soaked = soak(f"{folder}/conversations.sqlite", Path(folder), plan)
    if picture is not None:
        draw(soaked, picture)
        notice(f"picture in {picture}")
    if as_json:
        print_json(soaked.to_json())
    else:
        print_tables([table(soaked)])
        for violation in soaked.violations:
            typer.echo(f"{violation.promise}: {violation.conversation}: {violation.problem}")
    if soaked.violations or soaked.grown:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class Plan:
    seconds: float
    conversations: int
    kill_every: float
    calibrate: float


@dataclass(frozen=True, slots=True)
class Point:
    """One window of time. Latencies are None where nothing was answered."""

    at: float
    p50_ms: float | None
    p99_ms: float | None
    memory_mb: float
    handles: int
    """Of the replica that is never killed, at the end of the window."""


@dataclass(slots=True)
class Soaked:
    able_per_s: float
    offered_per_s: float
    counts: dict[str, int] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    kills: list[float] = field(default_factory=list)

    def halves(self, name: str) -> tuple[float, float]:
        """The mean of a figure in the first half and in the second one."""
        values = [value for point in self.points if (value := getattr(point, name)) is not None]
        middle = max(1, len(values) // 2)
        return mean(values[:middle] or [0.0]), mean(values[middle:] or values or [0.0])

    @property
    def grown(self) -> list[str]:
        """The figures that are not flat."""
        return [name for name, most in BOUNDS.items() if self.halves(name)[1] > most * self.halves(name)[0]]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "halves": {name: self.halves(name) for name in BOUNDS}, "grown": self.grown}


def table(soaked: Soaked) -> Table:
    rows: list[tuple[str | float, ...]] = [
        ("able, turns per second", soaked.able_per_s, "", ""),
        ("offered, turns per second", soaked.offered_per_s, "", ""),
        *((name, times, "", "") for name, times in soaked.counts.items()),
        ("kills", len(soaked.kills), "", ""),
        ("broken promises", len(soaked.violations), "", "kept" if not soaked.violations else "broken"),
    ]
    named = {"p50_ms": "p50 ms", "p99_ms": "p99 ms", "memory_mb": "memory MB", "handles": "file handles"}
    for figure, name in named.items():
        verdict = "grew" if figure in soaked.grown else "flat" if figure in BOUNDS else ""
        rows.append((name, *(round(half, 1) for half in soaked.halves(figure)), verdict))
    bounds = ", ".join(f"{named[figure]} {most:g}" for figure, most in BOUNDS.items())
    note = (
        "Latency, memory and handles: means of the first and the second half; memory of a replica that was not killed. "
        f"Flat: at most so many times as much in the second half: {bounds}."
    )
    return Table("soak", "A long run", ("", "all, or first half", "second half", ""), tuple(rows), note)


def soak(database: str, folder: Path, plan: Plan) -> Soaked:
    replicas = start_replicas(2, database, folder)
    users = Users(replicas, plan)
    soaked = asyncio.run(users.run())
    for replica in replicas:
        replica.stop()
    stored, damages = read_database(database)
    history = History(users.calls, stored, complete=True)
    soaked.counts, soaked.violations = count(history), [*check(history), *damages]
    return soaked


class Users:
    """Sends turns, each until it is acknowledged, and records every call."""

    def __init__(self, replicas: Sequence[Replica], plan: Plan) -> None:
        self.replicas, self.plan = replicas, plan
        self.connections = [Connections(replica.port) for replica in replicas]
        self.calls: list[Call] = []
        self.ids: list[str] = []
        self.turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """A person says the next thing when the last one was answered. The wait counts."""
        self.latencies: list[float] = []
        self._ticks, self._numbers = itertools.count(), itertools.count()
        self._chance = random.Random(1)

    async def run(self) -> Soaked:
        loop = asyncio.get_running_loop()
        self.ids = [await self._create() for _ in range(self.plan.conversations)]
        able = await self._closed(self.plan.calibrate)
        soaked = Soaked(round(able, 1), round(SHARE * able, 1))
        self.latencies.clear()
        started = loop.time()
        watching = asyncio.create_task(self._watch(soaked, started))
        killing = asyncio.create_task(self._kill(soaked, started))
        await self._open(SHARE * able, started + self.plan.seconds)
        for task in (watching, killing):
            task.cancel()
        await asyncio.gather(watching, killing, return_exceptions=True)
        self._point(soaked, loop.time() - started)
        for connections in self.connections:
            connections.close()
        return soaked

    async def _closed(self, seconds: float) -> float:
        """Turns per second when 32 users send the next turn as soon as the last one was acknowledged."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        done = await without_pause(lambda _: self._turn(loop.time()), seats=32, seconds=seconds)
        return len(done) / (loop.time() - began)

    async def _open(self, rate: float, end: float) -> None:
        """Turns arrive at random moments, however fast the service is."""
        tasks: set[asyncio.Task[None]] = set()
        async for due in arrivals(rate, end, self._chance):
            task = asyncio.create_task(self._turn(due))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.sleep(end - asyncio.get_running_loop().time())
        await asyncio.gather(*tasks)

    async def _turn(self, due: float) -> None:
        number = next(self._numbers)
        id, words = self._chance.choice(self.ids), f"hotel name place {number}"
        async with self.turns[id]:
            await self._insist("turn", id, f"/v1/conversations/{id}/turns", {"user": words}, f"turn-{number}", words)
        self.latencies.append((asyncio.get_running_loop().time() - due) * 1000)

    async def _create(self) -> str:
        key = f"create-{next(self._numbers)}"
        return str((await self._insist("create", "", "/v1/conversations", {}, key, None))["id"])

    async def _insist(self, kind: str, id: str, path: str, body: object, key: str, mark: str | None) -> dict[str, Any]:
        for attempt in itertools.count():
            began = next(self._ticks)
            status, answer = await self._post(path, body, key)
            ended = next(self._ticks)
            kept: dict[str, Any] = {"version": answer["version"]} if "version" in answer else {}
            if "entry" in answer:
                kept["entry"] = as_text(answer["entry"])
            made = str(answer.get("id", "")) if kind == "create" else id
            self.calls.append(Call(kind, made, began, ended, status, "", key, mark, answer=kept))
            if status is not None and status < 300:
                break
            # A 503 says when to come back. Sooner would keep a service that is behind from catching up.
            again = RETRY_AFTER * self._chance.uniform(1, 2) if status == 503 else min(0.02 * 2**attempt, LONGEST_PAUSE)
            await asyncio.sleep(again)
        return answer

    async def _post(self, path: str, body: object, key: str) -> tuple[int | None, dict[str, Any]]:
        try:
            async with asyncio.timeout(30):
                status, text = await self._chance.choice(self.connections).post(path, body, key=key)
        except LOST:
            return None, {}
        return status, json.loads(text)

    async def _watch(self, soaked: Soaked, started: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(WINDOW)
            self._point(soaked, loop.time() - started)

    def _point(self, soaked: Soaked, at: float) -> None:
        times = self.latencies[:]
        self.latencies.clear()
        p50, p99 = (round(percentile(times, share), 1) if times else None for share in (0.5, 0.99))
        replica = self.replicas[0]
        soaked.points.append(Point(round(at, 1), p50, p99, round(replica.memory, 1), replica.handles()))

    async def _kill(self, soaked: Soaked, started: float) -> None:
        """A replica that is killed gets ready again before it is killed the next time, however slow the machine is."""
        loop, replica = asyncio.get_running_loop(), self.replicas[-1]
        while True:
            await asyncio.sleep(self.plan.kill_every)
            soaked.kills.append(round(loop.time() - started, 1))
            await asyncio.to_thread(replica.kill)
            await asyncio.to_thread(replica.wait)


def draw(soaked: Soaked, path: Path) -> None:
    """Latency, memory and handles over time, and when a replica was killed."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, (latency, memory, handles) = pyplot.subplots(3, 1, figsize=(8, 6), sharex=True)
    minutes = [point.at / 60 for point in soaked.points]
    for name, values in (
        ("p50", [point.p50_ms for point in soaked.points]),
        ("p99", [point.p99_ms for point in soaked.points]),
    ):
        latency.plot(minutes, [float("nan") if value is None else value for value in values], label=name)
    latency.set_ylabel("ms per turn")
    latency.legend(loc="upper right")
    memory.plot(minutes, [point.memory_mb for point in soaked.points])
    memory.set_ylabel("memory, MB")
    handles.plot(minutes, [point.handles for point in soaked.points])
    handles.set_ylabel("file handles")
    handles.set_xlabel("minutes; a line is a kill of the other replica")
    for axis in (latency, memory, handles):
        axis.set_ylim(bottom=0)
        for kill in soaked.kills:
            axis.axvline(kill / 60, color="0.8", linewidth=0.8, zorder=0)
    figure.suptitle(f"{soaked.offered_per_s:g} turns per second, 70% of what two replicas can do")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


if __name__ == "__main__":
    run_alone(main)
