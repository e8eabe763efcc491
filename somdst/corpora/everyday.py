"""Short forms and spoken times written out, as rules for lower-cased text: "2 ppl on fri, qtr past 5 in the afternoon"
reads as "2 people on friday, 17:15".

Only what can mean one thing is touched: "we sat" is no saturday, "five to seven" no time unless "minutes" or "in the
evening" says so, and "half past five" becomes 5:30, since nobody said which half of the day it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from somdst.corpora.rule import Rule

SHORT_FORMS = {
    "tmrw": "tomorrow", "tmr": "tomorrow", "tmrrw": "tomorrow", "tomo": "tomorrow", "2moro": "tomorrow",
    "2morrow": "tomorrow", "2day": "today", "2nite": "tonight", "tonite": "tonight", "nite": "night",
    "pls": "please", "plz": "please", "plse": "please", "thx": "thanks", "thnx": "thanks", "tnx": "thanks",
    "ty": "thank you", "u": "you", "ya": "you", "ur": "your", "r": "are", "ppl": "people", "pple": "people",
    "pax": "people", "cuz": "because", "coz": "because", "bcoz": "because", "bc": "because", "abt": "about",
    "gr8": "great", "b4": "before", "smth": "something", "sth": "something", "wanna": "want to", "gonna": "going to",
    "gotta": "have to", "gimme": "give me", "lemme": "let me", "idk": "i do not know", "dunno": "do not know",
    "btw": "by the way", "cu": "see you", "arnd": "around", "rn": "right now", "nr": "near", "k": "okay",
    "tue": "tuesday", "tues": "tuesday", "weds": "wednesday", "thu": "thursday", "thur": "thursday",
    "thurs": "thursday", "fri": "friday", "qtr": "quarter",
}  # fmt: skip
_DAYS_THAT_ARE_WORDS = {"mon": "monday", "wed": "wednesday", "sat": "saturday", "sun": "sunday"}

_NUMBER_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_HOURS = {name: hour for hour, word in enumerate(_NUMBER_WORDS, start=1) for name in (word, str(hour))}
_MINUTES = {
    "five": 5, "ten": 10, "quarter": 15, "a quarter": 15, "fifteen": 15, "twenty": 20, "twenty five": 25,
    "twenty-five": 25, "half": 30, "5": 5, "10": 10, "15": 15, "20": 20, "25": 25,
}  # fmt: skip


def _any(words: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


_HALF = r"(?P<half>[ap])(?:\.\s?m\b\.?|m\b)|in\s+the\s+(?P<part>morning|afternoon|evening)\b|(?P<night>at\s+night)\b"
_BEFORE = r"(?<![\w:.£$-])"
_COUNTED = r"(?!\s+(?:people|persons?|nights?|days?|guests?|stars?|tickets?|of\s+us)\b)"


def _twenty_four(hour: int, match: re.Match[str]) -> int | None:
    """The hour of the day that a match's "pm" or "in the evening" makes of an hour; None where it says neither."""
    if hour > 12:
        return hour
    if match["part"] == "morning" or match["half"] == "a":
        return hour % 12
    if match["night"]:
        return hour % 12 if hour in (12, 1, 2, 3, 4) else hour + 12
    return hour % 12 + 12 if match["part"] or match["half"] else None


def _clock(hour: int, match: re.Match[str], *, later: int = 0) -> str:
    """The time `later` minutes after the hour. Where it is open which half of the day is meant, so it stays: 5:15, not
    05:15."""
    known = _twenty_four(hour, match)
    minutes = (hour if known is None else known) * 60 + later
    if known is None:
        return f"{(minutes // 60 - 1) % 12 + 1}:{minutes % 60:02}"
    return f"{minutes // 60 % 24:02}:{minutes % 60:02}"


def _digits(match: re.Match[str]) -> str:
    hour, minute = int(match["hour"]), int(match["minute"] or 0)
    return _clock(hour, match, later=minute) if 1 <= hour <= 23 and minute < 60 else match[0]


def _spoken(match: re.Match[str]) -> str:
    minutes, hour = _MINUTES[match["minutes"]], _HOURS[match["hour"]]
    if match["side"] in ("past", "after"):
        return _clock(hour, match, later=minutes)
    clear = "quarter" in match["minutes"] or any(match[word] for word in ("unit", "clock", "half", "part", "night"))
    return _clock(hour, match, later=-minutes) if clear and minutes < 30 else match[0]


def _whole_hour(match: re.Match[str]) -> str:
    return _clock(_HOURS[match["hour"]], match)


RULES = (
    Rule(re.compile(r"\bw/(?!o\b)"), lambda _: "with "),
    Rule(re.compile(r"\bw/o\b"), lambda _: "without "),
    Rule(re.compile(r"/"), lambda _: " and "),
    Rule(re.compile(rf"(?<![\w'&])(?:{_any(SHORT_FORMS)})(?![\w'&])"), lambda match: SHORT_FORMS[match[0]]),
    Rule(
        re.compile(
            r"(?<![\w'-])(?<!\bthe )(?<!\bi )(?<!\bwe )(?<!\bhe )(?<!\bshe )(?<!\bthey )(?<!\byou )(?<!\bto )"
            rf"(?:{_any(_DAYS_THAT_ARE_WORDS)})(?![\w'-])"
        ),
        lambda match: _DAYS_THAT_ARE_WORDS[match[0]],
    ),
    Rule(
        re.compile(
            rf"{_BEFORE}(?P<minutes>{_any(_MINUTES)})\s+(?P<unit>minutes?\s+)?(?P<side>past|after|to|till|before)\s+"
            rf"(?P<hour>{_any(_HOURS)})(?![\w:.]\d|\w)(?P<clock>\s+o\s?'?\s?clock\b)?(?:\s*(?:{_HALF}))?{_COUNTED}"
        ),
        _spoken,
    ),
    Rule(
        re.compile(rf"{_BEFORE}(?P<hour>{_any(_HOURS)})\s+o\s?'?\s?clock\b(?:\s*(?:{_HALF}))?"),
        _whole_hour,
    ),
    Rule(re.compile(rf"{_BEFORE}(?P<hour>\d{{1,2}})(?:[:.](?P<minute>\d\d))?\s*(?:{_HALF})"), _digits),
)
