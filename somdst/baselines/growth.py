"""How the time of a turn grows with the number of slots J and of values M, measured: the paper's table 11.

Systems are untrained, on the same encoder, with J made-up slots and M made-up values each: what they say is nonsense,
but they do the same work. The best case is a turn in which nothing changes, the worst one in which every slot gets a
value; both are forced from outside, as oracles force operations. Turns are those of a real corpus. Systems are timed in
turn, so that whatever else the machine does affects all of them alike. What the encoder takes is also measured by
itself, because it would hide how decoders differ.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from somdst.baselines.system_predictor import SystemPredictor
from somdst.evaluate.speed import evenly, seconds_of
from somdst.learn.kinds import kind_of
from somdst.learn.settings import Settings
from somdst.learn.torch_predictor import TorchPredictor
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
    decoding: float
    """Of the worst case, everything but the encoder's pass over the text."""


@dataclass(slots=True)
class EncoderUse:
    """What went through the encoder."""

    sequences: int = 0
    tokens: int = 0
    seconds: float = 0.0


def measure_growth(
    systems: Sequence[Settings],
    dialogues: Sequence[Dialogue],
    *,
    turns: int = 12,
    sizes: Sequence[tuple[int, int]] | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[str, tuple[Point, ...]]:
    """By the names of the systems, which their settings say."""
    found: dict[str, list[Point]] = {settings.system: [] for settings in systems}
    given = evenly([(one, turn) for one in dialogues for turn in range(len(one.turns))], turns)
    for J, M in sizes if sizes is not None else all_sizes():
        schema = made_schema(J)
        predictors = {settings.system: untrained(settings, schema, M, dialogues) for settings in systems}
        every = {str(slot): Operation.UPDATE for slot in schema.slots}
        times: dict[str, list[tuple[float, float, float]]] = {name: [] for name in predictors}
        for number, (dialogue, turn) in enumerate([*given[:1], *given]):  # the first one warms up, and does not count
            for name, predictor in predictors.items():
                one = input_at(dialogue.turns[: turn + 1], State(), history=predictor.history)
                read_before(predictor, one)
                best = seconds_of(predictor, one, {})
                read_before(predictor, one)
                with watching_encoder(predictor) as use:
                    worst = seconds_of(predictor, one, every)
                if number:
                    times[name].append((best, worst, worst - use.seconds))
        for name, taken in times.items():
            found[name].append(Point(J, M, *(1000 * median(case) for case in zip(*taken, strict=True))))
        progress(1)
    return {name: tuple(points) for name, points in found.items()}


@contextmanager
def watching_encoder(predictor: Predictor) -> Iterator[EncoderUse]:
    """Counts and times what goes through a predictor's encoder."""
    assert isinstance(predictor, (SystemPredictor, TorchPredictor))
    model: Any = predictor.system if isinstance(predictor, SystemPredictor) else predictor.model
    use = EncoderUse()

    def starts(module: Any, args: Any, kwargs: Any) -> None:
        rows, length = kwargs["inputs_embeds"].shape[:2]
        use.sequences += rows
        use.tokens += rows * length
        use.seconds -= time.perf_counter()

    def ends(module: Any, args: Any, output: Any) -> None:
        use.seconds += time.perf_counter()

    encoder = model.text_encoder.encoder
    handles = (encoder.register_forward_pre_hook(starts, with_kwargs=True), encoder.register_forward_hook(ends))
    try:
        yield use
    finally:
        for handle in handles:
            handle.remove()


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
