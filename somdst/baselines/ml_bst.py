"""ML-BST (Le et al., 2020): a path for domains, a path for slots, multiplied late; then every value is generated.

As published: this turn and the previous state are read. Slot vectors attend to each other and to everything that is
read; domain vectors attend to each other and to what was said. The vector of a domain-slot pair is the element-wise
product of the two (late fusion). From it a GRU generates the value of every pair at every turn, mixing the vocabulary
with copying; there is no gate, an empty slot is a value that says so. Other tasks of the original (requests, bookings,
responses) are left out.

What the shared encoder changes: one pretrained transformer reads turn and state as one sequence, in place of embeddings
for each, so domain vectors see the names of filled slots too; one attention layer in each path in place of three; a
one-layer GRU. Values are copied from the whole input, not only from the user's turn, because the memory that is read
would otherwise have to be spelled from the vocabulary. Of the empty slots only some, drawn at random and weighted
accordingly, are learned in each step.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from somdst.baselines.heads import SlotQueries, ValueTokens, copied_values, copy_loss, sample_slots, value_tokens
from somdst.baselines.system import PARTS, Asking, Fed, Said, Shown, System
from somdst.learn.model import SlotValueGenerator
from somdst.learn.torch_predictor import model_options

HEADS = 8


class MlBst(System):
    rows = 8  # all slots of all turns are decoded together

    def build(self, *, dropout: float) -> None:
        self.queries = SlotQueries(self.encoder, self.text_encoder.word_embeddings)
        self.slot_path, self.domain_path = self._path(dropout), self._path(dropout)
        self.normalisation = nn.LayerNorm(self.width)  # a product of two vectors has no scale of its own
        self.generator = SlotValueGenerator(self.width, model_options(self.encoder, dropout=dropout))

    def _path(self, dropout: float) -> nn.TransformerDecoderLayer:
        return nn.TransformerDecoderLayer(self.width, HEADS, 2 * self.width, dropout, batch_first=True, norm_first=True)

    def in_decoder(self, name: str) -> bool:
        return super().in_decoder(name) and "_path." not in name  # attention learns at the encoder's rate

    def labels(self, shown: Sequence[Shown]) -> ValueTokens:
        return value_tokens(self.encoder, [one.goal for one in shown])

    def fused(self, fed: Fed, H: Tensor) -> Tensor:
        """The product of each pair's domain and slot: [B, J, D]"""
        B, queries = len(H), self.queries
        slots = self.slot_path(queries.names.expand(B, -1, -1), H, memory_key_padding_mask=~fed.mask)
        unsaid = ~fed.mask | (fed.parts == PARTS["slot"])
        domains = self.domain_path(queries.domains.expand(B, -1, -1), H, memory_key_padding_mask=unsaid)
        return self.normalisation(domains[:, queries.domain_of] * slots[:, queries.name_of])

    def losses(self, fed: Fed, labels: ValueTokens) -> tuple[Tensor, Tensor]:
        H, _ = self.encode(fed)
        pairs = self.fused(fed, H)
        chosen = sample_slots(labels.tokens[..., 0] != self.encoder.null)
        first, start = self.queries()[chosen.slots], pairs[chosen.owners, chosen.slots]
        embeddings = self.text_encoder.word_embeddings
        loss = copy_loss(self.generator, embeddings, labels, chosen, first, start, H, fed.ids, fed.mask)
        return loss * 0.0, loss

    def decide(self, asking: Asking) -> list[dict[str, Said]]:
        fed = self.pad(asking.encodings)
        H, _ = self.encode(fed)
        values = copied_values(
            self.generator,
            self.text_encoder.word_embeddings,
            self.encoder,
            [encodings[0] for encodings in asking.encodings],
            self.queries(),
            self.fused(fed, H),
            H,
            fed.ids,
            fed.mask,
        )
        return [dict(zip(self.slot_names, row, strict=True)) for row in values]
