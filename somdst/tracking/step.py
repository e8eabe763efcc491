"""One step, used by everything that tracks: memories and turns in, through a predictor and the rules, entries out.

Live conversations, the service, bulk annotation, evaluation, replays and benchmarks all call `step`, so all of them
get the same states. It is pure: it reads snapshots and gives results, and keeps nothing. Three rules decide what
becomes of a prediction, in this order:

1. a slot with a closed list takes only a value of the list: the nearest one. Where none is near, the write is refused;
2. a pinned slot changes only through a value that was copied from the words of the current turn;
3. a write that is less probable than the threshold is held back, with a question to ask.

`refit` applies the first rule to a whole memory when the schema of its conversation changes.

`rolling_batches` says which turns of many dialogues can go through the model together. Does not say which value is
nearest (`model/values.py`) and stores nothing (`conversation.py`, `store/`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from somdst.errors import InputError
from somdst.memory.dialogue import Turn
from somdst.memory.operations import FOUR, Operation, OperationSet
from somdst.memory.schema import Schema, Slot
from somdst.memory.state import State, Value
from somdst.model.prediction import Prediction, Predictor, TurnInput
from somdst.model.values import nearest
from somdst.tracking.log import Result, leaving
from somdst.tracking.questions import confirm
from somdst.tracking.records import Change, Entry, Pending, Refused, Snapshot, now

Step = tuple[Snapshot, Turn]
"""A memory, and the turn that comes next."""

MAX_TEXT = 20_000
"""Longest utterance, in characters. A model reads a few hundred words; anything far longer is not an utterance."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What decides, besides the prediction."""

    schema: Schema
    """Slots that are not in it are never written."""
    operation_set: OperationSet
    threshold: float = 0.0


def step(predictor: Predictor, steps: Sequence[Step], rules: Rules | Sequence[Rules]) -> list[Result]:
    """What turns do to as many memories, in one run of the predictor. `rules` are those of all, or one for each."""
    if not steps:
        return []
    each = [rules] * len(steps) if isinstance(rules, Rules) else rules
    inputs = [turn_input(predictor, *one, own.schema) for one, own in zip(steps, each, strict=True)]
    time = now()
    return [
        Result.of(snapshot, _entry(snapshot, turn, prediction, own, model=predictor.model_id, time=time), prediction)
        for (snapshot, turn), own, prediction in zip(steps, each, predictor.predict(inputs), strict=True)
    ]


def turn_input(predictor: Predictor, snapshot: Snapshot, turn: Turn, schema: Schema) -> TurnInput:
    """What a predictor reads of a memory: the last turns, and the slots that it knows. It never sees a label."""
    known = schema if reads_schemas(predictor) else predictor.schema
    state = snapshot.state.within(known)  # the rest was written under another model: kept, but this one cannot read it
    return input_at([*(item.turn for item in snapshot.recent), turn], state, history=predictor.history, schema=schema)


def input_at(turns: Sequence[Turn], state: State, *, history: int, schema: Schema | None = None) -> TurnInput:
    """The last of these turns on this memory, with at most `history` turns before it, all without their labels."""
    *seen, turn = (Turn(turn.system, turn.user) for turn in turns[-history - 1 :])
    return TurnInput(seen[-1] if seen else None, turn, state, older=tuple(seen[:-1]), schema=schema)


def _entry(
    snapshot: Snapshot, turn: Turn, prediction: Prediction, rules: Rules, *, model: str, time: datetime
) -> Entry:
    decision = decide(snapshot, prediction, rules)
    return replace(
        Entry.after(snapshot, "turn", "model", time, schema=rules.schema),
        model=model,
        turn=Turn(turn.system, turn.user),
        domain=prediction.domain,
        changes=decision.changes,
        held=decision.held,
        released=decision.released,
        refused=decision.refused,
        dropped=leaving(snapshot),
    )


def reads_schemas(predictor: Predictor) -> bool:
    """Whether a predictor tracks any schema, or only the slots of its own."""
    return not getattr(predictor, "fixed_schema", True)


def step_each(predictor: Predictor, steps: Sequence[Step], rules: Sequence[Rules]) -> list[Result | Exception]:
    """Like `step`, but a turn that cannot be tracked gives its error, and the others are tracked."""
    try:
        for _, turn in steps:
            check_turn(turn)
        return list(step(predictor, steps, rules))
    except Exception as error:
        if len(steps) == 1:
            return [error]
    return [result for one, own in zip(steps, rules, strict=True) for result in step_each(predictor, [one], [own])]


def check_turn(turn: Turn) -> None:
    """Refuse a turn that cannot be processed."""
    for who, text in (("system", turn.system), ("user", turn.user)):
        if not isinstance(text, str):
            raise InputError(f"What the {who} said must be text, not {type(text).__name__}.")
        if len(text) > MAX_TEXT:
            raise InputError(
                f"What the {who} said has {len(text):,} characters; at most {MAX_TEXT:,} are read: cut it."
            )
        if broken(text):
            raise InputError(f"What the {who} said is not valid Unicode text (half a surrogate pair): decode it again.")
    if not turn.user.strip() and not turn.system.strip():
        raise InputError("The turn is empty: it needs what the user said, what the system said, or both.")


