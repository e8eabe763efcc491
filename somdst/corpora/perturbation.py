"""How people really type: `perturb` changes a user's text in one way and leaves its meaning, so that labels stay right.

    lowercase       no capitals, no punctuation
    typos           letters swapped, dropped, doubled or hit beside, in words that are not part of a label's value
    chat            abbreviations: tmrw, pls, 2 ppl, fri
    times           17:15 as "quarter past five in the afternoon" or "5:15pm"
    numbers         "three nights" as "3 nights" and "3 nights" as "three nights"
    change-of-mind  "friday" as "monday, no wait, friday"
    vowels          "lkng fr a hotel": every third word or so without its vowels, where it is not part of a value

Each kind is used alone, to measure what it costs and to train with. `vowels` is for measuring only: no text rule and no
training knows it. All randomness comes from the `rng` that is passed. Only what the user says is changed, not what the
system says.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Literal, get_args

from somdst.corpora.value_types import DAYS
from somdst.errors import InputError, no_such
from somdst.memory.dialogue import Dialogue
from somdst.model.everyday import NUMBER_WORDS
from somdst.model.text import NUMBERS

Perturbation = Literal["lowercase", "typos", "chat", "times", "numbers", "change-of-mind", "vowels"]
PERTURBATIONS: tuple[Perturbation, ...] = get_args(Perturbation)
TRAINED = tuple(kind for kind in PERTURBATIONS if kind != "vowels")


def perturb(text: str, kind: Perturbation, rng: random.Random, *, values: Collection[str] = ()) -> str:
    """The same said in another way. `values` are the labels' values: their words keep their spelling.

    >>> perturb("A table for two people tomorrow, please!", "chat", random.Random(0))
    'A table for 2 ppl tmrw, pls!'
    >>> perturb("I must leave at 17:15.", "times", random.Random(1))
    'I must leave at quarter past five in the afternoon.'
    """
    return _FUNCTIONS[_checked(kind)](text, rng, frozenset(value.lower() for value in values))


def perturb_dialogue(dialogue: Dialogue, kind: Perturbation, *, seed: int = 0) -> Dialogue:
    """The dialogue with every user turn changed; its seed is its own, so that it does not depend on its neighbours."""
    rng = random.Random(f"{seed} {kind} {dialogue.id}")
    values = {str(value) for turn in dialogue.turns if turn.state for value in turn.state.values()}
    turns = tuple(replace(turn, user=perturb(turn.user, kind, rng, values=values)) for turn in dialogue.turns)
    return replace(dialogue, turns=turns)


def perturb_all(dialogues: Iterable[Dialogue], kind: Perturbation, *, seed: int = 0) -> list[Dialogue]:
    return [perturb_dialogue(dialogue, kind, seed=seed) for dialogue in dialogues]


def parse_perturbations(text: str | None) -> tuple[Perturbation, ...]:
    """Read the command line's form: one kind, "all", or nothing.

    >>> parse_perturbations("chat"), parse_perturbations(None), len(parse_perturbations("all"))
    (('chat',), (), 7)
    """
    return () if text is None else PERTURBATIONS if text == "all" else (_checked(text),)


def _checked(kind: str) -> Perturbation:
    for known in PERTURBATIONS:
        if kind == known:
            return known
    raise InputError(no_such("perturbation", kind, PERTURBATIONS))


def _has_value_word(word: str, values: frozenset[str]) -> bool:
    return not _words(values).isdisjoint(re.findall(r"[a-z0-9]{2,}", word.lower()))


@lru_cache(maxsize=256)
def _words(values: frozenset[str]) -> frozenset[str]:
    return frozenset(part for value in values for part in re.findall(r"[a-z0-9]+", value))


def _lowercase(text: str, rng: random.Random, values: frozenset[str]) -> str:
    words = []
    for word in text.lower().split():
        # 17:15, 4.50 and the names of places stay whole; only the punctuation around them goes
        whole = re.search(r"\d[:.]\d", word) or _has_value_word(word, values)
        words.append(re.sub(r"^\W+|\W+$", "", word) if whole else re.sub(r"[^\w\s:&/-]", "", word))
    return " ".join(word for word in words if word)


_NEIGHBOURS = {
    "a": "sq", "b": "vn", "c": "xv", "d": "sf", "e": "wr", "f": "dg", "g": "fh", "h": "gj", "i": "uo", "j": "hk",
    "k": "jl", "l": "ko", "m": "nk", "n": "bm", "o": "ip", "p": "ol", "q": "wa", "r": "et", "s": "ad", "t": "ry",
    "u": "yi", "v": "cb", "w": "qe", "x": "zc", "y": "tu", "z": "xs",
}  # fmt: skip
_TYPO_RATE = 0.15
"""Share of eligible words that get a typo. Every text gets at least one."""


def _typos(text: str, rng: random.Random, values: frozenset[str]) -> str:
    pieces = re.split(r"(\s+)", text)
    able = [i for i, word in enumerate(pieces) if re.search(r"[A-Za-z]{4}", word) and not _has_value_word(word, values)]
    chosen = [i for i in able if rng.random() < _TYPO_RATE]
    for i in chosen or rng.sample(able, min(1, len(able))):
        pieces[i] = re.sub(r"[A-Za-z]{4,}", lambda match: _typo(match[0], rng), pieces[i], count=1)
    return "".join(pieces)


def _typo(word: str, rng: random.Random) -> str:
    i = rng.randrange(1, len(word) - 1)  # people get the first letter right
    match rng.randrange(4):
        case 0:
            return word[:i] + word[i + 1] + word[i] + word[i + 2 :]
        case 1:
            return word[:i] + word[i + 1 :]
        case 2:
            return word[:i] + word[i] + word[i:]
        case _:
            return word[:i] + rng.choice(_NEIGHBOURS[word[i].lower()]) + word[i + 1 :]


_VOWEL_RATE = 0.3


def _vowels(text: str, rng: random.Random, values: frozenset[str]) -> str:
    def squeeze(match: re.Match[str]) -> str:
        word = match[0]
        if rng.random() >= _VOWEL_RATE or _has_value_word(word, values):
            return word
        return word[0] + re.sub(r"[aeiou]", "", word[1:], flags=re.IGNORECASE)

    return re.sub(r"[A-Za-z]{3,}", squeeze, text)


_CHAT = {
    "tomorrow": "tmrw", "tonight": "2nite", "today": "2day", "please": "pls", "thanks": "thx", "thank you": "ty",
    "you": "u", "your": "ur", "are": "r", "people": "ppl", "because": "cuz", "about": "abt",
    "great": "gr8", "with": "w/", "before": "b4", "something": "smth", "information": "info", "want to": "wanna",
    "going to": "gonna", "i don't know": "idk", "by the way": "btw", "see you": "cu", "around": "arnd",
    # Not among the short forms that `model/everyday.py` writes out: what the model has to get over by itself.
    "restaurant": "rstrnt", "hotel": "htl", "reservation": "rez", "address": "addr", "phone number": "ph no",
    "looking": "lookin", "nights": "nts", "recommend": "recmnd", "expensive": "exp", "another": "anothr",
}  # fmt: skip
_SHORT_DAYS = dict(zip(DAYS, ("mon", "tues", "weds", "thurs", "fri", "sat", "sun"), strict=True))


def _chat(text: str, rng: random.Random, values: frozenset[str]) -> str:
    def abbreviate(match: re.Match[str]) -> str:
        word = match[0].lower()
        return match[0] if _has_value_word(word, values) else _CHAT[word]

    text = _CHAT_COUNT.sub(lambda match: f"{NUMBERS[match[1].lower()]} ppl", text)
    text = _CHAT_DAY.sub(lambda match: _SHORT_DAYS[match[0].lower()], text)
    return _CHAT_WORD.sub(abbreviate, text)


_CHAT_COUNT = re.compile(rf"\b({'|'.join(NUMBER_WORDS)}) people\b", re.IGNORECASE)
_CHAT_DAY = re.compile(rf"\b(?:{'|'.join(DAYS)})\b", re.IGNORECASE)
_CHAT_WORD = re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, _CHAT), key=len, reverse=True))})\b", re.IGNORECASE)

_TIME = re.compile(
    r"(?<![\w:.£$])(?:(\d{1,2}):(\d{2})(?:\s*([ap])\.?m\b\.?)?|(\d{1,2})(?:\.(\d{2}))?\s*([ap])\.?m\b\.?)(?![\w:])",
    re.IGNORECASE,
)
_MINUTES = {5: "five", 10: "ten", 15: "quarter", 20: "twenty", 25: "twenty five", 30: "half"}


def _times(text: str, rng: random.Random, values: frozenset[str]) -> str:
    def rewrite(match: re.Match[str]) -> str:
        digits, minute = match[1] or match[4], int(match[2] or match[5] or 0)
        half, hour = (match[3] or match[6] or "").lower(), int(digits)
        if minute > 59 or hour > 23 or (half and not 1 <= hour <= 12):
            return match[0]
        if half:
            hour = hour % 12 + (12 if half == "p" else 0)
        known = bool(half) or hour > 12 or digits.startswith("0")
        ways = _ways_to_say(hour, minute, known=known)
        full_stop = "." if match[0].endswith(".") and match.end() == len(text) else ""
        return rng.choice(ways) + full_stop if ways else match[0]

    return _TIME.sub(rewrite, text)


def _ways_to_say(hour: int, minute: int, *, known: bool) -> list[str]:
    """If it is not `known` which half of the day is meant, the words must not say it either."""
    ways = []
    if minute % 5 == 0:
        spoken = _spoken(hour, minute)
        ways.append(f"{spoken} {_part_of_day(hour)}" if known else spoken)
    if known:
        clock, half = (hour - 1) % 12 + 1, "am" if hour < 12 else "pm"
        ways += [f"{clock}{half}", f"{clock} {half}"] if minute == 0 else [f"{clock}:{minute:02}{half}"]
    return ways


def _spoken(hour: int, minute: int) -> str:
    to = minute > 30
    name = NUMBER_WORDS[(hour + to - 1) % 12]
    if minute == 0:
        return f"{name} o'clock"
    return f"{_MINUTES[60 - minute]} to {name}" if to else f"{_MINUTES[minute]} past {name}"


def _part_of_day(hour: int) -> str:
    if 3 <= hour < 12:
        return "in the morning"
    return "in the afternoon" if 12 <= hour < 18 else "in the evening" if 18 <= hour < 21 else "at night"


_COUNTED = r"people|persons?|nights?|days?|stars?|tickets?|guests?|adults|seats?|of us"
_WRITTEN_NUMBER = re.compile(
    rf"\bone(?=[ -](?:{_COUNTED})\b)|\b(?:{'|'.join(NUMBER_WORDS[1:])})\b"
    r"|(?<![\w:.,£$-])(?:[1-9]|1[0-2])(?![\w:-]|[.,]\d)",
    re.IGNORECASE,
)


def _numbers(text: str, rng: random.Random, values: frozenset[str]) -> str:
    def rewrite(match: re.Match[str]) -> str:
        word = match[0].lower()
        return NUMBER_WORDS[int(word) - 1] if word.isdigit() else NUMBERS[word]

    return _WRITTEN_NUMBER.sub(rewrite, text)


_CHOICES = (DAYS, ("north", "south", "east", "west", "centre"), ("cheap", "moderate", "expensive"))
_REGRETS = ("{other}, no wait, {said}", "{other}, sorry, i mean {said}", "{other} - actually, make that {said}")


def _change_of_mind(text: str, rng: random.Random, values: frozenset[str]) -> str:
    choices = [
        (match.span(), choice)
        for choice in _CHOICES
        for match in re.finditer(rf"\b(?:{'|'.join(choice)})\b", text, re.IGNORECASE)
        if not values or match[0].lower() in values  # with labels: only what is a value, not a part of a name
    ]
    if not choices:
        return text
    (start, end), choice = rng.choice(choices)
    said = text[start:end]
    other = rng.choice([word for word in choice if word != said.lower()])
    return text[:start] + rng.choice(_REGRETS).format(other=other, said=said) + text[end:]


_FUNCTIONS: dict[Perturbation, Callable[[str, random.Random, frozenset[str]], str]] = {
    "lowercase": _lowercase,
    "typos": _typos,
    "chat": _chat,
    "times": _times,
    "numbers": _numbers,
    "change-of-mind": _change_of_mind,
    "vowels": _vowels,
}
