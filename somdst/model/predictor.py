"""`ModelPredictor`: what every trained model does around its network, whichever engine runs it.

A schema is compiled once: the network makes a vector of each slot's text and of each listed value. Turns are encoded
and padded into arrays, one batch for each of the engine's lanes. The encoder runs for all turns of a batch, and the
generator for all their slots to update. A slot with a closed list gets the listed value that was generated or the one
that scores best, whichever is more certain. Where slots that must differ got the same value, the generator runs again,
and words that were copied into two slots stay in one (`values.py`). Engines fill in the abstract methods: `runtime.py`
(ONNX Runtime), `learn/torch_predictor.py` (torch).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from somdst.errors import InputError
from somdst.memory.operations import Operation, OperationSet
from somdst.memory.schema import Schema
from somdst.memory.state import DONTCARE
from somdst.model.compiled import Compiled, Floats, Ints, read_schema
from somdst.model.config import ModelConfig
from somdst.model.encoding import Encoder, Encoding, mention
from somdst.model.prediction import Prediction, SlotPrediction, TurnInput
from somdst.model.values import (
    CERTAIN,
    Lexicon,
    Proposal,
    another,
    clashes,
    covered,
    favour_said,
    nearest,
    repeated,
    resolve_duplicates,
    soften,
)

Bools = NDArray[np.bool_]
_T = TypeVar("_T")

BATCH = 32
"""Turns in one run of the network; more are split, similar lengths together."""
COMPILED = 128 * 2**20
"""Bytes of compiled schemas that stay in memory. One of 30 slots takes about 50 kB."""


class Arrays(NamedTuple):
    """A padded batch."""

    ids: Ints  # [B, T]
    segments: Ints  # [B, T]
    mask: Bools  # [B, T] True where there is a token
    slots: Ints  # [B, J] position of each [SLOT]; 0 beyond a turn's own slots
    slot_mask: Bools  # [B, J] True where there is a slot
    slot_vectors: Floats | None = None  # [B, J, D] what is added to each [SLOT]; None for a fixed schema


class EncoderRun(NamedTuple):
    """The encoder's results; `context` is whatever the engine's generator needs of it."""

    operations: Floats  # logits [B, J, O]
    domain: Floats  # logits [B, J] for each slot's domain; [B, domains] with a fixed schema
    queries: Floats | None  # [B, J, D] what listed values are scored against; None for a fixed schema
    context: Any


class GeneratorRun(NamedTuple):
    """Values of U slots, greedy."""

    tokens: Ints  # [U, K]
    probability: Floats  # [U]
    positions: Ints  # [U, K] where the copy attention was strongest


def pad(
    encodings: Sequence[Encoding], *, pad_id: int, multiple: int = 1, vectors: Sequence[Floats | None] = ()
) -> Arrays:
    """One array per field, padded at the right to the longest, rounded up to a multiple."""
    longest = max(map(len, encodings))
    shape = (len(encodings), -(-longest // multiple) * multiple)
    ids = np.full(shape, pad_id, dtype=np.int64)
    segments, mask = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=bool)
    J = max(len(encoding.slots) for encoding in encodings)
    slots, slot_mask = np.zeros((len(encodings), J), dtype=np.int64), np.zeros((len(encodings), J), dtype=bool)
    for row, encoding in enumerate(encodings):
        ids[row, : len(encoding)] = encoding.ids
        segments[row, : len(encoding)] = encoding.segments
        mask[row, : len(encoding)] = True
        slots[row, : len(encoding.slots)] = encoding.slots
        slot_mask[row, : len(encoding.slots)] = True
    return Arrays(ids, segments, mask, slots, slot_mask, _stack(vectors, J))


def _stack(vectors: Sequence[Floats | None], J: int) -> Floats | None:
    given = [one for one in vectors if one is not None]
    if not given:
        return None
    stacked = np.zeros((len(given), J, given[0].shape[1]), dtype=np.float32)
    for row, one in enumerate(given):
        stacked[row, : len(one)] = one
    return stacked


class _Turn(NamedTuple):
    input: TurnInput
    encoding: Encoding
    schema: Schema
    """The slots of the input."""
    different: tuple[tuple[str, str], ...]
    compiled: Compiled


class ModelPredictor(ABC):
    """A `Predictor` around a network."""

    def __init__(self, encoder: Encoder, *, model_id: str, lexicon: Lexicon | None = None) -> None:
        self.encoder = encoder
        self.lexicon = lexicon or Lexicon({}, cutoff=0.0)
        self.config: ModelConfig = encoder.config
        self._model_id = model_id
        self._operation_set = OperationSet.named(self.config.operation_set)
        self._update = self._operation_set.index(Operation.UPDATE)
        self._carryover = self._operation_set.index(Operation.CARRYOVER)
        self._deletes = Operation.DELETE in self._operation_set.operations
        self._compiled: OrderedDict[str, Compiled] = OrderedDict()
        self._compiling = Lock()

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
    def fixed_schema(self) -> bool:
        """Whether only the slots that the model was trained with can be tracked."""
        return self.encoder.fixed_schema

    @property
    def lanes(self) -> int:
        """How many batches the engine runs at the same time, each in a thread of its own."""
        return 1

    @abstractmethod
    def run_texts(self, texts: Sequence[Sequence[int]]) -> Floats:
        """The mean of the encoder's last layer over each text [N, D]; each text alone, so that it depends on nothing
        else."""

    @abstractmethod
    def project(self, pooled: Floats, names: Ints) -> tuple[Floats, Floats]:
        """Slot vectors and value vectors [N, D] of texts, from their means [N, D] and the pieces of their names [N, P],
        which are 0 beyond the end."""

    @abstractmethod
    def run_encoder(self, arrays: Arrays, *, alone: bool = False) -> EncoderRun:
        """`alone`: nothing runs beside it, so it may use all cores."""

    @abstractmethod
    def run_generator(
        self, arrays: Arrays, context: Any, owners: Ints, slots: Ints, *, mask: Bools | None = None
    ) -> GeneratorRun:
        """Write slot `slots[u]` of turn `owners[u]`; `mask` [U, T] says what may be copied, if not the whole input."""

    def compile(self, schema: Schema | None = None) -> Compiled:
        """A schema as the network reads it. Those that were used last stay in memory."""
        schema = schema or self.schema
        known = self._compiled.get(schema.id)
        # Not under the lock: turns of other schemas go on.
        found = known or read_schema(schema, self.encoder, self.run_texts, self.project)
        with self._compiling:
            self._compiled[schema.id] = found
            self._compiled.move_to_end(schema.id)
            while not known and len(self._compiled) > 1 and sum(one.size for one in self._compiled.values()) > COMPILED:
                self._compiled.popitem(last=False)
        return found

    def has_compiled(self, schema: Schema) -> bool:
        """Whether `compile` would only look it up."""
        return self.fixed_schema or schema.id in self._compiled

    # Turns

    def predict(
        self, inputs: Sequence[TurnInput], *, operations: Sequence[Mapping[str, Operation]] | None = None
    ) -> list[Prediction]:
        turns = [self._prepare(input) for input in inputs]

        def run(chosen: list[int]) -> Iterable[tuple[int, Prediction]]:
            forced = [operations[i] for i in chosen] if operations is not None else None
            found = self._predict_batch([turns[i] for i in chosen], forced, alone=len(inputs) == 1)
            return zip(chosen, found, strict=True)

        results: dict[int, Prediction] = {}
        for pairs in self._map(run, _batches([turn.encoding for turn in turns], lanes=self.lanes)):
            results.update(pairs)
        return [results[i] for i in range(len(inputs))]

    def _pad(self, turns: Sequence[_Turn]) -> Arrays:
        vectors = [turn.compiled.slots for turn in turns]
        return pad([turn.encoding for turn in turns], pad_id=self.encoder.pad, vectors=vectors)

    def _prepare(self, input: TurnInput) -> _Turn:
        schema = input.schema or self.schema
        if self.fixed_schema and schema is not self.schema:
            for slot in schema:
                self.schema[slot]  # an error that names the slot it was not trained with
            input = replace(input, schema=None)
            return _Turn(input, self.encoder.encode(input), self.schema, schema.different, self.compile(self.schema))
        return _Turn(input, self.encoder.encode(input), schema, schema.different, self.compile(schema))

    def _map(self, run: Callable[[list[int]], _T], batches: Sequence[list[int]]) -> Iterable[_T]:
        if self.lanes == 1 or len(batches) == 1:
            return map(run, batches)
        return self._pool.map(run, batches)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.lanes)

    def _predict_batch(
        self, turns: list[_Turn], forced: Sequence[Mapping[str, Operation]] | None, *, alone: bool
    ) -> list[Prediction]:
        arrays = self._pad(turns)
        run = self.run_encoder(arrays, alone=alone)
        P_opr = _softmax(run.operations)  # [B, J, O]
        chosen = P_opr.argmax(-1) if forced is None else self._indices(forced, turns, P_opr.shape[1])  # [B, J]
        chosen = np.where(arrays.slot_mask, chosen, self._carryover)
        proposals: list[dict[str, Proposal]] = [{} for _ in turns]
        owners, slots = np.nonzero(chosen == self._update)
        if len(owners):
            proposals = self._read(turns, self.run_generator(arrays, run.context, owners, slots), owners, slots)
            if run.queries is not None:
                for turn, found, queries in zip(turns, proposals, run.queries, strict=True):
                    self._choose_listed(turn, found, queries)
            if self.config.tell_apart:
                self._resolve_duplicates(turns, arrays, run.context, proposals)
                if forced is None:
                    self._resolve_repeated(turns, arrays, run.context, proposals, P_opr, chosen)
        return [self._assemble(*part) for part in zip(turns, P_opr, chosen, proposals, run.domain, strict=True)]

    def _choose_listed(self, turn: _Turn, proposals: dict[str, Proposal], queries: Floats) -> None:
        """Values of closed lists, in place: the one that was generated or the one that scores best, whichever is more
        certain. What is said word for word is generated well, and what is said in other words is scored well."""
        for j, vectors in turn.compiled.values.items():
            slot = turn.schema.slots[j]
            if (generated := proposals.get(str(slot))) is None:
                continue
            if generated.value is DONTCARE or (generated.value is None and not self._deletes):
                continue  # in operation sets without these operations, the generator says them
            values = slot.values or ()
            P = _softmax(favour_said(vectors @ queries[j], turn.encoding.said.get(j, ())))  # [values]
            best = int(P.argmax())
            said = nearest(str(generated.value), values) if generated.value else None
            if said is not None and generated.probability >= P[best]:
                proposals[str(slot)] = generated._replace(value=said)
            else:
                proposals[str(slot)] = Proposal(values[best], mention(turn.encoding, values[best]), float(P[best]))

    def _read(
        self, turns: Sequence[_Turn], values: GeneratorRun, owners: Ints, slots: Ints
    ) -> list[dict[str, Proposal]]:
        """What was generated for each turn, as text."""
        proposals: list[dict[str, Proposal]] = [{} for _ in turns]
        for u, (owner, j) in enumerate(zip(owners.tolist(), slots.tolist(), strict=True)):
            slot = turns[owner].schema.slots[j]
            pieces = self.encoder.until_end(values.tokens[u].tolist())
            value, evidence = self.encoder.decode_copied(turns[owner].encoding, pieces, values.positions[u].tolist())
            if slot in self.schema and self.schema[slot].description == slot.description:
                value = self.lexicon.nearest(slot, value)  # only for the slots whose values it has seen
            proposals[owner][str(slot)] = Proposal(value, evidence, float(values.probability[u]), tuple(pieces))
        return proposals

    def _resolve_duplicates(
        self, turns: Sequence[_Turn], arrays: Arrays, context: Any, proposals: list[dict[str, Proposal]]
    ) -> None:
        """Generate again where slots that must differ got the same value."""
        found = [
            (b, pair)
            for b, turn in enumerate(turns)
            for pair in clashes(proposals[b], turn.input.state, turn.different)
        ]
        again = sorted({(b, slot) for b, pair in found for slot in pair if slot in proposals[b]})
        regenerated = self._regenerate(turns, arrays, context, proposals, again)
        for b, pair in found * 2:  # of three slots two may get the same other value
            if clashes(proposals[b], turns[b].input.state, [pair]):
                proposals[b].update(resolve_duplicates(pair, proposals[b], regenerated[b]))

    def _resolve_repeated(
        self,
        turns: Sequence[_Turn],
        arrays: Arrays,
        context: Any,
        proposals: list[dict[str, Proposal]],
        P_opr: Floats,  # [B, J, O]
        chosen: Ints,  # [B, J]
    ) -> None:
        """Generate again where two slots repeat the same words. A slot that gets no other certain value is carried
        over."""
        P = [
            {slot: float(P_opr[b, turn.schema.index[slot], self._update]) for slot in found}
            for b, (turn, found) in enumerate(zip(turns, proposals, strict=True))
        ]
        again = [(b, slot) for b, found in enumerate(proposals) for slot in repeated(found, P[b])]
        regenerated = self._regenerate(turns, arrays, context, proposals, again)
        for b, slot in again:
            del proposals[b][slot]
            other = another(regenerated[b][slot], proposals[b], turns[b].schema[slot].values)
            if other is not None and other.probability * P[b][slot] >= CERTAIN:
                proposals[b][slot] = other
            else:
                chosen[b, turns[b].schema.index[slot]] = self._carryover

    def _regenerate(
        self,
        turns: Sequence[_Turn],
        arrays: Arrays,
        context: Any,
        proposals: Sequence[Mapping[str, Proposal]],
        again: Sequence[tuple[int, str]],
    ) -> list[dict[str, Proposal]]:
        """What slots of turns get if the words that they have now are covered."""
        if not again:
            return []
        owners, slots = (
            np.array(part) for part in zip(*((b, turns[b].schema.index[slot]) for b, slot in again), strict=True)
        )
        mask = np.stack([covered(arrays.ids[b], arrays.mask[b], proposals[b][slot].pieces) for b, slot in again])
        return self._read(turns, self.run_generator(arrays, context, owners, slots, mask=mask), owners, slots)

    def _indices(self, forced: Sequence[Mapping[str, Operation]], turns: Sequence[_Turn], J: int) -> Ints:
        chosen = np.full((len(forced), J), self._carryover, dtype=np.int64)
        for row, (operations, turn) in enumerate(zip(forced, turns, strict=True)):
            for slot, operation in operations.items():
                if operation not in self._operation_set.operations:
                    raise InputError(
                        f'The model has no operation "{operation}" (for "{slot}"); it has '
                        f"{', '.join(self._operation_set.operations)}."
                    )
                chosen[row, turn.schema.index[turn.schema[slot]]] = self._operation_set.index(operation)
        return chosen

    def _assemble(
        self,
        turn: _Turn,
        P_opr: Floats,  # [J, O]
        chosen: Ints,  # [J]
        proposals: Mapping[str, Proposal],
        domain: Floats,  # [J], or [domains] with a fixed schema
    ) -> Prediction:
        probabilities = P_opr[np.arange(len(chosen)), chosen].tolist()
        slots: dict[str, SlotPrediction] = {}
        carryover: dict[str, float] = {}
        for j, slot in enumerate(turn.schema.slots):
            name, operation = str(slot), self._operation_set.operations[int(chosen[j])]
            if operation is Operation.CARRYOVER:
                carryover[name] = probabilities[j]
            elif name not in proposals:
                slots[name] = SlotPrediction(operation, soften(probabilities[j], self.config.temperature))
            else:
                value, evidence, certainty, _ = proposals[name]
                probability = soften(probabilities[j] * certainty, self.config.temperature)
                slots[name] = SlotPrediction(operation, probability, value, evidence)
        return Prediction(slots, carryover, self._domain(turn, domain))

    def _domain(self, turn: _Turn, logits: Floats) -> str:
        if not self.fixed_schema:  # a domain's logit is the mean of its slots'
            owner = turn.compiled.domains
            logits = (np.bincount(owner, logits[: len(owner)]) / np.bincount(owner)).astype(np.float32)
        return turn.schema.domains[int(logits.argmax())]


def _batches(encodings: Sequence[Encoding], *, lanes: int) -> list[list[int]]:
    """Turns by number, similar lengths together, dealt out so that all lanes have the same amount of work."""
    by_length = sorted(range(len(encodings)), key=lambda i: len(encodings[i]))
    groups = [by_length[start : start + lanes * BATCH] for start in range(0, len(by_length), lanes * BATCH)]
    return [group[lane::lanes] for group in groups for lane in range(min(lanes, len(group)))]


def _softmax(logits: Floats) -> Floats:
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(-1, keepdims=True), dtype=np.float32)
