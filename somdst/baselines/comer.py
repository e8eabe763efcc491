"""COMER (Ren et al., EMNLP 2019): one decoder writes the state at three levels: domains, their slots, their values.

As published: this turn and the previous state are read. One LSTM decoder of two layers is used three times with the
same weights. It writes the sequence of domains; for each domain, starting again, the sequence of its slots; for each
slot the words of its value. The output vector of the parent is added to the decoder's output at the two lower levels.
At each step the output attends to what the system said, then to what the user said, then to the state, and all four
vectors together predict the next item. There is no copying. Only filled slots cost anything, so the state of a turn is
written as a whole: what the user does not care about is written as words.

What the shared encoder changes: turn and state are one sequence for a pretrained transformer that is fine-tuned, in
place of fixed BERT-large vectors and a bidirectional LSTM for each of three sequences; the decoder attends to the
values of the state, not to its names. Domains and slots are single items with learned vectors, and not words of the
same vocabulary. They are written in alphabetical order, not by their frequency, and never twice. Two layers predict
from the four vectors in place of four, and no gradient is stopped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from somdst.baselines.heads import SlotQueries
from somdst.baselines.system import Asking, Fed, Said, Shown, System

LAYERS = 2
Cell = tuple[Tensor, Tensor]


class Sequences(NamedTuple):
    """What is written at one level, S sequences with up to K items."""

    owners: Tensor  # [S] which turn
    parents: Tensor  # [S, 2] sequence and step of the level above; zeros at the first level
    groups: Tensor  # [S] which domain's slots may follow, at the second level
    items: Tensor  # [S, K] with the end
    mask: Tensor  # [S, K]


class Decoded(NamedTuple):
    """One sequence as it was decoded."""

    items: list[int]
    outputs: list[Tensor]
    probability: list[float]


class Comer(System):
    def build(self, *, dropout: float) -> None:
        D = self.width
        self.queries = SlotQueries(self.encoder, self.text_encoder.word_embeddings)
        self.first = nn.Parameter(torch.randn(3, D) * 0.02)  # what each level starts with
        self.end = nn.Parameter(torch.randn(D) * 0.02)  # ends a sequence of domains or slots
        self.decoder = nn.LSTM(D, D, num_layers=LAYERS, batch_first=True)
        self.into = nn.ModuleList(nn.Linear(D, D) for _ in range(3))
        self.out_of = nn.ModuleList(nn.Linear(D, D) for _ in range(3))
        self.join = nn.Sequential(nn.Linear(4 * D, D), nn.ReLU(), nn.Dropout(dropout), nn.Linear(D, D))
        self.places = {
            (slot.domain, slot.name): (self.queries.domain_of[j], self.queries.name_of[j])
            for j, slot in enumerate(self.schema.slots)
        }
        names = torch.zeros(len(self.schema.domains), len(self.queries.names) + 1, dtype=torch.bool)
        names[:, -1] = True
        for domain, name in self.places.values():
            names[domain, name] = True
        self.register_buffer("names_of", names, persistent=False)  # [domains, names + 1] what may follow
        self.slot_at = {place: slot for slot, place in zip(self.slot_names, self.places.values(), strict=True)}

    names_of: Tensor

    def table(self, level: int) -> Tensor:
        """The items of a level, its end last; the end of a value is [EOS]."""
        if level == 2:
            return self.text_encoder.word_embeddings.weight
        return torch.cat([(self.queries.domains, self.queries.names)[level], self.end.unsqueeze(0)])

    def stop(self, level: int) -> int:
        return self.encoder.eos if level == 2 else len(self.table(level)) - 1

    def step(
        self, level: int, e: Tensor, cell: Cell, H: Tensor, parts: Tensor, parent: Tensor | None, allowed: Tensor | None
    ) -> tuple[Tensor, Tensor, Cell]:
        """Steps of S sequences: e [S, K, D] -> outputs [S, K, D], logits [S, K, N], the decoder's state."""
        o, cell = self.decoder(e.float(), cell)
        steps = [o if parent is None else o + parent.unsqueeze(1)]
        for k in range(3):  # system, user, state
            seen = parts == k + 1
            seen[:, 0] = True  # [CLS], where a part is empty
            scores = torch.bmm(self.into[k](steps[-1]), H.transpose(1, 2)).float() / self.width**0.5
            context = torch.bmm(scores.masked_fill(~seen.unsqueeze(1), -1e4).softmax(-1).to(H.dtype), H)
            steps.append(steps[-1] + self.out_of[k](context))
        y = self.join(torch.cat(steps, -1))
        logits = (y @ self.table(level).t().to(y.dtype)).float()
        return y, logits if allowed is None else logits.masked_fill(~allowed.unsqueeze(1), -1e4), cell

    def cells(self, h: Tensor) -> Cell:
        start = h.float().expand(LAYERS, -1, -1).contiguous()
        return start, torch.zeros_like(start)

    # Learning.

    def labels(self, shown: Sequence[Shown]) -> tuple[Sequences, Sequences, Sequences]:
        return self.sequences([dict(one.goal) for one in shown])

    def sequences(self, states: Sequence[dict[str, object]]) -> tuple[Sequences, Sequences, Sequences]:
        """What the three levels have to write for these states."""
        rules = self.encoder.table().rules
        rows: tuple[list[tuple[int, tuple[int, int], int, list[int]]], ...] = ([], [], [])
        for b, state in enumerate(states):
            filled = [slot for slot in self.schema.slots if slot in state]
            domains = sorted({self.schema.domains.index(slot.domain) for slot in filled})
            rows[0].append((b, (0, 0), 0, [*domains, self.stop(0)]))
            for k, domain in enumerate(domains):
                own = [slot for slot in filled if slot.domain == self.schema.domains[domain]]
                parent = len(rows[1])
                names = [self.places[slot.domain, slot.name][1] for slot in own]
                rows[1].append((b, (b, k), domain, [*names, self.stop(1)]))
                for n, slot in enumerate(own):
                    value = self.encoder.encode_value(state[slot], rules)  # type: ignore[arg-type]
                    rows[2].append((b, (parent, n), 0, value))
        one, two, three = (self._padded(level, some) for level, some in enumerate(rows))
        return one, two, three

    def _padded(self, level: int, rows: list[tuple[int, tuple[int, int], int, list[int]]]) -> Sequences:
        K = max((len(items) for *_, items in rows), default=1)
        items = torch.full((len(rows), K), self.stop(level))
        mask = torch.zeros(len(rows), K, dtype=torch.bool)
        for s, (*_, own) in enumerate(rows):
            items[s, : len(own)] = torch.tensor(own)
            mask[s, : len(own)] = True
        owners, groups = torch.tensor([row[0] for row in rows]), torch.tensor([row[2] for row in rows])
        parents = torch.tensor([row[1] for row in rows]).view(len(rows), 2)
        device = self.end.device
        return Sequences(*(part.to(device) for part in (owners.long(), parents.long(), groups.long(), items, mask)))

    def forced(
        self, fed: Fed, H: Tensor, h: Tensor, level: int, given: Sequences, above: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Outputs and logits where the items are given. `above` [S', K', D] are the outputs of the level above."""
        H, parts = H.index_select(0, given.owners), fed.parts[given.owners]
        parent = None if above is None else above[given.parents[:, 0], given.parents[:, 1]]
        e = torch.cat([self.first[level].expand(len(H), 1, -1), self.table(level)[given.items[:, :-1]]], 1)
        allowed = self.names_of[given.groups] if level == 1 else None
        outputs, logits, _ = self.step(level, e, self.cells(h.index_select(0, given.owners)), H, parts, parent, allowed)
        return outputs, logits

    def losses(self, fed: Fed, labels: tuple[Sequences, Sequences, Sequences]) -> tuple[Tensor, Tensor]:
        H, h = self.encode(fed)
        above, nll = None, h.sum() * 0.0
        for level, given in enumerate(labels):
            if len(given.owners):
                above, logits = self.forced(fed, H, h, level, given, above)
                nll = nll + F.cross_entropy(logits[given.mask], given.items[given.mask], reduction="sum")
        return nll * 0.0, nll / sum(given.mask.sum() for given in labels)  # an item counts the same at all levels

    # Deciding.

    def decide(self, asking: Asking) -> list[dict[str, Said]]:
        fed = self.pad(asking.encodings)
        H, h = self.encode(fed)
        said: list[dict[str, Said]] = [dict.fromkeys(self.slot_names, Said(None, 1.0)) for _ in asking.inputs]
        found = self._given(fed, H, h, asking) if asking.asked is not None else self._free(fed, H, h, said)
        if not found:
            return said
        owners, slots, parents, sure = zip(*found, strict=True)
        values = self.greedy(2, fed, H, h, list(owners), torch.stack(parents), None)
        for b, slot, p, value in zip(owners, slots, sure, values, strict=True):
            said[b][slot] = Said(self.encoder.decode(value.items), p * math.prod(value.probability))
        return said

    def _free(
        self, fed: Fed, H: Tensor, h: Tensor, said: list[dict[str, Said]]
    ) -> list[tuple[int, str, Tensor, float]]:
        """The slots that the first two levels write: turn, slot, its vector, its probability."""
        B = len(said)
        domains = self.greedy(0, fed, H, h, list(range(B)), None, None)
        pairs = [(b, k) for b in range(B) for k in range(len(domains[b].items))]
        for b, own in enumerate(said):  # a slot is empty with the probability that the domains end there
            own.update(dict.fromkeys(self.slot_names, Said(None, domains[b].probability[-1])))
        if not pairs:
            return []
        chosen = [domains[b].items[k] for b, k in pairs]
        parents = torch.stack([domains[b].outputs[k] for b, k in pairs])
        slots = self.greedy(1, fed, H, h, [b for b, _ in pairs], parents, self.names_of[chosen])
        return [
            (b, self.slot_at[domain, name], own.outputs[n], domains[b].probability[k] * own.probability[n])
            for (b, k), domain, own in zip(pairs, chosen, slots, strict=True)
            for n, name in enumerate(own.items)
        ]

    def _given(self, fed: Fed, H: Tensor, h: Tensor, asking: Asking) -> list[tuple[int, str, Tensor, float]]:
        """The same for slots that are asked for."""
        assert asking.asked is not None
        one, two, _ = self.sequences([dict.fromkeys(own, "") for own in asking.asked])
        if not len(two.owners):
            return []
        above, _ = self.forced(fed, H, h, 0, one, None)
        outputs, _ = self.forced(fed, H, h, 1, two, above)
        return [
            (int(two.owners[s]), self.slot_at[int(two.groups[s]), int(two.items[s, n])], outputs[s, n], 1.0)
            for s in range(len(two.owners))
            for n in range(int(two.mask[s].sum()) - 1)
        ]

    def greedy(
        self,
        level: int,
        fed: Fed,
        H: Tensor,
        h: Tensor,
        owners: list[int],
        parent: Tensor | None,
        allowed: Tensor | None,
    ) -> list[Decoded]:
        """S sequences, item by item, until all have ended."""
        H, parts, cell = H[owners], fed.parts[owners], self.cells(h[owners])
        e = self.first[level].expand(len(owners), 1, -1)
        table, stop = self.table(level), self.stop(level)
        free = torch.ones(len(owners), len(table), dtype=torch.bool, device=H.device) if allowed is None else allowed
        found = [Decoded([], [], []) for _ in owners]
        ended = [False] * len(owners)
        for _ in range(len(table) if level < 2 else self.encoder.config.max_value_length):
            y, logits, cell = self.step(level, e, cell, H, parts, parent, free)
            best, items = logits[:, 0].softmax(-1).max(-1)
            for s, item in enumerate(items.tolist()):
                if ended[s]:
                    continue
                found[s].probability.append(float(best[s]))
                if item == stop:
                    ended[s] = True
                    continue
                found[s].items.append(item)
                found[s].outputs.append(y[s, 0])
            if all(ended):
                break
            if level < 2:  # no domain and no slot twice
                free = free.clone()
                free[torch.arange(len(items)), items] = items == stop
            e = table[items].unsqueeze(1)
        return found
