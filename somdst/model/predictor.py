"""`ModelPredictor`: what every trained model does around its network, whichever engine runs it.

Turns are encoded and padded into arrays, one batch for each of the engine's lanes; the encoder is run for all turns of
a batch, then the generator once for all slots to update of all of them (and once more for those that `apart.py` tells
apart), and the numbers become a `Prediction`.
`runtime.py` runs the network on ONNX Runtime, `learn/predictor.py` on torch; both only implement `run_encoder` and
`run_generator`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from somdst.errors import InputError
from somdst.memory.operations import Operation, OperationSet
from somdst.memory.schema import Schema
from somdst.model.config import ModelConfig
from somdst.model.encoding import Encoder, Encoding
from somdst.model.prediction import Prediction, SlotPrediction, TurnInput, soften
from somdst.model.values import Lexicon, Written, clashes, covered, told_apart

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

_T = TypeVar("_T")

BATCH = 32
"""Turns in one run of the network; more are split, similar lengths together."""


class Arrays(NamedTuple):
    """A padded batch."""

    ids: Ints  # [B, T]
    segments: Ints  # [B, T]
    mask: Bools  # [B, T] True where a token stands
    slots: Ints  # [B, J]


class EncoderRun(NamedTuple):
    """What the encoder said; `context` is whatever the engine's generator needs of it."""

    operations: Floats  # logits [B, J, O]
    domain: Floats  # logits [B, domains]
    context: Any


class GeneratorRun(NamedTuple):
    """Values of U slots, greedy."""

    tokens: Ints  # [U, K]
    probability: Floats  # [U]
    positions: Ints  # [U, K] where the copy attention looked most


