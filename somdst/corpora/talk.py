"""`Talk`: a made conversation while it grows. It keeps the memory, chooses values and words for slots, and types turns.

What is said and when is decided in `acts.py` and `moves.py`. A `Piece` is something that a user says together with what
it changes, so that text and label are always made in one place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import Final, Literal, NamedTuple

from somdst.corpora.domains import Domain, Field
from somdst.corpora.perturbation import Perturbation, perturb
from somdst.corpora.phrases import phrase
from somdst.corpora.value_types import DAYS, MONTHS, new_value
from somdst.memory.dialogue import Turn
from somdst.memory.state import DONTCARE, State, Value

Style = Literal["plain", "proper", "lowercase", "typos", "chat"]
STYLES: Final[dict[Style, int]] = {"plain": 45, "proper": 25, "lowercase": 13, "typos": 11, "chat": 6}
_SELF_CORRECTED = 0.04
_INVENTED = 0.5
"""Share of values of a known type that are invented, not taken from the written ones."""

_OURS = re.compile(r"\b(?:i|i'm|i'll|i've|i'd|my|me|mine|we|we're|our|us|myself)\b")
_CLAUSE = re.compile(r"^(?:i|i'm|we|it|it's|he|she|they|you|there's|because|when|if|to)\b|[,.:;!?]")
_EMPTY_TEXT = (
    "a an and are at be by can do for from go i i'd i'll i'm in is it it's let's like make me my need of on one ones "
    "our please pls put say should something that the then there this to try us want we we'd we'll with would you "
    "have get set keep kind around about"
)
_EMPTY_WORDS: Final = frozenset(_EMPTY_TEXT.split())
"""A fragment of only such words, such as "make it {v}", does not tell which slot is meant."""
_CAPITALS = re.compile(rf"\b(?:{'|'.join((*DAYS, *(month for month in MONTHS if month not in ('may', 'march'))))})\b")


class Said(NamedTuple):
    """How a value is said, and how it is labelled."""

    words: str
    value: str


class Piece(NamedTuple):
    """Something that a user says, and the slots that it changes; None takes a value back."""

    text: str
    changes: dict[str, Value | None]
    complete: bool = False
    """Whether nothing may be added at its end, because it is joined of several things or is a set phrase."""


class Talk:
    """A conversation about one domain or several; `fields` are those of the present topic."""

    def __init__(self, rng: Random, domains: Sequence[Domain], opened: frozenset[str]) -> None:
        self.rng = rng
        self.all_fields = tuple(field for domain in domains for field in domain.fields)
        self.fields = domains[0].fields
        self.domain = domains[0]
        self.opened = opened
        """List slots that the schema gives without their list: what is said is the value."""
        self.state: dict[str, Value] = {}
        self.turns: list[Turn] = []
        self.gone: set[str] = set()
        """Values that the user took back: nobody comes up with them again."""
        self.last: dict[str, Value | None] = {}
        """What the user changed in the turn before."""
        self.waiting: Field | None = None
        """The slot that was asked for and not answered."""
        self.reply = ""
        """The section with which the system reacts to the last turn."""
        self.style: Style = rng.choices(list(STYLES), list(STYLES.values()))[0]
        self._names = [field.name for field in self.all_fields]

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def phrase(self, section: str, /, *, need: str = "", **words: str) -> str:
        return phrase(section, self.rng, need=need, **words)

    # which slots

    def empty(self, *, wish: bool = False, yesno: bool = True, but: Sequence[Field | None] = ()) -> list[Field]:
        """Slots of the topic that nothing is known of."""
        return [
            field
            for field in self.fields
            if field.key not in self.state
            and (field.wish or not wish)
            and (yesno or field.kind != "yesno")
            and field not in but
        ]

    def filled(self, *, wish: bool = False, yesno: bool = False) -> list[Field]:
        """Slots of the whole conversation that have a value."""
        return [
            field
            for field in self.all_fields
            if self.state.get(field.key, DONTCARE) is not DONTCARE
            and (field.wish or not wish)
            and (yesno or field.kind != "yesno")
        ]

    def held(self, field: Field) -> Said:
        """The value that the memory has, in some words for it."""
        value = str(self.state[field.key])
        if field.kind == "list" and field.key not in self.opened:
            return Said(self.rng.choice((value, *field.values[value])), value)
        return Said(value, value)

    def unique(self, field: Field) -> bool:
        """Whether a bare value tells which slot it belongs to."""
        if field.kind == "list":
            return True
        return field.type is not None and sum(other.type == field.type for other in self.all_fields) == 1

    # values and words

    def value(self, field: Field, *, but: Sequence[str] = (), sayable: bool = False) -> Said | None:
        """A value that the slot does not have now; `sayable` by the system too: "my mum" is not."""
        taken = {str(v) for key, v in self.state.items() if key == field.key or field.kind == "open"}
        taken |= self.gone.union(but)
        if field.kind == "list":
            values = [value for value in field.values if value not in taken]
            if field.key in self.opened:
                ways = [way for value in values for way in {value, *field.values[value]} if _fits_a_form(way, taken)]
                said = self.rng.choice(sorted(ways)) if ways else None
                return Said(said, said.lower()) if said else None
            if not values:
                return None
            value = self.rng.choice(values)
            return Said(value if sayable else self.rng.choice(field.values[value]), value)
        for _ in range(6):
            value = self.rng.choice(list(field.values))
            if field.type and self.chance(_INVENTED):
                value = new_value(field.type, list(field.values), self.rng) or value
            if value not in taken and not (sayable and not can_say(value)):
                return Said(self.written(field, value), value)
        return None

    def written(self, field: Field, value: str) -> str:
        """The value as this user types it: some write names with capitals."""
        return value.title() if self.style == "proper" and field.type in ("person", "street") else value

    def shown(self, field: Field, value: str) -> str:
        """The value as the system writes it."""
        return value.title().replace("'S", "'s") if field.type in ("person", "street") else value

    def words(self, field: Field, said: Said) -> str:
        """The words of a value, now and then after another one that the user takes back at once."""
        if self.chance(_SELF_CORRECTED) and not _CLAUSE.search(said.words):
            other = self.value(field, but=(said.value,))
            if other and not _CLAUSE.search(other.words):
                return self.phrase("self-correct", old=other.words, v=said.words)
        return said.words

    def fragment(self, field: Field, said: Said | None = None) -> Piece | None:
        """A part of a sentence that tells the slot's value so that it is clear which slot is meant."""
        if field.kind == "yesno":
            value = said.value if said else self.rng.choice(("yes", "no"))
            return Piece(self.rng.choice(field.say_yes if value == "yes" else field.say_no), {field.key: value})
        said = said or self.value(field)
        if said is None:
            return None
        if field.people and self.chance(0.3):
            return Piece(self.phrase("people", v=self.words(field, said)), {field.key: said.value})
        clear = [text for text in field.say if set(text.lower().split()) - _EMPTY_WORDS - {"{v}"}]
        text = self.rng.choice(clear or field.say)
        return Piece(text.replace("{v}", self.words(field, said)), {field.key: said.value})

    def label(self, field: Field) -> str:
        """The slot as people name it: "the pickup day", or by its description where the name is not a noun."""
        same = self._names.count(field.name) > 1
        if field.noun and (same or self.chance(0.8)):
            return f"the {field.name} for the {field.domain}" if same else f"the {field.name}"
        text = field.descriptions[0]
        if any(mark in text for mark in ",:;?("):
            return f"the {field.name}"
        return text if _STANDS_ALONE.match(text) else f"the {text}"

    def names(self, field: Field) -> dict[str, str]:
        """Words for a phrase that names the slot; {name} only where it is a noun."""
        return {"label": self.label(field), **({"name": field.name} if field.noun else {})}

    # turns

    def join(self, first: Piece, *others: Piece | None) -> Piece:
        """Several things in one turn; what comes later counts."""
        text, changes = first.text, dict(first.changes)
        for other in others:
            if other is not None:
                text = _joined(text, self.phrase("join"), other.text)
                changes |= other.changes
        return Piece(text, changes, complete=True)

    def say(self, system: str, piece: Piece, *, reply: str = "") -> None:
        """Add a turn."""
        for key, value in piece.changes.items():
            if value is None:
                self.gone.add(str(self.state.pop(key, "")))
            else:
                self.state[key] = value
        self.last = dict(piece.changes)
        if self.waiting and self.waiting.key in self.state:
            self.waiting = None
        self.reply = reply
        user = self._typed(self._decorated(piece), piece)
        self.turns.append(Turn(_sentences(system), user, State(self.state), self.domain.name))

    def _decorated(self, piece: Piece) -> str:
        text = piece.text
        if not self.turns:
            if self.chance(0.1):
                text = f"{self.phrase('lead')} {text}"
            text = f"{self.phrase('greeting')} {text}" if self.chance(0.4) and not _GREETS.match(text) else text
        elif self.chance(0.1):
            text = f"{self.phrase('filler')} {text}"
        if piece.complete or not piece.changes or DONTCARE in piece.changes.values():
            return text
        if re.search(r"[?!.]$|please|thank|pls", text):
            return text
        if self.chance(0.08):
            wished = all(field.wish for field in self.all_fields if field.key in piece.changes)
            return f"{text}{self.rng.choice((' ', ', '))}{self.phrase('hedge-wish' if wished else 'hedge')}"
        if self.chance(0.05):
            return f"{text}{self.phrase('reason')}"
        return text

    def _typed(self, text: str, piece: Piece) -> str:
        text = _tidy(text)
        kept = {str(value) for value in piece.changes.values() if value is not None}
        kept |= {way for field in self.all_fields if field.key in piece.changes for way in self._ways(field)}
        if self.style == "proper":
            return _sentences(text, full_stop=True)
        if self.style == "plain" or self.chance(0.3):
            return text
        kind: Perturbation = self.style
        changed = perturb(text, kind, self.rng, values=kept | {str(value) for value in self.state.values()})
        before, after = " ".join(text.lower().split()), " ".join(changed.lower().split())
        return changed if after and all(value in after for value in kept if value in before) else text

    def _ways(self, field: Field) -> tuple[str, ...]:
        """The ways to say the listed value that the slot has now."""
        return field.values.get(str(self.state.get(field.key)), ()) if field.kind == "list" else ()


