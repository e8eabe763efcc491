"""Our counts of MultiWOZ beside the paper's: which figures are the same and which differ.

The paper counted one preparation of MultiWOZ 2.1; other versions of the corpus, and other preparations, differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from somdst.corpora import published
from somdst.corpora.corpus import SPLIT_NAMES, Split
from somdst.corpora.statistics import Statistics
from somdst.schema import Schema

Table = Literal["operations", "dialogues", "turns", "vocabulary", "transitions", "generated", "three_or_more_domains"]

_MOST = 27
"""A part of MultiWOZ may lack a rare slot of the thirty."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One cell of one of the paper's tables, and what we count."""

    table: Table
    row: str
    ours: float
    paper: float

    @property
    def same(self) -> bool:
        return self.ours == self.paper

    def to_json(self) -> dict[str, Any]:
        return {"table": self.table, "row": self.row, "ours": self.ours, "paper": self.paper}


def compare(counted: Statistics, split: Split) -> tuple[Figure, ...]:
    """Every figure that the paper gives for this split. Dialogues a domain only where they are counted by goal."""
    column = published.SPLITS.index(split)
    domains = {row.domain: row for row in counted.domains}

    def figures() -> Iterator[Figure]:
        for name, row in published.OPERATIONS.items():
            yield Figure("operations", name, counted.operations.get(name, 0), row[column])
        for name in published.TURNS:
            if counted.counted_by == "goal":
                yield Figure("dialogues", name, domains[name].dialogues, published.DIALOGUES[name][column])
            yield Figure("turns", name, domains[name].turns, published.TURNS[name][column])
        for name, row in published.VOCABULARY.items():
            yield Figure("vocabulary", name, counted.vocabulary[name], row[column])
        if split == "test":
            yield from _test_only(counted)

    return tuple(figures())


def _test_only(counted: Statistics) -> Iterator[Figure]:
    ours = {" ".join(row.domains): row.dialogues for row in counted.transitions}
    for order in {**published.TRANSITIONS, **ours}:
        yield Figure("transitions", order, ours.get(order, 0), published.TRANSITIONS.get(order, 0))
    both = (counted.complicated, counted.complicated_ending("taxi"))
    for row, mine, theirs in zip(("dialogues", "ending in taxi"), both, published.COMPLICATED, strict=True):
        yield Figure("three_or_more_domains", row, mine, theirs)
    generated = (counted.generated.min, round(counted.generated.mean, 2), counted.generated.max)
    for row, figure, printed in zip(("min", "mean", "max"), generated, published.GENERATED, strict=True):
        yield Figure("generated", row, figure, printed)


def is_multiwoz(schema: Schema) -> bool:
    """Whether these are MultiWOZ's slots: almost all of the thirty, and few others."""
    names = {str(slot) for slot in schema}
    thirty = {str(slot) for slot in Schema.multiwoz()}
    return len(names & thirty) >= _MOST and len(names - thirty) <= 10


def split_in(name: str) -> Split | None:
    """The split that a file's name tells.

    >>> split_in("original-test.json.xz"), split_in("woz_validate_en.json"), split_in("data.json")
    ('test', 'dev', None)
    """
    words = set(re.split(r"[^a-z]+", name.lower()))
    found = [split for split, names in SPLIT_NAMES.items() if words & set(names)]
    return found[0] if len(found) == 1 else None
