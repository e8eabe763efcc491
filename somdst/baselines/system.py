"""`System`: what all systems have in common. A system is a network on the shared encoder, with four methods:

    build    its heads
    labels   what is to be learned, as tensors
    losses   gate loss and value loss of a batch
    decide   what it says of every slot: a value or NULL, with a probability

How the encoder is fed follows from its entry in `catalogue.py`. `Recurrent` is the base of the systems that read each
turn once and keep the rest in a recurrence. Does not train or store anything; see `fitting.py`.

B examples, R rows of tokens (turns of dialogues, where the encoder reads each turn by itself), L turns of an example,
T tokens, J slots, M values of a slot, D width, K value tokens, U values to write, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from somdst.baselines import feeding
from somdst.baselines.catalogue import Listed
from somdst.baselines.ontology import FIRST, Ontology
from somdst.learn.model import TextEncoder
from somdst.learn.tensors import Losses
from somdst.memory.dialogue import Dialogue
from somdst.memory.state import State, Value
from somdst.model.encoding import Encoder, Encoding, mention
from somdst.model.prediction import Evidence, Predictor, TurnInput
from somdst.model.predictor import pad

PARTS = {"system": 1, "user": 2, "slot": 3}
"""Which part of an input a token belongs to; 0 is none of them."""


class Fed(NamedTuple):
    """A padded batch."""

    ids: Tensor  # [R, T]
    segments: Tensor  # [R, T]
    mask: Tensor  # [R, T]
    parts: Tensor  # [R, T] see PARTS
    slots: Tensor  # [R, J] position of each [SLOT], or [R, 0]
    turns: Tensor  # [B, L] the row of each turn of an example; [B, 1] where an example is one row
    turn_mask: Tensor  # [B, L]

    @property
    def is_text(self) -> Tensor:
        """[R, T] where an utterance has a token."""
        return (self.parts == PARTS["system"]) | (self.parts == PARTS["user"])


class Batch(NamedTuple):
    fed: Fed
    labels: Any


class Shown(NamedTuple):
    """An example as a system sees it."""

    encodings: Sequence[Encoding]
    before: State
    goal: State
    goals: Sequence[State]
    """The states to reach after each turn that is read by itself; the last one is the goal."""


class Said(NamedTuple):
    """What a system says of one slot."""

    value: Value | None
    probability: float
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Asking:
    """Turns to decide on. `asked` are the slots that must get a value, whatever else the system thinks."""

    inputs: Sequence[TurnInput]
    encodings: Sequence[Sequence[Encoding]]
    asked: Sequence[frozenset[str]] | None = None
    seen: MutableMapping[Any, Tensor] = field(default_factory=dict)
    """What a recurrence keeps of turns that were read before."""

    def must(self, row: int, slot: str) -> bool:
        return self.asked is not None and slot in self.asked[row]


class System(nn.Module, ABC):
    entry: Listed
    rows: ClassVar[int] = 32
    """Turns that are decided on together."""

    def __init__(self, entry: Listed, network: Any, encoder: Encoder, ontology: Ontology, *, dropout: float) -> None:
        super().__init__()
        self.entry, self.encoder, self.ontology, self.schema = entry, encoder, ontology, encoder.schema
        self.text_encoder = TextEncoder(network)
        self.width: int = network.config.hidden_size
        self.dropout = nn.Dropout(dropout)
        self.slot_names = [str(slot) for slot in self.schema.slots]
        self.build(dropout=dropout)

    # What a system is.

    @abstractmethod
    def build(self, *, dropout: float) -> None:
        """Make its heads."""

    @abstractmethod
    def labels(self, shown: Sequence[Shown]) -> Any: ...

    @abstractmethod
    def losses(self, fed: Fed, labels: Any) -> tuple[Tensor, Tensor]:
        """Of the gate (mean over slots) and of the values (mean over turns)."""

    @abstractmethod
    def decide(self, asking: Asking) -> list[dict[str, Said]]:
        """Every slot of every turn."""

    def start(self) -> None:
        """What a new system makes of the pretrained encoder before it is trained."""

    def choose(self, predictor: Predictor, dev: Sequence[Dialogue]) -> None:
        """What it chooses on dev before each evaluation."""

    # What all have.

    @property
    def device(self) -> torch.device:
        return self.text_encoder.word_embeddings.weight.device

    def in_decoder(self, name: str) -> bool:
        """Whether a parameter has the decoder's learning rate: everything beside the encoder."""
        return not name.startswith("text_encoder.")

    def read(self, input: TurnInput) -> list[Encoding]:
        turns = feeding.turns_of(input, self.encoder.config.history)
        match self.entry.feeding:
            case "history":
                return [feeding.history(self.encoder, turns)]
            case "turns":
                return [feeding.one_turn(self.encoder, turn) for turn in turns]
            case "turn with state":
                return [feeding.turn_with_state(self.encoder, input.turn, input.state)]
            case "slots with history":
                return [feeding.slots_with_history(self.encoder, turns)]

    def pad(self, examples: Sequence[Sequence[Encoding]], *, multiple: int = 1) -> Fed:
        rows = [encoding for example in examples for encoding in example]
        arrays = pad(rows, pad_id=self.encoder.pad, multiple=multiple)
        parts = torch.zeros(arrays.ids.shape, dtype=torch.long)
        for row, encoding in enumerate(rows):
            for region in encoding.regions:
                parts[row, region.start : region.end] = PARTS[region.source]
        L = max(map(len, examples))
        turns, turn_mask = torch.zeros(len(examples), L, dtype=torch.long), torch.zeros(len(examples), L).bool()
        first = 0
        for b, example in enumerate(examples):
            turns[b, : len(example)] = torch.arange(first, first + len(example))
            turn_mask[b, : len(example)] = True
            first += len(example)
        ids, segments, mask, slots = map(torch.from_numpy, (arrays.ids, arrays.segments, arrays.mask, arrays.slots))
        fed = Fed(ids, segments, mask, parts, slots, turns, turn_mask)
        device = self.device
        return Fed(*(tensor.to(device) for tensor in fed)) if device.type != "cpu" else fed

    def encode(self, fed: Fed, slot_vectors: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """H [R, T, D] and h [R, D], the mean over the tokens, as the encoder was pretrained. `slot_vectors` [J, D] are
        added to the [SLOT]s."""
        embedded = self.text_encoder.word_embeddings(fed.ids)  # [R, T, D]
        if slot_vectors is not None:
            at = fed.slots.unsqueeze(-1).expand(-1, -1, embedded.shape[-1])  # [R, J, D]
            embedded = embedded.scatter_add(1, at, slot_vectors.to(embedded.dtype).expand_as(at))
        H = self.text_encoder.run(embedded, fed.mask, fed.segments)
        weights = fed.mask.unsqueeze(-1).to(H.dtype)
        return H, (H * weights).sum(1) / weights.sum(1)

    def batch(self, shown: Sequence[Shown]) -> Batch:
        return Batch(self.pad([one.encodings for one in shown], multiple=16), self.labels(shown))

    def forward(self, batch: Batch, *, teacher_forcing: bool = True, operation_weight: float = 1.0) -> Losses:
        """The gate's loss stands where SOM-DST has that of its operations, and has its weight. Gold values are always
        fed; no system here has a domain loss."""
        gate, values = self.losses(*batch)
        return Losses(operation_weight * gate + values, gate, gate.detach() * 0.0, values)

    def chosen(self, logits: Tensor, asking: Asking) -> list[dict[str, Said]]:
        """The best value of each slot, from scores over the ontology [B, J, M]."""
        logits = logits.float().clone()
        for b in range(len(logits)):
            for j, slot in enumerate(self.slot_names):
                if asking.must(b, slot) and self.ontology.values[slot]:
                    logits[b, j, :FIRST] = float("-inf")  # neither NULL nor DONTCARE
        best, index = logits.softmax(-1).max(-1)
        return [
            {
                slot: self.known(self.ontology.value(slot, i), p, asking.encodings[b][-1])
                for slot, i, p in zip(self.slot_names, index[b].tolist(), best[b].tolist(), strict=True)
            }
            for b in range(len(logits))
        ]

    @staticmethod
    def known(value: Value | None, probability: float, encoding: Encoding) -> Said:
        """A value that was chosen and not copied: its evidence is where the turn says it, if it does."""
        return Said(value, probability, mention(encoding, value) if isinstance(value, str) else None)


class Recurrent(System):
    """Reads each turn by itself. Its examples are whole dialogues, and every turn of them is learned from."""

    @abstractmethod
    def turn_vectors(self, fed: Fed) -> Tensor:
        """What is kept of each turn, from the encoder alone: [R, ...]"""

    @abstractmethod
    def turn_logits(self, kept: Tensor) -> Tensor:
        """Scores over the ontology after each turn: kept [B, L, ...] -> [B, L, J, M]"""

    def labels(self, shown: Sequence[Shown]) -> Tensor:
        """[B, L, J]"""
        L = max(len(one.goals) for one in shown)
        right = torch.full((len(shown), L, len(self.schema)), -100)
        for b, one in enumerate(shown):
            right[b, : len(one.goals)] = torch.tensor([self.ontology.indices(goal) for goal in one.goals])
        return right

    def losses(self, fed: Fed, labels: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.turn_logits(self.turn_vectors(fed)[fed.turns])  # [B, L, J, M]
        loss = nn.functional.cross_entropy(logits.flatten(0, 2).float(), labels.flatten(), reduction="sum")
        return loss * 0.0, loss / fed.turn_mask.sum()

    def decide(self, asking: Asking) -> list[dict[str, Said]]:
        return self.chosen(self.last(self.turn_logits, self.remembered(asking)), asking)

    def remembered(self, asking: Asking) -> tuple[Tensor, Tensor]:
        """What is kept of all turns [B, L, ...], and how many turns each example has [B]. Only turns that were not
        read before go through the encoder, so a conversation costs one short pass per turn."""
        new = {turn_key(e): e for example in asking.encodings for e in example if turn_key(e) not in asking.seen}
        if new:
            vectors = self.turn_vectors(self.pad([[encoding] for encoding in new.values()]))
            asking.seen.update(zip(new, vectors, strict=True))
        kept = [torch.stack([asking.seen[turn_key(e)] for e in example]) for example in asking.encodings]
        lengths = torch.tensor([len(one) for one in kept], device=kept[0].device)
        return nn.utils.rnn.pad_sequence(kept, batch_first=True), lengths

    @staticmethod
    def last(scores: Any, remembered: tuple[Tensor, Tensor]) -> Tensor:
        """Of scores after each turn, those after the last turn."""
        kept, lengths = remembered
        return scores(kept)[torch.arange(len(lengths), device=lengths.device), lengths - 1]


def turn_key(encoding: Encoding) -> tuple[int, ...]:
    """What a turn is remembered by."""
    return tuple(encoding.ids)
