"""`Compiled`: a schema as the network reads it, made once per schema by `read_schema`.

The encoder reads the text of each slot and each listed value; the rest of a turn only looks these vectors up. Keeping
compiled schemas is `predictor.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somdst.memory.schema import Schema
from somdst.model.encoding import Encoder

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


class Compiled(NamedTuple):
    """A schema as the network reads it."""

    slots: Floats | None  # [J, D]; None for a model with a fixed schema
    values: Mapping[int, Floats]
    """For slots with a closed list: the vectors of its values [values, D]."""
    domains: Ints  # [J] each slot's domain, as its place in the schema's domains

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(part.nbytes for part in (self.slots, *self.values.values()) if part is not None)


def read_schema(
    schema: Schema,
    encoder: Encoder,
    run_texts: Callable[[Sequence[Sequence[int]]], Floats],
    project: Callable[[Floats, Ints], tuple[Floats, Floats]],
) -> Compiled:
    """`run_texts` gives the mean of the encoder's last layer over each text [N, D]. `project` makes slot vectors and
    value vectors of these, with the pieces of the slots' names [N, P]."""
    domains = np.array([schema.domains.index(slot.domain) for slot in schema.slots])
    if encoder.fixed_schema:
        return Compiled(None, {}, domains)
    table = encoder.table(schema)
    listed = [(j, text) for j, texts in table.values.items() for text in texts]
    unique = {tuple(text): None for text in [*table.texts, *(text for _, text in listed)]}
    pooled = dict(zip(unique, run_texts(list(unique)), strict=True))
    names = np.zeros((len(table.names), max(1, *map(len, table.names))), dtype=np.int64)
    for j, ids in enumerate(table.names):
        names[j, : len(ids)] = ids
    slots, _ = project(np.stack([pooled[tuple(text)] for text in table.texts]), names)
    values: dict[int, Floats] = {}
    if listed:
        empty = np.zeros((len(listed), 1), dtype=np.int64)
        _, vectors = project(np.stack([pooled[tuple(text)] for _, text in listed]), empty)
        owner = np.array([j for j, _ in listed])
        values = {j: vectors[owner == j] for j in table.values}
    return Compiled(slots, values, domains)
