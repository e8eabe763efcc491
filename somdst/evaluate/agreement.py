"""Whether two engines say the same: operations, values and accuracy of one model run twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from somdst.evaluate.metrics import joint_goal_accuracy
from somdst.evaluate.run import Oracles, run
from somdst.memory.dialogue import Dialogue
from somdst.memory.operations import Operation
from somdst.model.prediction import Predictor


@dataclass(frozen=True, slots=True)
class Agreement:
    """Percentages. Operations and values are compared on gold previous states, so that both see the same."""

    turns: int
    operations: float
    """Of all slots of all turns, carried-over ones included."""
    values: float
    """Of the slots that both update."""
    joint_goal_accuracy: float
    """Of the first predictor, each dialogue on its own predicted states."""
    other_joint_goal_accuracy: float

    @property
    def change(self) -> float:
        """Points of joint goal accuracy that the second has more, or less."""
        return self.other_joint_goal_accuracy - self.joint_goal_accuracy

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "change": self.change}


def agreement(first: Predictor, second: Predictor, dialogues: Sequence[Dialogue]) -> Agreement:
    gold: Oracles = frozenset({"state"})
    alike = slots = same_values = updated = turns = 0
    pairs = zip(run(first, dialogues, oracle=gold), run(second, dialogues, oracle=gold), strict=True)
    for left, right in pairs:
        tracked = len(left.schema or first.schema)
        for one, two in zip(left.turns, right.turns, strict=True):
            turns += 1
            a, b = one.prediction.slots, two.prediction.slots
            different = [
                slot
                for slot in a.keys() | b.keys()
                if slot not in a or slot not in b or a[slot].operation != b[slot].operation
            ]
            slots += tracked
            alike += tracked - len(different)
            for slot in a.keys() & b.keys():
                if a[slot].operation is b[slot].operation is Operation.UPDATE:
                    updated += 1
                    same_values += a[slot].value == b[slot].value
    return Agreement(
        turns=turns,
        operations=100 * alike / max(slots, 1),
        values=100 * same_values / max(updated, 1),
        joint_goal_accuracy=joint_goal_accuracy(run(first, dialogues)),
        other_joint_goal_accuracy=joint_goal_accuracy(run(second, dialogues)),
    )
