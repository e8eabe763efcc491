"""HJST, the hierarchical joint state tracker (Eric et al., 2019): turns are read one by one, a GRU runs over them.

As published: an encoder of words gives one vector per utterance, a recurrent network runs over these vectors, and each
slot has a softmax of its own over the values of the ontology, none and dontcare, on the state after the last turn.
Every turn of a dialogue is learned from at once. Only the new turn has to be read when a conversation goes on.

What the shared encoder changes: a turn, what the system said and what the user answered, is one sequence, and the
pooled output of the pretrained transformer is its vector. The original has an LSTM over ELMo, separate utterances or
system acts, and an LSTM over them where this has a GRU. The ontology has the values of the training dialogues only.
Turns beyond the last seventeen are forgotten, because a predictor keeps no state of its own between turns; what the
encoder made of earlier turns is kept, so a turn still costs one short pass.
"""

from __future__ import annotations

from torch import Tensor, nn

from somdst.baselines.heads import SoftmaxOverValues
from somdst.baselines.system import Fed, Recurrent


class Hjst(Recurrent):
    """s_t = GRU(s_{t-1}, h_t); P_j = softmax(W_j s_t + b_j) for each slot j."""

    def build(self, *, dropout: float) -> None:
        self.memory = nn.GRU(self.width, self.width, batch_first=True)
        self.values = SoftmaxOverValues(self.width, self.ontology)

    def turn_vectors(self, fed: Fed) -> Tensor:
        """h_t, [R, D]"""
        return self.encode(fed)[1]

    def states(self, kept: Tensor) -> Tensor:
        """h [B, L, D] -> s [B, L, D]"""
        return self.memory(kept.float())[0]

    def turn_logits(self, kept: Tensor) -> Tensor:
        """h [B, L, D] -> [B, L, J, M]"""
        return self.values(self.dropout(self.states(kept)))
