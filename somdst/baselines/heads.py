"""Heads that several systems share: slot queries, choices from the ontology, spans, copied values.

The copy generator itself is SOM-DST's (`learn/model.py`), which took it from TRADE; its learned scales and its bonus on
copying what follows are ours, and all systems that copy have them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from somdst.baselines.ontology import NULL_INDEX, Ontology
from somdst.baselines.system import Said
from somdst.learn.model import SlotValueGenerator, TextEncoder, last_tokens
from somdst.memory.schema import Schema
from somdst.memory.state import DONTCARE, State, Value
from somdst.model.encoding import Encoder, Encoding

NONE, DOES_NOT_CARE, VALUE = 0, 1, 2
"""What a gate says of a slot."""


def gates(schema: Schema, state: State) -> list[int]:
    """What the gate should say of each slot."""
    values = (state.get(slot) for slot in schema.slots)
    return [NONE if value is None else DOES_NOT_CARE if value is DONTCARE else VALUE for value in values]


def gated(kind: int, probability: float, value: Said, *, must: bool) -> Said:
    """What a gate and a value head say together."""
    if kind == VALUE or must:
        return value._replace(probability=probability * value.probability)
    return Said(None if kind == NONE else DONTCARE, probability)


def gate_head(width: int) -> nn.Linear:
    """Says NONE, DOES_NOT_CARE or VALUE. It starts with how often each is right. Otherwise the encoder learns this
    first, and gives the same output for every input."""
    head = nn.Linear(width, 3)
    head.bias.data = torch.tensor([1.5, -3.0, 0.0])
    return head


class SlotQueries(nn.Module):
    """One vector per slot: its domain's plus its name's. They are learned, and start from the words' embeddings."""

    def __init__(self, encoder: Encoder, embeddings: nn.Embedding) -> None:
        super().__init__()
        slots = encoder.schema.slots
        names = sorted({slot.name for slot in slots})
        self.domains = nn.Parameter(_spelled(encoder, embeddings, encoder.schema.domains))
        self.names = nn.Parameter(_spelled(encoder, embeddings, names))
        self.domain_of = [encoder.schema.domains.index(slot.domain) for slot in slots]
        self.name_of = [names.index(slot.name) for slot in slots]

    def forward(self) -> Tensor:
        """[J, D]"""
        return self.domains[self.domain_of] + self.names[self.name_of]


def _spelled(encoder: Encoder, embeddings: nn.Embedding, texts: Sequence[str]) -> Tensor:
    ids = [encoder.pieces(text.replace("_", " ")).ids or [encoder.unk] for text in texts]
    with torch.no_grad():
        return torch.stack([embeddings(torch.tensor(one)).mean(0) for one in ids])


# Choices from the ontology.


def impossible(ontology: Ontology) -> Tensor:
    """[J, M] True where a slot has no value of that number."""
    counts = torch.tensor([len(ontology.texts(slot)) for slot in ontology.values])
    return torch.arange(ontology.widest)[None, :] >= counts[:, None]


class SoftmaxOverValues(nn.Module):
    """A classifier of its own for each slot."""

    impossible: Tensor

    def __init__(self, width: int, ontology: Ontology) -> None:
        super().__init__()
        J, M = len(ontology.values), ontology.widest
        self.weight = nn.Parameter(torch.randn(J, M, width) * 0.02)
        self.bias = nn.Parameter(torch.zeros(J, M))
        self.register_buffer("impossible", impossible(ontology), persistent=False)
        # Four slots in five are empty. Otherwise the encoder learns this first, gives the same output for every input,
        # and may never recover.
        values = (~self.impossible).sum(1) - 1
        self.bias.data[:, NULL_INDEX] = torch.log(4.0 * values)

    def forward(self, x: Tensor) -> Tensor:
        """x [..., D] -> logits [..., J, M]"""
        logits = torch.einsum("...d,jmd->...jm", x, self.weight) + self.bias
        return logits.masked_fill(self.impossible, -1e4)


