"""Running a predictor over labelled dialogues, many side by side, each on its own predicted states.

A batch holds the next turn of many dialogues. When a dialogue ends, the next one takes its place; long dialogues
start first, so that batches stay full until the last. Oracles put the truth in place of a part of the prediction, as
in the paper's error analysis:

    state       the gold state before the turn is fed instead of the predicted one
    operations  the gold operations, relative to the state that was fed
    values      the gold values, for the slots whose operation is UPDATE

With a threshold, writes that are less probable are not made, as a tracker holds them back until somebody answers.
Counting is `metrics.py`'s concern.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from somdst.errors import CorpusError, InputError, did_you_mean
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.operations import Operation, OperationSet
from somdst.memory.schema import Schema
from somdst.memory.state import State
from somdst.model.prediction import Prediction, Predictor, SlotPrediction, TurnInput, apply_prediction

Oracle = Literal["state", "operations", "values"]
Oracles = frozenset[Oracle]
ORACLES: tuple[Oracle, ...] = get_args(Oracle)


@dataclass(frozen=True, slots=True)
class TurnRun:
    """One turn as it was run. Operations, values and probabilities are in `prediction`, oracles included."""

    turn: Turn
    fed: State
    """The memory before the turn, as the predictor saw it."""
    prediction: Prediction
    predicted: State
    gold: State

    @property
    def correct(self) -> bool:
        """All slots are right: what joint goal accuracy counts."""
        return self.predicted == self.gold


@dataclass(frozen=True, slots=True)
class DialogueRun:
    id: str
    turns: tuple[TurnRun, ...]


def parse_oracles(text: str) -> Oracles:
    """Read the command line's form.

    >>> sorted(parse_oracles("state,values"))
    ['state', 'values']
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in ORACLES:
            known = ", ".join(ORACLES)
            raise InputError(f'There is no oracle "{word}"; there are {known}.{did_you_mean(word, ORACLES)}')
    return frozenset(oracle for oracle in ORACLES if oracle in words)


def run(
    predictor: Predictor,
    dialogues: Iterable[Dialogue],
    *,
    oracle: Oracles = frozenset(),
    threshold: float = 0.0,
    batch_size: int = 64,
    progress: Callable[[int], None] | None = None,
) -> list[DialogueRun]:
    """Run every dialogue and give the results in the order of the dialogues. `progress` hears of turns just done."""
    if batch_size < 1:
        raise InputError(f"A batch needs at least one turn, not {batch_size}.")
    walks = [_Walk(dialogue, _gold_states(dialogue, predictor.schema), oracle) for dialogue in dialogues]
    waiting = deque(sorted((walk for walk in walks if not walk.ended), key=lambda walk: -len(walk.gold)))
    active: list[_Walk] = []
    while active or waiting:
        while waiting and len(active) < batch_size:
            active.append(waiting.popleft())
        _step(predictor, active, oracle, threshold)
        if progress:
            progress(len(active))
        active = [walk for walk in active if not walk.ended]
    return [DialogueRun(walk.dialogue.id, tuple(walk.done)) for walk in walks]


@dataclass(slots=True)
class _Walk:
    """One dialogue on its way: grows by one `TurnRun` a step."""

    dialogue: Dialogue
    gold: list[State]
    oracle: Oracles
    done: list[TurnRun] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return len(self.done) == len(self.gold)

    def input(self, history: int) -> TurnInput:
        t = len(self.done)
        turns = self.dialogue.turns
        before = [_unlabelled(turn) for turn in turns[max(0, t - history) : t]]
        state = State() if t == 0 else self.gold[t - 1] if "state" in self.oracle else self.done[-1].predicted
        return TurnInput(before[-1] if before else None, _unlabelled(turns[t]), state, tuple(before[:-1]))


def _unlabelled(turn: Turn) -> Turn:
    return Turn(turn.system, turn.user)  # no predictor can peek at the gold state


def _gold_states(dialogue: Dialogue, schema: Schema) -> list[State]:
    if not dialogue.labelled:
        raise CorpusError(f"The dialogue {dialogue.id} has a turn without a state: evaluation needs labels everywhere.")
    return [
        state
        if all(slot in schema for slot in state)
        else State({slot: value for slot, value in state.items() if slot in schema})
        for state in dialogue.states()
    ]


def _step(predictor: Predictor, walks: Sequence[_Walk], oracle: Oracles, threshold: float) -> None:
    inputs = [walk.input(predictor.history) for walk in walks]
    gold = [walk.gold[len(walk.done)] for walk in walks]
    predictions = _predict(predictor, inputs, gold, oracle)
    for walk, given, truth, prediction in zip(walks, inputs, gold, predictions, strict=True):
        if threshold:
            kept = {slot: said for slot, said in prediction.slots.items() if said.probability >= threshold}
            prediction = replace(prediction, slots=kept)
        after = apply_prediction(given.state, prediction, operation_set=predictor.operation_set)
        turn = walk.dialogue.turns[len(walk.done)]
        walk.done.append(TurnRun(turn, given.state, prediction, after, truth))


def _predict(
    predictor: Predictor, inputs: Sequence[TurnInput], gold: Sequence[State], oracle: Oracles
) -> list[Prediction]:
    operation_set = predictor.operation_set
    if "operations" not in oracle:
        predictions = predictor.predict(inputs)
    else:
        derived = [operation_set.derive(given.state, truth) for given, truth in zip(inputs, gold, strict=True)]
        if "values" in oracle:  # nothing is left to predict
            return [
                Prediction({s: SlotPrediction(o, 1.0, d.values.get(s)) for s, o in d.operations.items()})
                for d in derived
            ]
        predictions = predictor.predict(inputs, operations=[d.operations for d in derived])
    if "values" in oracle:
        predictions = [_with_gold_values(p, truth, operation_set) for p, truth in zip(predictions, gold, strict=True)]
    return predictions


def _with_gold_values(prediction: Prediction, gold: State, operation_set: OperationSet) -> Prediction:
    # Where UPDATE is the wrong operation (the slot should be NULL or DONTCARE) no generated value could be right, and
    # the predicted one stays.
    slots = {
        slot: replace(predicted, value=gold.get(slot), evidence=None)
        if predicted.operation is Operation.UPDATE and operation_set.classify(gold.get(slot)) is Operation.UPDATE
        else predicted
        for slot, predicted in prediction.slots.items()
    }
    return replace(prediction, slots=slots)
