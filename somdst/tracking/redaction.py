"""What an export does not tell: the values of slots that a schema marks with `redact: true`. This file is the rule.

1. A value of such a slot becomes `HIDDEN`; that the slot has one stays visible. Its evidence, questions and reasons go.
2. The same values, and the words that they were copied from, become `HIDDEN` wherever else they are: in every turn, in
   other slots, in questions. Capitals, spaces and punctuation make no difference.
3. If the words behind a value are not known, or are only "yes" or "no", the whole turn becomes `HIDDEN`.

Words in which the tracker found no value stay. Does not decide what an export is: `audit.to_dialogue` and
`bulk/annotating.py` use this, and the service's log leaves out all turns of such a conversation. Whoever holds a
conversation gets every value, in results, answers and the database.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final, TypeVar

from somdst.memory.dialogue import Turn
from somdst.memory.schema import BOOLEAN
from somdst.memory.state import State, Value
from somdst.model.prediction import Evidence
from somdst.tracking.records import Change, Entry, Pending, Refused, TrackedTurn

HIDDEN: Final = "[redacted]"
W = TypeVar("W", bound=Change)


@dataclass(frozen=True, slots=True)
class Redaction:
    """Hides the private values of one conversation. False if it has none."""

    slots: frozenset[str]
    secrets: tuple[str, ...]
    """The private values, and the words that they were copied from."""

    @classmethod
    def of(
        cls, entries: Sequence[Entry], *, slots: Iterable[str] = (), labels: Iterable[State | None] = ()
    ) -> Redaction:
        """From the whole log, undone entries too. `slots` are private whatever the log says; `labels` are further
        states whose private values are hidden."""
        private = frozenset(slots).union(*(entry.redacted for entry in entries))
        writes = [write for entry in entries for write in _writes(entry) if write.slot in private]
        secrets = {text for write in writes for text in (write.before, write.after, _said(write))}
        secrets |= {state.get(slot) for state in labels if state is not None for slot in private}
        found = {text.strip() for text in secrets if isinstance(text, str) and _telling(text)}
        # A text of signs only is searched for as it is.
        return cls(private, tuple({"".join(letter for letter, _ in _letters(text)) or text for text in found}))

    def __bool__(self) -> bool:
        return bool(self.slots)

    def text(self, text: str) -> str:
        """The text with `HIDDEN` for every secret in it, however it is spaced and punctuated: 07700 900 123 is
        07700-900123."""
        letters = _letters(text)
        plain = "".join(letter for letter, _ in letters)
        hidden = bytearray(len(text))
        for secret in self.secrets:
            for start, end in _places(secret, text, plain, letters):
                hidden[start:end] = b"\1" * (end - start)
        return "".join(
            HIDDEN if covered else "".join(letter for _, letter in run)
            for covered, run in groupby(zip(hidden, text, strict=True), key=lambda pair: pair[0])
        )

    def value(self, slot: str, value: Value | None) -> Value | None:
        """What to show as the value of a slot. That the user has no preference is not private."""
        if not isinstance(value, str):
            return value
        return HIDDEN if slot in self.slots else self.text(value)

    def state(self, state: State) -> State:
        return state.with_values({slot: self.value(slot, value) for slot, value in state.items()})

    def turns(self, spoken: Sequence[Entry]) -> list[Turn]:
        """What was said in these turns, which are all turns in force, in order."""
        unclear: set[int] = set()
        for place, entry in enumerate(spoken):
            for write in (*entry.changes, *entry.held, *entry.refused):
                if write.slot in self.slots and isinstance(write.after, str) and not _clear(write.evidence):
                    unclear |= {place, place - write.evidence.turns_ago if write.evidence else place}
        said = [entry.turn or Turn("", "") for entry in spoken]
        return [
            Turn(HIDDEN if turn.system else "", HIDDEN)
            if place in unclear
            else Turn(self.text(turn.system), self.text(turn.user))
            for place, turn in enumerate(said)
        ]

    def tracked(self, spoken: Sequence[Entry], results: Sequence[TrackedTurn]) -> list[TrackedTurn]:
        """What was made of these turns."""
        shown = self.turns(spoken)

        def write(item: W, place: int) -> W:
            private = item.slot in self.slots
            hidden: dict[str, Any] = {name: self.value(item.slot, getattr(item, name)) for name in ("before", "after")}
            if isinstance(item, Pending):
                place = item.turn - 1
                hidden["question"] = HIDDEN if private else self.text(item.question)
            if isinstance(item, Refused):
                hidden["reason"] = HIDDEN if private else self.text(item.reason)
            place -= item.evidence.turns_ago if item.evidence else 0
            evidence = None if private else self._moved(item.evidence, spoken[place].turn, shown[place])
            return replace(item, **hidden, evidence=evidence)

        return [
            TrackedTurn(
                self.state(turn.state),
                tuple(write(item, place) for item in turn.changes),
                tuple(write(item, place) for item in turn.pending),
                tuple(write(item, place) for item in turn.refused),
                turn.domain,
            )
            for place, turn in enumerate(results)
        ]

    def _moved(self, evidence: Evidence | None, said: Turn | None, shown: Turn) -> Evidence | None:
        """The evidence at its place in the text that is shown; None where it is hidden there."""
        if evidence is None or said is None:
            return None
        text = self.text(evidence.text)
        if evidence.source == "slot":
            return replace(evidence, text=text)
        start = len(self.text(getattr(said, evidence.source)[: evidence.start]))
        there = getattr(shown, evidence.source)[start : start + len(text)] == text
        return replace(evidence, start=start, end=start + len(text), text=text) if there else None


def _writes(entry: Entry) -> tuple[Change, ...]:
    return (*entry.changes, *entry.held, *entry.released, *entry.refused)


def _said(write: Change) -> str | None:
    return write.evidence.text if write.evidence else None


def _telling(text: str) -> bool:
    """Whether this can be searched for: "yes" and "no" are said about everything."""
    return bool(text.strip()) and text.strip().casefold() not in BOOLEAN


def _clear(evidence: Evidence | None) -> bool:
    return evidence is not None and (evidence.source == "slot" or _telling(evidence.text))


def _letters(text: str) -> list[tuple[str, int]]:
    """The letters and digits of a text without capitals, and where each of them is in it."""
    folded = ((letter, place) for place, sign in enumerate(text) for letter in sign.casefold())
    return [(letter, place) for letter, place in folded if letter.isalnum()]


def _places(secret: str, text: str, plain: str, letters: Sequence[tuple[str, int]]) -> Iterator[tuple[int, int]]:
    """Where a secret is in a text, whose letters are `plain`."""
    if not secret[0].isalnum():
        yield from ((found.start(), found.end()) for found in re.finditer(re.escape(secret), text))
        return
    at = plain.find(secret)
    while at >= 0:
        start, end = letters[at][1], letters[at + len(secret) - 1][1] + 1
        # A name inside another word is not meant. Only Latin letters and digits have such words: others may have no
        # spaces between them.
        before = secret[0].isascii() and _latin(text[start - 1 : start])
        after = secret[-1].isascii() and _latin(text[end : end + 1])
        if not (before or after):
            yield start, end
        at = plain.find(secret, at + 1)


def _latin(sign: str) -> bool:
    return sign.isascii() and sign.isalnum()
