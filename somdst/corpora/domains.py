"""Written domains: small descriptions of what people talk about, each with slots, its own words and a few dialogues.

`load_domains` reads the files in `written/`, whose format is described in the README beside them. Thirty domains are
held out for dev, so that a tracker is measured on schemas it has never seen. Making conversations out of domains is
`made.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from somdst.corpora.phrases import FOLDER
from somdst.corpora.value_types import ValueType, type_of
from somdst.errors import CorpusError
from somdst.memory.state import Value, value_from_json

HELD_OUT: Final = frozenset({
    "appliance repair", "birthday party", "business trip", "cake order", "car rental", "cinema", "climbing gym",
    "conference room", "currency exchange", "dentist", "ferry", "food truck", "furniture", "language school",
    "lost property", "pet grooming", "pharmacy", "phone contract", "podcast studio", "pothole report",
    "printer fault", "road assistance", "smart lights", "summer camp", "supplier quote", "tailor", "tennis court",
    "vacation request", "watch repair", "whale watching",
})  # fmt: skip
"""The domains of dev; all others are for training."""

Kind = Literal["open", "list", "yesno"]
Part = Literal["train", "dev"]


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A slot of a written domain, with what is said about it. A "{v}" in a text stands for the value."""

    key: str
    """The name in a schema: "domain-slot"."""
    domain: str
    name: str
    kind: Kind
    descriptions: tuple[str, ...]
    """The description and its paraphrases."""
    values: Mapping[str, tuple[str, ...]]
    """Each value and the ways to say it. An open value is said as it is; yes and no have answers here."""
    ask: tuple[str, ...]
    say: tuple[str, ...]
    answer: tuple[str, ...]
    say_yes: tuple[str, ...]
    say_no: tuple[str, ...]
    type: ValueType | None
    """What an open slot holds, if it can be told."""
    counted: bool
    """Whether the value is a number of things, or of people if `people`."""
    people: bool
    wish: bool
    """Whether the user may choose freely. An address or a symptom is a fact: nobody offers it or does not mind it."""
    noun: bool
    """Whether the name reads well after "the"."""


@dataclass(frozen=True, slots=True)
class WrittenTurn:
    system: str
    user: str
    changes: Mapping[str, Value | None]
    """By "domain-slot"; None where the user takes a value back."""


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    name: str
    openings: tuple[str, ...]
    """First lines that mention no value."""
    fields: tuple[Field, ...]
    requests: tuple[str, ...]
    """Lines that say several things at once: "{slot}" for a value, "[words|slot=value]" for words that mean one."""
    dialogues: tuple[tuple[WrittenTurn, ...], ...]

    @property
    def has_words(self) -> bool:
        """Whether conversations can be made of it. A domain without words of its own has dialogues only."""
        return bool(self.openings)

    def field(self, name: str) -> Field:
        return next(field for field in self.fields if field.name == name)


def load_domains(split: Part | None = None) -> tuple[Domain, ...]:
    """The domains of a split, in alphabetical order; all of them without one. Train and dev share no domain.

    >>> len(load_domains("dev")), "dentist" in {domain.name for domain in load_domains("train")}
    (30, False)
    """
    if split not in (None, "train", "dev"):
        raise CorpusError(f'The written domains have the splits train and dev, and no "{split}".')
    return tuple(d for d in _all_domains() if split is None or (d.name in HELD_OUT) == (split == "dev"))


@cache
def _all_domains() -> tuple[Domain, ...]:
    files = sorted(FOLDER.glob("*.json"))
    domains = [_read_domain(data) for file in files for data in json.loads(file.read_text(encoding="utf-8"))]
    return tuple(sorted(domains, key=lambda domain: domain.name))


def _read_domain(data: Mapping[str, Any]) -> Domain:
    name = data["domain"]
    return Domain(
        name,
        tuple(data.get("open", ())),
        tuple(_read_field(name, slot, entry) for slot, entry in data["slots"].items()),
        tuple(data.get("requests", ())),
        tuple(tuple(_read_turn(name, turn) for turn in turns) for turns in data["dialogues"]),
    )


