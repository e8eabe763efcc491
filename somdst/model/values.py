"""The values that a model has seen written in training, and the nearest of them to a value that it generated.

A generator that spells piece by piece makes slips, and people do too: "cambrige artworks", "caf uno". A generated value
that is nearly one of a slot's known values becomes that value; anything else stays as it was generated, so the
vocabulary remains open. Values with digits are never touched: 17:45 is not a slip of 17:15.
"""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somdst.errors import ModelError
from somdst.memory.dialogue import Dialogue
from somdst.memory.schema import Schema
from somdst.memory.state import State, Value
from somdst.model.prediction import Evidence

FILE = "values.json"


class Lexicon:
    """Known values by slot. `cutoff` says how near is near: 1 is the same, 0 switches the lexicon off."""

    def __init__(self, values: Mapping[str, Iterable[str]], *, cutoff: float) -> None:
        self.values = {slot: tuple(sorted(known)) for slot, known in values.items()}
        self.cutoff = cutoff
        self._known = {slot: frozenset(known) for slot, known in self.values.items()}
        self._search = lru_cache(maxsize=4096)(self._search_uncached)

    @classmethod
    def collect(cls, dialogues: Iterable[Dialogue], schema: Schema, *, cutoff: float, least: int = 3) -> Lexicon:
        """The values that were written at least so many times."""
        written: dict[str, Counter[str]] = {str(slot): Counter() for slot in schema}
        for dialogue in dialogues:
            before = State()
            for state in dialogue.states():
                for slot, value in state.items():
                    if slot in written and isinstance(value, str) and before.get(slot) != value:
                        written[slot][value] += 1
                before = state
        kept = {slot: [value for value, n in found.items() if n >= least] for slot, found in written.items()}
        return cls({slot: values for slot, values in kept.items() if values}, cutoff=cutoff)

    @classmethod
    def load(cls, folder: Path, *, cutoff: float) -> Lexicon:
        """The lexicon of a model's folder; an empty one where it has none."""
        path = folder / FILE
        try:
            data = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            return cls({str(slot): [str(value) for value in values] for slot, values in data.items()}, cutoff=cutoff)
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise ModelError(f"{path} is damaged ({error}): fetch the model anew.") from error

    def to_json(self) -> dict[str, list[str]]:
        return {slot: list(values) for slot, values in sorted(self.values.items())}

    def nearest(self, slot: str, value: Value | None) -> Value | None:
        """
        >>> Lexicon({"hotel-name": ["autumn house"]}, cutoff=0.8).nearest("hotel-name", "autum house")
        'autumn house'
        """
        if not self.cutoff or not isinstance(value, str) or value in self._known.get(slot, frozenset()):
            return value
        return self._search(slot, value)

    def _search_uncached(self, slot: str, value: str) -> str:
        if any(character.isdigit() for character in value):
            return value
        near = difflib.get_close_matches(value, self.values.get(slot, ()), n=1, cutoff=self.cutoff)
        return near[0] if near else value


# Slots that never have the same value

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
