"""DS-DST and DST-picklist (Zhang et al., 2019): slot and history are read together; spans, or values from a list.

As published: a gate says of each slot that it is empty, does not matter, or has a value. Slots with few values choose
from the ontology by the cosine of the slot's vector with the vectors of the values, which a copy of the encoder made
and nobody trains, with a hinge loss of margin 0.5. The other slots take a span of the history. DST-picklist has no
spans: all slots choose from the ontology.

What the shared encoder changes: the original runs the encoder once for each slot, on the slot's name followed by the
history, so thirty times per turn. Here one input holds the history and a [SLOT] for every slot, with a vector of the
slot's name added to it. Slot and words attend to each other in every layer, which the authors found decisive, in one
pass. The ontology has the values of the training dialogues only; a slot has few values if training has at most twelve.
Values are the mean of their pieces' vectors. A gold span is the last mention; values that the text does not have cannot
be learned as spans. Text beyond 512 word pieces, or the last seventeen turns, is not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from somdst.baselines.heads import (
    VALUE,
    SlotQueries,
    Spans,
    ValueVectors,
    gate_head,
    gated,
    gates,
    span_labels,
    span_said,
)
from somdst.baselines.ontology import FIRST
from somdst.baselines.system import Asking, Fed, Said, Shown, System

FEW = 12
"""Most values of a slot that chooses from the ontology. On MultiWOZ these are areas, prices, days, stars, numbers of
people and nights, yes and no; names, places, times, food and kinds of attractions are spans. Published, kinds of
attractions are chosen."""
MARGIN = 0.5


class Labels(NamedTuple):
    gates: Tensor  # [B, J]
    listed: Tensor  # [B, J] number in the ontology, -100 where nothing is chosen
    spans: Tensor  # [B, J, 2]


class DsDst(System):
    few: int | None = FEW

    def build(self, *, dropout: float) -> None:
        self.queries = SlotQueries(self.encoder, self.text_encoder.word_embeddings)
        self.gate = gate_head(self.width)
        self.question = nn.Linear(self.width, self.width)
        self.spans = Spans(self.width)
        self.values = ValueVectors(self.width, self.ontology)
        values = self.ontology.values
        self.open = [self.few is not None and len(values[slot]) > self.few for slot in self.slot_names]

    def start(self) -> None:
        self.values.spell(self.text_encoder, self.encoder, self.ontology)

    def labels(self, shown: Sequence[Shown]) -> Labels:
        goals = [one.goal for one in shown]
        listed, spans = [], []
        for one in shown:
            numbers = self.ontology.indices(one.goal)
            chosen = (-100 if is_open or i < FIRST else i for is_open, i in zip(self.open, numbers, strict=True))
            listed.append(list(chosen))
            taken = zip(self.open, self.slot_names, strict=True)
            values = [one.goal.get(slot) if is_open else None for is_open, slot in taken]
            spans.append(span_labels(self.encoder, one.encodings[0], values))
        return Labels(
            torch.tensor([gates(self.schema, goal) for goal in goals]), torch.tensor(listed), torch.tensor(spans)
        )

    def slot_states(self, fed: Fed) -> tuple[Tensor, Tensor]:
        """H [B, T, D] and the [SLOT]s' vectors [B, J, D]."""
        H, _ = self.encode(fed, self.queries())
        return H, H.gather(1, fed.slots.unsqueeze(-1).expand(-1, -1, H.shape[-1]))

    def losses(self, fed: Fed, labels: Labels) -> tuple[Tensor, Tensor]:
        H, x = self.slot_states(fed)
        gate = F.cross_entropy(self.gate(self.dropout(x)).flatten(0, 1).float(), labels.gates.flatten())
        listed = hinge(self.values.cosine(self.question(x)), labels.listed)
        spans = self.spans.loss(self.spans(x, H, fed.is_text), labels.spans) if any(self.open) else gate * 0.0
        return gate, listed + spans

    def decide(self, asking: Asking) -> list[dict[str, Said]]:
        fed = self.pad(asking.encodings)
        H, x = self.slot_states(fed)
        P_gate, kinds = self.gate(x).float().softmax(-1).max(-1)  # [B, J]
        cosines = self.values.cosine(self.question(x))[..., FIRST:]  # neither NULL nor DONTCARE
        first, last, P_span = self.spans.best(self.spans(x, H, fed.is_text))
        said: list[dict[str, Said]] = []
        for b, (encoding,) in enumerate(asking.encodings):
            own: dict[str, Said] = {}
            for j, slot in enumerate(self.slot_names):
                kind, must = int(kinds[b, j]), asking.must(b, slot)
                value = Said(None, 1.0)
                if kind != VALUE and not must:
                    pass  # no value is needed
                elif self.open[j]:
                    place = int(first[b, j]), int(last[b, j])
                    value = span_said(self.encoder, encoding, *place, float(P_span[b, j]))
                elif self.ontology.values[slot]:
                    best, index = cosines[b, j].max(-1)
                    number = FIRST + int(index)
                    value = self.known(self.ontology.value(slot, number), float(best.clamp(0, 1)), encoding)
                own[slot] = gated(kind, float(P_gate[b, j]), value, must=must)
            said.append(own)
        return said


class DstPicklist(DsDst):
    few = None


def hinge(cosines: Tensor, right: Tensor) -> Tensor:
    """max(0, margin - cosine of the right value + best cosine of a wrong one), per value that is chosen.
    cosines [B, J, M]; right [B, J], -100 where nothing is chosen"""
    chosen = right >= 0
    if not bool(chosen.any()):
        return cosines.sum() * 0.0
    scores, index = cosines[chosen][:, FIRST:], (right[chosen] - FIRST).unsqueeze(-1)  # [U, M], [U, 1]
    good = scores.gather(1, index).squeeze(-1)
    bad = scores.scatter(1, index, -1.0).amax(1)  # the lowest cosine there is
    return torch.relu(MARGIN - good + bad).mean()
