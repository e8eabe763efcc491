#!/usr/bin/env python
"""One service with many schemas beside one with a single schema: `python benchmarks/many_schemas.py --schemas 1000`.

Both times as many conversations as there are schemas, with the same turns at the same rate, half of what the service
can do with one schema; only the schemas differ. Every conversation has had its first turn before latencies are taken,
so that every schema was used once: what that first turn costs is shown by itself. Needs a model that reads schemas.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from load import Load, Sample, percentile, statuses
from processes import Service
from service import serve_command

from somdst.cli import options
from somdst.cli.main import run_alone
from somdst.cli.output import print_json, print_tables, working
from somdst.corpora.synthetic import synthetic_dialogues
from somdst.errors import InputError
from somdst.evaluate.tables import Table
from somdst.memory.dialogue import Dialogue
from somdst.memory.schema import Schema, Slot


def main(
    model: options.ModelOption = "default",
    schemas: Annotated[
        int, typer.Option(min=2, max=10_000, help="How many different ones, and conversations both times.")
    ] = 1000,
    seconds: Annotated[float, typer.Option(min=0.5, help="Length of each of the three measurements.")] = 15.0,
    conversations: Annotated[int, typer.Option(min=1, max=500, help="Conversations at once to find the rate.")] = 32,
    threads: options.ThreadsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    with working("starting") as show:
        done = measure(
            serve_command(model=model, threads=threads),
            schemas=schemas,
            seconds=seconds,
            conversations=conversations,
            notice=lambda text: show(f"measuring {text}"),
        )
    if as_json:
        print_json(done.to_json())
    else:
        print_tables([table(done)])


@dataclass(frozen=True, slots=True)
class ManySchemas:
    schemas: int
    offered_per_s: float
    one_p50_ms: float
    one_p95_ms: float
    many_p50_ms: float
    many_p95_ms: float
    ratio: float
    """p95 with many schemas, over p95 with one."""
    first_turn_p50_ms: float
    """The first turn under a new schema, one after the other."""
    memory_mb_before: float
    memory_mb_after: float
    statuses: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def table(done: ManySchemas) -> Table:
    rows = (
        ("one schema", done.one_p50_ms, done.one_p95_ms, done.memory_mb_before),
        (f"{done.schemas:,} schemas", done.many_p50_ms, done.many_p95_ms, done.memory_mb_after),
    )
    note = (
        f"At {done.offered_per_s:g} turns per second. p95 is {done.ratio:g} times that of one schema. The first turn "
        f"under a new schema takes {done.first_turn_p50_ms:g} ms. Answers by status: {done.statuses}."
    )
    return Table("schemas", "Many schemas in one service", ("", "p50 ms", "p95 ms", "memory MB"), rows, note)


def made(number: int) -> Schema:
    """A schema of eight slots that no other number has; two of them have a closed list."""
    topics = ("day", "time", "place", "name", "number of people", "price", "colour", "size")
    lists = {"colour": ["red", "green", "blue"], "size": ["small", "medium", "large"]}
    return Schema(
        Slot.of(f"shop {number}", topic, description=f"{topic} that the customer of shop {number} wants", values=values)
        for topic in topics
        for values in [lists.get(topic)]
    )


def measure(
    program: Sequence[str],
    *,
    schemas: int = 1000,
    seconds: float = 10.0,
    conversations: int = 32,
    notice: Callable[[str], object] = lambda text: None,
) -> ManySchemas:
    with tempfile.TemporaryDirectory() as folder, Service(program, f"{folder}/schemas.sqlite") as service:
        return asyncio.run(
            _measure(service, schemas=schemas, seconds=seconds, conversations=conversations, notice=notice)
        )


async def _measure(
    service: Service, *, schemas: int, seconds: float, conversations: int, notice: Callable[[str], object]
) -> ManySchemas:
    notice("what the service can do")
    load = Load(service.port, _dialogues(), seats=conversations, schemas=[made(0).to_json()])
    closed = await load.closed(seconds)
    load.close()
    rate = 0.5 * sum(sample.status == 200 for sample in closed) / seconds
    if not rate:
        raise InputError(f"No turn was tracked; answers by status: {statuses(closed)}.")
    notice("one schema")
    warm, one = await talk(service, [made(0)], conversations=schemas, rate=rate, seconds=seconds)
    before = service.memory
    notice(f"{schemas:,} schemas")
    different = [made(number) for number in range(1, schemas + 1)]
    first, many = await talk(service, different, conversations=schemas, rate=rate, seconds=seconds)
    p95 = percentile(_times(one), 0.95), percentile(_times(many), 0.95)
    return ManySchemas(
        schemas=schemas,
        offered_per_s=round(rate, 1),
        one_p50_ms=round(percentile(_times(one), 0.5), 1),
        one_p95_ms=round(p95[0], 1),
        many_p50_ms=round(percentile(_times(many), 0.5), 1),
        many_p95_ms=round(p95[1], 1),
        ratio=round(p95[1] / p95[0], 2),
        first_turn_p50_ms=round(percentile(_times(first), 0.5), 1),
        memory_mb_before=round(before, 1),
        memory_mb_after=round(service.memory, 1),
        statuses=statuses([*closed, *warm, *one, *first, *many]),
    )


async def talk(
    service: Service, schemas: Sequence[Schema], *, conversations: int, rate: float, seconds: float
) -> tuple[list[Sample], list[Sample]]:
    """The first turn of every conversation, one after the other; then turns of all of them at a rate. The conversations
    have the schemas in turn."""
    load = Load(service.port, _dialogues(), seats=conversations, schemas=[schema.to_json() for schema in schemas])
    await load.talks.prepare(conversations)
    first = [await load.send(seat) for seat in range(conversations)]
    then = await load.open(rate, seconds)
    load.close()
    return first, then


def _dialogues() -> list[Dialogue]:
    return list(synthetic_dialogues(dialogues=200, seed=1))


def _times(samples: Sequence[Sample]) -> list[float]:
    return [sample.milliseconds for sample in samples]


if __name__ == "__main__":
    run_alone(main)
