"""Other values in the same words: a turn about chinese food in the centre is also one about thai food in the north.

In a small corpus most values are rare, and a model learns the few frequent ones by heart instead of copying what it
reads. `swap_values` writes another value of the slot wherever a value stands in the texts, and in the memory.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from somdst.dialogue import Turn
from somdst.state import State

_NEVER = frozenset({"yes", "no", "free"})
_SHORTEST = 3


def swap_values(
    turns: Sequence[Turn],
    before: State,
    after: State,
    choices: Mapping[str, Sequence[str]],
    *,
    rate: float,
    rng: random.Random,
) -> tuple[tuple[Turn, ...], dict[str, str]]:
    """The turns with other values in them, and what became what: {old value: new value}.

    Each value of `after` is swapped with the chance `rate`, where it stands in the turns as whole words and shares no
    word with another value. `choices` has the values to take for each slot. Numbers and times stay.
    """
    texts = " ".join(text for turn in turns for text in (turn.system, turn.user)).lower()
    known = {str(value) for state in (before, after) for value in state.values()}
    swapped: dict[str, str] = {}
    for slot, value in after.items():
        if rng.random() >= rate or not isinstance(value, str) or value in swapped or not choices.get(slot):
            continue
        new = rng.choice(choices[slot])
        fits = _swappable(value, known) and _word(value).search(texts)
        if fits and not _shares_word(new, known | set(swapped.values())) and new not in texts:
            swapped[value] = new
    changed = (replace(turn, system=_with(turn.system, swapped), user=_with(turn.user, swapped)) for turn in turns)
    return tuple(changed), swapped


def renamed(state: State, swapped: Mapping[str, str]) -> State:
    """The state with its values swapped likewise."""
    return State(
        {slot: swapped.get(value, value) if isinstance(value, str) else value for slot, value in state.items()}
    )


def _swappable(value: str, known: set[str]) -> bool:
    if len(value) < _SHORTEST or value in _NEVER or any(map(str.isdigit, value)):
        return False
    return not _shares_word(value, known - {value})


def _shares_word(value: str, others: set[str]) -> bool:
    words = set(value.split())
    return any(words & set(other.split()) for other in others)


def _with(text: str, swapped: Mapping[str, str]) -> str:
    for old, new in swapped.items():
        text = _word(old).sub(new, text)
    return text


@lru_cache(maxsize=4096)
def _word(value: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(value)}(?!\w)", re.IGNORECASE)
