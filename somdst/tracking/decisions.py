"""What becomes of a prediction: which writes are made, which are held back, which are refused.

Three rules apply, in this order:

1. a slot with a closed list takes only a value of the list: the nearest one. Where none is near, the write is refused;
2. a pinned slot changes only through a value that was copied from the words of the current turn;
3. a write that is less probable than the threshold is held back, with a question to ask.

Does not say which value is nearest; see `model/values.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from somdst.memory.operations import Operation, OperationSet
from somdst.memory.schema import Schema, Slot
from somdst.memory.state import DONTCARE
from somdst.model.prediction import Prediction, apply_prediction
from somdst.model.values import nearest
from somdst.tracking.records import Change, Pending, Refused, Snapshot


@dataclass(frozen=True, slots=True)
class Rules:
    """What decides, besides the prediction."""

    schema: Schema
    """Slots that are not in it are never written."""
    operation_set: OperationSet
    threshold: float = 0.0


class Decision(NamedTuple):
    changes: tuple[Change, ...]
    held: tuple[Pending, ...]
    refused: tuple[Refused, ...]
    released: tuple[Pending, ...]
    """Writes held back before that this turn answers: it writes the slot, asks again, or gives the value it has."""


def decide(snapshot: Snapshot, prediction: Prediction, rules: Rules) -> Decision:
    """Sort the predicted writes into made, held back and refused; a value that is already there answers a question."""
    changes: list[Change] = []
    held: list[Pending] = []
    refused: list[Refused] = []
    said_again: set[str] = set()
    for asked in _asked(snapshot, prediction, rules):
        change = asked if asked.after == asked.before else _fitted(asked, rules.schema[asked.slot])
        if change is None:
            reason = f'"{asked.after}" is not among the values of {asked.slot}, and none of them is near.'
            refused.append(Refused.of(asked, reason=reason))
        elif change.after == change.before:
            if change.probability is None or change.probability >= rules.threshold:
                said_again.add(change.slot)
        elif change.slot in snapshot.pinned and not _new_evidence(change):
            reason = f"{change.slot} is pinned, and the words of this turn do not say the value."
            refused.append(Refused.of(change, reason=reason))
        elif change.probability is not None and change.probability < rules.threshold:
            asking = question(change, rules.schema[change.slot])
            held.append(Pending.of(change, question=asking, turn=snapshot.turn_count + 1))
        else:
            changes.append(change)
    settled = {change.slot for change in changes} | {item.slot for item in held} | said_again
    released = tuple(item for slot, item in snapshot.pending.items() if slot in settled)
    return Decision(tuple(changes), tuple(held), tuple(refused), released)


def question(change: Change, slot: Slot) -> str:
    """What to ask the user about a write that was held back.

    >>> area = Slot.of("hotel", "area")
    >>> question(Change(area, Operation.UPDATE, None, "north"), area)
    'Did you mean north for the hotel area?'
    """
    words = f"{slot.domain} {slot.name}".replace("_", " ")
    if change.after is None:
        return f"Should I forget {_spoken(change.before)} for the {words}?"
    if change.after is DONTCARE:
        return f"Is any {words} fine?"
    return f"Did you mean {change.after} for the {words}?"


def _asked(snapshot: Snapshot, prediction: Prediction, rules: Rules) -> list[Change]:
    """What the prediction says of the slots, in the schema's order; an update without a value says nothing."""
    before = snapshot.state
    after = apply_prediction(before, prediction, operation_set=rules.operation_set)
    asked = [
        Change(slot, said.operation, before.get(slot), after.get(slot), said.probability, said.evidence)
        for slot in rules.schema.slots
        if (said := prediction.slots.get(slot)) is not None and said.operation is not Operation.CARRYOVER
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


def _spoken(value: object) -> str:
    return "any" if value is DONTCARE else str(value)
