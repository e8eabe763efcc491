"""Short forms and spoken times written out, as rules for lower-cased text: "2 ppl on fri, qtr past 5 in the afternoon"
reads as "2 people on friday, 17:15".

Only what can mean one thing is touched: "we sat" is not a Saturday, "five to seven" is not a time unless "minutes" or
"in the evening" says so, and "half past five" becomes 5:30, since nobody said which half of the day it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple


class Rule(NamedTuple):
    """Every match of `pattern` is replaced by what `replacement` makes of it."""

    pattern: re.Pattern[str]
    replacement: Callable[[re.Match[str]], str]


SHORT_FORMS = {
    "tmrw": "tomorrow", "tmr": "tomorrow", "tmrrw": "tomorrow", "tomo": "tomorrow", "2moro": "tomorrow",
    "2morrow": "tomorrow", "2day": "today", "2nite": "tonight", "tonite": "tonight", "nite": "night",
    "pls": "please", "plz": "please", "plse": "please", "thx": "thanks", "thnx": "thanks", "tnx": "thanks",
    "ty": "thank you", "u": "you", "ya": "you", "ur": "your", "r": "are", "ppl": "people", "pple": "people",
    "pax": "people", "cuz": "because", "coz": "because", "bcoz": "because", "bc": "because", "abt": "about",
    "gr8": "great", "b4": "before", "smth": "something", "sth": "something", "wanna": "want to", "gonna": "going to",
    "gotta": "have to", "gimme": "give me", "lemme": "let me", "idk": "i do not know", "dunno": "do not know",
    "btw": "by the way", "cu": "see you", "arnd": "around", "rn": "right now", "nr": "near",
    "qtr": "quarter",
}  # fmt: skip
_DAYS = {
    "mon": "monday", "tue": "tuesday", "tues": "tuesday", "weds": "wednesday", "thu": "thursday", "thur": "thursday",
    "thurs": "thursday", "fri": "friday",
}  # fmt: skip
_DAYS_THAT_ARE_WORDS = {"wed": "wednesday", "sat": "saturday", "sun": "sunday"}

NUMBER_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_HOURS = {name: hour for hour, word in enumerate(NUMBER_WORDS, start=1) for name in (word, str(hour))}
_MINUTES = {
    "five": 5, "ten": 10, "quarter": 15, "a quarter": 15, "fifteen": 15, "twenty": 20, "twenty five": 25,
    "twenty-five": 25, "half": 30, "5": 5, "10": 10, "15": 15, "20": 20, "25": 25,
}  # fmt: skip


def _any(words: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


_AM_PM = r"(?P<half>[ap])(?:\.\s?m\b\.?|m\b)"
_PART = r"in\s+the\s+(?P<part>morning|afternoon|evening)\b|(?P<night>at\s+night)\b"
_ALONE = r"(?<![\w:.£$-])"
_NO_COUNT = r"(?<!\bfor )(?<!\bof )(?<!\bwith )"
_NO_RANGE = r"(?<!\bfrom )(?<!\bbetween )"


def _twenty_four(hour: int, match: re.Match[str]) -> int | None:
    """The hour of the day that a match's "pm" or "in the evening" makes of an hour; None where it says neither."""
    said = match.groupdict()
    if hour > 12:
        return hour
    if said["part"] == "morning" or said.get("half") == "a":
        return hour % 12
    if said["night"]:
        return hour % 12 if hour in (12, 1, 2, 3, 4) else hour + 12
    return hour % 12 + 12 if said["part"] or said.get("half") else None


def _clock(hour: int, match: re.Match[str], *, later: int = 0) -> str:
    """The time `later` minutes after the hour. If it is not said which half of the day is meant, it stays open: 5:15,
    not 05:15."""
    known = _twenty_four(hour, match)
    if known == 0 and later < 0 and not match["night"]:
        known = 12  # "quarter to twelve in the morning" is before noon
    minutes = (hour if known is None else known) * 60 + later
    if known is None:
        return f"{(minutes // 60 - 1) % 12 + 1}:{minutes % 60:02}"
    return f"{minutes // 60 % 24:02}:{minutes % 60:02}"


