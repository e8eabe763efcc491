"""How text is made uniform before a model reads it: `normalise`, and `source_span` to find the way back.

Three kinds: "multiwoz" follows the preprocessing that the paper's data went through, written as tables of small pure
functions; "everyday" writes out short forms and spoken times before that; "lowercase" only lower-cases and tidies
spaces. Does not repair gold labels (`corpora/labels.py`) and makes no word pieces or special tokens (`encoding.py`): a
"[NULL]" that a user types is text like any other here. Also slots, values and pieces as text (`slot_words`, `spoken`,
`join_pieces`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from somdst.errors import InputError, no_such
from somdst.memory.schema import Slot, TextRules
from somdst.memory.state import DONTCARE, Value
from somdst.model import everyday
from somdst.model.everyday import Rule

CONTRACTIONS = {
    "it's": "it is", "that's": "that is", "what's": "what is", "there's": "there is", "there're": "there are",
    "don't": "do not", "doesn't": "does not", "didn't": "did not", "couldn't": "could not", "can't": "cannot",
    "won't": "will not", "aren't": "are not", "isn't": "is not", "wasn't": "was not", "weren't": "were not",
    "i'm": "i am", "i've": "i have", "i'd": "i would", "we've": "we have",
    "you'd": "you would", "you're": "you are", "you'll": "you will", "they're": "they are",
}  # fmt: skip

_REGULAR_PLURALS = (
    "restaurants hotels laptops dinners breakfasts prices places venues ranges meals locations areas kids cards uses "
    "dimensions includes computers machines ratings constraints requirements drives specifications hours"
)
SUFFIXES = {word: f"{word[:-1]} -s" for word in _REGULAR_PLURALS.split()} | {
    "lunches": "lunch -s", "inches": "inch -s", "businesses": "business -s", "policies": "policy -s",
    "families": "family -s", "children": "child -s", "cheaper": "cheap -er",
    "expensively": "expensive -ly", "moderately": "moderate -ly", "cheaply": "cheap -ly",
}  # fmt: skip

COMPOUNDS = {
    "kidfriendly": "kid friendly", "pricerange": "price range", "driverange": "drive range",
    "weightrange": "weight range", "batteryrating": "battery rating", "batterylife": "battery life",
    "harddrive": "hard drive", "anywhere": "any where", "upmarket": "expensive", "inpricey": "cheap",
}  # fmt: skip

NUMBERS = {word: str(number) for number, word in enumerate(everyday.NUMBER_WORDS, start=1)}

WORDS = CONTRACTIONS | SUFFIXES | COMPOUNDS | NUMBERS
"""Whole words only: the "one" in "phone" stays."""


def _replace_word(match: re.Match[str]) -> str:
    """Of a word said twice only the first is replaced, as in the paper's data: "restaurant two two" has "2 two"."""
    word, again = match[1], match[2] or ""
    new = WORDS.get(word)
    if new is None or _stands_before(match, new):
        return match[0]
    return new + again


def _stands_before(match: re.Match[str], word: str) -> bool:
    start = match.start() - len(word) - 1
    return start >= 0 and match.string.startswith(f"{word} ", start) and match.string[start - 1 : start] in ("", " ")


_SURROGATES: dict[int, str | None] = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")  # half a character: no UTF-8 for it
_MULTIWOZ_CHARACTERS: dict[int, str | None] = (
    _SURROGATES
    # ";" must go because it separates system from user in the paper's input.
    | {ord(old): new for old, new in {"‘": "'", "’": "'", ";": ",", "/": " and "}.items()}
    | {ord(old): None for old in '"“”<>@()'}
)
_CHARACTERS: dict[TextRules, dict[int, str | None]] = {
    "lowercase": _SURROGATES,
    "multiwoz": _MULTIWOZ_CHARACTERS,
    "everyday": {old: new for old, new in _MULTIWOZ_CHARACTERS.items() if old != ord("/")},  # "w/" is a word there
}

_MULTIWOZ_RULES = (
    # Patterns begin with what they look for and look back from there: several times faster than `\b` in front.
    Rule(re.compile(r"b(?<!\wb)(?:&|\s+and\s+)b\b"), lambda _: "bed and breakfast"),
    # The suffixes that a rule below splits off keep their hyphen, so that normal text stays as it is.
    Rule(re.compile(r"-(?!(?<=\s-)(?:s|er|ly)(?!\S))"), lambda _: " "),
    Rule(re.compile(r"[?.,!](?!(?<=\d.)\d)"), lambda match: f" {match[0]} "),
    Rule(re.compile(r"\.(?:\s+\.)+"), lambda _: "."),
    Rule(re.compile(r"'s(?<=\S's)(?!\S)(?<!\bit's)(?<!\bthat's)(?<!\bwhat's)(?<!\bthere's)"), lambda _: " 's"),
    Rule(re.compile(r"(\S{3,})(\s+\1(?!\S))?"), _replace_word),
    Rule(re.compile(r"good(?<!\Sgood)\s+bye(?!\S)"), lambda _: "goodbye"),
    Rule(re.compile(r"[0-9](?<!\S.)[0-9]*(?:\s+[0-9]+)+(?!\S)"), lambda match: "".join(match[0].split())),
)
_RULES: dict[TextRules, tuple[Rule, ...]] = {
    "lowercase": (),
    "multiwoz": _MULTIWOZ_RULES,
    "everyday": (*everyday.RULES, *_MULTIWOZ_RULES),
}


