"""From dialogues to batches: examples, their order, and tensors.

Everything random is drawn from a generator seeded by (seed, epoch, example), so the batches of a run are the same
whenever it is stopped and resumed, and however many processes share them. Examples come from an `ExampleSource`: a list
of dialogues (`Examples`), or many corpora with varied schemas (`mixture.py`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from somdst.corpora.perturbation import TRAINED, perturb
from somdst.learn.noise import ValuePool, corrupt, drop_words, repairable, shuffled_order
from somdst.learn.settings import Settings
from somdst.learn.tensors import Batch, ChoiceTargets, Texts, ValueTargets
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.operations import Derived, OperationSet
from somdst.memory.schema import Schema
from somdst.memory.state import DONTCARE, State
from somdst.model.encoding import Encoder, Encoding
from somdst.model.prediction import TurnInput
from somdst.model.predictor import pad
from somdst.model.text import normalise

CHUNK = 8
"""Examples of one schema that go into a batch together: the more, the fewer slot texts a batch has to read."""
WINDOW = 256
"""Chunks that are sorted by length together."""


OwnStates = Mapping[tuple[str, int], State]
"""The memories that an earlier model had, by dialogue and turn."""


@dataclass(frozen=True, slots=True)
class Example:
    """One turn to learn from. `own` is the memory that an earlier model really had there."""

    dialogue: Dialogue
    number: int
    before: State
    after: State
    schema: Schema
    pool: ValuePool
    own: State | None = None
    history: int = 16
    """Most turns before this one that are shown, if the model reads as many."""

    def read(self, history: int) -> tuple[Turn, ...]:
        """The turns that a model with this history reads."""
        return self.dialogue.turns[max(0, self.number - min(history, self.history)) : self.number + 1]

    def changed(self, first: int, last: int) -> set[str]:
        """The slots that the turns from `first` to before `last` change."""
        states = [State(), *self.dialogue.states()][first : last + 1]
        return {slot for one, two in pairwise(states) for slot in one.differing(two)}

    def size(self, history: int) -> int:
        """Roughly how long the input is; only for putting similar lengths together."""
        texts = sum(len(turn.system) + len(turn.user) for turn in self.read(history))
        return texts + 8 * len(self.before) + 4 * len(self.schema)


class ExampleSource(Protocol):
    """Where examples come from. An epoch may have other examples than the one before."""

    def examples(self, epoch: int) -> Sequence[Example]: ...

    @property
    def turns(self) -> int:
        """Examples per epoch."""
        ...


class Examples:
    """Every labelled turn of some dialogues, the same in every epoch."""

    def __init__(
        self,
        dialogues: Sequence[Dialogue],
        schema: Schema,
        own_states: OwnStates | None = None,
    ) -> None:
        pool = ValuePool.collect(dialogues, schema)
        self._examples = [
            example for dialogue in dialogues for example in examples_of(dialogue, schema, pool, own_states)
        ]

    def examples(self, epoch: int) -> Sequence[Example]:
        return self._examples

    @property
    def turns(self) -> int:
        return len(self._examples)


def examples_of(
    dialogue: Dialogue,
    schema: Schema,
    pool: ValuePool,
    own_states: OwnStates | None = None,
) -> Iterator[Example]:
    """The turns of a dialogue, under its own schema or this one. Slots outside it are left out of the states."""
    schema = dialogue.schema or schema
    before = State()
    for number, state in enumerate(dialogue.states()):
        after = state.within(schema)
        own = own_states.get((dialogue.id, number)) if own_states else None
        yield Example(dialogue, number, before, after, schema, pool, own and own.within(schema))
        before = after


class Batches:
    """The batches of a run. `tensors(indices, epoch)` depends on nothing but its arguments and the settings."""

    def __init__(self, source: ExampleSource, encoder: Encoder, settings: Settings) -> None:
        self.source, self.encoder, self.settings = source, encoder, settings
        self.operation_set = OperationSet.named(settings.operation_set)
        self._epoch, self._examples = -1, list[Example]()

    def __len__(self) -> int:
        return -(-self.source.turns // self.settings.batch_size)

    def examples(self, epoch: int) -> Sequence[Example]:
        if epoch != self._epoch:
            self._epoch, self._examples = epoch, list(self.source.examples(epoch))
        return self._examples

    def order(self, epoch: int) -> list[list[int]]:
        """Shuffled chunks of one schema each, packed into batches of similar length, the batches shuffled again."""
        rng = random.Random(f"order {self.settings.seed} {epoch}")
        examples, history = self.examples(epoch), self.settings.history
        groups: dict[str, list[int]] = {}
        for index in rng.sample(range(len(examples)), len(examples)):
            groups.setdefault(examples[index].schema.id, []).append(index)
        sizes = [example.size(history) for example in examples]
        chunks: list[list[int]] = []
        for group in groups.values():
            for start in range(0, len(group), CHUNK * WINDOW):
                near = sorted(group[start : start + CHUNK * WINDOW], key=sizes.__getitem__)
                chunks += [near[i : i + CHUNK] for i in range(0, len(near), CHUNK)]
        rng.shuffle(chunks)
        size, batches = self.settings.batch_size, []
        for start in range(0, len(chunks), WINDOW):
            near_chunks = sorted(chunks[start : start + WINDOW], key=lambda chunk: sizes[chunk[-1]])
            packed = [index for chunk in near_chunks for index in chunk]
            batches += [packed[i : i + size] for i in range(0, len(packed), size)]
        rng.shuffle(batches)
        return self._exactly(batches)

    def _exactly(self, batches: list[list[int]]) -> list[list[int]]:
        """As many batches as every epoch has: windows may leave a few batches that are not full."""
        while len(batches) > len(self):
            short = sorted(range(len(batches)), key=lambda i: len(batches[i]))[:2]
            batches[min(short)] = [*batches[short[0]], *batches[short[1]]]
            del batches[max(short)]
        return batches

    def parts(
        self, chosen: Sequence[int], epoch: int, *, rank: int = 0, world: int = 1
    ) -> Iterator[tuple[Batch, float]]:
        """This process's share of a batch, in parts, each with its weight in the mean over the batch.

        Processes wait for each other in every part, so all have the same number of parts: one that has nothing left to
        do computes a turn of another's with the weight 0.
        """
        count = world * self.settings.accumulation
        for part in range(self.settings.accumulation):
            indices = chosen[rank * self.settings.accumulation + part :: count]
            if indices or world > 1:
                yield self.tensors(indices or chosen[:1], epoch), len(indices) * world / len(chosen)

    def tensors(self, indices: Sequence[int], epoch: int) -> Batch:
        prepared = [self._prepare(index, epoch) for index in indices]
        return to_batch(prepared, self.encoder, self.operation_set)

    def _prepare(self, index: int, epoch: int) -> Prepared:
        example, settings = self.examples(epoch)[index], self.settings
        rng = random.Random(f"example {settings.seed} {epoch} {index}")
        fed = self._fed_state(example, rng)
        labels = self.operation_set.derive(fed, self._goal(example, fed))
        order = shuffled_order(len(example.schema), rate=settings.shuffle_slots, rng=rng)
        encoding = self.encoder.encode(self._input(example, fed, rng), order=order)
        if settings.word_dropout:
            rules = self.encoder.table(example.schema).rules
            written = {piece for value in labels.values.values() for piece in self.encoder.encode_value(value, rules)}
            spared = written if settings.spare_values else ()
            encoding = drop_words(encoding, rate=settings.word_dropout, unk=self.encoder.unk, rng=rng, spared=spared)
        return Prepared(encoding, labels, example.schema, example.dialogue.turns[example.number].domain)

    def _fed_state(self, example: Example, rng: random.Random) -> State:
        settings = self.settings
        if example.own is not None and rng.random() < settings.own_rate:
            return example.own
        if rng.random() >= settings.wrong_states:
            return example.before
        return corrupt(example.before, example.pool, example.schema, rng=rng)

    def _goal(self, example: Example, fed: State) -> State:
        """The state to reach: the gold one, as far as the input shows it."""
        if fed == example.before:
            return example.after
        turns, rules = example.read(self.settings.history), self.encoder.table(example.schema).rules
        texts = (text for turn in turns for text in (turn.system, turn.user) if text)
        return repairable(
            example.before,
            example.after,
            fed,
            told=example.changed(example.number + 1 - len(turns), example.number),
            shown=" ".join(self.encoder.pieces(text, rules).text for text in texts),
            complete=example.number < len(turns),
        )

    def _input(self, example: Example, fed: State, rng: random.Random) -> TurnInput:
        *older, turn = example.read(self.settings.history)
        if self.settings.perturb and rng.random() < self.settings.perturb:
            values = {str(value) for value in example.after.values()}
            turn = self._with_values(turn, perturb(turn.user, rng.choice(TRAINED), rng, values=values), example)
        return TurnInput(older[-1] if older else None, turn, fed, older=tuple(older[:-1]), schema=example.schema)

    def _with_values(self, turn: Turn, user: str, example: Example) -> Turn:
        """The turn typed like this, if the model can then still read every value that it said."""
        rules = self.encoder.table(example.schema).rules
        before, after = (self.encoder.pieces(text, rules).text for text in (turn.user, user))
        values = (normalise(str(value), rules) for value in example.after.values())
        return replace(turn, user=user) if all(value in after for value in values if value in before) else turn


class Prepared(NamedTuple):
    """An example as the model sees it."""

    encoding: Encoding
    labels: Derived
    schema: Schema
    domain: str | None


def to_batch(prepared: Sequence[Prepared], encoder: Encoder, operation_set: OperationSet) -> Batch:
    arrays = pad([one.encoding for one in prepared], pad_id=encoder.pad, multiple=16)
    operations = torch.zeros(arrays.slots.shape, dtype=torch.long)
    texts = _TextRows(encoder)
    written = _Written(encoder, texts)
    for row, one in enumerate(prepared):
        for slot, operation in one.labels.operations.items():
            operations[row, one.schema.index[slot]] = operation_set.index(operation)
        for slot in sorted(one.labels.values):
            written.add(row, one, slot)
    domains = [_domain(one) for one in prepared]
    batch = Batch(
        ids=torch.from_numpy(arrays.ids),
        segments=torch.from_numpy(arrays.segments),
        mask=torch.from_numpy(arrays.mask),
        slots=torch.from_numpy(arrays.slots),
        slot_mask=torch.from_numpy(arrays.slot_mask),
        operations=operations,
        domain=torch.tensor(domains),
        values=written.targets(),
        choices=written.choices(),
    )
    if encoder.fixed_schema:
        return batch
    rows, owners = torch.zeros_like(batch.slots), torch.zeros_like(batch.slots)
    for row, one in enumerate(prepared):
        rows[row, : len(one.schema)] = torch.tensor(texts.slots(one.schema))
        places = {domain: i for i, domain in enumerate(one.schema.domains)}
        owners[row, : len(one.schema)] = torch.tensor([places[slot.domain] for slot in one.schema.slots])
    return batch._replace(texts=texts.tensors(), slot_rows=rows, slot_domains=owners)


def _domain(one: Prepared) -> int:
    """The turn's domain within its schema; -100 where it is unknown or there is nothing to choose."""
    if one.domain not in one.schema.domains or len(one.schema.domains) == 1:
        return -100
    return one.schema.domains.index(str(one.domain))


