"""What is counted about runs, each by the rule that reproduces the paper's tables.

Accuracies, precision, recall and F1 are in percent. A rule that is easy to get wrong is written at its field.
Does not run a model; see `run.py`. Does not judge probabilities; see `calibration.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from somdst.errors import CorpusError
from somdst.evaluate.run import DialogueRun, TurnRun
from somdst.memory.operations import Operation, OperationSet
from somdst.memory.schema import Schema
from somdst.memory.state import State


@dataclass(frozen=True, slots=True)
class DomainMetrics:
    """Over the turns whose gold state has a slot of the domain, looking only at the slots of the domain."""

    domain: str
    turns: int
    joint_goal_accuracy: float
    slot_accuracy: float
    """As the paper counts it: wrong slots of the domain against all slots of the schema, so it is always high."""
    own_slot_accuracy: float
    """Wrong slots of the domain against the slots of the domain."""


@dataclass(frozen=True, slots=True)
class OperationMetrics:
    operation: Operation
    between_gold_states: int
    """How often it happens between the gold states of consecutive turns: the paper's operation counts."""
    gold: int
    """How often it was right, relative to the state that was fed: with a wrong state there is more to correct."""
    predicted: int
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True)
class TurnNumberMetrics:
    number: int
    """1 is a dialogue's first turn."""
    turns: int
    joint_goal_accuracy: float


@dataclass(frozen=True, slots=True)
class SlotMetrics:
    """In how many turns a slot is wrong in the predicted state, and how."""

    slot: str
    wrong: int
    missing: int
    extra: int
    different: int
    accuracy: float
    """Over the turns in which the slot is filled, in the gold or in the predicted state."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The least, mean and greatest number per turn."""

    least: int
    mean: float
    most: int

    @classmethod
    def of(cls, numbers: Sequence[int]) -> Spread:
        return cls(min(numbers), sum(numbers) / len(numbers), max(numbers)) if numbers else cls(0, 0.0, 0)


@dataclass(frozen=True, slots=True)
class EmptyState:
    """What a tracker that never writes gets: the figure to compare with where a model sees slots for the first time."""

    joint_goal_accuracy: float
    turns_right: float


@dataclass(frozen=True, slots=True)
class Metrics:
    dialogues: int
    turns: int
    joint_goal_accuracy: float
    turns_right: float
    """Turns that changed what they should, to the right values, and nothing else, whatever was wrong before them."""
    empty_state: EmptyState
    slot_accuracy: float
    slot_f1: float
    """F1 of slot-value pairs of each turn, averaged over turns; a turn that is rightly empty counts 100."""
    final_turn_joint_accuracy: float
    domains: tuple[DomainMetrics, ...]
    operations: tuple[OperationMetrics, ...]
    confusion: tuple[tuple[int, ...], ...]
    """`confusion[gold][predicted]`, both in the order of `operations`."""
    by_turn: tuple[TurnNumberMetrics, ...]
    slots_generated: Spread
    """UPDATE operations per turn, as predicted."""
    slots_to_generate: Spread
    """UPDATE operations per turn between gold states: what the paper's efficiency table counts."""
    slots: tuple[SlotMetrics, ...]
    """All slots, hardest first."""

    def operation(self, operation: Operation) -> OperationMetrics:
        return next(row for row in self.operations if row.operation is operation)

    def to_json(self) -> dict[str, Any]:
        rounded: dict[str, Any] = _rounded(asdict(self))
        return rounded


def measure(runs: Sequence[DialogueRun], *, schema: Schema, operation_set: OperationSet) -> Metrics:
    """Count everything about these runs."""
    turns = [turn for run in runs for turn in run.turns]
    if not turns:
        raise CorpusError("There is no turn to measure: the corpus or the limit leaves nothing.")
    wrong = [turn.predicted.differing(turn.gold) for turn in turns]
    between = [derived for run in runs for derived in _between_gold_states(run, operation_set)]
    slots = sum(len(run.schema or schema) * len(run.turns) for run in runs)
    confusion = _confusion(turns, slots, operation_set)
    return Metrics(
        dialogues=len(runs),
        turns=len(turns),
        joint_goal_accuracy=_percent(sum(not names for names in wrong), len(turns)),
        turns_right=_percent(sum(map(_turns_right, runs)), len(turns)),
        empty_state=EmptyState(
            joint_goal_accuracy=_percent(sum(not turn.gold for turn in turns), len(turns)),
            turns_right=_percent(sum(not operations for operations in between), len(turns)),
        ),
        slot_accuracy=100.0 - _percent(sum(map(len, wrong)), slots),
        slot_f1=sum(_pair_f1(turn) for turn in turns) / len(turns),
        final_turn_joint_accuracy=_accuracy([run.turns[-1] for run in runs if run.turns]),
        domains=tuple(_domains(turns, wrong, schema)),
        operations=tuple(_operations(confusion, between, slots, operation_set)),
        confusion=confusion,
        by_turn=tuple(_by_turn(runs)),
        slots_generated=Spread.of([len(turn.prediction.values) for turn in turns]),
        slots_to_generate=Spread.of([operations.count(Operation.UPDATE) for operations in between]),
        slots=tuple(_slots(turns, wrong, schema)),
    )


