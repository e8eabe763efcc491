"""NADST (Le et al., ICLR 2020): no recurrence at all. How long each value is, then all words of all values at once.

As published: the domain-slot pairs attend to each other and to the history. From that come a gate and each slot's
fertility, the number of words of its value. The pairs are then laid out as often as their fertility says, a second
stack attends to them and to the history, and every position predicts its word in parallel: copied from the history or
taken from the vocabulary. Neighbours that repeat each other are merged. Time does not grow with the length of values,
and hardly with the number of slots.

What the shared encoder changes: a pretrained transformer over the history in place of embeddings with positions; one
layer in each stack in place of three; word pieces in place of words. The delexicalised history, which replaces values
by slot names and is built from gold labels of the system's turns at test time, is left out. Positions are learned;
there is no label smoothing. Text beyond 512 word pieces, or the last seventeen turns, is not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from somdst.baselines.heads import VALUE, SlotQueries, gate_head, gated, gates
from somdst.baselines.system import Asking, Fed, Said, Shown, System
from somdst.learn.model import SlotValueGenerator
from somdst.learn.torch_predictor import model_options

HEADS, LAYERS = 8, 1


class Layout(NamedTuple):
    """Positions to fill: each belongs to a slot, and is the n-th piece of its value."""

    slots: Tensor  # [B, P]
    places: Tensor  # [B, P]
    mask: Tensor  # [B, P]


class Labels(NamedTuple):
    gates: Tensor  # [B, J]
    fertility: Tensor  # [B, J] pieces of the value; 0 where there is none
    layout: Layout
    tokens: Tensor  # [B, P]


class ParallelTokens(SlotValueGenerator):
    """The copy mixture of the generator, without its recurrence: each position has its state already."""

    def __init__(self, width: int, options: Any) -> None:
        super().__init__(width, options)
        del self.gru
        self.follow = None  # the piece before is not known yet

    def states(self, e: Tensor, g: Tensor) -> Tensor:
        return g if g.dim() == e.dim() else g.unsqueeze(1)


class Nadst(System):
    rows = 8  # a gate that is not trained may want all words of all slots

    def build(self, *, dropout: float) -> None:
        self.queries = SlotQueries(self.encoder, self.text_encoder.word_embeddings)
        self.fertility_stack, self.token_stack = self._stack(dropout), self._stack(dropout)
        self.longest = self.encoder.config.max_value_length - 1
        self.gate, self.fertility = gate_head(self.width), nn.Linear(self.width, self.longest + 1)
        self.places = nn.Embedding(self.longest, self.width)
        self.tokens = ParallelTokens(self.width, model_options(self.encoder, dropout=dropout))

    def _stack(self, dropout: float) -> nn.TransformerDecoder:
        layer = nn.TransformerDecoderLayer(
            self.width, HEADS, 2 * self.width, dropout, batch_first=True, norm_first=True
        )
        return nn.TransformerDecoder(layer, LAYERS, norm=nn.LayerNorm(self.width))

    def in_decoder(self, name: str) -> bool:
        return super().in_decoder(name) and "_stack." not in name  # attention learns at the encoder's rate

    def labels(self, shown: Sequence[Shown]) -> Labels:
        rules, kinds, pieces = self.encoder.table().rules, [], []
        for one in shown:
            own = gates(self.schema, one.goal)
            kinds.append(own)
            pieces.append(
                [
                    self.encoder.encode_value(one.goal[slot], rules)[:-1] if kind == VALUE else []
                    for slot, kind in zip(self.slot_names, own, strict=True)
                ]
            )
        fertility = torch.tensor([[len(ids) for ids in row] for row in pieces])
        layout = lay_out(fertility)
        tokens = torch.zeros_like(layout.slots)
        tokens[layout.mask] = torch.tensor([i for row in pieces for ids in row for i in ids], dtype=torch.long)
        return Labels(torch.tensor(kinds), fertility, layout, tokens)

    def pairs(self, fed: Fed, H: Tensor) -> Tensor:
        """What the slots know after reading the history: [B, J, D]"""
        queries = self.queries().expand(len(H), -1, -1)
        return self.fertility_stack(queries, H, memory_key_padding_mask=~fed.mask)

    def positions(self, fed: Fed, H: Tensor, z: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Inputs and outputs of the second stack: [B, P, D] each."""
        x = z.gather(1, layout.slots.unsqueeze(-1).expand(-1, -1, z.shape[-1])) + self.places(layout.places)
        hidden = ~layout.mask
        hidden[:, 0] = False  # a turn without any value attends to one position that nobody reads
        stack = self.token_stack(x, H, tgt_key_padding_mask=hidden, memory_key_padding_mask=~fed.mask)
        return x, stack

    def losses(self, fed: Fed, labels: Labels) -> tuple[Tensor, Tensor]:
        H, _ = self.encode(fed)
        z = self.pairs(fed, H)
        gate = F.cross_entropy(self.gate(z).flatten(0, 1).float(), labels.gates.flatten())
        fertility = F.cross_entropy(self.fertility(z).flatten(0, 1).float(), labels.fertility.flatten())
        x, y = self.positions(fed, H, z, labels.layout)
        E = self.text_encoder.word_embeddings.weight
        real = labels.layout.mask
        P = self.tokens.target_probabilities(
            x, y, H, fed.ids, fed.mask, E, labels.tokens.unsqueeze(-1), labels.tokens, real
        )
        return gate + fertility, -(torch.log(P + 1e-9) * real).sum() / real.sum().clamp(min=1)

    def decide(self, asking: Asking) -> list[dict[str, Said]]:
        fed = self.pad(asking.encodings)
        H, _ = self.encode(fed)
        z = self.pairs(fed, H)
        P_gate, kinds = self.gate(z).float().softmax(-1).max(-1)  # [B, J]
        must = torch.tensor([[asking.must(b, slot) for slot in self.slot_names] for b in range(len(kinds))])
        wanted = (kinds == VALUE) | must.to(kinds.device)
        P_length, length = self.fertility(z).float().softmax(-1)[..., 1:].max(-1)  # a value has at least one piece
        layout = lay_out((length + 1) * wanted)
        owners, places = torch.nonzero(layout.mask, as_tuple=True)
        ids: dict[tuple[int, int], list[int]] = {}
        at: dict[tuple[int, int], int] = {}
        sure: dict[tuple[int, int], float] = {}
        if len(owners):
            x, y = self.positions(fed, H, z, layout)
            embeddings = self.text_encoder.word_embeddings.weight
            flat = x[owners, places], y[owners, places], H[owners], fed.ids[owners], fed.mask[owners]
            P_val, P_ctx, _ = self.tokens.step(*flat, embeddings, places)
            best, tokens = P_val.max(-1)
            rows = zip(owners.tolist(), layout.slots[owners, places].tolist(), tokens.tolist(), strict=True)
            looked = P_ctx.argmax(-1).tolist()
            for n, (b, j, token) in enumerate(rows):
                ids.setdefault((b, j), []).append(token)
                at.setdefault((b, j), looked[n])
                sure[b, j] = sure.get((b, j), float(P_length[b, j])) * float(best[n])
        said: list[dict[str, Said]] = []
        for b, (encoding,) in enumerate(asking.encodings):
            own: dict[str, Said] = {}
            for j, slot in enumerate(self.slot_names):
                value = Said(None, 1.0)
                if (b, j) in ids:
                    found = self.encoder.decode_copied(encoding, merged(ids[b, j]), [at[b, j]])
                    value = Said(found[0], sure[b, j], found[1])
                own[slot] = gated(int(kinds[b, j]), float(P_gate[b, j]), value, must=bool(must[b, j]))
            said.append(own)
        return said


def lay_out(fertility: Tensor) -> Layout:
    """Each slot as often as its fertility says: [B, J] -> [B, P]

    >>> lay_out(torch.tensor([[2, 0, 1]])).slots.tolist(), lay_out(torch.tensor([[2, 0, 1]])).places.tolist()
    ([[0, 0, 2]], [[0, 1, 0]])
    """
    P = max(1, int(fertility.sum(1).max()))
    slots, places = torch.zeros(len(fertility), P, dtype=torch.long), torch.zeros(len(fertility), P, dtype=torch.long)
    mask = torch.zeros(len(fertility), P, dtype=torch.bool)
    for b, row in enumerate(fertility.tolist()):
        pairs = [(j, place) for j, count in enumerate(row) for place in range(count)]
        if pairs:
            slots[b, : len(pairs)], places[b, : len(pairs)] = torch.tensor(pairs).T
            mask[b, : len(pairs)] = True
    return Layout(*(tensor.to(fertility.device) for tensor in (slots, places, mask)))


def merged(ids: Sequence[int]) -> list[int]:
    """Neighbours that repeat each other count once.

    >>> merged([5, 5, 7, 5])
    [5, 7, 5]
    """
    return [token for token, _ in groupby(ids)]
