"""One step, used by everything that tracks: memories and turns in, through a predictor and the rules, entries out.

Live conversations, the service, bulk annotation, evaluation, replays and benchmarks all call `step`, so all of them
get the same states. It is pure: it reads snapshots and gives results, and keeps nothing. `rolling_batches` says which
turns of many dialogues can go through the model together.

Does not decide what becomes of a prediction (`decisions.py`) and stores nothing (`conversation.py`, `store/`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from somdst.memory.dialogue import Turn
from somdst.memory.schema import Schema
from somdst.memory.state import State
from somdst.model.prediction import Prediction, Predictor, TurnInput, reads_schemas
from somdst.tracking.decisions import Rules, decide
from somdst.tracking.log import Result, leaving
from somdst.tracking.records import Entry, Snapshot, now

Step = tuple[Snapshot, Turn]
"""A memory, and the turn that comes next."""


def step(
    predictor: Predictor, steps: Sequence[Step], rules: Rules | Sequence[Rules], *, time: datetime | None = None
) -> list[Result]:
    """What turns do to as many memories, in one run of the predictor. `rules` are those of all, or one for each."""
    if not steps:
        return []
    each = [rules] * len(steps) if isinstance(rules, Rules) else rules
    inputs = [turn_input(predictor, *one, own.schema) for one, own in zip(steps, each, strict=True)]
    time = time or now()
    return [
        Result.of(snapshot, _entry(snapshot, turn, prediction, own, model=predictor.model_id, time=time), prediction)
        for (snapshot, turn), own, prediction in zip(steps, each, predictor.predict(inputs), strict=True)
    ]


def turn_input(predictor: Predictor, snapshot: Snapshot, turn: Turn, schema: Schema | None = None) -> TurnInput:
    """What a predictor reads of a memory: the last turns, and the slots that it knows. It never sees a label."""
    state, known = snapshot.state, (schema or predictor.schema) if reads_schemas(predictor) else predictor.schema
    if any(slot not in known for slot in state):  # written under another model: kept, but this one cannot read it
        state = State({slot: value for slot, value in state.items() if slot in known})
    history = predictor.history
    seen = tuple(item.turn for item in snapshot.recent[-history:]) if history else ()
    return TurnInput(seen[-1] if seen else None, _unlabelled(turn), state, older=seen[:-1], schema=schema)


def _entry(
    snapshot: Snapshot, turn: Turn, prediction: Prediction, rules: Rules, *, model: str, time: datetime
) -> Entry:
    decision = decide(snapshot, prediction, rules)
    return replace(
        Entry.after(snapshot, "turn", "model", time),
        model=model,
        turn=_unlabelled(turn),
        domain=prediction.domain,
        changes=decision.changes,
        held=decision.held,
        released=decision.released,
        refused=decision.refused,
        dropped=leaving(snapshot),
    )


def _unlabelled(turn: Turn) -> Turn:
    return Turn(system=turn.system, user=turn.user)


def rolling_batches(lengths: Sequence[int], *, batch: int) -> Iterator[list[tuple[int, int]]]:
    """Which turns of many dialogues to step together: pairs of a dialogue's place and a turn's, both from 0.

    A turn needs the memory after the turn before it, so a batch has one turn from each of many dialogues. When a
    dialogue ends, the next one takes its place. Long dialogues start first, so that batches stay full until the end.

    >>> list(rolling_batches([1, 3, 2], batch=2))
    [[(1, 0), (2, 0)], [(1, 1), (2, 1)], [(1, 2), (0, 0)]]
    """
    places = [place for place, length in enumerate(lengths) if length]
    waiting = sorted(places, key=lambda place: (lengths[place], -place))  # the longest, and of those the first, is last
    active: list[tuple[int, int]] = []
    while waiting or active:
        while waiting and len(active) < batch:
            active.append((waiting.pop(), 0))
        yield active
        active = [(place, turn + 1) for place, turn in active if turn + 1 < lengths[place]]