def joint_goal_accuracy(runs: Iterable[DialogueRun]) -> float:
    """The percentage of turns whose predicted state is the gold state: the one number, without the rest."""
    return _accuracy([turn for run in runs for turn in run.turns])


def _percent(part: float, whole: float) -> float:
    return 100.0 * part / whole if whole else 0.0


def _accuracy(turns: Sequence[TurnRun]) -> float:
    return _percent(sum(turn.correct for turn in turns), len(turns))


def _pair_f1(turn: TurnRun) -> float:
    right = len(turn.predicted.items() & turn.gold.items())
    total = len(turn.predicted) + len(turn.gold)
    return 200.0 * right / total if total else 100.0


def _between_gold_states(run: DialogueRun, operation_set: OperationSet) -> list[list[Operation]]:
    states = [State(), *(turn.gold for turn in run.turns)]
    return [list(operation_set.derive(before, after).operations.values()) for before, after in pairwise(states)]


def _domains(turns: Sequence[TurnRun], wrong: Sequence[set[str]], schema: Schema) -> Iterable[DomainMetrics]:
    for domain in schema.domains:
        own = {str(slot) for slot in schema.slots if slot.domain == domain}
        errors = [len(slots & own) for turn, slots in zip(turns, wrong, strict=True) if not own.isdisjoint(turn.gold)]
        if errors:
            yield DomainMetrics(
                domain=domain,
                turns=len(errors),
                joint_goal_accuracy=_percent(errors.count(0), len(errors)),
                slot_accuracy=100.0 - _percent(sum(errors), len(errors) * len(schema)),
                own_slot_accuracy=100.0 - _percent(sum(errors), len(errors) * len(own)),
            )


def _turns_right(run: DialogueRun) -> int:
    right = 0
    for number, turn in enumerate(run.turns):
        before, gold_before = run.before(number)
        right += _changes(before, turn.predicted) == _changes(gold_before, turn.gold)
    return right


def _changes(before: State, after: State) -> dict[str, object]:
    return {slot: after.get(slot) for slot in before.differing(after)}


def _confusion(turns: Sequence[TurnRun], slots: int, operation_set: OperationSet) -> tuple[tuple[int, ...], ...]:
    pairs: Counter[tuple[Operation, Operation]] = Counter()
    carryover = Operation.CARRYOVER
    for turn in turns:
        gold = operation_set.derive(turn.fed, turn.gold).operations
        predicted = turn.prediction.operations
        named = gold.keys() | predicted.keys()
        pairs.update((gold.get(slot, carryover), predicted.get(slot, carryover)) for slot in named)
    pairs[carryover, carryover] += slots - pairs.total()
    order = operation_set.operations
    return tuple(tuple(pairs[gold, predicted] for predicted in order) for gold in order)


def _operations(
    confusion: Sequence[Sequence[int]],
    between: Sequence[Sequence[Operation]],
    slots: int,
    operation_set: OperationSet,
) -> Iterable[OperationMetrics]:
    happened = Counter(operation for operations in between for operation in operations)
    happened[Operation.CARRYOVER] = slots - happened.total()
    for i, operation in enumerate(operation_set.operations):
        gold, predicted, right = sum(confusion[i]), sum(row[i] for row in confusion), confusion[i][i]
        yield OperationMetrics(
            operation=operation,
            between_gold_states=happened[operation],
            gold=gold,
            predicted=predicted,
            precision=_percent(right, predicted),
            recall=_percent(right, gold),
            f1=_percent(2 * right, gold + predicted),
        )


def _by_turn(runs: Sequence[DialogueRun]) -> Iterable[TurnNumberMetrics]:
    for t in range(max(len(run.turns) for run in runs)):
        turns = [run.turns[t] for run in runs if len(run.turns) > t]
        yield TurnNumberMetrics(t + 1, len(turns), _accuracy(turns))


def _slots(turns: Sequence[TurnRun], wrong: Sequence[set[str]], schema: Schema) -> list[SlotMetrics]:
    filled: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    extra: Counter[str] = Counter()
    different: Counter[str] = Counter()
    for turn, slots in zip(turns, wrong, strict=True):
        filled.update(turn.gold.keys() | turn.predicted.keys())
        for slot in slots:
            kind = missing if slot not in turn.predicted else extra if slot not in turn.gold else different
            kind[slot] += 1
    rows = []
    for slot in map(str, schema.slots):
        count = missing[slot] + extra[slot] + different[slot]
        accuracy = 100.0 - _percent(count, filled[slot])
        rows.append(SlotMetrics(slot, count, missing[slot], extra[slot], different[slot], accuracy))
    return sorted(rows, key=lambda row: (-row.wrong, row.slot))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(entry) for entry in value]
    return value
