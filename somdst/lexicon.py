"""The values that a model has seen written in training, and the nearest of them to a value that it generated.

A generator that spells piece by piece makes slips, and people do too: "cambrige artworks", "caf uno". A generated value
that is nearly one of a slot's known values becomes that value; anything else stays as it was generated, so the
vocabulary remains open. Values with digits are never touched: 17:45 is not a slip of 17:15.
"""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from somdst.dialogue import Dialogue
from somdst.errors import ModelError
from somdst.schema import Schema
from somdst.state import State, Value

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
