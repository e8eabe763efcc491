"""DST Reader (Gao et al., SIGDIAL 2019): tracking as reading comprehension. Carry over, or answer with a span.

As published: three models on one reading of the history. The first says for each slot whether it keeps the value it has
in the memory. The second says of those that do not whether the answer is yes, no, does not matter, or a span. The third
finds the span's first and last word by comparing each word with the slot's question. The first is a classifier of its
own for each slot; the other two are shared. SOM-DST's operations come from here. A slot is never emptied again: there
is no such answer. The previous state is not read, only kept.

What the shared encoder changes: a pretrained transformer that is fine-tuned takes the place of fixed BERT vectors and a
bidirectional GRU. The question is the sum of a domain vector and a slot vector, which start from the words' embeddings;
it attends to the history before the first two models decide. The three are trained together. The gold span is the last
mention; a value that the text does not have cannot be learned, and is left out. The published combination with a
tracker that chooses from an ontology is left out too. Text beyond 512 word pieces, or the last seventeen turns, is not
read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from somdst.baselines.heads import SlotQueries, Spans, span_labels, span_said
from somdst.baselines.system import Asking, Fed, Said, Shown, System
from somdst.memory.state import DONTCARE, Value

TYPES: tuple[Value | None, ...] = ("yes", "no", DONTCARE, None)
"""None stands for a span."""
SPAN = 3


class Labels(NamedTuple):
    changed: Tensor  # [B, J] 1 where a slot gets another value
    types: Tensor  # [B, J] -100 where it does not
    spans: Tensor  # [B, J, 2]


class DstReader(System):
    def build(self, *, dropout: float) -> None:
        self.queries = SlotQueries(self.encoder, self.text_encoder.word_embeddings)
        self.question = nn.Linear(self.width, self.width)
        self.carry_over = nn.Parameter(torch.randn(len(self.schema), 2 * self.width, 2) * 0.02)
        self.prior = nn.Parameter(torch.tensor([1.5, -1.5]).repeat(len(self.schema), 1))  # nearly all slots are kept
        self.kind = nn.Linear(2 * self.width, len(TYPES))
        self.spans = Spans(self.width)

    def labels(self, shown: Sequence[Shown]) -> Labels:
        changed, types, spans = [], [], []
        for one in shown:
            new = {
                slot: value
                for slot in self.slot_names
                if (value := one.goal.get(slot)) is not None and one.before.get(slot) != value
            }
            changed.append([int(slot in new) for slot in self.slot_names])
            kinds = {slot: TYPES.index(value) if value in TYPES else SPAN for slot, value in new.items()}
            types.append([kinds.get(slot, -100) for slot in self.slot_names])
            values = [new[slot] if kinds.get(slot) == SPAN else None for slot in self.slot_names]
            spans.append(span_labels(self.encoder, one.encodings[0], values))
        return Labels(torch.tensor(changed), torch.tensor(types), torch.tensor(spans))

    def answers(self, fed: Fed) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
        """Logits of carry-over [B, J, 2], of types [B, J, 4], and of the spans' ends [B, J, T] each."""
        H, h = self.encode(fed)
        questions = self.question(self.queries()).to(H.dtype).expand(len(H), -1, -1)  # [B, J, D]
        scores = torch.bmm(questions, H.transpose(1, 2)).float() / self.width**0.5
        found = torch.bmm(scores.masked_fill(~fed.mask[:, None, :], -1e4).softmax(-1).to(H.dtype), H)  # [B, J, D]
        x = self.dropout(torch.cat([found + questions, h.unsqueeze(1).expand_as(found)], -1))
        changed = torch.einsum("bjd,jdk->bjk", x.float(), self.carry_over) + self.prior
        return changed, self.kind(x).float(), self.spans(found + questions, H, fed.is_text)

    def losses(self, fed: Fed, labels: Labels) -> tuple[Tensor, Tensor]:
        changed, types, spans = self.answers(fed)
        gate = F.cross_entropy(changed.flatten(0, 1), labels.changed.flatten())
        count = (labels.types >= 0).sum().clamp(min=1)
        kinds = F.cross_entropy(types.flatten(0, 1), labels.types.flatten(), reduction="sum") / count
        return gate, kinds + self.spans.loss(spans, labels.spans)

    def decide(self, asking: Asking) -> list[dict[str, Said]]:
        changed, types, spans = self.answers(self.pad(asking.encodings))
        P_changed = changed.softmax(-1)[..., 1]  # [B, J]
        P_type, kinds = types.softmax(-1).max(-1)
        first, last, P_span = self.spans.best(spans)
        said: list[dict[str, Said]] = []
        for b, (encoding,) in enumerate(asking.encodings):
            own: dict[str, Said] = {}
            for j, slot in enumerate(self.slot_names):
                sure, kind, must = float(P_changed[b, j]), int(kinds[b, j]), asking.must(b, slot)
                if sure <= 0.5 and not must:
                    own[slot] = Said(asking.inputs[b].state.get(slot), 1 - sure)
                elif kind == SPAN or (must and TYPES[kind] is DONTCARE):
                    place, p = (int(first[b, j]), int(last[b, j])), float(P_span[b, j] * P_type[b, j])
                    own[slot] = span_said(self.encoder, encoding, *place, sure * p)
                else:
                    own[slot] = self.known(TYPES[kind], sure * float(P_type[b, j]), encoding)
            said.append(own)
        return said
