"""The slot value generator as its equations are written: slot after slot, step after step.

Slow and plain on purpose. The fast versions in `model.py` must give the same values and the same loss: tests compare
them, and the benchmark of training uses `slot_by_slot_loss` as the straightforward way.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from somdst.learn.losses import choice_loss, domain_loss, operation_loss, slots_to_write
from somdst.learn.model import CONTEXT, SomDst, last_tokens
from somdst.learn.tensors import Batch, Encoded, Losses, ValueTargets


def generate_one(model: SomDst, batch: Batch, encoded: Encoded, owner: int, slot: int, *, steps: int) -> list[int]:
    """The tokens of one slot's value, with [EOS] where it was said."""
    generator, E = model.value_generator, model.operation_predictor.word_embeddings.weight
    length = int(batch.mask[owner].sum())
    H, ids = encoded.tokens[owner, :length], batch.ids[owner, :length]
    g, e = encoded.pooled[owner], encoded.slots[owner, slot]
    tokens: list[int] = []
    for _ in range(steps):
        g = _gru(generator.gru, g, e)
        P_vcb = torch.softmax(generator.scale(1) * (E @ g), 0)  # [V]
        scores = generator.scale(0) * (H @ g)  # [T]
        if generator.follow is not None:
            scores = scores + generator.follow.exp() * torch.tensor(_goes_on(ids.tolist(), tokens))
        P_ctx = torch.softmax(scores, 0)
        c = P_ctx @ H
        alpha = torch.sigmoid(generator.W_1(torch.cat([g, e, c])))
        P_val = alpha * P_vcb
        for position, token in enumerate(ids.tolist()):
            P_val[token] += ((1 - alpha) * P_ctx[position]).squeeze()
        tokens.append(int(P_val.argmax()))
        if tokens[-1] == generator.eos:
            break
        e = E[tokens[-1]]
    return tokens


def _goes_on(ids: list[int], tokens: list[int]) -> list[bool]:
    """For each position, whether what is left of it ends as the value so far does, in as many tokens as anywhere."""
    alike = [
        max(
            n for n in range(CONTEXT + 1) if n <= min(at, len(tokens)) and ids[at - n : at] == tokens[len(tokens) - n :]
        )
        for at in range(len(ids))
    ]
    return [n > 0 and n == max(alike) for n in alike]


def _gru(gru: Any, g: Tensor, e: Tensor) -> Tensor:
    """Cho et al. (2014), as torch numbers the gates: reset, update, new."""
    r_in, z_in, n_in = (gru.weight_ih_l0 @ e + gru.bias_ih_l0).chunk(3)
    r_hid, z_hid, n_hid = (gru.weight_hh_l0 @ g + gru.bias_hh_l0).chunk(3)
    r, z = torch.sigmoid(r_in + r_hid), torch.sigmoid(z_in + z_hid)
    n = torch.tanh(n_in + r * n_hid)
    return (1 - z) * n + z * g


def slot_by_slot_loss(model: SomDst, batch: Batch) -> Losses:
    """The joint loss as one writes it first: the n-th slot of every turn, then the next, each token by token."""
    encoded = model.encode(batch)
    L_opr = operation_loss(encoded, batch)
    L_dom = domain_loss(encoded, batch)
    L_svg = choice_loss(batch, encoded)
    if batch.values is not None:
        slots_of_turn = slots_to_write(batch)
        for nth in range(int(torch.bincount(batch.values.owners).max())):
            chosen = _nth_of_turn(batch.values.owners) == nth
            targets = ValueTargets(*(field[chosen] for field in batch.values))
            per_slot = _value_nll(model, batch, encoded, targets)
            L_svg = L_svg + (per_slot / slots_of_turn[targets.owners]).sum() / len(batch.ids)
    return Losses(L_opr + L_dom + L_svg, L_opr, L_dom, L_svg)


def _nth_of_turn(owners: Tensor) -> Tensor:
    """For each slot to update, how many of its turn stand before it."""
    seen: dict[int, int] = {}
    numbers = []
    for owner in owners.tolist():
        numbers.append(seen.get(owner, 0))
        seen[owner] = numbers[-1] + 1
    return torch.tensor(numbers)


def _value_nll(model: SomDst, batch: Batch, encoded: Encoded, targets: ValueTargets) -> Tensor:
    """-log P_val of the gold tokens, fed to the next step; mean over the tokens of each value."""
    generator, embeddings = model.value_generator, model.operation_predictor.word_embeddings
    owners = targets.owners
    g, e = encoded.pooled[owners], encoded.slots[owners, targets.slots]
    total, before = torch.zeros(len(owners)), last_tokens(targets.tokens[:, :-1])
    H, ids, mask = encoded.tokens[owners], batch.ids[owners], batch.mask[owners]
    for k in range(targets.tokens.shape[1]):
        P_val, _, g = generator.step(generator.dropout(e), g, H, ids, mask, embeddings.weight, before[:, k])
        P_target = P_val.gather(1, targets.tokens[:, k : k + 1]).squeeze(1)
        total = total - torch.log(P_target + 1e-9) * targets.mask[:, k]
        e = embeddings(targets.tokens[:, k])
    return total / targets.mask.sum(1)
