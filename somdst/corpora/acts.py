"""What happens in a turn of a made conversation: the system asks, offers, confirms or informs, and the user answers.

People answer in many ways: with a bare value, with more than was asked, with a question, or not at all.
What they do of their own accord is `moves.py`; the order of acts is `made.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from somdst.corpora import moves, prompts
from somdst.corpora.domains import Field
from somdst.corpora.talk import Piece, Said, Talk, can_say
from somdst.corpora.value_types import ordered_pair
from somdst.memory.state import DONTCARE

# elicitation


def _ask(talk: Talk) -> None:
    if fields := talk.empty():
        elicit(talk, talk.rng.choice(fields))
    else:
        _listen(talk)


def elicit(talk: Talk, field: Field) -> None:
    """The system asks for a slot, and gets an answer or something else."""
    asked = prompts.question(talk, field)
    system = f"{prompts.reaction(talk)} {asked}"
    talk.waiting = None
    way = talk.rng.random()
    piece, reply = None, ""
    if way < 0.05:
        piece, reply = Piece(talk.phrase("skip"), {}), "sorry"
    elif way < 0.13:
        move = talk.rng.choice((moves.question, moves.question, moves.chat, moves.compare, moves.mention))
        piece, reply = move(talk), moves.REPLIES[move]
    elif way < 0.2 and field.wish:
        piece = Piece(talk.phrase("indifferent"), {field.key: DONTCARE})
    elif way < 0.24 and field.wish and field.kind != "yesno" and len(field.values) > 2:
        piece, reply = moves.ruled_out(talk, field), "sorry"
    elif way < 0.27:
        piece = moves.tell(talk, most=1, but=(field,))
    elif way < 0.3:
        piece = moves.correct_clearly(talk)
    elif way < 0.75:
        piece = moves.same(talk, field, asked=True) or (_by_place(talk, field, asked) if way < 0.45 else None)
    if piece is None:
        piece, reply = _answer(talk, field), ""
    if field.key not in piece.changes:
        talk.waiting = field
    elif talk.chance(0.2):
        extra = _extra(talk, piece)
        piece = talk.join(extra, piece) if talk.chance(0.1) else talk.join(piece, extra)
    talk.say(system, piece, reply=reply)


def _by_place(talk: Talk, field: Field, asked: str) -> Piece | None:
    """If the question itself names all values: "the second one"."""
    places = [(asked.lower().find(value), value) for value in field.values]
    if field.kind != "list" or len(places) > 3 or any(place < 0 for place, _ in places):
        return None
    if any(one != other and one in other for one in field.values for other in field.values):
        return None
    index = talk.rng.randrange(len(places))
    value = sorted(places)[index][1]
    return Piece(talk.phrase(talk.rng.choice(_PLACES[len(places), index])), {field.key: value})


def _extra(talk: Talk, piece: Piece) -> Piece:
    """Something that is added to an answer and concerns other slots."""
    for _ in range(5):
        _, extra = moves.any_move(talk, moves.EXTRAS)
        if not extra.changes.keys() & piece.changes.keys():
            return extra
    return Piece(talk.phrase("chat"), {})


def _answer(talk: Talk, field: Field) -> Piece:
    """An answer to the question for the slot, short or long."""
    if field.kind == "yesno":
        value = talk.rng.choice(("yes", "no"))
        own = field.values[value] if talk.chance(0.8) else field.say_yes if value == "yes" else field.say_no
        return Piece(talk.rng.choice(own), {field.key: value})
    said = talk.value(field)
    if said is None:
        return Piece(talk.phrase("skip"), {})
    return Piece(_answered(talk, field, said), {field.key: said.value})


def _answered(talk: Talk, field: Field, said: Said) -> str:
    way = talk.rng.random()
    words = talk.words(field, said)
    if field.counted and talk.chance(0.35):
        return talk.phrase("people" if field.people and talk.chance(0.8) else "count", v=words)
    if way < 0.3:
        return words
    if way < 0.62:
        return talk.rng.choice(field.answer).replace("{v}", words)
    if way < 0.76:
        return talk.rng.choice(field.say).replace("{v}", words)
    if way < 0.84 and field.wish and (other := talk.value(field, but=(said.value,))):
        return talk.phrase("not-but", v=said.words, old=other.words)
    if not can_say(words):
        return words
    return talk.phrase("answer-wish" if field.wish and talk.chance(0.5) else "answer", v=words)


def _ask_two(talk: Talk) -> None:
    """The system asks two things at once; the user answers both or one."""
    fields = talk.empty(yesno=False)
    if len(fields) < 2:
        return _ask(talk)
    first, second = talk.rng.sample(fields, 2)
    asked = talk.rng.choice(second.ask)
    asked = talk.rng.choice(
        (asked, asked, f"And {asked[0].lower()}{asked[1:]}", f"Also, {asked[0].lower()}{asked[1:]}")
    )
    system = f"{prompts.reaction(talk)} {talk.rng.choice(first.ask)} {asked}"
    one, two = talk.value(first), talk.value(second)
    if not one or not two or one.value == two.value:
        return _ask(talk)
    changes = {first.key: one.value, second.key: two.value}
    way = talk.rng.random()
    if way < 0.35 and can_say(one.words) and can_say(two.words):
        piece = Piece(f"{one.words}{talk.rng.choice((', ', ' and ', ' / ', '. ', ', and '))}{two.words}", dict(changes))
    elif way < 0.8:
        texts = [_answered(talk, first, one), talk.rng.choice(second.say).replace("{v}", two.words)]
        piece = talk.join(Piece(texts[0], {first.key: one.value}), Piece(texts[1], {second.key: two.value}))
    else:
        told = talk.fragment(first, one) or Piece(one.words, {first.key: one.value})
        piece = talk.join(told, Piece(talk.phrase("rest-later"), {})) if talk.chance(0.5) else told
        talk.waiting = second
    talk.say(system, piece)
    return None


# offers


def _offer(talk: Talk) -> None:
    """The system suggests a value; it counts only if the user takes it."""
    facts = [field for field in talk.empty(yesno=False) if field.type in ("phone", "email", "street")]
    wishes = talk.empty(wish=True, yesno=False)
    fields = facts if facts and talk.chance(0.3) else wishes
    if not fields:
        return _ask(talk)
    field = talk.rng.choice(fields)
    said = talk.value(field, sayable=True)
    if said is None:
        return _ask(talk)
    shown = talk.shown(field, said.words)
    if field in facts:
        offer = talk.phrase("on-file", v=shown, label=talk.label(field), ask=talk.rng.choice(field.ask))
    elif talk.unique(field) and talk.chance(0.5):
        offer = talk.phrase("offer", v=shown)
    else:
        offer = talk.phrase("offer-label", v=shown, label=talk.label(field), ask=talk.rng.choice(field.ask))
    return _reply_to_offer(talk, field, said, f"{prompts.reaction(talk)} {offer}")


def _reply_to_offer(talk: Talk, field: Field, said: Said, system: str) -> None:
    way = talk.rng.random()
    if way < 0.5:
        taken = Piece(talk.phrase("accept", v=said.words), {field.key: said.value}, complete=True)
        talk.say(system, talk.join(taken, _extra(talk, taken)) if talk.chance(0.2) else taken)
    elif way < 0.62:
        talk.say(system, Piece(talk.phrase("question"), {}))
        again = f" So, {talk.shown(field, said.words)}?" if talk.chance(0.5) else " Shall we do that?"
        talk.say(
            talk.phrase("reply") + again, Piece(talk.phrase("accept-again", v=said.words), {field.key: said.value})
        )
    elif way < 0.8 and (other := talk.value(field, but=(said.value,))):
        talk.say(system, Piece(talk.phrase("refuse-other", v=other.words, old=said.words), {field.key: other.value}))
    else:
        talk.say(system, Piece(talk.phrase("refuse"), {}), reply="sorry")
        talk.waiting = field if talk.chance(0.5) else None


def _choices(talk: Talk) -> None:
    """The system offers two or three values, and the user chooses by place, by words, or not."""
    fields = talk.empty(wish=True, yesno=False)
    if not fields:
        return _ask(talk)
    field = talk.rng.choice(fields)
    pair = ordered_pair(field.type, list(field.values), talk.rng) if talk.chance(0.5) else None
    if pair:
        said = [Said(value, value) for value in (pair if talk.chance(0.5) else pair[::-1])]
    else:
        said = _some_values(talk, field, talk.rng.choice((2, 2, 3)))
    if len(said) < 2:
        return _ask(talk)
    shown = {name: talk.shown(field, one.words) for name, one in zip("abc", said, strict=False)}
    offer = talk.phrase(f"offer-list-{len(said)}", need="c" if len(said) == 3 else "", **shown)
    if field.kind != "list" or talk.chance(0.5):
        offer = f"{talk.rng.choice(field.ask)} {offer}"
    if pair and talk.chance(0.5):
        index = talk.rng.randrange(2)
        piece = Piece(talk.phrase(("earlier", "later")[index]), {field.key: pair[index]})
    else:
        piece = _chosen(talk, field, said)
    talk.say(f"{prompts.reaction(talk)} {offer}", piece)
    return None


def _some_values(talk: Talk, field: Field, number: int) -> list[Said]:
    said: list[Said] = []
    for _ in range(number):
        if one := talk.value(field, but=[other.value for other in said], sayable=True):
            said.append(one)
    return said


def _chosen(talk: Talk, field: Field, said: list[Said]) -> Piece:
    way = talk.rng.random()
    if way < 0.08:
        return Piece(talk.phrase("either"), {field.key: DONTCARE})
    if way < 0.17:
        return Piece(talk.phrase("neither"), {})
    if way < 0.21:
        return Piece(talk.phrase("question"), {})
    if way < 0.26 and (other := talk.value(field, but=[one.value for one in said])):
        return Piece(talk.phrase("refuse-other", v=other.words, old=said[0].words), {field.key: other.value})
    index = talk.rng.randrange(len(said))
    changes = {field.key: said[index].value}
    if way < 0.42:
        return Piece(_answered(talk, field, said[index]), dict(changes))
    return Piece(talk.phrase(talk.rng.choice(_PLACES[len(said), index])), dict(changes))


_PLACES: Final = {
    (2, 0): ("first", "first", "former"),
    (2, 1): ("second", "second", "latter"),
    (3, 0): ("first",),
    (3, 1): ("second", "middle"),
    (3, 2): ("last",),
}
"""How a value is chosen by its place, by the number of values and its index."""


# confirmations and the rest


def _confirm(talk: Talk) -> None:
    """The system repeats what it knows, right or wrong."""
    fields = [field for field in talk.filled(yesno=True) if prompts.sayable(talk, field)]
    if not fields:
        return _ask(talk)
    chosen = talk.rng.sample(fields, min(len(fields), talk.rng.choice((1, 1, 2, 2, 3))))
    wrong = [field for field in chosen if field.kind != "yesno"]
    field = talk.rng.choice(wrong) if wrong else None
    said = talk.value(field, sayable=True) if field else None
    way = talk.rng.random()
    if field and said and way < 0.35:
        held = talk.held(field)
        if way < 0.15:  # the system heard something else; the memory is right already
            system = _summed(talk, chosen, {field.key: talk.shown(field, said.words)})
            talk.say(system, Piece(talk.phrase("no-heard", v=held.words, old=said.words), {}))
            return None
        need = "label old" if len(chosen) > 1 else ""
        words = {"v": said.words, "old": held.words, "label": talk.label(field)}
        talk.say(_summed(talk, chosen, {}), Piece(talk.phrase("no-fix", need=need, **words), {field.key: said.value}))
        return None
    piece = Piece(talk.phrase("yes"), {})
    talk.say(_summed(talk, chosen, {}), talk.join(piece, _extra(talk, piece)) if talk.chance(0.35) else piece)
    return None


def _summed(talk: Talk, fields: Sequence[Field], wrong: dict[str, str]) -> str:
    parts = []
    for field in fields:
        value = wrong.get(field.key) or talk.shown(field, str(talk.state[field.key]))
        form = talk.rng.choice(
            ("{label}: {v}", "{v} for {label}", "{label} is {v}") if field.kind != "yesno" else ("{name}: {v}",)
        )
        parts.append(form.replace("{label}", talk.label(field)).replace("{name}", field.name).replace("{v}", value))
    text = ", ".join(parts[:-1]) + (" and " if len(parts) > 1 else "") + parts[-1]
    return talk.phrase("confirm", sum=text)


def _listen(talk: Talk) -> None:
    """The system asks for nothing in particular, and the user does what users do."""
    move, piece = moves.any_move(talk, moves.MOVES)
    if talk.chance(0.15):
        piece = talk.join(piece, _extra(talk, piece))
    talk.say(prompts.prompt(talk), piece, reply=moves.REPLIES.get(move, ""))


def _inform(talk: Talk) -> None:
    """The system tells something, and the user takes note of it or says something new."""
    system = f"{prompts.reaction(talk, informing=False)} {prompts.news(talk)}"
    piece = Piece(talk.phrase("info-answer"), {})
    talk.say(system, talk.join(piece, _extra(talk, piece)) if talk.chance(0.4) else piece)


def _proceed(talk: Talk) -> None:
    """A question of yes or no that is about no slot."""
    if len(talk.state) < 2:
        return _ask(talk)
    return talk.say(f"{prompts.reaction(talk)} {talk.phrase('proceed')}", Piece(talk.phrase("proceed-answer"), {}))


def close(talk: Talk) -> None:
    if talk.chance(0.5):
        return talk.say(f"{prompts.reaction(talk)} {talk.phrase('more')}", Piece(talk.phrase("nothing-else"), {}))
    code = f"{talk.rng.choice('ABKRTX')}{talk.rng.randrange(1000, 99999)}"
    return talk.say(talk.phrase("done", code=code), Piece(talk.phrase("bye"), {}))


ACTS: Final[dict[Callable[[Talk], None], int]] = {
    _ask: 36,
    _ask_two: 6,
    _offer: 17,
    _choices: 17,
    _confirm: 9,
    _listen: 24,
    _inform: 3,
    _proceed: 3,
}
"""What can happen after the opening, and how often."""