class _TextRows:
    """The texts of slots and listed values of a batch, each once, by row."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self._rows: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}

    def _row(self, text: Sequence[int], name: Sequence[int] = ()) -> int:
        return self._rows.setdefault((tuple(text), tuple(name)), len(self._rows))

    def slots(self, schema: Schema) -> list[int]:
        table = self.encoder.table(schema)
        return [self._row(text, name) for text, name in zip(table.texts, table.names, strict=True)]

    def values(self, schema: Schema, slot: str) -> list[int]:
        return [self._row(text) for text in self.encoder.table(schema).values[schema.index[slot]]]

    def tensors(self) -> Texts:
        texts, names = [text for text, _ in self._rows], [name for _, name in self._rows]
        ids = _padded(texts, value=self.encoder.pad)
        mask = _padded([[1] * len(text) for text in texts], value=0).bool()
        return Texts(ids, mask, _padded(names, value=0))


class _Written:
    """The values that a batch writes: generated, or chosen from a closed list, or both where a listed value is said
    word for word."""

    def __init__(self, encoder: Encoder, texts: _TextRows) -> None:
        self.encoder, self.texts = encoder, texts
        self._generated: list[tuple[int, int, list[int]]] = []
        self._chosen: list[tuple[int, int, list[int], int]] = []

    def add(self, row: int, one: Prepared, slot: str) -> None:
        value, listed, j = one.labels.values[slot], one.schema[slot].values, one.schema.index[slot]
        pieces = self.encoder.encode_value(value, self.encoder.table(one.schema).rules)
        if listed is not None and not self.encoder.fixed_schema and value is not None and value is not DONTCARE:
            if value in listed:  # a label outside the list cannot be learned
                self._chosen.append((row, j, self.texts.values(one.schema, slot), listed.index(str(value))))
            if not _stands_in(pieces[:-1], one.encoding.ids):
                return
        self._generated.append((row, j, pieces))

    def targets(self) -> ValueTargets | None:
        if not self._generated:
            return None
        owners, slots, tokens = (list(part) for part in zip(*self._generated, strict=True))
        mask = _padded([[1] * len(ids) for ids in tokens], value=0).bool()
        return ValueTargets(torch.tensor(owners), torch.tensor(slots), _padded(tokens, value=self.encoder.eos), mask)

    def choices(self) -> ChoiceTargets | None:
        if not self._chosen:
            return None
        owners, slots, rows, right = (list(part) for part in zip(*self._chosen, strict=True))
        mask = _padded([[1] * len(ids) for ids in rows], value=0).bool()
        return ChoiceTargets(
            torch.tensor(owners), torch.tensor(slots), _padded(rows, value=0), mask, torch.tensor(right)
        )


def _stands_in(part: Sequence[int], whole: Sequence[int]) -> bool:
    """Whether the whole has the part in one piece."""
    size = len(part)
    return any(whole[start : start + size] == part for start in range(len(whole) - size + 1) if whole[start] == part[0])


def _padded(rows: Sequence[Sequence[int]], *, value: int) -> Tensor:
    padded = torch.full((len(rows), max(1, *map(len, rows))), value)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = torch.tensor(row, dtype=torch.long)
    return padded
