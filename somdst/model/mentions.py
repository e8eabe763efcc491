"""What a turn says word for word of a schema: `Mentions` finds the values of its closed lists, `NamedSlots` its slots.

A model that never saw a schema cannot know by heart that "perm" is a treatment, or which slot "Which finish?" asks for.
The schema says so. What is found here is shown to the model beside the slot, and what the user wants stays the model's
decision. Finds the words of a value, numbers in words or digits, and the words of a slot's name without their endings.
Does not find other wordings: values are scored by meaning, and names are read by the model.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from somdst.memory.schema import Schema
from somdst.model.text import NUMBERS, listed_words, name_words

LONGEST = 24
"""Word pieces of a value that is searched for. Nobody says a longer one word for word."""
MOST = 4
"""Most values that are shown per slot: as many as a system offers in one sentence."""
RECENT = 512
"""Word pieces of a text that are searched, its last ones: a model reads no more."""
SAID_OF_ANYTHING = frozenset({"yes", "no", "true", "false"})
"""Answers that say nothing about which slot is meant."""
_OTHER_SPELLING = NUMBERS | {digits: word for word, digits in NUMBERS.items() if word != "one"}
"""A listed "1" is not said by "one": "the second one", "a one way flight"."""


class Mentions:
    """The listed values of a schema, by their word pieces. `pieces` makes word pieces of a text."""

    def __init__(self, schema: Schema, pieces: Callable[[str], list[int]]) -> None:
        self._said: dict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)
        """Word pieces -> the slots, and the places in their lists, of the values that are said so."""
        self._pieces: dict[tuple[int, int], list[int]] = {}
        """The word pieces of a value, by slot and place in its list."""
        for j, slot in enumerate(schema.slots):
            for place, value in enumerate(slot.values or ()):
                words = listed_words(value)
                if words in SAID_OF_ANYTHING:
                    continue
                self._pieces[j, place] = pieces(words)
                for text in filter(None, (words, _OTHER_SPELLING.get(words))):
                    if len(said := tuple(pieces(text))) <= LONGEST:
                        self._said[said].append((j, place))
        self._lengths = sorted({len(said) for said in self._said}, reverse=True)

    def find(self, texts: Sequence[tuple[str, list[int], list[tuple[int, int]]]]) -> dict[int, list[int]]:
        """Per slot, the places in its list of the values that the texts say, in the order in which they are said."""
        found: dict[int, dict[int, None]] = defaultdict(dict)
        for j, place in chain.from_iterable(self._find(*text) for text in texts):
            found[j][place] = None
        return {j: list(places)[-MOST:] for j, places in found.items()}

    def shown(self, j: int, places: Sequence[int]) -> list[int]:
        """The word pieces of these values of a slot."""
        return [piece for place in places for piece in self._pieces[j, place]]

    def _find(self, text: str, ids: list[int], offsets: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Longest first, and per slot no value inside another: "new york city" does not say "york"."""
        taken: dict[int, set[int]] = defaultdict(set)
        found = []
        for length in self._lengths:
            for start in range(max(0, len(ids) - RECENT), len(ids) - length + 1):
                for j, place in self._said.get(tuple(ids[start : start + length]), ()):
                    here = range(start, start + length)
                    if _whole(text, offsets[start][0], offsets[start + length - 1][1]) and taken[j].isdisjoint(here):
                        taken[j].update(here)
                        found.append((start, j, place))
        for _, j, place in sorted(found):
            yield j, place


def _whole(text: str, start: int, end: int) -> bool:
    """Whether these are whole words of the text."""
    return not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum())


ENOUGH = 0.5
"""Share of a name's words that a text must say to name the slot: "Any damage?" asks for the damage done."""
_SMALL_WORDS = frozenset(
    word
    for line in (
        "a an the of to for in on at by from with is are be do does did have has can could will would shall should",
        "i me my we us our you your it its this that there what which how when where who whom any some and or as if so",
        "like want need not no yes okay ok please then",
    )
    for word in line.split()
)
_ENDING = re.compile(r"(?<=...)(?:ations?|ings?|ures?|als?|ers?|ions?|ies|ed|es|s|e|y)$")
_WORD = re.compile(r"\w+")


class NamedSlots:
    """The slots of a schema by the words of their names."""

    def __init__(self, schema: Schema) -> None:
        self._names = [_stems(name_words(slot)) for slot in schema.slots]

    def find(self, texts: Iterable[str]) -> set[int]:
        """The slots that a text names, and no other slot better: "the first day" names the first day, not the last.

        >>> schema = Schema.from_json({"domains": {"leave": {"first day": None, "last day": None, "reason": None}}})
        >>> sorted(NamedSlots(schema).find(["Which day?"])), NamedSlots(schema).find(["And the first day?"])
        ([0, 1], {0})
        """
        found: set[int] = set()
        for said in map(_stems, texts):
            shares = [len(name & said) / len(name) if name else 0.0 for name in self._names]
            best = max(shares, default=0.0)
            if best >= ENOUGH:
                found |= {j for j, share in enumerate(shares) if share == best}
        return found


def _stems(text: str) -> frozenset[str]:
    """The words of a text without their endings, so that "leaving" is said by "when do you leave"."""
    words = (word for word in _WORD.findall(text.casefold()) if word not in _SMALL_WORDS)
    return frozenset(_ENDING.sub("", word) for word in words)
