"""The data tables of the SOM-DST paper (Kim et al., ACL 2020), as published, and our own counts compared with them.

Does not count; see `statistics.py`. The columns of each row are train, dev and test. The paper's results are in
`evaluate/paper_results.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from somdst.corpora.corpus import SPLIT_NAMES, Split
from somdst.corpora.statistics import Statistics

OPERATIONS: Final[Mapping[str, tuple[int, int, int]]] = {
    "carryover": (1584757, 212608, 212297),
    "update": (61628, 8287, 8399),
    "dontcare": (1911, 155, 235),
    "delete": (1224, 80, 109),
}
"""Number of state operations."""

DIALOGUES: Final[Mapping[str, tuple[int, int, int]]] = {
    "attraction": (2717, 401, 395),
    "hotel": (3381, 416, 394),
    "restaurant": (3813, 438, 437),
    "taxi": (1654, 207, 195),
    "train": (3103, 484, 494),
}
"""Dialogues per domain."""

TURNS: Final[Mapping[str, tuple[int, int, int]]] = {
    "attraction": (8073, 1220, 1256),
    "hotel": (14793, 1781, 1756),
    "restaurant": (15367, 1708, 1726),
    "taxi": (4618, 690, 654),
    "train": (12133, 1972, 1976),
}
"""Turns per domain."""

GENERATED: Final = (0, 1.14, 9)
"""Fewest, mean and most values generated per turn; test."""

COMPLICATED: Final = (175, 140)
"""Dialogues with more than one domain transition, and those of them that end in taxi; test."""

VOCABULARY: Final[Mapping[str, tuple[int, int, int]]] = {
    "taxi-destination": (373, 213, 213),
    "taxi-departure": (357, 214, 203),
    "restaurant-name": (202, 162, 162),
    "attraction-name": (186, 145, 149),
    "train-leaveat": (146, 69, 117),
    "train-arriveby": (112, 64, 101),
    "restaurant-food": (111, 81, 70),
    "taxi-leaveat": (105, 68, 65),
    "hotel-name": (93, 65, 58),
    "restaurant-book time": (64, 50, 51),
    "taxi-arriveby": (95, 49, 46),
    "train-destination": (27, 25, 24),
    "train-departure": (34, 23, 23),
    "attraction-type": (31, 17, 17),
    "train-book people": (11, 9, 9),
    "hotel-book people": (8, 8, 8),
    "restaurant-book people": (9, 8, 8),
    "hotel-book day": (13, 7, 7),
    "hotel-stars": (9, 7, 7),
    "restaurant-book day": (10, 7, 7),
    "train-day": (8, 7, 7),
    "attraction-area": (7, 6, 6),
    "hotel-area": (7, 6, 6),
    "restaurant-area": (7, 6, 6),
    "hotel-book stay": (10, 5, 5),
    "hotel-parking": (4, 4, 4),
    "hotel-pricerange": (7, 5, 4),
    "hotel-type": (5, 5, 4),
    "restaurant-pricerange": (5, 4, 4),
    "hotel-internet": (3, 3, 3),
}
"""Slot value vocabulary size, in the paper's order."""

TRANSITIONS: Final[Mapping[str, int]] = {
    "restaurant train": 87,
    "attraction train": 80,
    "hotel": 71,
    "train attraction": 71,
    "train hotel": 70,
    "restaurant": 64,
    "train restaurant": 62,
    "hotel train": 57,
    "taxi": 51,
    "attraction restaurant": 38,
    "restaurant attraction taxi": 35,
    "restaurant attraction": 31,
    "train": 31,
    "hotel attraction": 27,
    "restaurant hotel": 27,
    "restaurant hotel taxi": 26,
    "attraction hotel taxi": 24,
    "attraction restaurant taxi": 23,
    "hotel restaurant": 22,
    "attraction hotel": 20,
    "hotel attraction taxi": 16,
    "hotel restaurant taxi": 13,
    "attraction": 12,
    "attraction restaurant train": 3,
    "restaurant hotel train": 3,
    "hotel train restaurant": 3,
    "restaurant train hotel": 3,
    "restaurant taxi hotel": 3,
    "attraction train restaurant": 2,
    "train attraction restaurant": 2,
    "attraction restaurant hotel": 2,
    "hotel train attraction": 2,
    "attraction taxi hotel": 1,
    "hotel taxi": 1,
    "train hotel restaurant": 1,
    "restaurant taxi": 1,
    "restaurant train taxi": 1,
    "hotel restaurant train": 1,
    "hotel taxi train": 1,
    "taxi attraction": 1,
    "restaurant train attraction": 1,
    "attraction train hotel": 1,
    "attraction train taxi": 1,
    "restaurant attraction train": 1,
    "hotel taxi attraction": 1,
    "train hotel attraction": 1,
    "restaurant taxi attraction": 1,
    "hotel attraction restaurant taxi": 1,
    "attraction hotel train": 1,
    "taxi restaurant train": 1,
}
"""Domains in the order in which they appear, with the number of such dialogues; test."""

# Our counts beside them

Table = Literal["operations", "dialogues", "turns", "vocabulary", "transitions", "generated", "three_or_more_domains"]


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
    """Every figure that the paper gives for this split; dialogues per domain only where they are counted by goal."""
    column = list(SPLIT_NAMES).index(split)
    domains = {row.domain: row for row in counted.domains}

    def figures() -> Iterator[Figure]:
        for name, row in OPERATIONS.items():
            yield Figure("operations", name, counted.operations.get(name, 0), row[column])
        for name in TURNS:
            if counted.counted_by == "goal":
                yield Figure("dialogues", name, domains[name].dialogues, DIALOGUES[name][column])
            yield Figure("turns", name, domains[name].turns, TURNS[name][column])
        for name, row in VOCABULARY.items():
            yield Figure("vocabulary", name, counted.vocabulary[name], row[column])
        if split == "test":
            yield from _test_only(counted)

    return tuple(figures())


def _test_only(counted: Statistics) -> Iterator[Figure]:
    ours = {" ".join(row.domains): row.dialogues for row in counted.transitions}
    for order in {**TRANSITIONS, **ours}:
        yield Figure("transitions", order, ours.get(order, 0), TRANSITIONS.get(order, 0))
    both = (counted.complicated, counted.complicated_ending("taxi"))
    for row, mine, theirs in zip(("dialogues", "ending in taxi"), both, COMPLICATED, strict=True):
        yield Figure("three_or_more_domains", row, mine, theirs)
    generated = (counted.generated.min, round(counted.generated.mean, 2), counted.generated.max)
    for row, figure, printed in zip(("min", "mean", "max"), generated, GENERATED, strict=True):
        yield Figure("generated", row, figure, printed)
