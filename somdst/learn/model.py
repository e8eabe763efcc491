"""SOM-DST, top to bottom: the equations of sections 3.1 to 3.3 with their symbols.

B batch, T tokens, J slots, U slots to update in the batch, K value tokens, D width, V vocabulary, O operations,
N texts of slots and listed values.

    TextEncoder               token ids -> vectors
    SchemaReader              texts of slots and listed values -> their vectors
    StateOperationPredictor   X_t -> H_t, h^X, P_opr, P_dom
    SlotValueGenerator        (h^X, h^[SLOT]j, H_t) -> P_val, for all slots to update of a batch at once
    SomDst                    all of them

The schema is an input: a slot's [SLOT] token carries a vector that the same encoder makes of the slot's text, and the
values of a closed list are scored by their vectors, beside what is generated. The paper's layout has slot names as text
instead and a classifier over a fixed set of domains: there is no `SchemaReader`. `naive.py` generates slot by slot
as the equations are written, and a test checks that both agree. The joint loss is in `losses.py`. Does not load
encoders (`encoders.py`), make batches (`batches.py`) or train (`training.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from somdst.learn.tensors import Batch, Encoded, Generated, Losses, Texts

NOTHING = -1
"""In place of a token before the first one of a value."""
CONTEXT = 4
"""How many of its last tokens say where in the input a value is being copied from."""


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """What the model needs to know beside its encoder."""

    operations: int
    domains: int
    eos: int
    fixed_schema: bool = False
    """The paper's layout: slot names are text in the input, and the domains are those that it was trained with."""
    scaled_logits: bool = True
    """Learned scales on the copy and vocabulary logits, a gate that starts in favour of copying, and a learned bonus on
    copying what follows the tokens before."""
    dropout: float = 0.0


class Normalisation(nn.LayerNorm):
    """The encoder's, in two steps in a lower precision: in one, a CPU adds up the gradients of its weights in bfloat16
    and is a tenth off; the gradient of a product is summed in float32."""

    def forward(self, x: Tensor) -> Tensor:
        if self.weight.dtype is torch.float32:
            return super().forward(x)
        normalised = F.layer_norm(x.to(self.weight.dtype), self.normalized_shape, eps=self.eps)
        return torch.addcmul(self.bias, normalised, self.weight)


class SchemaReader(nn.Module):
    """From the text of a slot, or of a listed value, to its vector."""

    def __init__(self, width: int) -> None:
        super().__init__()
        # Zero at the start: what a slot's description adds is learned on top of its name.
        self.W_slot = nn.Linear(width, width, bias=False)
        nn.init.zeros_(self.W_slot.weight)
        # At the start a listed value is found by what the encoder says of its words.
        self.W_value = nn.Linear(width, width, bias=False)
        nn.init.eye_(self.W_value.weight)

    def forward(self, pooled: Tensor, names: Tensor, embeddings: nn.Embedding) -> tuple[Tensor, Tensor]:
        """Slot vectors and value vectors [N, D], from the means of the texts [N, D] and the names' pieces [N, P]."""
        # Row 0 of a BERT vocabulary is [PAD], so 0 marks the end of a name.
        spelled = (embeddings(names) * (names > 0).unsqueeze(-1)).sum(1)
        return spelled.to(pooled.dtype) + self.W_slot(pooled), self.W_value(pooled)


