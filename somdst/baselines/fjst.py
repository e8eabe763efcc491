"""FJST, the flat joint state tracker (Eric et al., 2019): one vector of the history, one classifier per slot.

As published: the history is read as one flat sequence, without the previous state. Each slot has a softmax of its own
over the values of the ontology, none and dontcare, on top of the same vector of the whole history. The slots share
nothing but that vector, and the losses are summed over the slots.

What the shared encoder changes: the pooled vectors of a pretrained transformer take the place of the last state of a
bidirectional LSTM over ELMo and trained embeddings, and are fine-tuned. The classifiers are linear, without a hidden
layer. The ontology has the values of the training dialogues only. Text beyond 512 word pieces, or the last
seventeen turns, is not read.

A value that training never had cannot be said. Training says how many turns of dev that concerns; no system that
chooses from the ontology can get these turns right.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from somdst.baselines.heads import SoftmaxOverValues
from somdst.baselines.system import Asking, Fed, Said, Shown, System


class Fjst(System):
    """h = pooled history; P_j = softmax(W_j h + b_j) for each slot j."""

    def build(self, *, dropout: float) -> None:
        self.values = SoftmaxOverValues(self.width, self.ontology)

    def labels(self, shown: Sequence[Shown]) -> Tensor:
        """[B, J] numbers in the ontology"""
        return torch.tensor([self.ontology.indices(one.goal) for one in shown])

    def logits(self, fed: Fed) -> Tensor:
        """[B, J, M]"""
        _, h = self.encode(fed)
        return self.values(self.dropout(h))

    def losses(self, fed: Fed, labels: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.logits(fed)
        loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), reduction="sum") / len(labels)
        return loss * 0.0, loss

    def decide(self, asking: Asking) -> list[dict[str, Said]]:
        return self.chosen(self.logits(self.pad(asking.encodings)), asking)