def _digits(match: re.Match[str]) -> str:
    hour, minute = int(match["hour"]), int(match["minute"] or 0)
    return _clock(hour, match, later=minute) if 1 <= hour <= 23 and minute < 60 else match[0]


def _spoken(match: re.Match[str]) -> str:
    """Ten past five and twenty to five are times; five after seven and ten to five only if something else says so."""
    minutes, hour, side = _MINUTES[match["minutes"]], _HOURS[match["hour"]], match["side"]
    said = match["unit"] or match["clock"] or minutes in (15, 20, 25)  # more than hours go to
    in_words = not match["minutes"].isdigit() and (match["part"] or match["night"])
    if not (side == "past" or said or in_words or (side == "after" and minutes == 30)):
        return match[0]
    if side in ("past", "after"):
        return _clock(hour, match, later=minutes)
    return _clock(hour, match, later=-minutes) if minutes < 30 else match[0]


def _whole_hour(match: re.Match[str]) -> str:
    return _clock(_HOURS[match["hour"]], match)


RULES = (
    Rule(re.compile(r"\bw/(?!o\b)"), lambda _: "with "),
    Rule(re.compile(r"\bw/o\b"), lambda _: "without "),
    Rule(re.compile(r"/"), lambda _: " and "),
    Rule(re.compile(rf"(?<![\w'&.-])(?:{_any(SHORT_FORMS)})(?![\w'&-]|\.\w)"), lambda match: SHORT_FORMS[match[0]]),
    Rule(re.compile(rf"(?<![\w'&.])(?:{_any(_DAYS)})(?![\w'&]|\.\w)"), lambda match: _DAYS[match[0]]),
    Rule(
        re.compile(
            r"(?<![\w'&.])(?<!\bthe )(?<!\bi )(?<!\bwe )(?<!\bhe )(?<!\bshe )(?<!\bthey )(?<!\byou )(?<!\bto (?=w))"
            rf"(?:{_any(_DAYS_THAT_ARE_WORDS)})(?![\w'&]|\.\w)"
            # "wed like" is "we'd like"
            r"(?!\s+(?:like|love|prefer|rather|be|also|appreciate|need|want|have|really|both|all|just|still|better)\b)"
        ),
        lambda match: _DAYS_THAT_ARE_WORDS[match[0]],
    ),
    Rule(
        re.compile(
            rf"{_ALONE}{_NO_RANGE}(?P<minutes>{_any(_MINUTES)})\s+(?P<unit>minutes?\s+)?"
            rf"(?P<side>past|after|to|till|before)\s+(?P<hour>{_any(_HOURS)})(?![\w:.]\d|\w)"
            rf"(?P<clock>\s+o\s?'?\s?clock\b)?(?:\s*(?:{_AM_PM}|{_PART}))?"
            r"(?!\s+(?:people|persons?|nights?|days?|guests?|stars?|tickets?|of\s+us)\b)"
        ),
        _spoken,
    ),
    Rule(
        re.compile(rf"{_ALONE}(?P<hour>{_any(_HOURS)})\s+o\s?'?\s?clock\b(?:\s*(?:{_AM_PM}|{_PART}))?"),
        _whole_hour,
    ),
    Rule(
        re.compile(
            rf"{_ALONE}(?P<hour>\d{{1,2}})(?:[:.](?P<minute>\d\d))?\s*(?:{_AM_PM}|(?<=\d[:.]\d\d\s)(?:{_PART}))"
        ),
        _digits,
    ),
    Rule(re.compile(rf"{_ALONE}{_NO_COUNT}{_NO_RANGE}(?P<hour>{_any(_HOURS)})\s+(?:{_PART})"), _whole_hour),
)
