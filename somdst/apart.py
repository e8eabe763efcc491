"""Slots that never have the same value: a taxi does not leave from where it goes.

A generator that writes each slot by itself does not know that, and takes the one place that it has in mind for both.
Where that happens one of the two gives way: it is written anew, with the words of that value covered, or not at all
where no other value is likely. Which slots are different, a schema says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somdst.prediction import Evidence
from somdst.state import Value

MEMORY: Final = 0.9
"""How sure we are of a value that stands in the memory already."""
LEAST: Final = 0.1
"""A value less probable than this is a guess: rather none is written."""


class Written(NamedTuple):
    """A value that was generated for a slot."""

    value: Value | None
    evidence: Evidence | None
    probability: float
    pieces: tuple[int, ...] = ()
    """The word pieces that were generated."""


def clashes(
    written: Mapping[str, Written], state: Mapping[str, Value], different: Iterable[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Pairs of different slots that would have the same value, at least one of them through what is written now."""

    def after(slot: str) -> Value | None:
        return written[slot].value if slot in written else state.get(slot)

    return [
        (one, other)
        for one, other in different
        if (one in written or other in written) and isinstance(after(one), str) and after(one) == after(other)
    ]


def told_apart(
    pair: tuple[str, str], written: Mapping[str, Written], anew: Mapping[str, Written]
) -> dict[str, Written]:
    """What to write instead into the slot of a pair that gives way; empty where that is the memory's.

    `anew` is what each written slot gets with the common value covered. With p the probability of the common value and
    p' that of the other one, a slot would have said the other one with (1 - p) p', so it gives way where the odds of
    the slot beside it, times p', are larger than the other way round.

    >>> here, there = Written("station", None, 0.9), Written("museum", None, 0.5)
    >>> told_apart(("from", "to"), {"from": here, "to": here._replace(probability=0.6)}, {"from": there, "to": there})
    {'to': Written(value='museum', evidence=None, probability=0.5, pieces=())}
    """
    ways: list[tuple[float, str]] = []
    for slot, other in (pair, pair[::-1]):
        sure = written[other].probability if other in written else MEMORY
        likely = _another(slot, written, anew).probability if slot in written else 1.0
        ways.append((sure / (1 - sure + 1e-6) * likely, slot))
    gives_way = max(ways)[1]
    return {gives_way: _another(gives_way, written, anew)} if gives_way in written else {}


def _another(slot: str, written: Mapping[str, Written], anew: Mapping[str, Written]) -> Written:
    """The value beside the common one, or none with the least probability."""
    found = anew[slot]
    if not found.value or found.value == written[slot].value or found.probability < LEAST:
        return Written(None, None, LEAST)
    return found


def covered(ids: NDArray[np.int64], mask: NDArray[np.bool_], words: Sequence[int]) -> NDArray[np.bool_]:
    """What is left to read of an input [T] where every occurrence of some word pieces is covered.

    >>> covered(np.array([7, 8, 9, 7, 8]), np.array([True] * 5), [7, 8]).tolist()
    [False, False, True, False, False]
    """
    rest = mask.copy()
    if words and len(words) <= len(ids):
        windows = np.lib.stride_tricks.sliding_window_view(ids, len(words))
        for start in np.flatnonzero((windows == np.asarray(words)).all(-1)):
            rest[start : start + len(words)] = False
    return rest
