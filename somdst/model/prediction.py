"""The seam between the memory and whatever predicts: `TurnInput` in, `Prediction` out.

Anything with a `predict` method is a `Predictor`: the ONNX runtime, the torch model, a script in a test. Nothing here
knows of tokens or tensors, and a prediction is applied to a state by `memory/operations.py` alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from somdst.memory.dialogue import Turn
from somdst.memory.operations import Operation, OperationSet
from somdst.memory.schema import Schema
from somdst.memory.state import State, Value


@dataclass(frozen=True, slots=True)
class TurnInput:
    """What goes into a prediction: the turn before, this turn, and the memory before this turn."""

    previous_turn: Turn | None
    turn: Turn
    state: State
    older: tuple[Turn, ...] = ()
    """Turns before the previous one, oldest first; only a model with a longer history reads them."""
    schema: Schema | None = None
    """The slots to track; the predictor's own where it is None."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a value was copied from: characters [start, end) of an utterance as it was typed, or another slot."""

    source: Literal["user", "system", "slot"]
    start: int = 0
    end: int = 0
    text: str = ""
    slot: str | None = None
    """The slot whose value was copied, where `source` is "slot"."""
    turns_ago: int = 0
    """Whose utterance it is: 0 is the turn that the value was written in, 1 the turn before it."""

    def is_of(self, *who: str) -> bool:
        """Whether these are words that somebody said in the very turn."""
        return self.source in who and self.turns_ago == 0


@dataclass(frozen=True, slots=True)
class SlotPrediction:
    """What is predicted for one slot."""

    operation: Operation
    probability: float
    """Calibrated probability that this change is right: of the operation and, for UPDATE, of the value."""
    value: Value | None = None
    """The generated value, for UPDATE; None means NULL (sets without DELETE) and writes nothing in the others."""
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a model says about a turn. A slot that is absent from `slots` is carried over."""

    slots: Mapping[str, SlotPrediction]
    carryover: Mapping[str, float] = field(default_factory=dict)
    """Probability of CARRYOVER for the slots that are absent, where the predictor tells it."""
    domain: str | None = None

    @property
    def operations(self) -> dict[str, Operation]:
        return {slot: predicted.operation for slot, predicted in self.slots.items()}

    @property
    def values(self) -> dict[str, Value | None]:
        return {s: p.value for s, p in self.slots.items() if p.operation is Operation.UPDATE}


@runtime_checkable
class Predictor(Protocol):
    """Anything that predicts the operations of turns, many at once, the same as each alone."""

    @property
    def schema(self) -> Schema: ...

    @property
    def operation_set(self) -> OperationSet: ...

    @property
    def history(self) -> int:
        """How many turns before the current one are read: 1 in the paper."""
        ...

    @property
    def model_id(self) -> str:
        """Names the model in logs and in the audit trail of a conversation."""
        ...

    def predict(
        self, inputs: Sequence[TurnInput], *, operations: Sequence[Mapping[str, Operation]] | None = None
    ) -> list[Prediction]:
        """Predict each input. With `operations` (one mapping per input) those are taken instead of predicted ones
        and only the values are generated: this is what oracles and the every-slot regimes use."""
        ...