def pad(encodings: Sequence[Encoding], *, pad_id: int, multiple: int = 1) -> Arrays:
    """One array a field, padded at the right to the longest, rounded up to a multiple."""
    longest = max(map(len, encodings))
    shape = (len(encodings), -(-longest // multiple) * multiple)
    ids = np.full(shape, pad_id, dtype=np.int64)
    segments, mask = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=bool)
    for row, encoding in enumerate(encodings):
        ids[row, : len(encoding)] = encoding.ids
        segments[row, : len(encoding)] = encoding.segments
        mask[row, : len(encoding)] = True
    return Arrays(ids, segments, mask, np.array([encoding.slots for encoding in encodings], dtype=np.int64))


class ModelPredictor(ABC):
    """A `Predictor` around a network."""

    def __init__(self, encoder: Encoder, *, model_id: str, lexicon: Lexicon | None = None) -> None:
        self.encoder = encoder
        self.lexicon = lexicon or Lexicon({}, cutoff=0.0)
        self.config: ModelConfig = encoder.config
        self._model_id = model_id
        self._operation_set = OperationSet.named(self.config.operation_set)
        self._update = self._operation_set.index(Operation.UPDATE)
        self._slot_names = [str(slot) for slot in self.schema.slots]

    @property
    def schema(self) -> Schema:
        return self.encoder.schema

    @property
    def operation_set(self) -> OperationSet:
        return self._operation_set

    @property
    def history(self) -> int:
        return self.config.history

    @property
    def model_id(self) -> str:
        return self._model_id

    @property
    def lanes(self) -> int:
        """How many batches the engine runs side by side, each in a thread of its own."""
        return 1

    @abstractmethod
    def run_encoder(self, arrays: Arrays, *, alone: bool = False) -> EncoderRun:
        """`alone`: nothing runs beside it, so it may use all cores."""

    @abstractmethod
    def run_generator(
        self, arrays: Arrays, context: Any, owners: Ints, slots: Ints, *, mask: Bools | None = None
    ) -> GeneratorRun:
        """Write slot `slots[u]` of turn `owners[u]`; `mask` [U, T] says what may be copied, if not the whole input."""

    def predict(
        self, inputs: Sequence[TurnInput], *, operations: Sequence[Mapping[str, Operation]] | None = None
    ) -> list[Prediction]:
        encodings = [self.encoder.encode(input) for input in inputs]

        def run(chosen: list[int]) -> Iterable[tuple[int, Prediction]]:
            forced = [operations[i] for i in chosen] if operations is not None else None
            turns = [(inputs[i], encodings[i]) for i in chosen]
            found = self._predict_batch(turns, forced, alone=len(inputs) == 1)
            return zip(chosen, found, strict=True)

        results: dict[int, Prediction] = {}
        for pairs in self._map(run, _batches(encodings, lanes=self.lanes)):
            results.update(pairs)
        return [results[i] for i in range(len(inputs))]

    def _map(self, run: Callable[[list[int]], _T], batches: Sequence[list[int]]) -> Iterable[_T]:
        if self.lanes == 1 or len(batches) == 1:
            return map(run, batches)
        return self._pool.map(run, batches)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.lanes)

    def _predict_batch(
        self,
        turns: list[tuple[TurnInput, Encoding]],
        forced: Sequence[Mapping[str, Operation]] | None,
        *,
        alone: bool,
    ) -> list[Prediction]:
        encodings = [encoding for _, encoding in turns]
        arrays = pad(encodings, pad_id=self.encoder.pad)
        run = self.run_encoder(arrays, alone=alone)
        P_opr = _softmax(run.operations)  # [B, J, O]
        chosen = P_opr.argmax(-1) if forced is None else self._indices(forced)  # [B, J]
        owners, slots = np.nonzero(chosen == self._update)
        written: list[dict[str, Written]] = [{} for _ in turns]
        if len(owners):
            values = self.run_generator(arrays, run.context, owners, slots)
            written = self._read(encodings, values, owners, slots)
            if self.config.tell_apart:
                self._tell_apart(turns, arrays, run.context, written)
        domains = run.domain.argmax(-1)
        return [self._assemble(P_opr[b], chosen[b], written[b], int(domains[b])) for b in range(len(turns))]

    def _read(
        self, encodings: Sequence[Encoding], values: GeneratorRun, owners: Ints, slots: Ints
    ) -> list[dict[str, Written]]:
        """What was generated for each turn, as text."""
        written: list[dict[str, Written]] = [{} for _ in encodings]
        for u, (owner, slot) in enumerate(zip(owners.tolist(), slots.tolist(), strict=True)):
            name = self._slot_names[slot]
            pieces = self.encoder.until_end(values.tokens[u].tolist())
            value, evidence = self.encoder.decode_copied(encodings[owner], pieces, values.positions[u].tolist())
            value, certainty = self.lexicon.nearest(name, value), float(values.probability[u])
            written[owner][name] = Written(value, evidence, certainty, tuple(pieces))
        return written

    def _tell_apart(
        self, turns: list[tuple[TurnInput, Encoding]], arrays: Arrays, context: Any, written: list[dict[str, Written]]
    ) -> None:
        """Write slots anew that are different and got the same value (`apart.py`)."""
        found = [
            (b, pair)
            for b, (input, _) in enumerate(turns)
            for pair in clashes(written[b], input.state, self.schema.different)
        ]
        again = sorted({(b, slot) for b, pair in found for slot in pair if slot in written[b]})
        if not again:
            return
        owners, slots = (np.array(part) for part in zip(*((b, self.schema.index[s]) for b, s in again), strict=True))
        mask = np.stack([covered(arrays.ids[b], arrays.mask[b], written[b][slot].pieces) for b, slot in again])
        values = self.run_generator(arrays, context, owners, slots, mask=mask)
        anew = self._read([encoding for _, encoding in turns], values, owners, slots)
        for b, pair in found * 2:  # of three slots two may get the same other value
            if clashes(written[b], turns[b][0].state, [pair]):
                written[b].update(told_apart(pair, written[b], anew[b]))

    def _indices(self, forced: Sequence[Mapping[str, Operation]]) -> Ints:
        carryover = self._operation_set.index(Operation.CARRYOVER)
        chosen = np.full((len(forced), len(self._slot_names)), carryover, dtype=np.int64)
        for row, operations in enumerate(forced):
            for slot, operation in operations.items():
                if operation not in self._operation_set.operations:
                    raise InputError(
                        f'The model has no operation "{operation}" (for "{slot}"); it has '
                        f"{', '.join(self._operation_set.operations)}."
                    )
                chosen[row, self.schema.index[self.schema[slot]]] = self._operation_set.index(operation)
        return chosen

    def _assemble(
        self,
        P_opr: Floats,  # [J, O]
        chosen: Ints,  # [J]
        written: Mapping[str, Written],
        domain: int,
    ) -> Prediction:
        probabilities = P_opr[np.arange(len(chosen)), chosen].tolist()
        slots: dict[str, SlotPrediction] = {}
        carryover: dict[str, float] = {}
        for j, index in enumerate(chosen.tolist()):
            name, operation = self._slot_names[j], self._operation_set.operations[index]
            if operation is Operation.CARRYOVER:
                carryover[name] = probabilities[j]
            elif name not in written:
                slots[name] = SlotPrediction(operation, soften(probabilities[j], self.config.temperature))
            else:
                value, evidence, certainty, _ = written[name]
                probability = soften(probabilities[j] * certainty, self.config.temperature)
                slots[name] = SlotPrediction(operation, probability, value, evidence)
        return Prediction(slots, carryover, self.schema.domains[domain])


def _batches(encodings: Sequence[Encoding], *, lanes: int) -> list[list[int]]:
    """Turns by number, similar lengths together, dealt out so that all lanes have the same to do."""
    by_length = sorted(range(len(encodings)), key=lambda i: len(encodings[i]))
    groups = [by_length[start : start + lanes * BATCH] for start in range(0, len(by_length), lanes * BATCH)]
    return [group[lane::lanes] for group in groups for lane in range(min(lanes, len(group)))]


def _softmax(logits: Floats) -> Floats:
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(-1, keepdims=True), dtype=np.float32)
