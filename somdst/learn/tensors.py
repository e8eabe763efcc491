"""What goes into the network and comes out of it: named tensors, with their shapes.

B turns, T tokens, J slots, U slots to update, C of them with a closed list, K value tokens, D width, O operations,
N texts of slots and listed values.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Batch(NamedTuple):
    """A padded batch of turns. The last four fields are labels; None where nothing is generated or chosen."""

    ids: Tensor  # [B, T]
    segments: Tensor  # [B, T]
    mask: Tensor  # [B, T] True where there is a token
    slots: Tensor  # [B, J] position of each [SLOT]
    slot_mask: Tensor  # [B, J] True where there is a slot
    slot_vectors: Tensor | None = None  # [B, J, D] what is added to each [SLOT], if it is known already
    texts: Texts | None = None  # or what it is made from
    slot_rows: Tensor | None = None  # [B, J] which of the texts describes the slot
    slot_domains: Tensor | None = None  # [B, J] number of the slot's domain within its schema
    operations: Tensor | None = None  # [B, J]
    domain: Tensor | None = None  # [B] -100 where unknown
    values: ValueTargets | None = None
    choices: ChoiceTargets | None = None


class Texts(NamedTuple):
    """Texts of slots and of listed values, each once."""

    ids: Tensor  # [N, L]
    mask: Tensor  # [N, L]
    names: Tensor  # [N, P] pieces of a slot's name, 0 beyond its end


class ValueTargets(NamedTuple):
    """The slots to update of a batch, U of them."""

    owners: Tensor  # [U] which turn
    slots: Tensor  # [U] which slot
    tokens: Tensor  # [U, K] padded after [EOS]
    mask: Tensor  # [U, K]


class ChoiceTargets(NamedTuple):
    """The slots to update that have a closed list, C of them."""

    owners: Tensor  # [C] which turn
    slots: Tensor  # [C] which slot
    rows: Tensor  # [C, values] which of the texts are the values of its list
    mask: Tensor  # [C, values]
    right: Tensor  # [C] which of them is right


class Encoded(NamedTuple):
    """What the encoder says of a batch."""

    tokens: Tensor  # H_t          [B, T, D]
    pooled: Tensor  # h^X          [B, D]
    slots: Tensor  # h^[SLOT]j    [B, J, D]
    operations: Tensor  # logits   [B, J, O]
    domain: Tensor  # logits       [B, J], or [B, domains] with a fixed schema
    queries: Tensor | None = None  # what listed values are scored against [B, J, D]
    value_vectors: Tensor | None = None  # of the batch's texts [N, D]


class Generated(NamedTuple):
    """Greedy values of U slots."""

    tokens: Tensor  # [U, K]
    probability: Tensor  # [U] product over the tokens
    positions: Tensor  # [U, K] where the copy attention looked most


class Losses(NamedTuple):
    total: Tensor
    operations: Tensor
    domain: Tensor
    values: Tensor
