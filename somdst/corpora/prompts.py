"""What the system says between a user's turns in a made conversation: how it reacts, what it tells, how it asks.

Values that it mentions are not what the user asked for; offers, which may become that, are in `acts.py`.
"""

from __future__ import annotations

from somdst.corpora.domains import Field
from somdst.corpora.talk import Talk, can_say


def reaction(talk: Talk, *, informing: bool = True) -> str:
    """How the system takes up what was said: not at all, in a word, by repeating a value, or with some news."""
    if talk.reply:
        return talk.phrase(talk.reply)
    if not talk.last and len(talk.turns) > 1:
        return ""
    way = talk.rng.random()
    if way < 0.35:
        return ""
    if way < 0.65:
        return talk.phrase("ack")
    told = [f for f in talk.all_fields if isinstance(talk.last.get(f.key), str) and f.kind != "yesno"]
    if way < 0.9 and told:
        field = talk.rng.choice(told)
        if sayable(talk, field):
            return talk.phrase("echo", v=talk.shown(field, str(talk.state[field.key])), label=talk.label(field))
    return news(talk) if informing and way > 0.9 else ""


def sayable(talk: Talk, field: Field) -> bool:
    return can_say(str(talk.state.get(field.key, "")))


def news(talk: Talk) -> str:
    """Something that the system tells without asking; values in it are not what the user asked for."""
    rng = talk.rng
    number, money = str(rng.randrange(2, 15)), f"{rng.randrange(5, 300)} {rng.choice(('euros', 'dollars', 'pounds'))}"
    code = f"{rng.choice('ABKRTX')}{rng.randrange(1000, 99999)}"
    fields = [field for field in talk.fields if field.wish and field.kind != "yesno"]
    said = talk.value(rng.choice(fields), sayable=True) if fields and talk.chance(0.6) else None
    if said:
        return talk.phrase("info", v=said.words, n=number)
    return talk.phrase("info-plain", n=number, m=money, code=code)


def prompt(talk: Talk) -> str:
    """The system leaves it to the user what comes next."""
    if not talk.state:
        return talk.phrase("start")
    more = talk.phrase("more") if talk.chance(0.7) else news(talk)
    return f"{reaction(talk, informing=False)} {more}"


def question(talk: Talk, field: Field) -> str:
    asks = [ask for ask in field.ask if field.kind != "yesno" or " or " not in ask] or list(field.ask)
    if field.kind != "yesno" and talk.chance(0.15):
        return talk.phrase("ask", label=talk.label(field), Name=field.name.capitalize())
    return talk.rng.choice(asks)
