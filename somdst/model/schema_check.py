"""What makes a schema hard to track: `check_schema` finds it before a user does.

A model reads the domain, the name, the description and the first values of a slot. They are compared here in the words
that the model gets (`encoding.py`). Does not run a model, and needs none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import combinations, islice
from typing import Any, Final, Literal

from rapidfuzz import fuzz, process

from somdst.memory.schema import Schema, Slot
from somdst.model.encoding import SLOT_TEXT, TRAINED_SLOTS
from somdst.model.text import slot_words
from somdst.model.values import near_equal

ALIKE: Final = 90
"""How similar (0 to 100) the texts of two slots are when one could be taken for the other. Lower also reports pairs
that are fine: the two nearest slots of MultiWOZ, when a train and when a taxi arrives, have 83."""
MANY_VALUES: Final = 1000
"""A closed list of this length takes noticeably long to compile: the model reads each value once."""
SHOWN: Final = 5
"""How many values or pairs a sentence names."""

RemarkKind = Literal["no description", "long description", "slots alike", "values alike", "many values", "many slots"]


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that makes a schema hard to track."""

    kind: RemarkKind
    slots: tuple[str, ...]
    message: str
    """One sentence: what it is, and what to do."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def check_schema(schema: Schema) -> tuple[Remark, ...]:
    """Everything that makes a schema hard to track, by kind and then by slot."""
    found = [*_described(schema), *_slots_alike(schema), *_values_alike(schema)]
    if len(schema) > TRAINED_SLOTS:
        sentence = f"The schema has {len(schema)} slots; above {TRAINED_SLOTS} a turn takes longer and has less room."
        found.append(Remark("many slots", (), sentence))
    return tuple(found)


def _described(schema: Schema) -> Iterator[Remark]:
    for slot in schema.slots:
        if not slot.description.strip():
            yield Remark("no description", (str(slot),), f"{slot} has no description: say in a few words what it is.")
    for slot in schema.slots:
        if len(f"{slot_words(slot)} : {slot.description}".split()) > SLOT_TEXT - 2:  # without [CLS] and [SEP]
            sentence = (
                f"{slot} has a long description: a model reads about {SLOT_TEXT - 7} words of it, and then no listed "
                "values: begin with the point, and leave out the rest."
            )
            yield Remark("long description", (str(slot),), sentence)


def _slots_alike(schema: Schema) -> Iterator[Remark]:
    different = set(schema.different)
    texts = [f"{slot_words(slot)} {' '.join(slot.description.lower().split())}" for slot in schema.slots]
    alike = process.cdist(texts, texts, scorer=fuzz.token_sort_ratio, score_cutoff=ALIKE)
    for (i, one), (j, other) in combinations(enumerate(schema.slots), 2):
        pair = (str(one), str(other))
        if pair not in different and (reason := _confusion(one, other, score=float(alike[i, j]))):
            yield Remark("slots alike", pair, f"{one} and {other} {reason}.")


def _confusion(one: Slot, other: Slot, *, score: float) -> str | None:
    """Why two slots could be taken for each other, as the rest of a sentence."""
    if slot_words(one) == slot_words(other):
        return f'are both read as "{slot_words(one)}": rename one'
    described = one.description.casefold().split()
    if described and described == other.description.casefold().split() and one.domain == other.domain:
        return "have the same description: say what makes them different"
    if score:
        return "are described nearly alike: say what makes them different"
    shared = [value for value in one.values or () if value in (other.values or ()) and not value.isdecimal()]
    if shared and one.domain == other.domain and "boolean" not in (one.type, other.type):
        return f"both take {_listed(shared)}: say in the descriptions which one is meant when"
    return None


def _values_alike(schema: Schema) -> Iterator[Remark]:
    for slot in schema.slots:
        pairs = near_equal(slot.values or ())
        first = [f"{one!r} and {other!r}" for one, other in islice(pairs, SHOWN)]
        if first:
            more = sum(1 for _ in pairs)
            rest = f" and {more:,} more pairs" if more else ""
            sentence = f"{slot} takes values that are nearly equal: {', '.join(first)}{rest}."
            yield Remark("values alike", (str(slot),), sentence)
        if len(slot.values or ()) > MANY_VALUES:
            sentence = (
                f"{slot} takes {len(slot.values or ()):,} values, each of which the model reads once at the start: "
                "leave out `values`, or open the tracker early."
            )
            yield Remark("many values", (str(slot),), sentence)


def _listed(values: list[str]) -> str:
    more = f" and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
    return ", ".join(values[:SHOWN]) + more
