#!/usr/bin/env python
"""How fast a corpus is read and its turns are encoded, on one core: `python benchmarks/data.py CORPUS`.

Each figure is the median of several repeats. Every repeat starts cold: the file is read again, and the encoder's cache
of texts is empty. Rates are by wall clock; beside them is the rate by processor time, which other work on the machine
disturbs less. Does not measure models.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any, NamedTuple

import typer

from somdst.cli import options
from somdst.cli.main import run_alone
from somdst.cli.output import notice, print_json, print_tables, working
from somdst.corpora import Corpus, open_corpus
from somdst.corpora.lengths import find_tokenizer
from somdst.corpora.opening import normalisation_for, schema_for
from somdst.evaluate.tables import Table
from somdst.memory.operations import FOUR, OperationSet
from somdst.memory.state import State
from somdst.model.config import ModelConfig
from somdst.model.encoding import Encoder
from somdst.model.prediction import TurnInput


def main(
    corpus: options.CorpusArgument,
    repeats: Annotated[int, typer.Option(min=1, help="How often each thing is measured; the median counts.")] = 5,
    turns: Annotated[int, typer.Option(min=1, help="Most turns to encode.")] = 10_000,
    schema: Annotated[str | None, typer.Option(help="A schema file, or `multiwoz`.")] = None,
    tokenizer: Annotated[Path | None, typer.Option(help="A tokenizer.json or model folder.")] = None,
    as_json: options.JsonOption = False,
) -> None:
    with working(f"measuring {repeats} times"):
        rates = measure(corpus, schema, tokenizer, repeats=repeats, turns=turns)
    if as_json:
        print_json({"corpus": corpus} | {rate.name.replace(" ", "_"): rate.to_json() for rate in rates})
        return
    rows = tuple((one.name, one.turns, one.turns_per_second, one.turns_per_processor_second) for one in rates)
    columns = ("work", "turns", "turns per second", "turns per processor second")
    print_tables([Table("data", "Reading and encoding", columns, rows, "Medians of the repeats, one core.")])


def measure(corpus: str, schema: str | None, tokenizer: Path | None, *, repeats: int, turns: int) -> list[Rate]:
    opened = open_corpus(corpus)
    slots = schema_for([opened], given=schema)
    rates = [measure_reading(lambda: open_corpus(corpus), repeats=repeats)]
    pieces = find_tokenizer(tokenizer)
    if pieces is None:
        notice("encoding is not measured: give a tokenizer.json with --tokenizer")
        return rates
    inputs = turn_inputs(opened, most=turns)
    for layout in ("compact", "paper"):
        config = ModelConfig.model_validate({"layout": layout, "normalisation": normalisation_for(slots)})
        make = partial(Encoder, pieces, slots, config)
        rates.append(measure_encoding(f"encoding {layout}", make, inputs, repeats=repeats))
    return rates


class Seconds(NamedTuple):
    wall: float
    processor: float


@dataclass(frozen=True, slots=True)
class Rate:
    """How long the same work took, again and again."""

    name: str
    turns: int
    repeats: tuple[Seconds, ...]

    @property
    def turns_per_second(self) -> float:
        return self.turns / median(seconds.wall for seconds in self.repeats)

    @property
    def turns_per_processor_second(self) -> float:
        return self.turns / median(seconds.processor for seconds in self.repeats)

    def to_json(self) -> dict[str, Any]:
        return {
            "turns": self.turns,
            "repeats": len(self.repeats),
            "turns_per_second": round(self.turns_per_second, 1),
            "turns_per_processor_second": round(self.turns_per_processor_second, 1),
            "seconds": [round(seconds.wall, 4) for seconds in self.repeats],
        }


def measure_reading(read: Callable[[], Corpus], *, repeats: int, operation_set: OperationSet = FOUR) -> Rate:
    """Read a corpus from its file and derive the operations of every turn."""

    def work() -> int:
        return sum(_derive_all(dialogue.states(), operation_set) for dialogue in read().dialogues)

    return _measure("reading and deriving", work, repeats=repeats)


def _derive_all(states: list[State], operation_set: OperationSet) -> int:
    before = State()
    for after in states:
        operation_set.derive(before, after)
        before = after
    return len(states)


def measure_encoding(name: str, make: Callable[[], Encoder], inputs: list[TurnInput], *, repeats: int) -> Rate:
    """Encode turns one at a time, in every repeat with a new encoder."""

    def work() -> int:
        encode = make().encode
        for input in inputs:
            encode(input)
        return len(inputs)

    return _measure(name, work, repeats=repeats)


def turn_inputs(corpus: Corpus, *, most: int) -> list[TurnInput]:
    """The first turns of a corpus, each with the turn and the state before it."""
    inputs: list[TurnInput] = []
    for dialogue in corpus.dialogues:
        state, previous = State(), None
        for turn in dialogue.turns:
            if len(inputs) == most:
                return inputs
            inputs.append(TurnInput(previous, turn, state))
            state, previous = turn.state if turn.state is not None else state, turn
    return inputs


def _measure(name: str, work: Callable[[], int], *, repeats: int) -> Rate:
    turns, taken = 0, []
    with one_core():
        for _ in range(repeats):
            wall, processor = time.perf_counter(), time.process_time()
            turns = work()
            taken.append(Seconds(time.perf_counter() - wall, time.process_time() - processor))
    return Rate(name, turns, tuple(taken))


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this process on one core, where the system can do that."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


if __name__ == "__main__":
    run_alone(main)