def normalise(text: str, kind: TextRules) -> str:
    """The text as a model reads it.

    >>> normalise("I'd like 2 cheaper B&B's; it's for Sunday, 10.30!", "multiwoz")
    "i would like 2 cheap -er bed and breakfast 's , it is for sunday , 10.30 !"
    >>> normalise("  Hello   WORLD ", "lowercase")
    'hello world'
    >>> normalise("2 ppl on Fri, quarter past 5 in the afternoon", "everyday")
    '2 people on friday , 17:15'
    """
    rules = _rules(kind)
    # Letter by letter outside ASCII: a final Greek sigma depends on its word, which `source_span` could not follow.
    text = text.lower() if text.isascii() else "".join(map(str.lower, text))
    text = text.translate(_CHARACTERS[kind])
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


def source_span(raw: str, normalised: str, start: int, end: int) -> tuple[int, int]:
    """The characters of the raw text that `normalised[start:end]` came from; all of it where that cannot be told.

    >>> raw = "A B&B, please"
    >>> normalise(raw, "multiwoz")
    'a bed and breakfast , please'
    >>> source_span(raw, "a bed and breakfast , please", 2, 19)
    (2, 5)
    """
    for kind in _RULES:
        aligned = _align(raw, kind)
        if aligned.text == normalised:
            return aligned.span(start, end)
    return 0, len(raw)


def _rules(kind: TextRules) -> tuple[Rule, ...]:
    try:
        return _RULES[kind]
    except KeyError:
        raise InputError(no_such("normalisation", kind, _RULES)) from None


class _Aligned(NamedTuple):
    """Text, and for each of its characters where in the raw text it came from."""

    text: str
    spans: list[tuple[int, int]]

    def span(self, start: int, end: int) -> tuple[int, int]:
        covered = self.spans[start:end]
        if not covered:
            return 0, 0
        return min(first for first, _ in covered), max(last for _, last in covered)

    def sub(self, pattern: re.Pattern[str], replacement: Callable[[re.Match[str]], str]) -> _Aligned:
        """As `pattern.sub`: what is replaced by something else comes from the whole of the match."""
        pieces: list[str] = []
        spans: list[tuple[int, int]] = []
        done = 0
        for match in pattern.finditer(self.text):
            new = replacement(match)
            if new == match[0]:
                continue
            pieces += self.text[done : match.start()], new
            spans += self.spans[done : match.start()]
            spans += [self.span(*match.span())] * len(new)
            done = match.end()
        return _Aligned("".join(pieces) + self.text[done:], spans + self.spans[done:])


def _align(raw: str, kind: TextRules) -> _Aligned:
    """`normalise` again, slower, keeping track of where each character came from; a test holds that they agree."""
    characters = [character.lower().translate(_CHARACTERS[kind]) for character in raw]
    aligned = _Aligned("".join(characters), [(i, i + 1) for i, new in enumerate(characters) for _ in new])
    for pattern, replacement in (*_RULES[kind], *_TIDY):
        aligned = aligned.sub(pattern, replacement)
    return aligned


_TIDY: Iterable[Rule] = (
    Rule(re.compile(r"\s+"), lambda _: " "),
    Rule(re.compile(r"\A | \Z"), lambda _: ""),
)


# Word pieces and slots

_JOINTS = [  # word pieces forget where spaces were; these are the spellings of the normalised labels
    (re.compile(r"(?<=\d) ([:.,]) (?=\d)"), r"\1"),
    (re.compile(r" ' s\b"), " 's"),
    (re.compile(r"(?<!\S)- (s|er|ly)\b"), r"-\1"),
    (re.compile(r" \| "), "|"),
    (re.compile(r"(?<!\S)([$£€]) (?=\d)"), r"\1"),
]


def listed_words(value: str) -> str:
    """A listed value as a turn says it: programmers write "guest_house"."""
    return value.lower().replace("_", " ")


def whole_words(words: str) -> re.Pattern[str]:
    """Finds these words where no other letter or digit touches them."""
    return re.compile(rf"(?<!\w){re.escape(words)}(?!\w)")


def saying(value: str) -> re.Pattern[str]:
    """Finds where a turn says a listed value."""
    return whole_words(listed_words(value))


def join_pieces(text: str) -> str:
    """Word pieces with spaces between them as people write them."""
    for pattern, replacement in _JOINTS:
        text = pattern.sub(replacement, text)
    return text


def spoken(value: Value) -> str:
    """A value as text: DONTCARE as words that a pretrained encoder knows."""
    return "dont care" if value is DONTCARE else str(value)


def value_of(text: str) -> Value | None:
    """The value that a text is, or None if it is empty."""
    text = text.strip()
    return DONTCARE if text in ("dont care", "dontcare") else text or None


_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[a-zA-Z])(?=[0-9])")


def slot_words(slot: Slot, *, plain: bool = True) -> str:
    """A slot's domain and name as words; `plain` also takes "Restaurants_1-cityName" apart.

    >>> slot_words(Slot.of("Restaurants_1", "cityName")), slot_words(Slot.of("hotel", "book day"))
    ('restaurants city name', 'hotel book day')
    """
    if not plain:  # as models of format 1 were trained
        return f"{slot.domain} {slot.name}".lower()
    domain = re.sub(r"[_\s]*\d+$", "", slot.domain) or slot.domain
    return f"{_words(domain)} {name_words(slot)}"


def name_words(slot: Slot) -> str:
    """
    >>> name_words(Slot.of("Restaurants_1", "cityName"))
    'city name'
    """
    return _words(slot.name)


def _words(name: str) -> str:
    return " ".join(_CAMEL.sub(" ", name.replace("_", " ")).lower().split())
