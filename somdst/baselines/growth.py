"""How the time of a turn grows with the number of slots J and of values M, measured: the paper's table 11.

Systems are untrained, on the same encoder, with J made-up slots and M made-up values each: what they say is nonsense,
but they do the same work. The best case is a turn in which nothing changes, the worst one in which every slot gets a
value; both are forced from outside, as oracles force operations. Turns are those of a real corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from somdst.baselines.system_predictor import SystemPredictor
from somdst.evaluate.speed import evenly, seconds_of
from somdst.learn.kinds import kind_of
from somdst.learn.settings import Settings
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.operations import Operation
from somdst.memory.schema import Schema, Slot
from somdst.memory.state import State
from somdst.model.prediction import Predictor, TurnInput
from somdst.model.values import Lexicon
from somdst.tracking.step import input_at

SLOTS, VALUES = (5, 10, 20, 30), (10, 100, 400)
"""What is measured: these J with M = 20, and these M with J = 10."""
USUAL_SLOTS, USUAL_VALUES = 10, 20
VALUE_LENGTH = 5
"""Most pieces of a value: an untrained generator would not stop."""
PER_DOMAIN = 5


@dataclass(frozen=True, slots=True)
class Point:
    """Median milliseconds of a turn."""

    slots: int
    values: int
    best: float
    worst: float


def measure_growth(
    settings: Settings,
    dialogues: Sequence[Dialogue],
    *,
    turns: int = 12,
    sizes: Sequence[tuple[int, int]] | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Point]:
    """Of the system that the settings name."""
    points = []
    for J, M in sizes if sizes is not None else all_sizes():
        schema = made_schema(J)
        predictor = untrained(settings, schema, M, dialogues)
        given = [(one, turn) for one in dialogues for turn in range(len(one.turns))]
        inputs = [
            input_at(one.turns[: turn + 1], State(), history=predictor.history) for one, turn in evenly(given, turns)
        ]
        every = {str(slot): Operation.UPDATE for slot in schema.slots}
        predictor.predict(inputs[:1], operations=[every])  # compiles the schema
        times: list[list[float]] = [[], []]
        for one in inputs:
            for case, forced in enumerate(({}, every)):
                read_before(predictor, one)
                times[case].append(1000 * seconds_of(predictor, one, forced))
        points.append(Point(J, M, *map(median, times)))
        progress(1)
    return points


def read_before(predictor: Predictor, input: TurnInput) -> None:
    """A recurrent system has read the turns before this one, and not yet this one."""
    if isinstance(predictor, SystemPredictor):
        predictor.forget()
        if input.previous_turn:
            older = input.older[:-1]
            before = TurnInput(input.older[-1] if input.older else None, input.previous_turn, input.state, older=older)
            predictor.predict([before])


def all_sizes() -> list[tuple[int, int]]:
    return [*((J, USUAL_VALUES) for J in SLOTS), *((USUAL_SLOTS, M) for M in VALUES)]


def made_schema(slots: int) -> Schema:
    return Schema(
        Slot.of(f"domain {chr(97 + j // PER_DOMAIN)}", f"slot {chr(97 + j % PER_DOMAIN)}") for j in range(slots)
    )


def untrained(settings: Settings, schema: Schema, values: int, dialogues: Sequence[Dialogue]) -> Predictor:
    """A system for this schema whose slots have this many values each."""
    kind = kind_of(settings.system)
    chosen = kind.settings(settings.model_copy(update={"max_value_length": VALUE_LENGTH}))
    states = (State({str(slot): f"value {m}" for slot in schema.slots}) for m in range(values))
    labels = Dialogue("values", tuple(Turn("", "hello", state) for state in states))
    texts = [replace(one, turns=tuple(replace(turn, state=State()) for turn in one.turns)) for one in dialogues]
    model, encoder = kind.new_model(chosen, schema, [*texts, labels])
    return kind.predictor(model, encoder, precision="fp32", lexicon=Lexicon({}, cutoff=0.0))
