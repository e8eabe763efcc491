"""SUMBT (Lee et al., ACL 2019): each slot asks each turn, a GRU remembers the answers, the nearest value is chosen.

As published: only the new turn goes through the encoder. Slot names and all values of the ontology are encoded once, by
a copy of the encoder that is never trained. The slot's vector attends to the words of the turn (four heads), a GRU of
300 runs over the turns for each slot, and the value whose vector is nearest to its projected output is chosen: "none"
and "dont care" are values like others, and there is no gate. The loss is summed over the slots.

What the shared encoder changes: texts are the mean of their word pieces' vectors, not [CLS], because that is how the
encoder was pretrained. The ontology has the values of the training dialogues only; the original takes the corpus's
whole list, and counts values outside it as "none". Turns beyond the last seventeen are forgotten.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from somdst.baselines.heads import ValueVectors, frozen_vectors
from somdst.baselines.system import Fed, Recurrent
from somdst.model.text import slot_words

HEADS, MEMORY = 4, 300


class Sumbt(Recurrent):
    slot_vectors: Tensor

    def build(self, *, dropout: float) -> None:
        self.attention = nn.MultiheadAttention(self.width, HEADS, dropout=dropout, batch_first=True)
        self.memory = nn.GRU(self.width, MEMORY, batch_first=True)
        self.projection = nn.Linear(MEMORY, self.width)
        self.normalisation = nn.LayerNorm(self.width)
        self.values = ValueVectors(self.width, self.ontology)
        self.register_buffer("slot_vectors", torch.zeros(len(self.schema), self.width))

    def in_decoder(self, name: str) -> bool:
        return super().in_decoder(name) and not name.startswith("attention.")  # learns at the encoder's rate

    def start(self) -> None:
        words = [slot_words(slot) for slot in self.schema.slots]
        self.slot_vectors.copy_(torch.stack(frozen_vectors(self.text_encoder, self.encoder, words)))
        self.values.spell(self.text_encoder, self.encoder, self.ontology)

    def turn_vectors(self, fed: Fed) -> Tensor:
        """What each slot finds in each turn: [R, J, D]"""
        H, _ = self.encode(fed)
        questions = self.slot_vectors.expand(len(H), -1, -1)
        found, _ = self.attention(questions, H, H, key_padding_mask=~fed.mask, need_weights=False)
        return found

    def turn_logits(self, kept: Tensor) -> Tensor:
        """kept [B, L, J, D] -> minus the distance to each value [B, L, J, M]"""
        B, L, J, D = kept.shape
        remembered, _ = self.memory(kept.float().transpose(1, 2).reshape(B * J, L, D))  # [B * J, L, MEMORY]
        y = self.normalisation(self.dropout(self.projection(remembered)))
        y = y.view(B, J, L, D).transpose(1, 2).reshape(B * L, J, D)
        return self.values.distance(y).view(B, L, J, -1)
