"""From dialogues to batches: examples, their order, and tensors.

Everything random is drawn from a generator seeded by (seed, epoch, example), so the batches of a run are the same
whenever it is stopped and resumed, and however many processes share them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from somdst.corpora.perturbation import TRAINED, perturb
from somdst.learn.model import Batch, ValueTargets
from somdst.learn.settings import Settings
from somdst.learn.wrong_states import ValuePool, corrupt, repairable
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.operations import Derived, OperationSet
from somdst.memory.schema import Schema
from somdst.memory.state import State
from somdst.model.encoding import Encoder, Encoding, drop_words, shuffled_order
from somdst.model.prediction import TurnInput
from somdst.model.predictor import pad

CHUNK = 64
"""Batches that are sorted by length together."""


@dataclass(frozen=True, slots=True)
class Example:
    """One turn to learn from. `own` is the memory that an earlier model really had there."""

    dialogue: Dialogue
    number: int
    before: State
    after: State
    own: State | None = None

    def read(self, history: int) -> tuple[Turn, ...]:
        """The turns that a model with this history reads."""
        return self.dialogue.turns[max(0, self.number - history) : self.number + 1]

    def size(self, history: int) -> int:
        """Roughly how long the input is; only for putting similar lengths together."""
        return sum(len(turn.system) + len(turn.user) for turn in self.read(history)) + 8 * len(self.before)


def examples(
    dialogues: Sequence[Dialogue], encoder: Encoder, own_states: Mapping[tuple[str, int], State] | None = None
) -> list[Example]:
    """Every labelled turn. Slots outside the schema are left out of the states."""
    found = []
    for dialogue in dialogues:
        before = State()
        for number, state in enumerate(dialogue.states()):
            after = _within(state, encoder.schema)
            own = own_states.get((dialogue.id, number)) if own_states else None
            found.append(Example(dialogue, number, before, after, own and _within(own, encoder.schema)))
            before = after
    return found


def _within(state: State, schema: Schema) -> State:
    return State({slot: value for slot, value in state.items() if slot in schema})


class Batches:
    """The batches of a run. `tensors(indices, epoch)` depends on nothing but its arguments and the settings."""

    def __init__(self, examples: Sequence[Example], encoder: Encoder, settings: Settings, pool: ValuePool) -> None:
        self.examples, self.encoder, self.settings, self.pool = examples, encoder, settings, pool
        self.operation_set = OperationSet.named(settings.operation_set)
        self.domains = {domain: i for i, domain in enumerate(encoder.schema.domains)}
        self._sizes = [example.size(settings.history) for example in examples]

    def __len__(self) -> int:
        return -(-len(self.examples) // self.settings.batch_size)

    def order(self, epoch: int) -> list[list[int]]:
        """Shuffled, then batches of similar length, then the batches shuffled."""
        rng = random.Random(f"order {self.settings.seed} {epoch}")
        indices = list(range(len(self.examples)))
        rng.shuffle(indices)
        size, batches = self.settings.batch_size, []
        for start in range(0, len(indices), size * CHUNK):
            chunk = sorted(indices[start : start + size * CHUNK], key=self._sizes.__getitem__)
            batches += [chunk[i : i + size] for i in range(0, len(chunk), size)]
        rng.shuffle(batches)
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
        encodings, derived, domains = [], [], []
        for index in indices:
            encoding, labels = self._prepare(index, epoch)
            encodings.append(encoding)
            derived.append(labels)
            turn = self.examples[index].dialogue.turns[self.examples[index].number]
            domains.append(self.domains.get(turn.domain or "", -100))
        return to_batch(encodings, derived, domains, self.encoder, self.operation_set)

    def _prepare(self, index: int, epoch: int) -> tuple[Encoding, Derived]:
        example, settings = self.examples[index], self.settings
        rng = random.Random(f"example {settings.seed} {epoch} {index}")
        fed = self._fed_state(example, rng)
        labels = self.operation_set.derive(fed, self._goal(example, fed))
        order = shuffled_order(len(self.encoder.schema), rate=settings.shuffle_slots, rng=rng)
        encoding = self.encoder.encode(self._input(example, fed, rng), order=order)
        if settings.word_dropout:
            written = {piece for value in labels.values.values() for piece in self.encoder.encode_value(value)}
            spared = written if settings.spare_values else ()
            encoding = drop_words(encoding, rate=settings.word_dropout, unk=self.encoder.unk, rng=rng, spared=spared)
        return encoding, labels

    def _fed_state(self, example: Example, rng: random.Random) -> State:
        settings = self.settings
        if example.own is not None and rng.random() < settings.own_rate:
            return example.own
        if rng.random() >= settings.wrong_states:
            return example.before
        return corrupt(
            example.before,
            self.pool,
            drop=settings.wrong_drop,
            replace=settings.wrong_replace,
            add=settings.wrong_add,
            rng=rng,
        )

    def _goal(self, example: Example, fed: State) -> State:
        """The state to reach: the gold one, as far as the input shows it."""
        if fed == example.before:
            return example.after
        turns = example.read(self.settings.history)
        texts = (text for turn in turns for text in (turn.system, turn.user) if text)
        return repairable(
            example.before,
            example.after,
            fed,
            shown=" ".join(self.encoder.pieces(text).text for text in texts),
            complete=example.number < len(turns),
        )

    def _input(self, example: Example, fed: State, rng: random.Random) -> TurnInput:
        turns, number = example.dialogue.turns, example.number
        turn = turns[number]
        if self.settings.perturb and rng.random() < self.settings.perturb:
            values = {str(value) for value in example.after.values()}
            turn = replace(turn, user=perturb(turn.user, rng.choice(TRAINED), rng, values=values))
        return TurnInput(turns[number - 1] if number else None, turn, fed, older=turns[: max(0, number - 1)])


def to_batch(
    encodings: Sequence[Encoding],
    derived: Sequence[Derived],
    domains: Sequence[int],
    encoder: Encoder,
    operation_set: OperationSet,
) -> Batch:
    arrays = pad(encodings, pad_id=encoder.pad, multiple=16)
    operations = torch.zeros(arrays.slots.shape, dtype=torch.long)
    owners, slots, tokens = [], [], []
    for row, labels in enumerate(derived):
        for slot, operation in labels.operations.items():
            operations[row, encoder.schema.index[slot]] = operation_set.index(operation)
        for slot in sorted(labels.values):
            owners.append(row)
            slots.append(encoder.schema.index[slot])
            tokens.append(encoder.encode_value(labels.values[slot]))
    return Batch(
        ids=torch.from_numpy(arrays.ids),
        segments=torch.from_numpy(arrays.segments),
        mask=torch.from_numpy(arrays.mask),
        slots=torch.from_numpy(arrays.slots),
        operations=operations,
        domain=torch.tensor(domains),
        values=_targets(owners, slots, tokens, eos=encoder.eos) if owners else None,
    )


def _targets(owners: list[int], slots: list[int], tokens: list[list[int]], *, eos: int) -> ValueTargets:
    longest = max(map(len, tokens))
    padded = torch.full((len(tokens), longest), eos)
    mask = torch.zeros(len(tokens), longest, dtype=torch.bool)
    for row, ids in enumerate(tokens):
        padded[row, : len(ids)] = torch.tensor(ids)
        mask[row, : len(ids)] = True
    return ValueTargets(torch.tensor(owners), torch.tensor(slots), padded, mask)