def broken(text: str) -> bool:
    """Whether there is half a surrogate pair in it, which no encoding can write."""
    return any("\ud800" <= letter <= "\udfff" for letter in text) if not text.isascii() else False


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


# What becomes of a prediction


class Decision(NamedTuple):
    changes: tuple[Change, ...]
    held: tuple[Pending, ...]
    refused: tuple[Refused, ...]
    released: tuple[Pending, ...]
    """Earlier pending writes that this turn settles: it writes the slot, asks again, or repeats its value."""


def decide(snapshot: Snapshot, prediction: Prediction, rules: Rules) -> Decision:
    """Sort the predicted writes into made, held back and refused; a value that is already there answers a question."""
    changes: list[Change] = []
    held: list[Pending] = []
    refused: list[Refused] = []
    said_again: set[str] = set()
    for asked in _asked(snapshot, prediction, rules):
        change = asked if asked.after == asked.before else _fitted(asked, rules.schema[asked.slot])
        if change is None:
            refused.append(Refused.of(asked, reason=_not_listed(asked)))
        elif change.after == change.before:
            if change.probability is None or change.probability >= rules.threshold:
                said_again.add(change.slot)
        elif change.slot in snapshot.pinned and not _new_evidence(change):
            reason = f"{change.slot} is pinned, and the words of this turn do not say the value."
            refused.append(Refused.of(change, reason=reason))
        elif change.probability is not None and change.probability < rules.threshold:
            question = confirm(change, rules.schema[change.slot])
            held.append(Pending.of(change, question=question, turn=snapshot.turn_count + 1))
        else:
            changes.append(change)
    settled = {change.slot for change in changes} | {item.slot for item in held} | said_again
    released = tuple(item for slot, item in snapshot.pending.items() if slot in settled)
    return Decision(tuple(changes), tuple(held), tuple(refused), released)


def refit(snapshot: Snapshot, schema: Schema) -> Decision:
    """What another schema does to a memory: values that it spells otherwise are changed; values and pending writes that
    it has no place for are taken out and reported as refused; pending writes that stay are asked about in its words."""
    changes: list[Change] = []
    refused: list[Refused] = []
    for slot, value in sorted(snapshot.state.items()):
        fitted, refusal = _refitted(Change(slot, FOUR.classify(value), None, value), schema)
        if refusal:
            refused.append(refusal)
        if fitted != value:
            changes.append(Change(slot, FOUR.classify(fitted), value, fitted))
    held: list[Pending] = []
    released: list[Pending] = []
    for _, item in sorted(snapshot.pending.items()):
        fitted, refusal = _refitted(item.change, schema)
        if refusal:
            released.append(item)
            refused.append(refusal)
            continue
        kept = replace(item, after=fitted)
        kept = replace(kept, question=confirm(kept.change, schema[item.slot]))
        if kept != item:
            released.append(item)
            held.append(kept)
    return Decision(tuple(changes), tuple(held), tuple(refused), tuple(released))


def _refitted(write: Change, schema: Schema) -> tuple[Value | None, Refused | None]:
    """The value that a write has under another schema, or why it has none."""
    if write.slot not in schema:
        return None, Refused.of(write, reason=f"The new schema has no slot {write.slot}.")
    fitted = _fitted(write, schema[write.slot])
    return (None, Refused.of(write, reason=_not_listed(write))) if fitted is None else (fitted.after, None)


def _not_listed(write: Change) -> str:
    return f'"{write.after}" is not among the values of {write.slot}, and none of them is near.'


def _asked(snapshot: Snapshot, prediction: Prediction, rules: Rules) -> list[Change]:
    """What the prediction says of the slots, in the schema's order; an update without a value says nothing."""
    before, said_of = snapshot.state, prediction.slots
    operations = {slot: said.operation for slot, said in said_of.items()}
    after = rules.operation_set.apply(before, operations, {slot: said.value for slot, said in said_of.items()})
    asked = [
        Change(slot, said.operation, before.get(slot), after.get(slot), said.probability, said.evidence)
        for slot in rules.schema.slots
        if (said := said_of.get(slot)) is not None and said.operation is not Operation.CARRYOVER
    ]
    return [change for change in asked if change.after != "" and not _says_nothing(change, prediction)]


def _says_nothing(change: Change, prediction: Prediction) -> bool:
    empty = change.operation is Operation.UPDATE and not prediction.slots[change.slot].value
    return empty and change.after == change.before


def _fitted(change: Change, slot: Slot) -> Change | None:
    """The change with a value of the slot's closed list, or None where no value is near."""
    if slot.values is None or not isinstance(change.after, str):
        return change
    value = nearest(change.after, slot.values)
    return None if value is None else replace(change, after=value)


def _new_evidence(change: Change) -> bool:
    return (
        change.operation is Operation.UPDATE and change.evidence is not None and change.evidence.is_of("user", "system")
    )