class ValueVectors(nn.Module):
    """A vector for each value of each slot, made by the encoder as it was before training, and never changed."""

    vectors: Tensor
    impossible: Tensor

    def __init__(self, width: int, ontology: Ontology) -> None:
        super().__init__()
        self.register_buffer("vectors", torch.zeros(len(ontology.values), ontology.widest, width))  # [J, M, D]
        self.register_buffer("impossible", impossible(ontology), persistent=False)

    def spell(self, text_encoder: TextEncoder, encoder: Encoder, ontology: Ontology) -> None:
        texts = sorted({text for slot in ontology.values for text in ontology.texts(slot)})
        vectors = dict(zip(texts, frozen_vectors(text_encoder, encoder, texts), strict=True))
        for j, slot in enumerate(ontology.values):
            for m, text in enumerate(ontology.texts(slot)):
                self.vectors[j, m] = vectors[text]

    def distance(self, x: Tensor) -> Tensor:
        """Minus the euclidean distance of x [R, J, D] to each value -> [R, J, M]"""
        apart = torch.cdist(x.float().transpose(0, 1), self.vectors)  # [J, R, M]
        return -apart.transpose(0, 1).masked_fill(self.impossible, 1e4)

    def cosine(self, x: Tensor) -> Tensor:
        """x [R, J, D] -> [R, J, M]"""
        similar = torch.einsum("rjd,jmd->rjm", F.normalize(x.float(), dim=-1), F.normalize(self.vectors, dim=-1))
        return similar.masked_fill(self.impossible, -1e4)


@torch.no_grad()
def frozen_vectors(text_encoder: TextEncoder, encoder: Encoder, texts: Sequence[str]) -> list[Tensor]:
    """The mean of the last layer over each text."""
    training = text_encoder.training
    text_encoder.eval()
    found = [
        text_encoder.pool(ids, torch.ones_like(ids, dtype=torch.bool))[0]
        for ids in (torch.tensor([encoder.value_text(text)]) for text in texts)
    ]
    text_encoder.train(training)
    return found


# Spans of the text.

LONGEST = 12
"""Word pieces of a span."""


