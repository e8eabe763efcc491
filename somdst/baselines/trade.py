"""TRADE (Wu et al., ACL 2019): reads the whole history, and generates a value for every slot at every turn.

As published: no previous state is read. A slot's query is the sum of a domain vector and a slot vector. A GRU starts
from the encoded history for each slot alone and mixes copying from the history with the vocabulary. A gate, from the
first step's context, says whether a slot is empty, does not matter, or has the generated value. All J slots are
decoded, also those that the gate leaves empty: that is the cost which the paper measures.

What the shared encoder changes: word pieces and a pretrained transformer in place of words and a bidirectional GRU; the
queries start from the embeddings of the names. All slots are decoded in one batch, as with the released code's
`-paral`; its published 340 ms are slot by slot. Of the empty slots only some, drawn at random, teach the generator to
say nothing; the gate learns from all. Gold values are always fed in training. Text beyond 512 word pieces, or the last
seventeen turns, is not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from somdst.baselines.heads import (
    VALUE,
    SlotQueries,
    ValueTokens,
    copied_values,
    copy_loss,
    gate_head,
    gated,
    gates,
    sample_slots,
    value_tokens,
)
from somdst.baselines.system import Asking, Fed, Said, Shown, System
from somdst.learn.model import NOTHING, SlotValueGenerator
from somdst.learn.torch_predictor import model_options


class Labels(NamedTuple):
    gates: Tensor  # [B, J]
    values: ValueTokens


class Trade(System):
    rows = 8  # all slots of all turns are decoded together

    def build(self, *, dropout: float) -> None:
        self.queries = SlotQueries(self.encoder, self.text_encoder.word_embeddings)
        self.generator = SlotValueGenerator(self.width, model_options(self.encoder, dropout=dropout))
        self.gate = gate_head(self.width)

    def labels(self, shown: Sequence[Shown]) -> Labels:
        goals = [one.goal for one in shown]
        return Labels(torch.tensor([gates(self.schema, goal) for goal in goals]), value_tokens(self.encoder, goals))

    def gate_logits(self, fed: Fed, H: Tensor, h: Tensor) -> Tensor:
        """From the context of the first step, c^0 = P_ctx H: [B, J, 3]"""
        B, J = len(h), len(self.schema)
        first = self.queries().expand(B, J, -1)
        start = h.unsqueeze(1).expand(B, J, -1)
        g = self.generator.states(first.flatten(0, 1).unsqueeze(1), start.flatten(0, 1)).view(B, J, -1)
        nothing_before = torch.full((B, J, 1), NOTHING, device=H.device)
        P_ctx = self.generator.attend(g, H, fed.ids, fed.mask, nothing_before)  # [B, J, T]
        return self.gate(self.dropout(torch.bmm(P_ctx.to(H.dtype), H)))

    def losses(self, fed: Fed, labels: Labels) -> tuple[Tensor, Tensor]:
        H, h = self.encode(fed)
        gate = F.cross_entropy(self.gate_logits(fed, H, h).flatten(0, 1).float(), labels.gates.flatten())
        chosen = sample_slots(labels.gates == VALUE)
        chosen = chosen._replace(weights=torch.ones_like(chosen.weights))  # the gate says what is empty
        first, start = self.queries()[chosen.slots], h.index_select(0, chosen.owners)
        embeddings = self.text_encoder.word_embeddings
        values = copy_loss(self.generator, embeddings, labels.values, chosen, first, start, H, fed.ids, fed.mask)
        return gate, values

    def decide(self, asking: Asking) -> list[dict[str, Said]]:
        fed = self.pad(asking.encodings)
        H, h = self.encode(fed)
        P_gate, gate = self.gate_logits(fed, H, h).float().softmax(-1).max(-1)  # [B, J]
        values = copied_values(
            self.generator,
            self.text_encoder.word_embeddings,
            self.encoder,
            [encodings[0] for encodings in asking.encodings],
            self.queries(),
            h.unsqueeze(1).expand(-1, len(self.schema), -1),
            H,
            fed.ids,
            fed.mask,
        )
        return [
            {
                slot: gated(kind, probability, value, must=asking.must(b, slot))
                for slot, kind, probability, value in zip(self.slot_names, *row, strict=True)
            }
            for b, row in enumerate(zip(gate.tolist(), P_gate.tolist(), values, strict=True))
        ]
