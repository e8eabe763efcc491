"""HyST (Goel et al., 2019): HJST, or the best n-gram of the turn, whichever is better for a slot on dev.

As published: two trackers side by side. The closed one is HJST. The open one takes n-grams of what was said as
candidates and scores each against the dialogue and the slot, with a hinge loss; a slot gets the best candidate whose
score is above zero. For each slot the method with fewer errors on dev is used.

What the shared encoder changes: the candidate's vector is made of the encoder's vectors of its first and last piece,
and the score is a product of candidate and question, so that all pairs are one matrix product. Candidates are those of
the current turn, the system's words included; a slot without a good one keeps the value it has in the memory, where the
original keeps all candidates of the dialogue and scores them again. The closed tracker decides where a user does not
care. Both are trained together on one encoder. Dev is only used for the choice, on its first dialogues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from somdst.baselines.heads import SlotQueries, span_said
from somdst.baselines.hjst import Hjst
from somdst.baselines.system import Asking, Fed, Said, Shown, turn_key
from somdst.evaluate.run import run
from somdst.memory.dialogue import Dialogue
from somdst.memory.state import DONTCARE, State
from somdst.model.encoding import Encoding
from somdst.model.prediction import Predictor

WORDS = 4
"""Of the longest candidate."""
CHOSEN_ON = 60
"""Dialogues of dev that both methods are tried on."""


class Candidates(NamedTuple):
    first: Tensor  # [R, C]
    last: Tensor  # [R, C]
    mask: Tensor  # [R, C]


class Labels(NamedTuple):
    closed: Tensor  # [B, L, J]
    candidates: Candidates
    right: Tensor  # [R, C, J] which candidates are the value that this turn gives a slot


class Hyst(Hjst):
    use_open: Tensor

    def build(self, *, dropout: float) -> None:
        super().build(dropout=dropout)
        self.queries = SlotQueries(self.encoder, self.text_encoder.word_embeddings)
        self.W_candidate = nn.Linear(2 * self.width, self.width)
        self.W_slot, self.W_dialogue = nn.Linear(self.width, self.width), nn.Linear(self.width, self.width)
        self.register_buffer("use_open", torch.zeros(len(self.schema), dtype=torch.bool))

    # Candidates.

    def spans(self, encoding: Encoding) -> list[tuple[int, int]]:
        """First and last token of every n-gram of whole words."""
        found = []
        for region in encoding.regions:
            tokens = [str(self.encoder.tokenizer.id_to_token(i)) for i in encoding.ids[region.start : region.end]]
            starts = [i for i, token in enumerate(tokens) if not token.startswith("##")]
            ends = [*(i - 1 for i in starts[1:]), len(tokens) - 1]
            for n in range(len(starts)):
                found += [(region.start + starts[n], region.start + end) for end in ends[n : n + WORDS]]
        return found

    def candidates(self, spans: Sequence[Sequence[tuple[int, int]]]) -> Candidates:
        shape = (len(spans), max(1, *map(len, spans)) if spans else 1)
        first, last = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
        mask = torch.zeros(shape, dtype=torch.bool)
        for row, own in enumerate(spans):
            if own:
                first[row, : len(own)], last[row, : len(own)] = torch.tensor(own).T
                mask[row, : len(own)] = True
        return Candidates(first, last, mask)

    def scores(self, H: Tensor, candidates: Candidates, s: Tensor) -> Tensor:
        """H [R, T, D], s [R, D] -> [R, C, J]"""
        ends = (at.to(H.device).unsqueeze(-1).expand(-1, -1, H.shape[-1]) for at in candidates[:2])
        vectors = self.W_candidate(torch.cat([H.gather(1, at) for at in ends], -1))  # [R, C, D]
        questions = self.W_slot(self.queries()) + self.W_dialogue(s).unsqueeze(1)  # [R, J, D]
        scores = torch.bmm(vectors, questions.transpose(1, 2).to(vectors.dtype)).float()
        return scores.masked_fill(~candidates.mask.to(H.device).unsqueeze(-1), -1e4)

    # Learning.

    def labels(self, shown: Sequence[Shown]) -> Labels:  # type: ignore[override]
        rows = [(one, t) for one in shown for t in range(len(one.goals))]
        spans = [self.spans(one.encodings[t]) for one, t in rows]
        candidates = self.candidates(spans)
        right = torch.zeros(*candidates.mask.shape, len(self.schema), dtype=torch.bool)
        rules = self.encoder.table().rules
        for row, ((one, t), own) in enumerate(zip(rows, spans, strict=True)):
            before = one.goals[t - 1] if t else State()
            ids = one.encodings[t].ids
            for j, slot in enumerate(self.slot_names):
                value = one.goals[t].get(slot)
                if isinstance(value, str) and before.get(slot) != value:
                    pieces = self.encoder.encode_value(value, rules)[:-1]
                    for c, (first, last) in enumerate(own):
                        right[row, c, j] = ids[first : last + 1] == pieces
        return Labels(super().labels(shown), candidates, right)

    def losses(self, fed: Fed, labels: Labels) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        H, h = self.encode(fed)
        s = self.states(h[fed.turns])  # [B, L, D]
        logits = self.values(self.dropout(s))
        count = fed.turn_mask.sum()
        closed = nn.functional.cross_entropy(logits.flatten(0, 2).float(), labels.closed.flatten(), reduction="sum")
        scores = self.scores(H, labels.candidates, s[fed.turn_mask])  # the rows are the turns, in this order
        return closed * 0.0, (closed + hinge(scores, labels.right)) / count

    # Deciding.

    def decide(self, asking: Asking) -> list[dict[str, Said]]:
        current = [example[-1] for example in asking.encodings]
        H, h = self.encode(self.pad([[encoding] for encoding in current]))
        asking.seen.update(zip(map(turn_key, current), h, strict=True))
        kept, lengths = self.remembered(asking)
        s = self.states(kept)[torch.arange(len(lengths)), lengths - 1]  # [B, D]
        said = self.chosen(self.values(s), asking)
        if bool(self.use_open.any()):
            spans = [self.spans(encoding) for encoding in current]
            scores = self.scores(H, self.candidates(spans), s)  # [B, C, J]
            for b, own in enumerate(said):
                self._open(own, asking, b, spans[b], scores[b])
        return said

    def _open(
        self, said: dict[str, Said], asking: Asking, b: int, spans: list[tuple[int, int]], scores: Tensor
    ) -> None:
        best, index = scores.max(0)  # [J]
        for j, slot in enumerate(self.slot_names):
            score, must = float(best[j]), asking.must(b, slot)
            if not self.use_open[j] or (said[slot].value is DONTCARE and not must):
                continue
            probability = float(torch.sigmoid(best[j]))
            if spans and (score > 0 or must):
                said[slot] = span_said(self.encoder, asking.encodings[b][-1], *spans[int(index[j])], probability)
            else:
                said[slot] = Said(asking.inputs[b].state.get(slot), 1 - probability)

    def choose(self, predictor: Predictor, dev: Sequence[Dialogue]) -> None:
        """For each slot the method that has it wrong in fewer turns of dev."""
        wrong: list[Counter[str]] = []
        for use_open in (False, True):
            self.use_open.fill_(use_open)
            turns = [turn for one in run(predictor, dev[:CHOSEN_ON]) for turn in one.turns]
            wrong.append(Counter(slot for turn in turns for slot in turn.predicted.differing(turn.gold)))
        better = [wrong[1][slot] < wrong[0][slot] for slot in self.slot_names]
        self.use_open.copy_(torch.tensor(better))


def hinge(scores: Tensor, right: Tensor) -> Tensor:
    """Summed over turns and slots: the right candidate must beat every wrong one and 0, which stands for none, by 1;
    where no candidate is right, none must beat all of them. scores, right [R, C, J]"""
    nothing = torch.zeros_like(scores[:, :1])
    has_right = right.any(1, keepdim=True)  # [R, 1, J]
    all_scores = torch.cat([nothing, scores], 1)
    all_right = torch.cat([~has_right, right], 1)
    good = all_scores.masked_fill(~all_right, -1e4).amax(1)
    bad = all_scores.masked_fill(all_right, -1e4).amax(1)
    return torch.relu(1 + bad - good).sum()