_GREETS = re.compile(
    r"(?:hi|hiya|hello|hey|good (?:morning|afternoon|evening)|morning|evening|yo|greetings)\b", re.IGNORECASE
)
_STANDS_ALONE = re.compile(r"(?:how|what|when|where|which|why|who|whom|the|a|an|your|if|whether)\b")


def _fits_a_form(way: str, taken: set[str]) -> bool:
    """Whether the words for a listed value could be the value of an open slot."""
    return len(way.split()) <= 3 and can_say(way.lower()) and way.lower() not in taken


def can_say(value: str) -> bool:
    """Whether a value fits into a sentence of the system or a general one: a short phrase without "my"."""
    return not (_OURS.search(value) or _CLAUSE.search(value))


def _joined(text: str, link: str, more: str) -> str:
    if text.endswith(("?", "!", ".")) and link[:1] in ".,;":
        link = link[1:] if link[0] == "." else ""
    return f"{text}{link if link[:1] in '.,;' else ' ' + link.strip() if link.strip() else ''} {more}"


def _tidy(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r" ([,.;?!])", r"\1", text)
    text = re.sub(r"([?!,:;])[.,;]+", r"\1", text)
    return re.sub(r"(?<!\.)\.\.(?!\.)|\.,", ".", text)


def _sentences(text: str, *, full_stop: bool = False) -> str:
    """With capitals where a careful writer puts them."""
    text = _tidy(text)
    if not text:
        return ""
    text = re.sub(r"(?:^|(?<=[.?!] ))[a-z]", lambda match: match[0].upper(), text)
    text = re.sub(r"\bi(?=\b|')", "I", text)
    text = _CAPITALS.sub(lambda match: match[0].capitalize(), text)
    return f"{text}." if full_stop and text[-1].isalnum() else text