def _read_turn(domain: str, turn: Mapping[str, Any]) -> WrittenTurn:
    changes = {
        f"{domain}-{slot}": None if value is None else value_from_json(value) for slot, value in turn["set"].items()
    }
    return WrittenTurn(turn["system"], turn["user"], changes)


def _read_field(domain: str, name: str, data: Mapping[str, Any]) -> Field:
    kind: Kind = data["kind"]
    match kind:
        case "open":
            values = {value: (value,) for value in data["values"]}
        case "list":
            values = {value: tuple(ways) for value, ways in data["values"].items()}
        case "yesno":
            values = {"yes": tuple(data.get("yes", ())), "no": tuple(data.get("no", ()))}
    descriptions = (data["description"], *data["also"])
    about = " ".join((name, *descriptions))
    type_ = type_of(list(values)) if kind == "open" else None
    ask, say, answer = (tuple(data.get(key, ())) for key in ("ask", "say", "answer"))
    counted = type_ == "count" and bool(_COUNTED.search(" ".join((about, *ask)).lower()))
    return Field(
        key=f"{domain}-{name}",
        domain=domain,
        name=name,
        kind=kind,
        descriptions=descriptions,
        values=values,
        ask=ask,
        say=say,
        answer=answer,
        say_yes=tuple(data.get("say_yes", ())),
        say_no=tuple(data.get("say_no", ())),
        type=type_,
        counted=counted,
        people=counted and bool(_PEOPLE.search(about)) and bool(_US.search(" ".join((*say, *answer)))),
        wish=_is_wish(kind, type_, " ".join((about, *ask)), values),
        noun=not _NO_NOUN.search(name),
    )


_COUNTED = re.compile(r"\b(?:number of|how many|count of|quantity)\b")
_PEOPLE = re.compile(
    r"\b(?:people|guests|persons|heads?|headcount|travellers|passengers|players|visitors|participants|adults|attendees)\b"
)
_US = re.compile(r"\b(?:we|we're|we'll|us)\b")
_WISH = re.compile(
    r"\b(?:would you like|prefer|should|shall|want|wish|suits?|works? (?:best )?for you|fancy|rather|do you like)\b",
    re.I,
)
_FACT_WORDS = (
    "name phone email address postcode code number id reason why symptom symptoms problem happened age born birth "
    "account reference plate damage fault message error lost seen since model height whose weighs weight width "
    "budget spend cost costs fare rent deposit income amount sum allergy allergies injury"
)
_FACT = re.compile(rf"\b(?:{'|'.join(_FACT_WORDS.split())}|e-mail|who is)\b")
_PAST = re.compile(
    r"\b(?:yesterday|ago|last|born|birth|since|began|started|seen|due|happened|bed|woke|charged?|bought)\b"
)


def _is_wish(kind: Kind, type_: ValueType | None, about: str, values: Collection[str]) -> bool:
    if type_ in ("date", "time"):
        return not _PAST.search(" ".join((about, *values)))
    if type_ is not None or _FACT.search(about):
        return False
    return kind == "yesno" or bool(_WISH.search(about))


_FIRST_OF_NO_NOUN = (
    "how what when where which why who must can leave leaving in on my your no needed take went woke valid "
    "similar close liked lives looking looks mixed move moved noticed observed paying pay ready rent runs settle "
    "sleeps speaks spend started starts switch thankful turning avoid arrive begin begins born brought built "
    "buried buying check collect coming dedicated deliver drop expires fetch from going hand held hosting improve "
    "invited hire back"
)
_LAST_OF_NO_NOUN = (
    "by to from at on in for of with since until after when where up off within called read seen swept staying"
)
_NO_NOUN = re.compile(
    rf"^(?:{'|'.join(_FIRST_OF_NO_NOUN.split())})\b|\b(?:{'|'.join(_LAST_OF_NO_NOUN.split())})$|^\w+ or "
)
