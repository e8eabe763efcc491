"""`SystemPredictor`: a trained system as a `Predictor`, so that everything that evaluates SOM-DST evaluates it too.

A system says a whole state; the operations are those that lead to it from the memory (`derive`). With operations given
from outside, as oracles do, the slots to update get the system's best value. Tracks the slots it was trained with.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from somdst.baselines.system import Asking, Said, System
from somdst.errors import InputError
from somdst.memory.operations import Operation, OperationSet
from somdst.memory.state import State
from somdst.model.folder import WEIGHTS, ModelFolder
from somdst.model.prediction import Prediction, SlotPrediction, TurnInput
from somdst.model.values import Lexicon, soften

SEEN = 4096
"""Turns whose vectors a recurrent system keeps, so that a conversation's older turns are not read again."""


def _length(input: TurnInput) -> int:
    turns = (*input.older, *([input.previous_turn] if input.previous_turn else ()), input.turn)
    return sum(len(turn.system) + len(turn.user) for turn in turns)


class SystemPredictor:
    fixed_schema = True

    def __init__(
        self,
        system: System,
        *,
        model_id: str | None = None,
        precision: str = "fp32",
        lexicon: Lexicon | None = None,
    ) -> None:
        self.system, self.precision = system, precision
        self.config = system.encoder.config
        self.lexicon = lexicon or Lexicon({}, cutoff=0.0)
        self.schema, self.history = system.schema, self.config.history
        self.model_id = model_id or f"{system.entry.name}-torch"
        self.operation_set = OperationSet.named(self.config.operation_set)
        self._seen: OrderedDict[Any, Tensor] = OrderedDict()

    @classmethod
    def from_folder(cls, folder: ModelFolder, *, precision: str = "", threads: int | None = None) -> SystemPredictor:
        """Precision and threads are those of torch itself."""
        from somdst.baselines.fitting import load_system

        return cls(load_system(folder), model_id=folder.model_id(WEIGHTS), lexicon=folder.lexicon())

    def forget(self) -> None:
        """Forget all turns that were read, as a new process has."""
        self._seen.clear()

    @torch.inference_mode()
    def predict(
        self, inputs: Sequence[TurnInput], *, operations: Sequence[Mapping[str, Operation]] | None = None
    ) -> list[Prediction]:
        self.system.eval()
        predictions: list[Prediction] = []
        order = sorted(range(len(inputs)), key=lambda i: _length(inputs[i]))  # similar lengths together
        for first in range(0, len(inputs), self.system.rows):
            chosen = order[first : first + self.system.rows]
            some = [self._checked(inputs[i]) for i in chosen]
            forced = [operations[i] for i in chosen] if operations is not None else None
            asked = None if forced is None else [self._to_update(one) for one in forced]
            with torch.autocast(self.system.device.type, torch.bfloat16, enabled=self.precision == "bf16"):
                said = self.system.decide(Asking(some, [self.system.read(one) for one in some], asked, self._seen))
            predictions += [
                self._prediction(input, slots, None if forced is None else forced[i])
                for i, (input, slots) in enumerate(zip(some, said, strict=True))
            ]
        while len(self._seen) > SEEN:
            self._seen.popitem(last=False)
        return [one for _, one in sorted(zip(order, predictions, strict=True), key=itemgetter(0))]

    def _checked(self, input: TurnInput) -> TurnInput:
        for slot in input.schema or ():
            self.schema[slot]  # an error that names the slot it was not trained with
        return input

    def _to_update(self, operations: Mapping[str, Operation]) -> frozenset[str]:
        for slot, operation in operations.items():
            if operation not in self.operation_set.operations:
                raise InputError(f'The system has no operation "{operation}" (for "{slot}").')
        return frozenset(str(self.schema[slot]) for slot, one in operations.items() if one is Operation.UPDATE)

    def _prediction(
        self, input: TurnInput, said: Mapping[str, Said], forced: Mapping[str, Operation] | None
    ) -> Prediction:
        found = dict(said)
        if not self.system.entry.ontology:  # a value that was chosen has no slips of spelling
            found = {slot: one._replace(value=self.lexicon.nearest(slot, one.value)) for slot, one in said.items()}
        if forced is None:
            after = State({slot: one.value for slot, one in found.items() if one.value is not None})
            operations: Mapping[str, Operation] = self.operation_set.derive(input.state, after).operations
        else:
            operations = {slot: one for slot, one in forced.items() if one is not Operation.CARRYOVER}
        slots = {}
        for slot, operation in operations.items():
            one, update = found[slot], operation is Operation.UPDATE
            slots[slot] = SlotPrediction(
                operation,
                soften(one.probability, self.config.temperature),
                one.value if update else None,
                one.evidence if update else None,
            )
        return Prediction(slots)
