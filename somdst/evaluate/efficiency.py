"""What a turn costs (paper, section 6.3): values generated and time, in three regimes, with the same model.

    ours            the values of the slots whose operation is UPDATE
    every-non-null  the values of all slots that are filled after the turn, as COMER does
    every           the values of all slots, as TRADE does

Values are counted over all turns, on the states that the model itself predicted; for the times all three are run for
real on a sample of these turns, one at a time. Times include tokenisation, which the paper leaves out.
Evaluation in batches is timed too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import fmean
from typing import Any

from somdst.evaluate.metrics import Spread
from somdst.evaluate.run import DialogueRun, TurnRun, run
from somdst.evaluate.speed import evenly, seconds_of
from somdst.memory.dialogue import Dialogue, count_turns
from somdst.memory.operations import Operation
from somdst.memory.schema import Schema
from somdst.model.prediction import Predictor, TurnInput
from somdst.tracking.step import input_at

REGIMES = ("ours", "every-non-null", "every")


@dataclass(frozen=True, slots=True)
class Milliseconds:
    least: float
    mean: float
    most: float


@dataclass(frozen=True, slots=True)
class Regime:
    name: str
    turns: int
    """How many were timed, one at a time."""
    generated: Spread
    """Values per turn, over all turns."""
    milliseconds: Milliseconds


@dataclass(frozen=True, slots=True)
class Efficiency:
    slots: int
    """J, the number of slots."""
    values_per_slot: float
    """M: distinct values of a slot in the labels of the corpus, on average."""
    filled: Spread
    """Slots that are not NULL in the gold state of a turn: what the paper counts for COMER."""
    to_generate: Spread
    """UPDATE operations between gold states: what the paper counts for SOM-DST."""
    regimes: tuple[Regime, ...]

    def regime(self, name: str) -> Regime:
        return next(regime for regime in self.regimes if regime.name == name)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Batching:
    """All dialogues evaluated in batches, and some of them, evenly spread, turn by turn."""

    batch_size: int
    turns: int
    batched: float
    """Turns per second."""
    turns_one_by_one: int
    one_by_one: float

    @property
    def times_faster(self) -> float:
        return self.batched / self.one_by_one

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"times_faster": self.times_faster}


def measure_efficiency(
    predictor: Predictor,
    runs: Sequence[DialogueRun],
    *,
    schema: Schema | None = None,
    to_generate: Spread,
    turns: int = 100,
    progress: Callable[[int], None] | None = None,
) -> Efficiency:
    """Time a sample of the turns of these runs, evenly spread over them, in each regime."""
    slots = schema or predictor.schema
    sample = _sample(runs, turns, slots, history=predictor.history)
    for given, _ in sample[:3]:
        predictor.predict([given])  # the first calls of a session are slower
    timed: dict[str, list[float]] = {name: [] for name in REGIMES}
    for given, turn in sample:
        for name in REGIMES:
            own = given.schema or slots
            timed[name].append(1000.0 * seconds_of(predictor, given, _operations(name, turn, own)))
        if progress:
            progress(1)
    done = [(turn, run.schema or slots) for run in runs for turn in run.turns]
    gold = [turn.gold for turn, _ in done]
    return Efficiency(
        slots=len(slots),
        values_per_slot=len({pair for state in gold for pair in state.items()}) / len(slots),
        filled=Spread.of([len(state) for state in gold]),
        to_generate=to_generate,
        regimes=tuple(
            Regime(
                name=name,
                turns=len(timed[name]),
                generated=Spread.of([values_generated(name, turn, own) for turn, own in done]),
                milliseconds=Milliseconds(min(timed[name]), fmean(timed[name]), max(timed[name])),
            )
            for name in REGIMES
        ),
    )


def measure_batching(
    predictor: Predictor,
    dialogues: Sequence[Dialogue],
    *,
    schema: Schema | None = None,
    batch_size: int = 256,
    turns: int = 100,
    seconds: float | None = None,
) -> Batching:
    """`turns`: about how many are run one by one. `seconds`: what all took in batches, if that is known already."""
    timed = partial(_seconds, predictor, schema=schema)
    timed(dialogues[:1], batch_size=1)
    some = evenly(dialogues, len(dialogues) * turns // max(1, count_turns(dialogues)) or 1)
    rate = count_turns(some) / timed(some, batch_size=1)
    batched = count_turns(dialogues) / (seconds or timed(dialogues, batch_size=batch_size))
    return Batching(batch_size, count_turns(dialogues), batched, count_turns(some), rate)


def _seconds(predictor: Predictor, dialogues: Sequence[Dialogue], *, schema: Schema | None, batch_size: int) -> float:
    start = time.perf_counter()
    run(predictor, dialogues, schema=schema, batch_size=batch_size)
    return time.perf_counter() - start


def _sample(
    runs: Sequence[DialogueRun], count: int, schema: Schema, *, history: int
) -> list[tuple[TurnInput, TurnRun]]:
    places = [(run, t) for run in runs for t in range(len(run.turns))]
    return [(_input(run, t, run.schema or schema, history), run.turns[t]) for run, t in evenly(places, count)]


def _input(run: DialogueRun, t: int, schema: Schema, history: int) -> TurnInput:
    return input_at([done.turn for done in run.turns[: t + 1]], run.turns[t].fed, history=history, schema=schema)


def _operations(regime: str, turn: TurnRun, schema: Schema) -> Mapping[str, Operation] | None:
    if regime == "ours":
        return None
    return dict.fromkeys(turn.predicted if regime == "every-non-null" else schema, Operation.UPDATE)


def values_generated(regime: str, turn: TurnRun, schema: Schema) -> int:
    """How many values a turn costs in a regime."""
    asked = _operations(regime, turn, schema)
    return len(turn.prediction.values if asked is None else asked)
