#!/usr/bin/env python
"""What a service does under load, with and without micro-batching, and overloaded: `python benchmarks/service.py`.

The service runs in a process of its own, the load comes from this one (`load.py`). Both share the machine's cores, so
the numbers are what a whole small machine does. Three parts: what it can do with 32 conversations that never pause;
latencies when turns arrive at random at 70% of that; and for the batched one twice that load, then a pause.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from load import Load, Sample, percentile, statuses
from processes import Service

from somdst.cli import options
from somdst.cli.main import run_alone
from somdst.cli.output import print_json, print_tables, working
from somdst.corpora.synthetic import synthetic_dialogues
from somdst.evaluate.tables import Cell, Table
from somdst.memory.dialogue import Dialogue

SHARE = 0.7
"""Offered load, as a share of what the service can do, at which latencies are taken."""
RECOVERY_LIMIT = 10.0


def main(
    model: options.ModelOption = "default",
    seconds: Annotated[float, typer.Option(min=0.5, help="Length of each of the five measurements.")] = 15.0,
    conversations: Annotated[int, typer.Option(min=1, max=500, help="Conversations at once.")] = 32,
    max_batch: Annotated[int, typer.Option(min=2, max=256, help="Turns in one batch.")] = 32,
    threads: options.ThreadsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    with working("starting") as show:
        done = measure(
            serve_command(model=model, threads=threads),
            seconds=seconds,
            conversations=conversations,
            max_batch=max_batch,
            notice=lambda text: show(f"measuring {text}"),
        )
    if as_json:
        print_json(done.to_json())
    else:
        print_tables(tables(done))


@dataclass(frozen=True, slots=True)
class Speed:
    """What one service does."""

    turns_per_s: float
    offered_per_s: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    mean_batch: float
    statuses: dict[str, int]


@dataclass(frozen=True, slots=True)
class Overload:
    """What it does at twice the load that it can take, and after."""

    offered_per_s: float
    answered_per_s: float
    statuses: dict[str, int]
    memory_mb_before: float
    memory_mb_most: float
    recovery_s: float | None
    """Seconds from the end of the overload until a second without an error and with its usual latency; None: never."""


@dataclass(frozen=True, slots=True)
class ServiceSpeed:
    conversations: int
    cores: int
    batched: Speed
    unbatched: Speed
    speedup: float
    overload: Overload

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def tables(done: ServiceSpeed) -> list[Table]:
    rows = []
    for name, speed in (("one by one", done.unbatched), ("micro-batches", done.batched)):
        errors = sum(count for status, count in speed.statuses.items() if status != "200")
        times = (speed.p50_ms, speed.p95_ms, speed.p99_ms)
        rows.append((name, speed.turns_per_s, *times, speed.mean_batch, errors))
    columns = ("", "turns per second", "p50 ms", "p95 ms", "p99 ms", "turns per batch", "errors")
    at_once = f"{done.conversations} conversations at once"
    note = f"{at_once}; latencies at 70% of each one's own rate. Micro-batches do {done.speedup:g} times the turns."
    overload = done.overload
    back = f"not within {RECOVERY_LIMIT:g} s" if overload.recovery_s is None else f"{overload.recovery_s:g} s"
    facts: tuple[tuple[Cell, ...], ...] = (
        ("offered, turns per second", overload.offered_per_s),
        ("answered, turns per second", overload.answered_per_s),
        *((f"answers with status {status}", count) for status, count in overload.statuses.items()),
        ("memory before, MB", overload.memory_mb_before),
        ("memory at most, MB", overload.memory_mb_most),
        ("back to the usual latency after", back),
    )
    return [
        Table("service", "The service", columns, tuple(rows), note),
        Table("overload", "At twice the load that it can take", ("", "measured"), facts),
    ]


def measure(
    program: Sequence[str],
    *,
    seconds: float = 10.0,
    conversations: int = 32,
    max_batch: int = 32,
    notice: Callable[[str], object] = lambda text: None,
) -> ServiceSpeed:
    """Measure both services, one after the other."""
    dialogues = synthetic_dialogues(dialogues=200, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        notice("without micro-batching")
        with Service(program, f"{folder}/one.sqlite", "--max-batch", "1") as service:
            unbatched = asyncio.run(_speed(service.port, dialogues, seconds=seconds, conversations=conversations))
        notice("with micro-batching")
        with Service(program, f"{folder}/many.sqlite", "--max-batch", str(max_batch)) as service:
            batched = asyncio.run(_speed(service.port, dialogues, seconds=seconds, conversations=conversations))
            notice("at twice the load that it can take")
            overload = asyncio.run(_overload(service, dialogues, batched, seconds=seconds, conversations=conversations))
    return ServiceSpeed(
        conversations=conversations,
        cores=os.cpu_count() or 1,
        batched=batched,
        unbatched=unbatched,
        speedup=round(batched.turns_per_s / unbatched.turns_per_s, 2),
        overload=overload,
    )


async def _speed(port: int, dialogues: Sequence[Dialogue], *, seconds: float, conversations: int) -> Speed:
    load = Load(port, dialogues, seats=conversations)
    await load.talks.prepare(2 * conversations)
    await load.closed(min(2.0, seconds))  # warm up
    before = _batches(port)
    started = time.perf_counter()
    closed = await load.closed(seconds)
    able = sum(sample.status == 200 for sample in closed) / (time.perf_counter() - started)
    after = _batches(port)
    rate = SHARE * able
    await load.talks.prepare(int(rate * seconds / 4) + conversations)
    samples = await load.open(rate, seconds)
    load.close()
    times = [sample.milliseconds for sample in samples]
    return Speed(
        turns_per_s=round(able, 1),
        offered_per_s=round(rate, 1),
        p50_ms=round(percentile(times, 0.5), 1),
        p95_ms=round(percentile(times, 0.95), 1),
        p99_ms=round(percentile(times, 0.99), 1),
        mean_batch=round((after[0] - before[0]) / max(1.0, after[1] - before[1]), 1),
        statuses=statuses([*closed, *samples]),
    )


async def _overload(
    service: Service, dialogues: Sequence[Dialogue], usual: Speed, *, seconds: float, conversations: int
) -> Overload:
    # Many more conversations than before: with 32, each would wait for its own last turn and hold the load back.
    load = Load(service.port, dialogues, seats=16 * conversations)
    await load.talks.prepare(16 * conversations)
    before = most = service.memory
    running = True

    async def watch() -> None:
        nonlocal most
        while running:
            most = max(most, service.memory)
            await asyncio.sleep(0.1)

    watcher = asyncio.create_task(watch())
    rate = 2 * usual.turns_per_s
    started = time.perf_counter()
    samples = await load.open(rate, seconds)
    lasted = time.perf_counter() - started
    running = False
    await watcher
    recovery = await _recovery(load, usual)
    load.close()
    return Overload(
        offered_per_s=round(rate, 1),
        answered_per_s=round(sum(sample.status == 200 for sample in samples) / lasted, 1),
        statuses=statuses(samples),
        memory_mb_before=round(before, 1),
        memory_mb_most=round(most, 1),
        recovery_s=recovery,
    )


async def _recovery(load: Load, usual: Speed) -> float | None:
    """Half the usual load, a second at a time, until a second is as if nothing had happened."""
    started = time.perf_counter()
    while (at := time.perf_counter() - started) < RECOVERY_LIMIT:
        samples = await load.open(0.5 * usual.turns_per_s, 1.0)
        if samples and _normal(samples, usual):
            return round(at, 1)
    return None


def _normal(samples: Sequence[Sample], usual: Speed) -> bool:
    fine = all(sample.status == 200 for sample in samples)
    return fine and percentile([sample.milliseconds for sample in samples], 0.95) <= max(1.5 * usual.p95_ms, 50.0)


def serve_command(*, model: str, threads: int | None) -> list[str]:
    """`somdst serve` with this model."""
    options = ["--model", model, "--log-level", "warning", *(["--threads", str(threads)] if threads else [])]
    return [sys.executable, "-m", "somdst", "serve", *options]


def _batches(port: int) -> tuple[float, float]:
    """Turns and model runs so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=300) as answer:
        lines = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line[:1] != "#")
    return float(lines["somdst_batch_size_sum"]), float(lines["somdst_batch_size_count"])


if __name__ == "__main__":
    run_alone(main)
