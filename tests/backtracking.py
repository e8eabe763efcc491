"""A regular expression matched step by step, as `re` does it, and the steps counted: a measure of work without a clock.

Python's own engine skips some of these steps, so that it does no more than is counted here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

Continue = Callable[[int], int | None]
"""What has to match from a place on; the end of the whole match, or None."""


class Counter:
    def __init__(self, pattern: re.Pattern[Any]) -> None:
        self.pattern, self.steps = pattern, 0
        self.tree = list(re._parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG))  # type: ignore[attr-defined]
        self.ignore_case = bool(pattern.flags & re.IGNORECASE)
        self.dot_all = bool(pattern.flags & re.DOTALL)
        self.groups: dict[int, tuple[int, int]] = {}

    def spans(self, text: str) -> list[tuple[int, int]]:
        """All matches, from left to right."""
        self.text, found, start, empty_at = text, [], 0, -1
        while start <= len(text):
            end = self._from(start, empty_at)
            if end is None:
                start += 1
                continue
            found.append((start, end))
            empty_at = end
            start = end
        return found

    def _from(self, start: int, empty_at: int) -> int | None:
        self.groups = {}
        # An empty match may not touch the match before it.
        return self._match(self.tree, 0, start, lambda end: end if end > start or end != empty_at else None)

    def _match(self, items: list[Any], i: int, place: int, then: Continue) -> int | None:
        self.steps += 1
        if i == len(items):
            return then(place)
        kind, value = str(items[i][0]), items[i][1]

        def rest(end: int) -> int | None:
            return self._match(items, i + 1, end, then)

        if kind in _SINGLE:
            return rest(place + 1) if self._fits(items[i], place) else None
        if kind == "AT":
            return rest(place) if self._at(str(value), place) else None
        if kind == "BRANCH":
            return self._first(self._match(list(branch), 0, place, rest) for branch in value[1])
        if kind == "SUBPATTERN":
            return self._group(value, place, rest)
        if kind == "GROUPREF":
            start, end = self.groups.get(value, (0, -1))
            said = self.text[start:end]
            return rest(place + len(said)) if end >= 0 and self.text.startswith(said, place) else None
        if kind in ("ASSERT", "ASSERT_NOT"):
            direction, inner = value
            start = place - inner.getwidth()[0] if direction < 0 else place
            seen = start >= 0 and self._match(list(inner), 0, start, lambda end: end) is not None
            return rest(place) if seen == (kind == "ASSERT") else None
        assert kind in ("MAX_REPEAT", "MIN_REPEAT"), f"{kind} is new here: teach it to this file"
        low, high, inner = value
        if len(inner) == 1 and str(inner[0][0]) in _SINGLE:
            return self._repeat_one(kind, low, high, inner[0], place, rest)
        return self._repeat(kind, low, high, list(inner), place, rest)

    @staticmethod
    def _first(ends: Iterator[int | None]) -> int | None:
        return next((end for end in ends if end is not None), None)

    def _group(self, value: Any, place: int, then: Continue) -> int | None:
        number, inner = value[0], list(value[3])

        def leave(end: int) -> int | None:
            before = dict(self.groups)
            if number is not None:
                self.groups[number] = place, end
            if (found := then(end)) is None:
                self.groups = before
            return found

        return self._match(inner, 0, place, leave)

    def _repeat_one(self, kind: str, low: int, high: int, item: Any, place: int, then: Continue) -> int | None:
        most = place
        while most - place < high and self._fits(item, most):
            self.steps += 1
            most += 1
        ends = range(most, place + low - 1, -1)
        return self._first(map(self._tried(then), ends if kind == "MAX_REPEAT" else reversed(ends)))

    def _tried(self, then: Continue) -> Continue:
        def tried(end: int) -> int | None:
            self.steps += 1
            return then(end)

        return tried

    def _repeat(self, kind: str, low: int, high: int, inner: list[Any], place: int, then: Continue) -> int | None:
        def more(end: int) -> int | None:
            # A round that matched nothing would go on for ever.
            return self._repeat(kind, max(0, low - 1), high - 1, inner, end, then) if end > place or low else None

        def again() -> int | None:
            return self._match(inner, 0, place, more) if high > 0 else None

        if low > 0:
            return again()
        choices = (again, lambda: then(place)) if kind == "MAX_REPEAT" else (lambda: then(place), again)
        return self._first(choice() for choice in choices)

    def _fits(self, item: Any, place: int) -> bool:
        if place >= len(self.text):
            return False
        letter = self.text[place]
        letters = {letter, letter.lower(), letter.upper()} if self.ignore_case else {letter}
        kind, value = str(item[0]), item[1]
        if kind == "ANY":
            return self.dot_all or letter != "\n"
        if kind == "IN":
            negated = str(value[0][0]) == "NEGATE"
            return any(self._one_of(one, letters) for one in value[negated:]) != negated
        return (chr(value) in letters) == (kind == "LITERAL")

    @staticmethod
    def _one_of(one: Any, letters: set[str]) -> bool:
        kind, value = str(one[0]), one[1]
        if kind == "LITERAL":
            return chr(value) in letters
        if kind == "RANGE":
            return any(value[0] <= ord(letter) <= value[1] for letter in letters)
        return any(re.match(_CATEGORIES[str(value)], letter) for letter in letters)

    def _at(self, where: str, place: int) -> bool:
        if where in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
            return place == 0
        if where == "AT_END_STRING":
            return place == len(self.text)
        if where == "AT_END":
            return self.text[place:] in ("", "\n")
        before, after = (bool(re.match(r"\w", letter)) for letter in (self.text[:place][-1:], self.text[place:][:1]))
        return (before != after) == (where == "AT_BOUNDARY")


_SINGLE = frozenset({"LITERAL", "NOT_LITERAL", "ANY", "IN"})
_CATEGORIES = {
    f"CATEGORY_{negated}{name}": (letter.upper() if negated else letter)
    for negated in ("", "NOT_")
    for name, letter in (("DIGIT", r"\d"), ("SPACE", r"\s"), ("WORD", r"\w"))
}


def steps(pattern: re.Pattern[Any], text: str) -> int:
    """Steps to find all matches of a pattern in a text, the same that `re` finds."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        counter = Counter(pattern)
        found = counter.spans(text)
    finally:
        sys.setrecursionlimit(limit)
    real = text.encode("latin-1") if isinstance(pattern.pattern, bytes) else text
    assert found == [match.span() for match in pattern.finditer(real)], (pattern, text[:40])
    return counter.steps
