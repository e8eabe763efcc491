"""Running a predictor over labelled dialogues, many side by side, each on its own predicted states.

Turns go through `tracking/step.py`, as in a live conversation, so evaluation measures what people get: known values,
closed lists, slots that must differ, and a threshold. With a threshold, writes that are less probable are not made, as
a tracker holds them back until somebody answers. Oracles put the truth in place of a part of the prediction, as in the
paper's error analysis:

    state       the gold state before the turn is fed instead of the predicted one
    operations  the gold operations, relative to the state that was fed
    values      the gold values, for the slots whose operation is UPDATE

Does not count anything; see `metrics.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from somdst.errors import CorpusError, InputError, no_such
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.operations import Operation
from somdst.memory.schema import Schema
from somdst.memory.state import State
from somdst.model.prediction import Prediction, Predictor, SlotPrediction, TurnInput
from somdst.tracking.log import EMPTY, Result
from somdst.tracking.step import Rules, reads_schemas, rolling_batches, step

Oracle = Literal["state", "operations", "values"]
Oracles = frozenset[Oracle]
ORACLES: tuple[Oracle, ...] = get_args(Oracle)


@dataclass(frozen=True, slots=True)
class TurnRun:
    """One turn as it was run."""

    turn: Turn
    fed: State
    """The memory before the turn, as the predictor saw it."""
    prediction: Prediction
    """Operations, values and probabilities, oracles included, without what was held back."""
    predicted: State
    """The memory after the turn. A value in a spelling that the corpus accepts is written as in the gold state."""
    gold: State

    @property
    def correct(self) -> bool:
        """All slots are right: what joint goal accuracy counts."""
        return self.predicted == self.gold


@dataclass(frozen=True, slots=True)
class DialogueRun:
    id: str
    turns: tuple[TurnRun, ...]
    schema: Schema | None = field(default=None, compare=False)
    """The slots that were tracked, where dialogues have different ones."""

    def before(self, number: int) -> tuple[State, State]:
        """The predicted and the gold state before a turn; the first is 0."""
        return (self.turns[number - 1].predicted, self.turns[number - 1].gold) if number else (State(), State())


def parse_oracles(text: str) -> Oracles:
    """Read the command line's form.

    >>> sorted(parse_oracles("state,values"))
    ['state', 'values']
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in ORACLES:
            raise InputError(no_such("oracle", word, ORACLES))
    return frozenset(oracle for oracle in ORACLES if oracle in words)


def run(
    predictor: Predictor,
    dialogues: Iterable[Dialogue],
    *,
    schema: Schema | None = None,
    oracle: Oracles = frozenset(),
    threshold: float = 0.0,
    batch_size: int = 64,
    progress: Callable[[int], None] | None = None,
) -> list[DialogueRun]:
    """Run every dialogue and give the results in the order of the dialogues.

    A dialogue that has a schema of its own is tracked with it, if the predictor reads schemas. The others are tracked
    with `schema`, or else the predictor's own. `progress` is called with the number of turns done.
    """
    if batch_size < 1:
        raise InputError(f"A batch needs at least one turn, not {batch_size}.")
    given = list(dialogues)
    rules = [Rules(_schema_of(dialogue, schema, predictor), predictor.operation_set, threshold) for dialogue in given]
    gold = [_gold_states(dialogue, own.schema) for dialogue, own in zip(given, rules, strict=True)]
    memories = [EMPTY] * len(given)
    done: list[list[TurnRun]] = [[] for _ in given]
    for batch in rolling_batches([len(states) for states in gold], batch=batch_size):
        if "state" in oracle:
            for place, t in batch:
                memories[place] = replace(memories[place], state=gold[place][t - 1] if t else State())
        truth = [gold[place][t] for place, t in batch]
        steps = [(memories[place], given[place].turns[t]) for place, t in batch]
        own = [rules[place] for place, _ in batch]
        results = step(_Oracle.around(predictor, oracle, truth), steps, own)
        for (place, t), state, result in zip(batch, truth, results, strict=True):
            turn, fed, memories[place] = given[place].turns[t], memories[place].state, result.snapshot
            fed, predicted = (as_labelled(tracked, state, turn) for tracked in (fed, result.state))
            done[place].append(TurnRun(turn, fed, _acted_on(result, rules[place]), predicted, state))
        if progress:
            progress(len(batch))
    return [
        DialogueRun(dialogue.id, tuple(turns), own.schema if dialogue.schema else None)
        for dialogue, turns, own in zip(given, done, rules, strict=True)
    ]


