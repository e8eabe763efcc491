"""The joint loss, L_joint = L_opr + L_dom + L_svg (section 3.3), averaged over the turns of a batch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from somdst.learn.model import SomDst, last_tokens
from somdst.learn.tensors import Batch, Encoded, Losses


def joint_loss(model: SomDst, batch: Batch, *, teacher_forcing: bool, operation_weight: float = 1.0) -> Losses:
    """All losses of a batch. With `teacher_forcing` the generator is fed the gold values, else its own words.
    `operation_weight` is how much L_opr counts in the sum; the paper has 1."""
    encoded = model.encode(batch)
    L_opr = operation_loss(encoded, batch)
    L_dom = domain_loss(encoded, batch)
    L_svg = value_loss(model, batch, encoded, teacher_forcing=teacher_forcing) + choice_loss(batch, encoded)
    return Losses(operation_weight * L_opr + L_dom + L_svg, L_opr, L_dom, L_svg)


def operation_loss(encoded: Encoded, batch: Batch) -> Tensor:
    """The mean over all slots of the batch: one slot weighs the same in a schema of five and in one of sixty."""
    assert batch.operations is not None
    wanted = batch.operations.masked_fill(~batch.slot_mask, -100)
    return F.cross_entropy(encoded.operations.flatten(0, 1).float(), wanted.flatten())


def domain_loss(encoded: Encoded, batch: Batch) -> Tensor:
    """The mean over all turns, also those without a known domain: so a batch in parts weighs each turn the same."""
    assert batch.domain is not None
    return F.cross_entropy(domain_logits(encoded, batch), batch.domain, reduction="sum") / len(batch.ids)


def domain_logits(encoded: Encoded, batch: Batch) -> Tensor:
    """[B, domains]: a domain's logit is the mean of its slots'; with a fixed schema the classifier's own."""
    if batch.slot_domains is None:
        return encoded.domain.float()
    logits, real = encoded.domain.float(), batch.slot_mask.float()
    shape = (len(logits), int(batch.slot_domains.max()) + 1)
    sums = torch.zeros(shape, device=logits.device).scatter_add(1, batch.slot_domains, logits * real)
    counts = torch.zeros(shape, device=logits.device).scatter_add(1, batch.slot_domains, real)
    return (sums / counts.clamp(min=1)).masked_fill(counts == 0, -1e4)


def choice_loss(batch: Batch, encoded: Encoded) -> Tensor:
    """The part of L_svg for slots with a closed list: cross-entropy over the list, weighed as a generated value is."""
    chosen = batch.choices
    if chosen is None or encoded.queries is None or encoded.value_vectors is None:
        return encoded.pooled.sum() * 0.0
    queries = encoded.queries[chosen.owners, chosen.slots]  # [C, D]
    vectors = encoded.value_vectors[chosen.rows]  # [C, values, D]
    scores = torch.bmm(vectors, queries.unsqueeze(-1)).squeeze(-1).float()  # [C, values]
    nll = F.cross_entropy(scores.masked_fill(~chosen.mask, -1e4), chosen.right, reduction="none")
    return (nll / slots_to_write(batch)[chosen.owners]).sum() / len(batch.ids)


def slots_to_write(batch: Batch) -> Tensor:
    """How many values each turn writes, generated and chosen [B]."""
    owners = [part.owners for part in (batch.values, batch.choices) if part is not None]
    return torch.bincount(torch.cat(owners), minlength=len(batch.ids))


def value_loss(model: SomDst, batch: Batch, encoded: Encoded, *, teacher_forcing: bool) -> Tensor:
    """L_svg: mean over a value's tokens, then over a turn's slots, then over the turns."""
    targets = batch.values
    if targets is None:  # nothing is updated: a zero that still belongs to the graph
        return encoded.pooled.sum() * 0.0
    generator, embeddings = model.value_generator, model.operation_predictor.word_embeddings
    first = encoded.slots[targets.owners, targets.slots]  # e^0 = h^[SLOT]j   [U, D]
    fed = targets.tokens[:, :-1]
    if not teacher_forcing:  # the model's own words: found without a gradient, then fed to the same single pass
        with torch.no_grad():
            steps = targets.tokens.shape[1]
            greedy = model.generate(batch, encoded, targets.owners, targets.slots, steps=steps).tokens
            fed = F.pad(greedy, (0, steps - greedy.shape[1]), value=model.options.eos)[:, :-1]
    e = torch.cat([first.unsqueeze(1), embeddings(fed).to(first.dtype)], 1)  # [U, K, D]
    # By index_select: the gradient of tokens[owners] is added up by threads in whatever order they come.
    P_val = generator.target_probabilities(
        e,
        encoded.pooled.index_select(0, targets.owners),
        encoded.tokens.index_select(0, targets.owners),
        batch.ids[targets.owners],
        batch.mask[targets.owners],
        embeddings.weight,
        last_tokens(fed),
        targets.tokens,
        targets.mask,
    )
    nll = -torch.log(P_val + 1e-9) * targets.mask
    per_slot = nll.sum(1) / targets.mask.sum(1)  # [U]
    return (per_slot / slots_to_write(batch)[targets.owners]).sum() / len(batch.ids)