class TextEncoder(nn.Module):
    """A pretrained encoder: token ids to vectors. All systems share it."""

    encoder: Any

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.encoder = encoder  # of transformers, which has no types
        for module in encoder.modules():
            if type(module) is nn.LayerNorm:
                module.__class__ = Normalisation
        self.has_segments = getattr(encoder.config, "type_vocab_size", 0) > 1

    @property
    def word_embeddings(self) -> nn.Embedding:
        embeddings: nn.Embedding = self.encoder.get_input_embeddings()
        return embeddings

    def fuse_attention(self) -> None:
        """Attention in one operator where the encoder has it. On a CPU it trains faster in float32, and slower in
        bfloat16 or with dropout on attention weights."""
        if not getattr(self.encoder.config, "attention_probs_dropout_prob", 0.0) and self.encoder._supports_sdpa:
            self.encoder.set_attn_implementation("sdpa")

    def pool(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The mean of the last layer over each text: ids, mask [N, L] -> [N, D]"""
        H = self.run(self.word_embeddings(ids), mask, torch.zeros_like(ids))  # [N, L, D]
        weights = mask.unsqueeze(-1).to(H.dtype)
        return (H * weights).sum(1) / weights.sum(1)

    def run(self, embedded: Tensor, mask: Tensor, segments: Tensor) -> Tensor:
        """The encoder's last layer, [B, T, D]. In training, rows of similar length run together: two fifths of a
        padded batch of many schemas are padding."""
        if not self.training:
            return self._encode(embedded, mask, segments, self._weights())
        weights, width, parts = self._weights(), embedded.shape[1], list[Tensor]()
        groups = similar_lengths(mask.sum(1).tolist())
        for rows, length in groups:
            part = self._encode(embedded[rows, :length], mask[rows, :length], segments[rows, :length], weights)
            parts.append(F.pad(part, (0, 0, 0, width - length)))
        order = torch.tensor([row for rows, _ in groups for row in rows], device=embedded.device)
        return torch.cat(parts)[order.argsort()]

    def _encode(self, embedded: Tensor, mask: Tensor, segments: Tensor, weights: dict[str, Tensor] | None) -> Tensor:
        inputs = {"inputs_embeds": embedded, "attention_mask": _bias(mask)}
        if self.has_segments:
            inputs["token_type_ids"] = segments
        if weights is None:
            return self.encoder(**inputs).last_hidden_state
        device = embedded.device.type
        inputs["attention_mask"] = inputs["attention_mask"].to(torch.get_autocast_dtype(device))
        with torch.autocast(device, enabled=False):
            return functional_call(self.encoder, weights, kwargs=inputs).last_hidden_state

    def _weights(self) -> dict[str, Tensor] | None:
        """In mixed precision, the encoder's weights in the lower one: all of the encoder runs in it, sums and
        normalisations too, because casting back and forth around each product costs a quarter of a step."""
        device = self.word_embeddings.weight.device.type
        if not torch.is_autocast_enabled(device):
            return None
        lower = torch.get_autocast_dtype(device)
        kept = ("embeddings.word", "embeddings.position", "embeddings.token_type")  # their gradients are sums, too
        return {n: p.to(lower) for n, p in self.encoder.named_parameters() if not n.startswith(kept)}


class StateOperationPredictor(TextEncoder):
    """Section 3.1: encode the turn with the memory, choose one operation per slot."""

    def __init__(self, encoder: Any, options: ModelOptions) -> None:
        super().__init__(encoder)
        width: int = encoder.config.hidden_size
        self.fixed_schema = options.fixed_schema
        self.W_pool = nn.Linear(width, width)
        self.W_opr = nn.Linear(width, options.operations)
        self.W_dom = nn.Linear(width, options.domains if options.fixed_schema else width)
        self.dropout = nn.Dropout(options.dropout)
        layers = [self.W_pool, self.W_opr, self.W_dom]
        if not options.fixed_schema:
            self.reader = SchemaReader(width)
            self.W_query, self.W_attend = nn.Linear(width, width), nn.Linear(width, width)
            self.W_mention = nn.Linear(width, width, bias=False)
            layers += [self.W_query, self.W_attend]
            nn.init.eye_(self.W_mention.weight)
            self.W_mention.weight.data /= width**0.5
        for layer in layers:
            nn.init.normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)

    def describe(self, texts: Texts) -> tuple[Tensor, Tensor]:
        """Slot vectors and value vectors of texts, [N, D] each."""
        return self.reader(self.pool(texts.ids, texts.mask), texts.names, self.word_embeddings)

    def embed(self, batch: Batch, slot_vectors: Tensor | None) -> Tensor:
        """Word embeddings, with each slot's vector added to its [SLOT]."""
        embedded = self.word_embeddings(batch.ids)  # [B, T, D]
        if slot_vectors is None:
            return embedded
        at = batch.slots.unsqueeze(-1).expand(-1, -1, embedded.shape[-1])  # [B, J, D]
        return embedded.scatter_add(1, at, slot_vectors.to(embedded.dtype) * batch.slot_mask.unsqueeze(-1))

    def forward(self, batch: Batch) -> Encoded:
        slot_vectors, value_vectors = batch.slot_vectors, None
        if batch.texts is not None and batch.slot_rows is not None:
            described, value_vectors = self.describe(batch.texts)
            slot_vectors = described[batch.slot_rows]  # [B, J, D]
        H = self.run(self.embed(batch, slot_vectors), batch.mask, batch.segments)  # [B, T, D]
        h_X = torch.tanh(self.W_pool(H[:, 0]))  # [B, D]
        h_slots = H.gather(1, batch.slots.unsqueeze(-1).expand(-1, -1, H.shape[-1]))  # [B, J, D]
        operations = self.W_opr(self.dropout(h_slots))
        if self.fixed_schema:
            return Encoded(H, h_X, h_slots, operations, self.W_dom(self.dropout(h_X)))
        domain = torch.bmm(h_slots, self.W_dom(self.dropout(h_X)).unsqueeze(-1)).squeeze(-1)  # [B, J]
        queries = self.W_query(h_slots) + self.W_mention(self.mentions(h_slots, H, batch.mask))
        return Encoded(H, h_X, h_slots, operations, domain, queries, value_vectors)

    def mentions(self, h_slots: Tensor, H: Tensor, mask: Tensor) -> Tensor:
        """What the input says of each slot: the mean of H where the slot looks.  [B, J, D], [B, T, D] -> [B, J, D]"""
        scores = torch.bmm(self.W_attend(h_slots), H.transpose(1, 2)).float() / H.shape[-1] ** 0.5  # [B, J, T]
        weights = scores.masked_fill(~mask[:, None, :], float("-inf")).softmax(-1)
        return torch.bmm(weights.to(H.dtype), H)


def similar_lengths(lengths: list[int], *, spread: float = 0.75, tokens: int = 768) -> list[tuple[list[int], int]]:
    """Rows grouped by length, longest first, each group with its greatest length. A row joins a group if it has at
    least `spread` of that length, or if the group has fewer than `tokens` tokens, too few for a product of its own."""
    groups: list[tuple[list[int], int]] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        rows, longest = groups[-1] if groups else ([], 0)
        if groups and (lengths[row] >= spread * longest or len(rows) * longest < tokens):
            rows.append(row)
        else:
            groups.append(([row], max(1, lengths[row])))
    return groups


def _bias(mask: Tensor) -> Tensor:
    """A ready additive mask [B, 1, 1, T], so that the encoder neither builds one nor branches on its content."""
    bias = torch.zeros(mask.shape, dtype=torch.float32, device=mask.device)
    return bias.masked_fill(~mask, torch.finfo(torch.float16).min)[:, None, None, :]


class SlotValueGenerator(nn.Module):
    """Section 3.2: a GRU that writes a value, from the vocabulary or by copying out of the input."""

    def __init__(self, width: int, options: ModelOptions) -> None:
        super().__init__()
        self.eos = options.eos
        self.gru = nn.GRU(width, width, batch_first=True)
        self.W_1 = nn.Linear(3 * width, 1)
        self.dropout = nn.Dropout(options.dropout)
        nn.init.normal_(self.W_1.weight, std=0.02)
        nn.init.zeros_(self.W_1.bias)
        self.scales: nn.Parameter | None = None
        self.follow: nn.Parameter | None = None
        if options.scaled_logits:
            self.scales = nn.Parameter(torch.ones(2))  # logarithms: copy, vocabulary
            self.follow = nn.Parameter(torch.ones(1))  # a logarithm too
            nn.init.constant_(self.W_1.bias, -1.0)

    def scale(self, which: int) -> Tensor | float:
        return 1.0 if self.scales is None else self.scales[which].exp()

    def states(self, e: Tensor, g: Tensor) -> Tensor:
        """g^k = GRU(g^{k-1}, e^k), for all inputs e [U, K, D] and the first g [U, D] -> [U, K, D]"""
        return self.gru(e, g.unsqueeze(0).to(e.dtype).contiguous())[0]

    def attend(self, g: Tensor, H: Tensor, ids: Tensor, mask: Tensor, before: Tensor) -> Tensor:
        """P_ctx = softmax(H g), over the positions of the whole input.

        g [U, K, D], H [U, T, D], ids and mask [U, T], before [U, K, CONTEXT] -> [U, K, T]. Not in the paper: a position
        that goes on what was written before gets a bonus, so that names nobody has seen are copied whole.
        """
        scores = torch.bmm(g, H.transpose(1, 2)).float() * self.scale(0)
        if self.follow is not None:
            scores = scores + self.follow.exp() * goes_on(ids, mask, before)
        return scores.masked_fill(~mask[:, None, :], float("-inf")).softmax(-1)

    def gate(self, g: Tensor, e: Tensor, P_ctx: Tensor, H: Tensor) -> Tensor:
        """alpha = sigmoid(W_1 [g; e; c]), c = P_ctx H.  -> [U, K]"""
        c = torch.bmm(P_ctx.to(H.dtype), H)
        return torch.sigmoid(self.W_1(torch.cat([g, e, c], -1)).squeeze(-1).float())

    def target_probabilities(
        self,
        e: Tensor,
        g_0: Tensor,
        H: Tensor,
        ids: Tensor,
        mask: Tensor,
        E: Tensor,
        before: Tensor,
        targets: Tensor,
        real: Tensor | None = None,
    ) -> Tensor:
        """P_val of the given targets, all steps in one pass.

        e [U, K, D] inputs, g_0 [U, D], H [U, T, D], ids and mask [U, T], E [V, D], before [U, K, CONTEXT] the last
        tokens before each step (`last_tokens`), targets [U, K] -> [U, K]. Where `real` [U, K] is False, P_val is
        meaningless: the product with the vocabulary, which costs most, is left out there. Only the target's probability
        is needed for the loss, so P_ctx is never scattered onto the vocabulary.
        """
        e = self.dropout(e)
        g = self.states(e, g_0)  # [U, K, D]
        real = torch.ones_like(targets, dtype=torch.bool) if real is None else real
        # Flat: a product of [U, K, D] and [D, V] would copy E once per slot.
        logits = (g[real] @ E.t()).float() * self.scale(1)  # [those that are real, V]
        own = torch.exp(-F.cross_entropy(logits, targets[real], reduction="none"))
        P_vcb = torch.zeros(targets.shape, device=g.device).masked_scatter(real, own)
        P_ctx = self.attend(g, H, ids, mask, before)
        alpha = self.gate(g, e, P_ctx, H)
        copied = (P_ctx * (ids[:, None, :] == targets[:, :, None])).sum(-1)  # [U, K]
        return alpha * P_vcb + (1 - alpha) * copied

    def mix(
        self, g: Tensor, e: Tensor, H: Tensor, ids: Tensor, mask: Tensor, E: Tensor, before: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(P_val [U, V], P_ctx [U, T]) in the states g [U, D], after the tokens `before` [U, CONTEXT]."""
        P_ctx = self.attend(g.unsqueeze(1), H, ids, mask, before.unsqueeze(1))  # [U, 1, T]
        alpha = self.gate(g.unsqueeze(1), e.unsqueeze(1), P_ctx, H)  # [U, 1]
        P_vcb = ((g @ E.t()).float() * self.scale(1)).softmax(-1)
        P_ctx = P_ctx.squeeze(1)
        return (alpha * P_vcb).scatter_add(1, ids, (1 - alpha) * P_ctx), P_ctx

    def step(
        self, e: Tensor, g: Tensor, H: Tensor, ids: Tensor, mask: Tensor, E: Tensor, before: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One step for U slots after the tokens `before` [U, CONTEXT]: (P_val [U, V], P_ctx [U, T], next g [U, D])."""
        g = self.states(e.unsqueeze(1), g).squeeze(1)
        return *self.mix(g, e, H, ids, mask, E, before), g

    def generate(
        self, e: Tensor, g: Tensor, H: Tensor, ids: Tensor, mask: Tensor, embeddings: nn.Embedding, *, steps: int
    ) -> Generated:
        """Greedy values of U slots, until all have said [EOS]. A slot that has said it takes no further step."""
        U = len(e)
        tokens = torch.full((U, steps), self.eos, device=e.device)
        positions = torch.zeros_like(tokens)
        probability = torch.ones(U, device=e.device)
        going, taken = torch.arange(U, device=e.device), 0
        before = torch.full((U, CONTEXT), NOTHING, device=e.device)
        while len(going) and taken < steps:
            P_val, P_ctx, g = self.step(e, g, H, ids, mask, embeddings.weight, before)
            best, token = P_val.max(-1)
            tokens[going, taken], positions[going, taken] = token, P_ctx.argmax(-1)
            probability[going] *= best
            taken += 1
            before = torch.cat([before[:, 1:], token.unsqueeze(1)], 1)
            kept = token != self.eos
            if not bool(kept.all()):
                going, before, g, H, ids, mask = (one[kept] for one in (going, before, g, H, ids, mask))
            e = embeddings(before[:, -1])
        return Generated(tokens[:, :taken], probability, positions[:, :taken])


def last_tokens(tokens: Tensor) -> Tensor:
    """The tokens before each step of a value: tokens [U, K - 1] -> [U, K, CONTEXT], the last one last."""
    return F.pad(tokens, (CONTEXT, 0), value=NOTHING).unfold(1, CONTEXT, 1)


def goes_on(ids: Tensor, mask: Tensor, before: Tensor) -> Tensor:
    """The positions that go on what was written: what is left of them are its last tokens, as many as anywhere.

    ids and mask [U, T], before [U, K, CONTEXT] -> [U, K, T]
    """
    length, alike = torch.zeros_like(ids).unsqueeze(1), mask.unsqueeze(1)
    for n in range(1, before.shape[-1] + 1):
        left = F.pad(ids, (n, 0), value=NOTHING - 1)[:, : ids.shape[1]]  # [U, T]
        alike = alike & (left.unsqueeze(1) == before[:, :, -n].unsqueeze(-1))
        length = length + alike.long()
    return (length > 0) & (length == length.amax(-1, keepdim=True))


class SomDst(nn.Module):
    """The whole model."""

    def __init__(self, encoder: Any, options: ModelOptions) -> None:
        super().__init__()
        self.options = options
        self.operation_predictor = StateOperationPredictor(encoder, options)
        self.value_generator = SlotValueGenerator(encoder.config.hidden_size, options)

    @property
    def text_encoder(self) -> TextEncoder:
        return self.operation_predictor

    def in_decoder(self, name: str) -> bool:
        """Whether a parameter has the decoder's learning rate."""
        return name.startswith("value_generator.")

    def encode(self, batch: Batch) -> Encoded:
        return self.operation_predictor(batch)

    def forward(self, batch: Batch, *, teacher_forcing: bool = True, operation_weight: float = 1.0) -> Losses:
        from somdst.learn.losses import joint_loss

        return joint_loss(self, batch, teacher_forcing=teacher_forcing, operation_weight=operation_weight)

    def generate(
        self, batch: Batch, encoded: Encoded, owners: Tensor, slots: Tensor, *, steps: int, mask: Tensor | None = None
    ) -> Generated:
        """Values for the given slots (U of them: turn `owners[u]`, slot `slots[u]`); mask [U, T]: what to copy from."""
        return self.value_generator.generate(
            encoded.slots[owners, slots],
            encoded.pooled[owners],
            encoded.tokens[owners],
            batch.ids[owners],
            batch.mask[owners] if mask is None else mask,
            self.operation_predictor.word_embeddings,
            steps=steps,
        )
