"""`Ontology`: the values of each slot that were seen in training, numbered. Never the values of dev or test.

Number 0 is NULL and 1 is DONTCARE; a slot's own values follow, alphabetically. A value that is not in it cannot be
predicted by a system that chooses from it: `missing` says how often that happens.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from somdst.errors import InputError, ModelError
from somdst.memory.dialogue import Dialogue
from somdst.memory.schema import Schema
from somdst.memory.state import DONTCARE, State, Value

FILE = "ontology.json"
NULL_INDEX, DONTCARE_INDEX, FIRST = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Missing:
    """What of some dialogues is not in an ontology."""

    values: int
    """Distinct pairs of slot and value."""
    turns: int
    """Turns whose state has at least one of them: these cannot be right."""
    all_turns: int

    def __str__(self) -> str:
        share = 100 * self.turns / max(1, self.all_turns)
        return (
            f"{self.values:,} values are not in the ontology, because they never occur in training: {self.turns:,} of "
            f"{self.all_turns:,} turns ({share:.1f}%) cannot be right"
        )


class Ontology:
    def __init__(self, schema: Schema, values: Mapping[str, Iterable[str]]) -> None:
        self.schema = schema
        self.values = {str(slot): tuple(sorted(set(values.get(slot, ())))) for slot in schema}
        self._numbers = {
            slot: {value: FIRST + i for i, value in enumerate(known)} for slot, known in self.values.items()
        }

    @classmethod
    def collect(cls, dialogues: Iterable[Dialogue], schema: Schema) -> Ontology:
        found: dict[str, set[str]] = {str(slot): set() for slot in schema}
        for dialogue in dialogues:
            for state in dialogue.states():
                for slot, value in state.items():
                    if slot in found and isinstance(value, str):
                        found[slot].add(value)
        return cls(schema, found)

    @classmethod
    def load(cls, folder: Path, schema: Schema) -> Ontology:
        path = folder / FILE
        try:
            return cls(schema, json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise ModelError(f"{path} is missing or damaged ({error}): train the system again.") from error

    def to_json(self) -> str:
        return json.dumps(self.values, ensure_ascii=False)

    @property
    def widest(self) -> int:
        """The most numbers that a slot has, NULL and DONTCARE included."""
        return FIRST + max(map(len, self.values.values()))

    def texts(self, slot: str) -> list[str]:
        """Each number of a slot as words."""
        return ["none", "dont care", *self.values[slot]]

    def index(self, slot: str, value: Value | None) -> int:
        if value is None:
            return NULL_INDEX
        if value is DONTCARE:
            return DONTCARE_INDEX
        try:
            return self._numbers[slot][str(value)]
        except KeyError:
            raise InputError(
                f'The ontology has no value "{value}" for "{slot}": it has the values that training had, and a system '
                "that chooses from it can say no other. Train it with dialogues that have the value."
            ) from None

    def value(self, slot: str, index: int) -> Value | None:
        if index == NULL_INDEX:
            return None
        return DONTCARE if index == DONTCARE_INDEX else self.values[slot][index - FIRST]

    def indices(self, state: State) -> list[int]:
        """The number of each slot's value, in the schema's order."""
        return [self.index(slot, state.get(slot)) for slot in map(str, self.schema.slots)]

    def missing(self, dialogues: Iterable[Dialogue]) -> Missing:
        lacking: set[tuple[str, str]] = set()
        turns, all_turns = 0, 0
        for state in (state for dialogue in dialogues for state in dialogue.states()):
            found = {
                (slot, value)
                for slot, value in state.items()
                if slot in self._numbers and isinstance(value, str) and value not in self._numbers[slot]
            }
            lacking |= found
            turns, all_turns = turns + bool(found), all_turns + 1
        return Missing(len(lacking), turns, all_turns)
