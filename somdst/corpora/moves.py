"""What users do of their own accord in a made conversation: tell things, correct them, take them back, chat.

Each function returns a `Piece`, or None where it is not possible now, such as a correction before anything is known.
How users answer the system is `acts.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, NamedTuple

from somdst.corpora.domains import Domain, Field
from somdst.corpora.talk import Piece, Said, Talk
from somdst.memory.state import DONTCARE, Value, value_from_json

Move = Callable[[Talk], Piece | None]

SAME_NOUNS: Final = {
    "date": ("day", "date"),
    "time": ("time",),
    "street": ("address", "place"),
    "person": ("person", "name"),
    "phone": ("number",),
    "email": ("address", "email"),
}
"""What two slots of a type share: "the same day"."""

_REQUEST = re.compile(r"\{(?P<slot>[^}]*)\}|\[(?P<words>[^|\]]*)\|(?P<fixed>[^=\]]*)=(?P<value>[^\]]*)\]")


class _Part(NamedTuple):
    """A part of a request: text, a value of a slot, or words that mean a value."""

    text: str
    slot: Field | None = None
    value: str = ""


@cache
def _parts(domain: Domain, request: str) -> tuple[_Part, ...]:
    parts, end = [], 0
    for match in _REQUEST.finditer(request):
        parts.append(_Part(request[end : match.start()]))
        if match["slot"] is not None:
            parts.append(_Part("", domain.field(match["slot"])))
        else:
            parts.append(_Part(match["words"], domain.field(match["fixed"]), match["value"]))
        end = match.end()
    return (*parts, _Part(request[end:]))


def request(talk: Talk) -> Piece | None:
    """Several things at once, in words that were written for the domain."""
    able = [r for r in talk.domain.requests if all(_fits(talk, part) for part in _parts(talk.domain, r))]
    if not able:
        return None
    text, changes = "", dict[str, Value | None]()
    for part in _parts(talk.domain, talk.rng.choice(able)):
        if part.slot is None or part.value:
            text += part.text
        if part.slot and part.value:
            changes[part.slot.key] = value_from_json(part.value)
        elif part.slot:
            said = talk.value(part.slot, but=[str(value) for value in changes.values()])
            if said is None:
                return None
            text += talk.words(part.slot, said)
            changes[part.slot.key] = said.value
    return Piece(text, changes)


def _fits(talk: Talk, part: _Part) -> bool:
    if part.slot is None:
        return True
    if part.slot.key in talk.state:
        return False
    # without its list, the words of a list slot must be its value
    return not part.value or part.slot.key not in talk.opened or part.value in ("dontcare", part.text.lower())


def tell(talk: Talk, *, most: int = 2, but: Sequence[Field | None] = ()) -> Piece | None:
    """One or more things that the system does not know yet."""
    fields = talk.empty(but=but)
    if not fields:
        return None
    chosen = talk.rng.sample(fields, min(len(fields), talk.rng.randint(1, most)))
    pieces = [piece for piece in map(talk.fragment, chosen) if piece]
    if not pieces:
        return None
    text = pieces[0].text
    for i, piece in enumerate(pieces[1:], start=2):
        last = i == len(pieces)
        link = talk.rng.choice((", and ", " and ", ", ", ". ", ", and ") if last else (", ", ", ", ". ", " and "))
        text = f"{text}{link}{piece.text}"
    return Piece(text, {key: value for piece in pieces for key, value in piece.changes.items()})


def tell_one(talk: Talk) -> Piece | None:
    return tell(talk, most=1)


def correct(talk: Talk) -> Piece | None:
    """The user wants another value than the one that is known; "no, saturday" is clear if nothing was asked."""
    return _correct(talk, bare=True)


def correct_clearly(talk: Talk) -> Piece | None:
    """The same while the system asks for something else: the slot or its old value is named."""
    return _correct(talk, bare=False)


def _correct(talk: Talk, *, bare: bool) -> Piece | None:
    fields = talk.filled(yesno=True)
    recent = [field for field in fields if field.key in talk.last]
    if not fields:
        return None
    field = talk.rng.choice(recent if recent and talk.chance(0.5) else fields)
    if field.kind == "yesno":
        return _corrected_yesno(talk, field)
    said = talk.value(field)
    if said is None:
        return None
    return Piece(_correction(talk, field, said, bare=bare), {field.key: said.value})


def _corrected_yesno(talk: Talk, field: Field) -> Piece | None:
    value = "no" if talk.state[field.key] == "yes" else "yes"
    piece = talk.fragment(field, Said(value, value))
    return piece and Piece(talk.phrase("correct-say", say=piece.text), piece.changes)


def _correction(talk: Talk, field: Field, said: Said, *, bare: bool) -> str:
    old = talk.held(field)
    if bare and list(talk.last) == [field.key] and talk.chance(0.45):
        return talk.phrase("correct-bare", v=said.words)
    way = talk.rng.random()
    if way < 0.4:
        return talk.phrase("correct-old", v=said.words, old=old.words)
    if way < 0.7:
        return talk.phrase("correct-label", v=said.words, **talk.names(field))
    fragment = talk.fragment(field, said)
    return talk.phrase("correct-say", say=fragment.text if fragment else said.words)


def forget(talk: Talk) -> Piece | None:
    """The user takes a value back, and nothing replaces it."""
    if not (fields := talk.filled()):
        return None
    field = talk.rng.choice(fields)
    if talk.chance(0.3):
        return Piece(talk.phrase("forget-value", old=talk.held(field).words), {field.key: None}, complete=True)
    return Piece(talk.phrase("forget", **talk.names(field)), {field.key: None}, complete=True)


def rule_out_held(talk: Talk) -> Piece | None:
    """The user no longer wants what is known. With a list of two, that could mean the other one."""
    fields = [field for field in talk.filled(wish=True) if len(field.values) > 2]
    if not fields:
        return None
    field = talk.rng.choice(fields)
    return Piece(talk.phrase("rule-out-held", old=talk.held(field).words), {field.key: None}, complete=True)


def rule_out(talk: Talk) -> Piece | None:
    """The user rules out a value that is not known as wanted: nothing changes."""
    fields = [field for field in talk.empty(wish=True, yesno=False) if len(field.values) > 2]
    return ruled_out(talk, talk.rng.choice(fields)) if fields else None


def ruled_out(talk: Talk, field: Field) -> Piece | None:
    said = talk.value(field)
    return said and Piece(talk.phrase("rule-out", v=said.words), {})


def no_preference(talk: Talk) -> Piece | None:
    """No preference, though nobody asked."""
    fields = [f for f in talk.fields if f.wish and f.kind != "yesno" and talk.state.get(f.key) is not DONTCARE]
    if not fields:
        return None
    empty = [field for field in fields if field.key not in talk.state]
    field = talk.rng.choice(empty if empty and talk.chance(0.8) else fields)
    return Piece(talk.phrase("indifferent-label", **talk.names(field)), {field.key: DONTCARE})


def repeat(talk: Talk) -> Piece | None:
    """Something that is known is said again: nothing changes."""
    if not (fields := talk.filled(yesno=True)):
        return None
    field = talk.rng.choice(fields)
    said = talk.held(field)
    if field.kind != "yesno" and talk.chance(0.5):
        return Piece(talk.phrase("repeat-value", v=said.words, **talk.names(field)), {})
    fragment = _plain_fragment(talk, field, said)
    return Piece(talk.phrase("repeat", say=fragment), {})


def _plain_fragment(talk: Talk, field: Field, said: Said) -> str:
    if field.kind == "yesno":
        return talk.rng.choice(field.say_yes if said.value == "yes" else field.say_no)
    return talk.rng.choice(field.say).replace("{v}", said.words)


def sources(talk: Talk, field: Field) -> list[Field]:
    """The slots whose value "the same" can stand for."""
    if field.type not in SAME_NOUNS:
        return []
    return [other for other in talk.filled() if other.type == field.type and other is not field]


def same(talk: Talk, field: Field, *, asked: bool) -> Piece | None:
    """The slot gets the value of another one of its type."""
    if not (others := sources(talk, field)) or field.type is None:
        return None
    other = talk.rng.choice(others)
    noun = talk.rng.choice(SAME_NOUNS[field.type])
    label = talk.label(other)
    if other.domain != field.domain and len(others) == 1 and talk.chance(0.4):
        label = f"the {other.domain}"
    changes: dict[str, Value | None] = {field.key: talk.state[other.key]}
    if asked and talk.chance(0.75):
        return Piece(talk.phrase("same", need="label" if len(others) > 1 else "", noun=noun, label=label), changes)
    words = f"the same {noun} as {label}"
    clear = [text for text in field.say if not re.search(r"\b(?:it's|is) \{v\}", text)]
    return Piece(talk.rng.choice(clear or field.say).replace("{v}", words), changes)


def referring(talk: Talk) -> list[Field]:
    """The slots that could be told by "the same"."""
    return [field for field in talk.empty(yesno=False) if sources(talk, field)]


def refer(talk: Talk) -> Piece | None:
    able = referring(talk)
    return same(talk, talk.rng.choice(able), asked=False) if able else None


def chat(talk: Talk) -> Piece | None:
    """Something else entirely."""
    return Piece(talk.phrase("chat"), {})


def mention(talk: Talk) -> Piece | None:
    """A value is mentioned, but not as what the user wants."""
    fields = [field for field in talk.fields if field.wish and field.kind != "yesno"]
    said = talk.value(talk.rng.choice(fields), sayable=True) if fields else None
    return said and Piece(talk.phrase("chat-value", v=said.words), {})


def question(talk: Talk) -> Piece | None:
    return Piece(talk.phrase("question"), {})


def compare(talk: Talk) -> Piece | None:
    """A question about two values."""
    fields = [field for field in talk.fields if field.wish and field.kind == "list"]
    if not fields:
        return None
    field = talk.rng.choice(fields)
    first = talk.value(field)
    second = talk.value(field, but=(first.value,)) if first else None
    return Piece(talk.phrase("question-values", v=first.words, old=second.words), {}) if first and second else None


MOVES: Final[dict[Move, int]] = {
    tell: 16,
    request: 8,
    correct: 26,
    forget: 12,
    rule_out_held: 6,
    rule_out: 7,
    no_preference: 7,
    repeat: 7,
    refer: 30,
    chat: 7,
    mention: 4,
    question: 4,
    compare: 3,
}
"""What a user does when the system asks for nothing, and how often."""

EXTRAS: Final[dict[Move, int]] = {
    tell_one: 40,
    correct_clearly: 22,
    forget: 5,
    rule_out: 6,
    no_preference: 7,
    repeat: 3,
    refer: 25,
    chat: 7,
    question: 7,
    mention: 3,
}
"""What a user adds to an answer."""


def any_move(talk: Talk, moves: dict[Move, int]) -> tuple[Move, Piece]:
    """A move that is possible now."""
    for _ in range(10):
        move = talk.rng.choices(list(moves), list(moves.values()))[0]
        if piece := move(talk):
            return move, piece
    return chat, Piece(talk.phrase("chat"), {})


REPLIES: Final[dict[Move, str]] = {
    question: "reply",
    compare: "reply",
    chat: "chat-reply",
    mention: "chat-reply",
    rule_out: "sorry",
}
"""How the system reacts to moves that change nothing."""
