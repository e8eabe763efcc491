"""All rules on values, in one place: known values, closed lists, slots that must differ, words that are said once.

1. **Known values.** A generator that spells piece by piece makes slips, and people do too: "cambrige artworks". A
   generated value that is nearly one of the values that a slot had in training becomes that value. Anything else
   stays as it was generated, so the vocabulary remains open. Values with digits are never touched: 17:45 is not a
   slip of 17:15.
2. **Closed lists.** A slot with a closed list takes only a value of the list: `nearest` finds the one that is meant.
3. **Slots that must differ.** A taxi does not leave from where it goes. A generator that writes each slot by itself
   takes the one place it has read for both. Then one of the two yields: it is generated again with the words of that
   value covered, or stays empty where no other value is likely.
4. **The same words.** What is said once is meant for one slot. Under a schema that is new to it, a model often copies
   the same words into two, and nearly always one of them is wrong: the less probable one is generated again with these
   words covered, or stays as it was where no other value is likely.

The lists and the slots that differ come from the tracker's schema. What a person may write, and what is held back, is
decided in `tracking/`. `soften` calibrates the probability of a write.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import exp, log, log1p
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz, process

from somdst.errors import ModelError
from somdst.memory.dialogue import Dialogue
from somdst.memory.schema import Schema
from somdst.memory.state import Value
from somdst.model.mentions import SAID_OF_ANYTHING
from somdst.model.prediction import Evidence
from somdst.model.text import whole_words

FILE = "values.json"


# Known values

OFTEN: Final = 3
"""How often a value must be written in training to be known: once or twice may be a slip of an annotator."""
MOST_NEW: Final = 0.1
"""A slot's values are known only if what comes next is new with at most this chance. Higher makes new values into old
ones after a few dialogues ("west" became "east" after twenty of WOZ 2.0); lower loses slots whose values are known. All
slots of MultiWOZ have at most 0.08; after a hundred dialogues of WOZ 2.0, its areas have 0.04 and its foods 0.43."""


class Lexicon:
    """Known values by slot. `cutoff` says how similar is near: 1 is the same, 0 switches the lexicon off."""

    def __init__(self, values: Mapping[str, Iterable[str]], *, cutoff: float) -> None:
        self.values = {slot: tuple(sorted(known)) for slot, known in values.items()}
        self.cutoff = cutoff
        self._known = {slot: frozenset(known) for slot, known in self.values.items()}
        self._search = lru_cache(maxsize=4096)(self._search_uncached)

    @classmethod
    def collect(cls, dialogues: Iterable[Dialogue], schema: Schema, *, cutoff: float) -> Lexicon:
        """The values that were written often, of the slots for which these are nearly all values."""
        written: dict[str, Counter[str]] = {str(slot): Counter() for slot in schema}
        for dialogue in dialogues:
            for slot, value in dialogue.new_values():
                if slot in written and isinstance(value, str):
                    written[slot][value] += 1
        return cls({slot: known for slot, found in written.items() if (known := _known(found))}, cutoff=cutoff)

    @classmethod
    def load(cls, folder: Path, *, cutoff: float) -> Lexicon:
        """The lexicon of a model's folder; an empty one if it has none."""
        path = folder / FILE
        try:
            data = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            return cls({str(slot): [str(value) for value in values] for slot, values in data.items()}, cutoff=cutoff)
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise ModelError(f"{path} is damaged ({error}): fetch the model again.") from error

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
        return most_similar(value, self.values.get(slot, ()), cutoff=self.cutoff) or value


def _known(written: Counter[str]) -> list[str]:
    """Nothing where too much of what was written is rare, or too little was written to tell: of n values without a rare
    one, up to 3 in n may still be."""
    known = [value for value, times in written.items() if times >= OFTEN]
    rare = written.total() - sum(written[value] for value in known)
    return known if known and (rare + 3) / written.total() <= MOST_NEW else []


def most_similar(text: str, known: Iterable[str], *, cutoff: float) -> str | None:
    """The known text with the most letters in common, in order; None if none reaches the cutoff (0 to 1)."""
    found = process.extractOne(text, list(known), scorer=fuzz.ratio, score_cutoff=100 * cutoff)
    return found[0] if found else None


