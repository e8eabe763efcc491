"""Counting a corpus the way the paper does: operations, domains, slot value vocabulary, domain transitions.

    operations         derived between the states of consecutive turns; every slot of the schema counts in every turn
    dialogues          per domain: by the user's goal if the corpus has it, else by the domains of the turns
    turns              per domain: by the domain of the turn
    vocabulary         distinct words, separated by spaces, in a slot's values; "dontcare" is one
    transitions        the order in which the domains of the turns first appear in a dialogue
    generated          UPDATE operations per turn: the values that a model has to generate

The paper's own figures are in `paper_counts.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from somdst.memory.dialogue import Dialogue
from somdst.memory.operations import FOUR, Operation, OperationSet
from somdst.memory.schema import Schema, Slot
from somdst.memory.state import State


@dataclass(frozen=True, slots=True)
class Generated:
    """How many values are generated in a turn."""

    min: int
    mean: float
    max: int


@dataclass(frozen=True, slots=True)
class DomainCount:
    domain: str
    dialogues: int
    turns: int


@dataclass(frozen=True, slots=True)
class Transition:
    """Dialogues in which the domains appear in this order."""

    domains: tuple[str, ...]
    dialogues: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """All the counts of some dialogues; `to_json` is what `somdst data stats --json` prints of them."""

    dialogues: int
    turns: int
    slots: int
    operations: Mapping[str, int]
    generated: Generated
    domains: tuple[DomainCount, ...]
    counted_by: Literal["goal", "turns"]
    """What dialogues per domain are counted by."""
    vocabulary: Mapping[str, int]
    transitions: tuple[Transition, ...]

    @property
    def complicated(self) -> int:
        """Dialogues over three or more domains: more than one transition."""
        return sum(row.dialogues for row in self.transitions if len(row.domains) >= 3)

    def complicated_ending(self, domain: str) -> int:
        """Those of them whose last new domain is this one."""
        return sum(row.dialogues for row in self.transitions if len(row.domains) >= 3 and row.domains[-1] == domain)

    def to_json(self) -> dict[str, Any]:
        generated = self.generated
        return {
            "dialogues": self.dialogues,
            "turns": self.turns,
            "slots": self.slots,
            "operations": dict(self.operations),
            "generated": {"min": generated.min, "mean": round(generated.mean, 4), "max": generated.max},
            "dialogues_counted_by": self.counted_by,
            "domains": {row.domain: {"dialogues": row.dialogues, "turns": row.turns} for row in self.domains},
            "vocabulary": dict(self.vocabulary),
            "transitions": [{"domains": list(row.domains), "dialogues": row.dialogues} for row in self.transitions],
            "three_or_more_domains": {
                "dialogues": self.complicated,
                "ending_in": {row.domain: self.complicated_ending(row.domain) for row in self.domains},
            },
        }


def count(dialogues: Sequence[Dialogue], *, schema: Schema, operation_set: OperationSet = FOUR) -> Statistics:
    """Count these dialogues; slots outside the schema are left out, as the paper leaves out hospital and police.

    >>> from somdst.corpora.synthetic import SYNTHETIC_SCHEMA, synthetic_dialogues
    >>> count(synthetic_dialogues(dialogues=10), schema=SYNTHETIC_SCHEMA).generated.max
    2
    """
    operations: Counter[Operation] = Counter()
    updates: Counter[int] = Counter()
    words: dict[str, set[str]] = {slot: set() for slot in schema}
    for dialogue in dialogues:
        before = State()
        for after in dialogue.states():
            changed = [op for slot, op in operation_set.derive(before, after).operations.items() if slot in words]
            operations.update(changed)
            updates[changed.count(Operation.UPDATE)] += 1
            before = after
        for slot, value in dialogue.new_values():
            if slot in words:
                words[slot].update(str(value).split())
    turns = updates.total()
    slots = sum(len(dialogue.schema or schema) * len(dialogue.turns) for dialogue in dialogues)
    operations[Operation.CARRYOVER] = slots - operations.total()
    return Statistics(
        dialogues=len(dialogues),
        turns=turns,
        slots=len(schema),
        operations={str(operation): operations[operation] for operation in operation_set.operations},
        generated=_generated(updates),
        domains=_domains(dialogues, schema),
        counted_by="goal" if _goals(dialogues) else "turns",
        vocabulary={slot: len(words[slot]) for slot in sorted(words, key=lambda slot: (-len(words[slot]), slot))},
        transitions=_transitions(dialogues),
    )


def schema_of(dialogues: Iterable[Dialogue]) -> Schema | None:
    """The slots that occur in the states; None if all states are empty."""
    names = {slot for dialogue in dialogues for turn in dialogue.turns for slot in turn.state or ()}
    slots = [Slot.of(*slot.split("-", 1)) for slot in sorted(names) if _SLOT.fullmatch(slot)]
    return Schema(slots) if slots else None


def joint_schema(dialogues: Iterable[Dialogue]) -> Schema:
    """The slots of the dialogues' own schemas as one schema; of those with the same name the last counts."""
    slots = {str(slot): slot for dialogue in dialogues if dialogue.schema for slot in dialogue.schema.slots}
    return Schema(slots.values())


_SLOT = re.compile(r"[^\s-]([^-]*[^\s-])?-\S(.*\S)?", re.DOTALL)  # domain and name, neither with spaces at its ends


def _generated(updates: Counter[int]) -> Generated:
    total = sum(number * turns for number, turns in updates.items())
    return Generated(min(updates, default=0), total / max(1, updates.total()), max(updates, default=0))


def _goals(dialogues: Sequence[Dialogue]) -> bool:
    return bool(dialogues) and all(dialogue.goal is not None for dialogue in dialogues)


def _domains(dialogues: Sequence[Dialogue], schema: Schema) -> tuple[DomainCount, ...]:
    by_goal = _goals(dialogues)
    in_dialogues: Counter[str] = Counter()
    in_turns: Counter[str] = Counter()
    for dialogue in dialogues:
        named = [turn.domain for turn in dialogue.turns if turn.domain is not None]
        in_turns.update(named)
        in_dialogues.update(set((dialogue.goal if by_goal else None) or named))
    return tuple(DomainCount(domain, in_dialogues[domain], in_turns[domain]) for domain in schema.domains)


def _transitions(dialogues: Sequence[Dialogue]) -> tuple[Transition, ...]:
    orders = Counter(
        tuple(dict.fromkeys(turn.domain for turn in dialogue.turns if turn.domain is not None))
        for dialogue in dialogues
    )
    orders.pop((), None)
    ordered = sorted(orders.items(), key=lambda row: (-row[1], row[0]))
    return tuple(Transition(domains, number) for domains, number in ordered)
