"""The slot value generator as its equations are written: one slot at a time, one step at a time, no batch.

Slow and plain on purpose. The fast version in `model.py` must give the same values: a test compares them, and the
benchmark uses this one as the straightforward way.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from somdst.learn.model import Batch, Encoded, SomDst


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
        P_ctx = torch.softmax(generator.scale(0) * (H @ g), 0)  # [T]
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


def _gru(gru: Any, g: Tensor, e: Tensor) -> Tensor:
    """Cho et al. (2014), as torch numbers the gates: reset, update, new."""
    r_in, z_in, n_in = (gru.weight_ih_l0 @ e + gru.bias_ih_l0).chunk(3)
    r_hid, z_hid, n_hid = (gru.weight_hh_l0 @ g + gru.bias_hh_l0).chunk(3)
    r, z = torch.sigmoid(r_in + r_hid), torch.sigmoid(z_in + z_hid)
    n = torch.tanh(n_in + r * n_hid)
    return (1 - z) * n + z * g