# Closed lists

NEAR: Final = 0.82
"""How similar a word must be to a listed value. Lower accepts more slips, and mistakes one value for another: "center"
is near enough to "centre" (0.83), "north" is not to "south" (0.6)."""


def nearest(value: str, allowed: tuple[str, ...], *, whole: bool = False) -> str | None:
    """The value of a closed list that a text means, if it means one; with `whole`, all of the text must mean it.

    >>> nearest("city Center", ("north", "centre")), nearest("4 stars", ("3", "4")), nearest("moon", ("north",))
    ('centre', '4', None)
    >>> nearest("Center", ("north", "centre"), whole=True), nearest("not the north", ("north", "centre"), whole=True)
    ('centre', None)
    """
    spoken = value.casefold().strip()
    known = {item.casefold(): item for item in allowed}
    if spoken in known:
        return known[spoken]
    joined = [item for item in known if _joined(item) == _joined(spoken)]  # north east, north-east
    if len(joined) == 1:
        return known[joined[0]]
    alike = [item for item in known if _digits(item) == _digits(spoken)]  # 2:00 is near 12:00, and something else
    inside = [] if whole else [item for item in alike if _has_words(spoken, item)]
    if len(inside) == 1:
        return known[inside[0]]
    words = [] if whole else spoken.split()
    near = {most_similar(word, alike, cutoff=NEAR) for word in [spoken, *words]} - {None}
    return known[str(near.pop())] if len(near) == 1 else None


SAID: Final = 4.0
"""Added to the score of a listed value that the turn says word for word. 0 leaves it to the meaning alone, which takes
"six" for 4; much more never takes another value than one that is said."""


def favour_said(scores: NDArray[np.float32], places: Sequence[int]) -> NDArray[np.float32]:
    """The scores of a closed list's values, with those that are said at these places raised."""
    raised = scores.copy()
    raised[list(places)] += SAID
    return raised