class Spans(nn.Module):
    """Where a value starts and ends: each token is compared with what the slot asks."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.W_start, self.W_end = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, asked: Tensor, H: Tensor, text: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [B, J, T] of start and end. asked [B, J, D]; text [B, T] where an utterance has a token."""
        scores = (torch.bmm(W(asked), H.transpose(1, 2)).float() for W in (self.W_start, self.W_end))
        start, end = (one.masked_fill(~text[:, None, :], -1e4) for one in scores)
        return start, end

    @staticmethod
    def loss(logits: tuple[Tensor, Tensor], labels: Tensor) -> Tensor:
        """labels [B, J, 2], -100 where there is no span; per span."""
        count = (labels[..., 0] >= 0).sum().clamp(min=1)
        parts = (
            F.cross_entropy(one.flatten(0, 1), labels[..., i].flatten(), reduction="sum")
            for i, one in enumerate(logits)
        )
        return torch.stack(list(parts)).sum() / count

    @staticmethod
    def best(logits: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """The most probable start and last token with start <= last < start + LONGEST, and its probability: [B, J]"""
        start, end = (one.log_softmax(-1) for one in logits)
        T = start.shape[-1]
        lengths = [
            F.pad(start[..., : T - more] + end[..., more:], (0, more), value=float("-inf"))
            for more in range(min(LONGEST, T))
        ]
        scores, index = torch.stack(lengths, -2).flatten(-2).max(-1)
        return index % T, index % T + index // T, scores.exp()


def last_mention(encoding: Encoding, ids: Sequence[int]) -> tuple[int, int] | None:
    """The first and the last token of the last place where an utterance has these pieces."""
    wanted = list(ids)
    for region in sorted(encoding.regions, key=lambda region: -region.start):
        own = region.pieces.ids
        for i in range(len(own) - len(wanted), region.skip - 1, -1):
            if region.slot is None and wanted and own[i : i + len(wanted)] == wanted:
                first = region.start + i - region.skip
                return first, first + len(wanted) - 1
    return None


def span_labels(encoder: Encoder, encoding: Encoding, values: Sequence[Value | None]) -> list[tuple[int, int]]:
    """Of each slot's value; (-100, -100) where there is none to find."""
    rules = encoder.table().rules
    found = (
        last_mention(encoding, encoder.encode_value(value, rules)[:-1]) if isinstance(value, str) else None
        for value in values
    )
    return [span or (-100, -100) for span in found]


def span_said(encoder: Encoder, encoding: Encoding, first: int, last: int, probability: float) -> Said:
    """A span as a value, in the text's own spelling."""
    ids = encoding.ids[first : last + 1]
    value, evidence = encoder.decode_copied(encoding, ids, list(range(first, last + 1)))
    return Said(value, probability, evidence)


# Copied values.


class ValueTokens(NamedTuple):
    """The values of all slots as tokens; NULL is written as [NULL]."""

    tokens: Tensor  # [B, J, K] padded after [EOS]
    mask: Tensor  # [B, J, K]


def value_tokens(encoder: Encoder, states: Sequence[Mapping[str, Value]]) -> ValueTokens:
    rules = encoder.table().rules
    rows = [[encoder.encode_value(state.get(slot), rules) for slot in encoder.schema.slots] for state in states]
    K = max(len(ids) for row in rows for ids in row)
    tokens = torch.full((len(rows), len(encoder.schema), K), encoder.eos)
    mask = torch.zeros(tokens.shape, dtype=torch.bool)
    for b, row in enumerate(rows):
        for j, ids in enumerate(row):
            tokens[b, j, : len(ids)] = torch.tensor(ids)
            mask[b, j, : len(ids)] = True
    return ValueTokens(tokens, mask)


class Sampled(NamedTuple):
    """Slots whose values are learned in this step, with their weights: the mean over all slots stays what it is."""

    owners: Tensor  # [U]
    slots: Tensor  # [U]
    weights: Tensor  # [U]
    filled: Tensor
    """How many of all slots are filled."""


def sample_slots(filled: Tensor) -> Sampled:
    """All filled slots, and about as many empty ones, drawn at random: four slots in five are empty, and learning to
    say nothing for all of them would take most of the time. filled [B, J]"""
    empty = ~filled
    share = (filled.sum().clamp(min=1) / empty.sum().clamp(min=1)).clamp(max=1.0)
    drawn = empty & (torch.rand(filled.shape, device=filled.device) < share)
    owners, slots = torch.nonzero(filled | drawn, as_tuple=True)
    weights = torch.where(filled[owners, slots], 1.0, empty.sum() / drawn.sum().clamp(min=1))
    return Sampled(owners, slots, weights, filled.sum())


def copy_loss(
    generator: SlotValueGenerator,
    embeddings: nn.Embedding,
    target: ValueTokens,
    chosen: Sampled,
    first: Tensor,
    start: Tensor,
    H: Tensor,
    ids: Tensor,
    mask: Tensor,
) -> Tensor:
    """The mean over a value's tokens, summed over slots, per filled slot. first, start [U, D]; H [B, T, D]"""
    if not len(chosen.owners):
        return H.sum() * 0.0
    tokens, real = target.tokens[chosen.owners, chosen.slots], target.mask[chosen.owners, chosen.slots]
    e = torch.cat([first.unsqueeze(1), embeddings(tokens[:, :-1]).to(first.dtype)], 1)  # [U, K, D]
    read = H.index_select(0, chosen.owners), ids[chosen.owners], mask[chosen.owners]
    P = generator.target_probabilities(e, start, *read, embeddings.weight, last_tokens(tokens[:, :-1]), tokens, real)
    nll = -torch.log(P + 1e-9) * real
    return (nll.sum(1) / real.sum(1) * chosen.weights).sum() / chosen.filled.clamp(min=1)


def copied_values(
    generator: SlotValueGenerator,
    embeddings: nn.Embedding,
    encoder: Encoder,
    encodings: Sequence[Encoding],
    first: Tensor,
    start: Tensor,
    H: Tensor,
    ids: Tensor,
    mask: Tensor,
) -> list[list[Said]]:
    """A generated value for every slot of every turn. first [J, D]; start [B, J, D]; H [B, T, D]; ids, mask [B, T]"""
    B, J = start.shape[:2]
    owners = torch.arange(B, device=H.device).repeat_interleave(J)
    read = H[owners], ids[owners], mask[owners]
    steps = encoder.config.max_value_length
    generated = generator.generate(first.repeat(B, 1), start.flatten(0, 1), *read, embeddings, steps=steps)
    rows = zip(generated.tokens.tolist(), generated.positions.tolist(), generated.probability.tolist(), strict=True)
    said: list[list[Said]] = [[] for _ in range(B)]
    for u, (tokens, positions, probability) in enumerate(rows):
        value, evidence = encoder.decode_copied(encodings[u // J], encoder.until_end(tokens), positions)
        said[u // J].append(Said(value, probability, evidence))
    return said
