"""Values that are probably one value in two spellings: "guest house" and "guesthouse", "center" and "centre".

Uses only spelling and frequency, knows no language, and leaves out numbers and times.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

SHORTEST = 5
"""Letters. Short words that differ in one letter are usually two words: east and west, thai and tha."""
RARER = 5
"""A typing error is at least this many times rarer than what was meant."""

_IGNORED = re.compile(r"\bthe\b|[\W_]+")


class Spelling(NamedTuple):
    rare: str
    common: str


def two_spellings(counts: Mapping[str, int]) -> list[Spelling]:
    """Pairs among the values of one slot; `counts` says how often each value occurs.

    >>> two_spellings({"centre": 90, "center": 2, "guest house": 7, "Guesthouse": 6, "10:15": 4, "10:45": 1})
    [Spelling(rare='center', common='centre'), Spelling(rare='Guesthouse', common='guest house')]
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for value in sorted(counts, key=lambda value: (-counts[value], value)):
        groups[_folded(value)].append(value)
    same = [Spelling(rare, values[0]) for values in groups.values() for rare in values[1:]]
    leaders = {key: values[0] for key, values in groups.items()}
    return sorted({*same, *_slips(leaders, counts)}, key=lambda pair: (pair.common, pair.rare))


def _folded(value: str) -> str:
    """Without case, spaces, punctuation and "the". A number keeps its separators: 1:15 is not 11:5."""
    return value if any(map(str.isdigit, value)) else _IGNORED.sub("", value.casefold()) or value


def _slips(leaders: Mapping[str, str], counts: Mapping[str, int]) -> Iterator[Spelling]:
    """Pairs that differ in one letter or in two that changed places: they share a text with one letter left out."""
    near: dict[str, list[str]] = defaultdict(list)
    for key, value in leaders.items():
        if len(key) >= SHORTEST and not any(map(str.isdigit, key)):
            for text in {key, *(key[:i] + key[i + 1 :] for i in range(len(key)))}:
                near[text].append(value)
    for values in near.values():
        for rare in values[1:]:  # the most common comes first
            if counts[rare] * RARER <= counts[values[0]]:
                yield Spelling(rare, values[0])
