"""What a turn does to the memory: operations, `derive` and `apply`.

    V_t = V_{t-1} if CARRYOVER, NULL if DELETE, DONTCARE if DONTCARE, a generated v if UPDATE      (paper, section 3)

The paper's ablation groups the same changes into 2, 3, 3, 4 or 6 operations; an `OperationSet` is one such choice.
Where a set lacks an operation, UPDATE takes its place and the value says what is meant: None for NULL, DONTCARE.
For every set `apply(before, *derive(before, after)) == after`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from somdst.errors import StateError, no_such
from somdst.memory.state import DONTCARE, State, Value


class Operation(StrEnum):
    CARRYOVER = "carryover"
    DELETE = "delete"
    DONTCARE = "dontcare"
    UPDATE = "update"
    YES = "yes"
    NO = "no"


Operations = Mapping[str, Operation]
"""Slot to operation. A slot that is absent is carried over."""

Values = Mapping[str, Value | None]
"""The value of every slot whose operation is UPDATE; None, for NULL, only in sets without DELETE."""


class Derived(NamedTuple):
    """What `derive` gives."""

    operations: dict[str, Operation]
    values: dict[str, Value | None]


@dataclass(frozen=True, slots=True)
class OperationSet:
    """The operations that a model chooses from, in the order of its classifier's outputs."""

    name: str
    operations: tuple[Operation, ...]

    @classmethod
    def named(cls, name: str) -> OperationSet:
        try:
            return OPERATION_SETS[name]
        except KeyError:
            raise StateError(no_such("operation set", name, OPERATION_SETS)) from None

    def index(self, operation: Operation) -> int:
        return self.operations.index(operation)

    def classify(self, value: Value | None) -> Operation:
        """The operation of this set that writes this value."""
        for operation, written in _FIXED:
            if value == written and operation in self.operations:
                return operation
        return Operation.UPDATE

    def derive(self, before: State, after: State) -> Derived:
        """The operations, and the values to generate, that lead from one state to the other."""
        operations: dict[str, Operation] = {}
        values: dict[str, Value | None] = {}
        for slot, value in after.items():
            if slot not in before or before[slot] != value:
                operations[slot] = operation = self.classify(value)
                if operation is Operation.UPDATE:
                    values[slot] = value
        for slot in before:
            if slot not in after:
                operations[slot] = operation = self.classify(None)
                if operation is Operation.UPDATE:
                    values[slot] = None
        return Derived(operations, values)

    def apply(self, before: State, operations: Operations, values: Values) -> State:
        """The state after these operations. An UPDATE to None writes nothing if the set has DELETE for that."""
        changed: dict[str, Value | None] = {}
        for slot, operation in operations.items():
            if operation not in self.operations:
                raise StateError(f'The operation "{operation}" for "{slot}" is not in the operation set {self.name}.')
            if operation is Operation.UPDATE:
                if slot not in values:
                    raise StateError(f'UPDATE of "{slot}" needs a value, and none was given.')
                if values[slot] is not None or Operation.DELETE not in self.operations:
                    changed[slot] = values[slot]
            elif operation is not Operation.CARRYOVER:
                changed[slot] = _WRITES[operation]
        return before.with_values(changed) if changed else before


_FIXED: tuple[tuple[Operation, Value | None], ...] = (
    (Operation.DELETE, None),
    (Operation.DONTCARE, DONTCARE),
    (Operation.YES, "yes"),
    (Operation.NO, "no"),
)
_WRITES: dict[Operation, Value | None] = dict(_FIXED)

_O = Operation
OPERATION_SETS: dict[str, OperationSet] = {
    name: OperationSet(name, operations)
    for name, operations in {
        "4": (_O.CARRYOVER, _O.DELETE, _O.DONTCARE, _O.UPDATE),
        "2": (_O.CARRYOVER, _O.UPDATE),
        "3-without-delete": (_O.CARRYOVER, _O.DONTCARE, _O.UPDATE),
        "3-without-dontcare": (_O.CARRYOVER, _O.DELETE, _O.UPDATE),
        "6": (_O.CARRYOVER, _O.DELETE, _O.DONTCARE, _O.UPDATE, _O.YES, _O.NO),
    }.items()
}
FOUR = OPERATION_SETS["4"]
"""The paper's own set, and the default everywhere."""


def derive(before: State, after: State, *, operation_set: OperationSet = FOUR) -> Derived:
    """See `OperationSet.derive`.

    >>> derive(State({"hotel-area": "north"}), State({"train-day": "friday"})).operations
    {'train-day': <Operation.UPDATE: 'update'>, 'hotel-area': <Operation.DELETE: 'delete'>}
    """
    return operation_set.derive(before, after)


def apply(before: State, operations: Operations, values: Values, *, operation_set: OperationSet = FOUR) -> State:
    """See `OperationSet.apply`."""
    return operation_set.apply(before, operations, values)