def as_labelled(state: State, gold: State, turn: Turn) -> State:
    """A tracked state, with values in an accepted spelling written as in the gold state."""
    accepted = turn.spellings or {}
    respelled = {slot: gold[slot] for slot, value in state.items() if slot in gold and value in accepted.get(slot, ())}
    return state.with_values(respelled) if respelled else state


def _schema_of(dialogue: Dialogue, schema: Schema | None, predictor: Predictor) -> Schema:
    own = dialogue.schema if reads_schemas(predictor) else None
    return own or schema or predictor.schema


def _gold_states(dialogue: Dialogue, schema: Schema) -> list[State]:
    if not dialogue.labelled:
        raise CorpusError(f"The dialogue {dialogue.id} has a turn without a state: evaluation needs labels everywhere.")
    return [state.within(schema) for state in dialogue.states()]


def _acted_on(result: Result, rules: Rules) -> Prediction:
    """The part of a prediction that the tracker acted on: nothing outside its schema or below its threshold.

    An update whose value a closed list refused is among it: the operation was predicted, and its value is wrong.
    """
    assert result.prediction is not None  # a step of a model has one
    slots = {
        slot: said
        for slot, said in result.prediction.slots.items()
        if slot in rules.schema and said.probability >= rules.threshold
    }
    return replace(result.prediction, slots=slots)


class _Oracle:
    """A predictor that wraps another and knows the truth of one batch: the gold state after each turn."""

    def __init__(self, predictor: Predictor, oracles: Oracles, truth: Sequence[State]) -> None:
        self.predictor, self.oracles, self.truth = predictor, oracles, truth
        self.schema, self.fixed_schema = predictor.schema, not reads_schemas(predictor)
        self.operation_set, self.history, self.model_id = predictor.operation_set, predictor.history, predictor.model_id

    @classmethod
    def around(cls, predictor: Predictor, oracles: Oracles, truth: Sequence[State]) -> Predictor:
        return cls(predictor, oracles, truth) if oracles & {"operations", "values"} else predictor

    def predict(
        self, inputs: Sequence[TurnInput], *, operations: Sequence[Mapping[str, Operation]] | None = None
    ) -> list[Prediction]:
        if "operations" in self.oracles:
            pairs = zip(inputs, self.truth, strict=True)
            derived = [self.operation_set.derive(given.state, truth) for given, truth in pairs]
            if "values" in self.oracles:  # nothing is left to predict
                return [
                    Prediction({s: SlotPrediction(o, 1.0, d.values.get(s)) for s, o in d.operations.items()})
                    for d in derived
                ]
            operations = [d.operations for d in derived]
        predictions = self.predictor.predict(inputs, operations=operations)
        if "values" in self.oracles:
            predictions = [self._with_gold_values(p, truth) for p, truth in zip(predictions, self.truth, strict=True)]
        return predictions

    def _with_gold_values(self, prediction: Prediction, gold: State) -> Prediction:
        # Where UPDATE is the wrong operation (the slot should be NULL or DONTCARE) no generated value could be right,
        # and the predicted one stays.
        slots = {
            slot: replace(said, value=gold.get(slot), evidence=None)
            if said.operation is Operation.UPDATE and self.operation_set.classify(gold.get(slot)) is Operation.UPDATE
            else said
            for slot, said in prediction.slots.items()
        }
        return replace(prediction, slots=slots)