def near_equal(values: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of a closed list's values that a slip could turn into each other.

    >>> list(near_equal(["north", "north-east", "north east", "centre", "center", "12:00", "2:00"]))
    [('north-east', 'north east'), ('centre', 'center')]
    """
    texts = [_joined(value.casefold()) for value in values]
    for start in range(0, len(texts), 500):  # rows of the table of all pairs, so that a long list needs little memory
        rows = texts[start : start + 500]
        alike = process.cdist(rows, texts, scorer=fuzz.ratio, score_cutoff=100 * NEAR, dtype=np.uint8)
        for i, j in np.argwhere(alike).tolist():
            if start + i < j and _digits(texts[start + i]) == _digits(texts[j]):
                yield values[start + i], values[j]


def _joined(text: str) -> str:
    return re.sub(r"[\s_-]+", "", text)


def _digits(text: str) -> list[str]:
    return re.findall(r"\d+", text)


def _has_words(text: str, words: str) -> bool:
    return words in text and whole_words(words).search(text) is not None  # a pattern per value of a list is slow


# Slots that must differ

MEMORY: Final = 0.9
"""How sure we are of a value that is in the memory already. Higher makes new values yield more often."""
LEAST: Final = 0.1
"""A value less probable than this is a guess: the slot stays empty instead. Lower writes more, and more of it wrong."""


class Proposal(NamedTuple):
    """A value for a slot to update."""

    value: Value | None
    evidence: Evidence | None
    probability: float
    pieces: tuple[int, ...] = ()
    """The word pieces that were generated."""


def clashes(
    proposals: Mapping[str, Proposal], state: Mapping[str, Value], different: Iterable[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Pairs of slots that must differ and would have the same value, at least one of them through a proposal."""

    def after(slot: str) -> Value | None:
        return proposals[slot].value if slot in proposals else state.get(slot)

    return [
        (one, other)
        for one, other in different
        if (one in proposals or other in proposals) and isinstance(after(one), str) and after(one) == after(other)
    ]


def resolve_duplicates(
    pair: tuple[str, str], proposals: Mapping[str, Proposal], regenerated: Mapping[str, Proposal]
) -> dict[str, Proposal]:
    """What to write instead into the slot of a pair that yields; empty where that is the memory's.

    `regenerated` is what each proposed slot gets with the common value covered. With p the probability of the common
    value and p' that of the other one, a slot would have said the other one with (1 - p) p', so it yields where the
    odds of the slot beside it, times p', are larger than the other way round.

    >>> here, there = Proposal("station", None, 0.9), Proposal("museum", None, 0.5)
    >>> both = {"from": here, "to": here._replace(probability=0.6)}
    >>> resolve_duplicates(("from", "to"), both, {"from": there, "to": there})
    {'to': Proposal(value='museum', evidence=None, probability=0.5, pieces=())}
    """
    odds: list[tuple[float, str]] = []
    for slot, other in (pair, pair[::-1]):
        sure = proposals[other].probability if other in proposals else MEMORY
        likely = _another(slot, proposals, regenerated).probability if slot in proposals else 1.0
        odds.append((sure / (1 - sure + 1e-6) * likely, slot))
    yields = max(odds)[1]
    return {yields: _another(yields, proposals, regenerated)} if yields in proposals else {}


def _another(slot: str, proposals: Mapping[str, Proposal], regenerated: Mapping[str, Proposal]) -> Proposal:
    """The value beside the common one, or none with the least probability."""
    found = regenerated[slot]
    if not found.value or found.value == proposals[slot].value or found.probability < LEAST:
        return Proposal(None, None, LEAST)
    return found


def covered(ids: NDArray[np.int64], mask: NDArray[np.bool_], words: Sequence[int]) -> NDArray[np.bool_]:
    """What is left to read of an input [T] when every occurrence of some word pieces is covered.

    >>> covered(np.array([7, 8, 9, 7, 8]), np.array([True] * 5), [7, 8]).tolist()
    [False, False, True, False, False]
    """
    rest = mask.copy()
    if words and len(words) <= len(ids):
        windows = np.lib.stride_tricks.sliding_window_view(ids, len(words))
        for start in np.flatnonzero((windows == np.asarray(words)).all(-1)):
            rest[start : start + len(words)] = False
    return rest


# The same words

CERTAIN: Final = 0.6
"""How probable another value must be for a slot that yields the words it has. Lower writes more, and more of it wrong:
on dev, half of what is between 0.5 and 0.6 is wrong."""


def repeated(proposals: Mapping[str, Proposal], P: Mapping[str, float]) -> list[str]:
    """The slots whose value was copied from the very words that a more probable slot has. P is how probable it is that
    a slot is written at all. A yes or a no may answer two questions.

    >>> finn = Proposal("finn", Evidence("user", 15, 19, "finn"), 0.9)
    >>> repeated({"camp-child": finn, "camp-tent mate": finn}, {"camp-child": 0.8, "camp-tent mate": 0.6})
    ['camp-tent mate']
    """
    found, taken = list[str](), set[Evidence]()
    for slot in sorted(proposals, key=lambda slot: -P[slot] * proposals[slot].probability):
        words = proposals[slot].evidence
        if words is None or words.source == "slot" or words.text.casefold() in SAID_OF_ANYTHING:
            continue
        if words in taken:
            found.append(slot)
        taken.add(words)
    return found


def another(found: Proposal, others: Mapping[str, Proposal], listed: tuple[str, ...] | None) -> Proposal | None:
    """What was generated with the words of another slot covered, if it is copied from words that no slot has, and in
    the list of its slot if there is one."""
    value = nearest(str(found.value), listed) if listed is not None else found.value
    if not value or found.evidence is None or any(found.evidence == other.evidence for other in others.values()):
        return None
    return found._replace(value=value)


# Probabilities


def logit(probability: float) -> float:
    clipped = min(max(probability, 1e-7), 1 - 1e-7)
    return log(clipped) - log1p(-clipped)


def soften(probability: float, temperature: float) -> float:
    """The probability whose logit is divided by the temperature.

    >>> round(soften(0.9, 2.0), 3), soften(0.5, 2.0)
    (0.75, 0.5)
    """
    x = logit(probability) / temperature
    return 1.0 / (1.0 + exp(-x)) if x >= 0 else exp(x) / (1.0 + exp(x))
