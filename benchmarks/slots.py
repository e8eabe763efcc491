#!/usr/bin/env python
"""What a turn costs with few slots and with many, and what it costs to compile a schema: `python benchmarks/slots.py`.

The same turns, one at a time, under schemas of 5, 30, 100 and 300 slots of the written domains, and under the own one.
The schemas alternate. `--beside FOLDER` adds another model, with its own schema, to the same run.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Annotated

import typer

from somdst.cli import options
from somdst.cli.main import run_alone
from somdst.cli.output import print_json, print_tables, working
from somdst.corpora.domains import load_domains
from somdst.corpora.examples import examples
from somdst.corpora.made import made_schema
from somdst.evaluate.speed import Latency, Variant, Work, measure_latencies, predicting, work_of
from somdst.evaluate.tables import Table
from somdst.memory.schema import Schema, Slot
from somdst.memory.state import State
from somdst.model.prediction import TurnInput
from somdst.model.runtime import Runtime

SIZES = (5, 30, 100, 300)
OWN = "its own schema"


def main(
    model: options.ModelOption = "default",
    beside: Annotated[Path | None, typer.Option(help="Another model, measured in the same run.")] = None,
    turns: Annotated[int, typer.Option(min=4, help="Most turns per round.")] = 40,
    rounds: Annotated[int, typer.Option(min=1, help="How often each schema does them.")] = 5,
    as_json: options.JsonOption = False,
) -> None:
    work = work_of([item.dialogue for item in examples().values()], most=turns)
    runtime = Runtime.open(model, threads=2)
    schemas = {f"{size} slots": written_slots(size) for size in SIZES}
    variants: dict[str, Variant] = {OWN: predicting(runtime)}
    variants |= {name: under(runtime, schema) for name, schema in schemas.items()}
    if beside is not None:
        variants[str(beside)] = predicting(Runtime.open(str(beside), threads=2))
    with working("measuring"):
        compiled = {name: compile_ms(runtime, schema, rounds) for name, schema in schemas.items()}
        compiled[OWN] = compile_ms(runtime, runtime.schema, rounds)
        found = measure_latencies(variants, work, rounds=rounds)
    if as_json:
        print_json({"turn_ms": {name: each.to_json() for name, each in found.items()}, "compile_ms": compiled})
    else:
        print_tables([table(found, compiled, runtime)])


def table(found: dict[str, Latency], compiled: dict[str, float], runtime: Runtime) -> Table:
    rows = tuple(
        (name, each.p50, each.p95, round(each.p50 / found[OWN].p50, 2), compiled.get(name, ""))
        for name, each in found.items()
    )
    columns = ("schema", "p50 ms", "p95 ms", "ratio", "compile ms")
    note = f"{OWN.capitalize()} has {len(runtime.schema)} slots. A schema is compiled once, then kept."
    return Table("slots", "A turn by the number of slots", columns, rows, note)


def written_slots(number: int) -> Schema:
    """So many slots of written domains, with their descriptions and lists, every time the same."""
    rng = Random(f"{number} slots")
    domains = list(load_domains())
    rng.shuffle(domains)
    slots = [slot for domain in domains for slot in made_schema([domain], rng, frozenset()).slots]
    return Schema(slots[:number])


def under(runtime: Runtime, schema: Schema) -> Variant:
    """A turn of any dialogue with an empty memory of this schema."""
    return lambda work: runtime.predict([_with(work, schema)])


def _with(work: Work, schema: Schema) -> TurnInput:
    return replace(work.input, schema=schema, state=State())


def compile_ms(runtime: Runtime, schema: Schema, rounds: int) -> float:
    """The median of compiling a schema, each time with other descriptions, so that nothing is looked up."""
    taken: Sequence[float] = [_compile_once(runtime, schema, number) for number in range(rounds)]
    return round(statistics.median(taken) * 1000, 1)


def _compile_once(runtime: Runtime, schema: Schema, number: int) -> float:
    slots = [
        Slot.of(slot.domain, slot.name, description=f"{number} {slot.description}", values=slot.values)
        for slot in schema.slots
    ]
    began = time.perf_counter()
    runtime.compile(Schema(slots))
    return time.perf_counter() - began


if __name__ == "__main__":
    run_alone(main)
