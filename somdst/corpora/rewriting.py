"""`rewritten`: a written dialogue as turns, half of the time with other values in its open slots.

A value is replaced only where every place in which it stands can be replaced, and where nothing else in the dialogue
leans on it, such as "earlier" on a time. If there is any doubt, the value stays.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from random import Random

from somdst.corpora.domains import Domain, Field, WrittenTurn
from somdst.corpora.value_types import type_of
from somdst.memory.dialogue import Turn
from somdst.memory.state import State, Value

_REPLACED = 0.5
_LEANING = re.compile(
    r"\b(?:earlier|later|sooner|before|after|cheaper|more|less|fewer|another|half|minutes?|hours?|double|same|next|plus|extra|"
    r"bigger|smaller|longer|shorter|older|younger|following|weekend|one|two|morning|evening|night)\b"
)
_DETERMINER = re.compile(r"(?:an?|the|my|our|his|her|one|two|some)\b")
_SHAPES = tuple(map(re.compile, (r"\d+", r"[a-z]+day", r"(?:an?|the|my|our) .*", r".*\d.*", r"[^\d\s]+")))
"""Of two values that have the same of these shapes, the first that fits, one can stand where the other stood."""


def verbatim(domain: Domain, turns: Sequence[WrittenTurn]) -> tuple[Turn, ...]:
    """A written dialogue with its states."""
    state, made = State(), []
    for turn in turns:
        state = state.with_values(turn.changes)
        made.append(Turn(turn.system, turn.user, state, domain.name))
    return tuple(made)


def rewritten(domain: Domain, rng: Random) -> tuple[Turn, ...]:
    """One of the domain's dialogues, verbatim or with other values."""
    turns: Sequence[WrittenTurn] = rng.choice(domain.dialogues)
    if rng.random() >= _REPLACED:
        return verbatim(domain, turns)
    for field in domain.fields:
        if field.kind == "open":
            turns = _with_other_values(turns, field, rng)
    return verbatim(domain, turns)


def _with_other_values(turns: Sequence[WrittenTurn], field: Field, rng: Random) -> Sequence[WrittenTurn]:
    for old in sorted({value for key, value in _labels(turns) if key == field.key}):
        text = " \n ".join(f"{turn.system} \n {turn.user}" for turn in turns).lower()
        others = {value for key, value in _labels(turns) if key != field.key or value != old}
        choices = [
            new
            for new in field.values
            if _alike(new, old) and new not in text and not any(new in other or other in new for other in others)
        ]
        if choices and _replaceable(old, text, field, others):
            new = rng.choice(choices)
            turns = [_replace(turn, field.key, old, new) for turn in turns]
    return turns


def _labels(turns: Sequence[WrittenTurn]) -> set[tuple[str, str]]:
    return {(key, value) for turn in turns for key, value in turn.changes.items() if isinstance(value, str)}


def _alike(new: str, old: str) -> bool:
    """Whether a value can stand where the other stood: "a tap" for "a sink", "4" for "3"."""
    if new == old or bool(_DETERMINER.match(new)) != bool(_DETERMINER.match(old)) or type_of([new]) != type_of([old]):
        return False
    shape = next((shape for shape in _SHAPES if shape.fullmatch(old)), None)
    return bool(shape.fullmatch(new)) if shape else " " in new and not re.search(r"\d", new)


def _replaceable(old: str, text: str, field: Field, others: Collection[str]) -> bool:
    whole = len(re.findall(_whole(old), text))
    if whole == 0 or whole != text.count(old) or any(old in other or other in old for other in others):
        return False
    rest = re.sub(_whole(old), " ", text)
    if field.type is not None and _LEANING.search(rest):
        return False
    # a part of the value that is somewhere alone: "fisher" of "anna fisher"
    return not any(len(word) > 3 and word in rest for word in re.findall(r"[a-z]+", old))


def _whole(value: str) -> str:
    return rf"(?<![\w'-]){re.escape(value)}(?![\w'-])"


def _replace(turn: WrittenTurn, key: str, old: str, new: str) -> WrittenTurn:
    pattern = re.compile(_whole(old), re.IGNORECASE)
    changes: dict[str, Value | None] = dict(turn.changes)
    if changes.get(key) == old:
        changes[key] = new

    def put(match: re.Match[str]) -> str:
        return new.title() if match[0].istitle() else new[0].upper() + new[1:] if match[0][0].isupper() else new

    return WrittenTurn(pattern.sub(put, turn.system), pattern.sub(put, turn.user), changes)
