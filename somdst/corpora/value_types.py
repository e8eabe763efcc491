"""What kind of thing an open slot holds, read off its values: times, dates, counts, names and so on.

`type_of` recognises a type, `new_value` invents another value of it, and `ordered_pair` two of which one is earlier. It
is for making conversations (`made.py`): an unknown type is None, and then only the written values are used. Nothing
here reads what users say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import Final, Literal

from somdst.memory.filling import ONES, TENS

ValueType = Literal["time", "date", "count", "money", "phone", "email", "street", "person"]

DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS_TEXT = "january february march april may june july august september october november december"
MONTHS: Final = tuple(_MONTHS_TEXT.split())
_FIRST_NAMES_TEXT = (
    "adam aisha alan alice amir ana andrew anna anton arthur ben bella carla carlos chen chloe clara daniel david "
    "diana dmitri elena eli ella emil emma eric erin eva fatima felix fiona frank george grace greta hana hannah "
    "harry helen henry hugo ian ida ines irene isaac ivan jack jane jean joe john jonas julia kai karim kate kofi "
    "lara lars laura layla lea leo liam lily lin lisa lucas lucia luis maria mark marta martin maya mei mia milo "
    "mohamed nadia naomi nina noah nora olga oliver omar oscar pablo paul pedro peter petra philip priya rachel ravi "
    "rita robert rosa ruth sam samira sara simon sofia stefan susan tara tessa theo thomas tina tom tomas vera victor "
    "wei yara yuki yusuf zoe"
)
FIRST_NAMES: Final = tuple(_FIRST_NAMES_TEXT.split())
_LAST_NAMES_TEXT = (
    "adams ahmed baker barros becker bell berg brooks byrne carter chan chavez cohen costa cruz davis diaz dubois "
    "evans fischer flores foster garcia gray green gupta hall hansen hayes hill hughes ito ivanov jensen johnson "
    "jones kaya keller kelly khan kim klein kovacs kumar larsen lee lewis lopez marsh martin mendes meyer mills moore "
    "morgan murphy nguyen novak o'brien okafor olsen park patel perez petrov porter quinn reed rossi russo sato "
    "schmidt shah silva singh smith stone tanaka taylor torres turner vogel walsh wang ward weber west white wilson "
    "wong wood wright yilmaz young"
)
LAST_NAMES: Final = tuple(_LAST_NAMES_TEXT.split())
_ROADS_TEXT = "street road lane avenue drive close hill way court place square gardens parade row"
ROADS: Final = tuple(_ROADS_TEXT.split())
_ROAD_NAMES_TEXT = (
    "abbey ash bank beech bridge brook canal castle cedar chapel cherry church dock elm farm forest garden garnet "
    "grove harbour hazel high king's lake lark lime linden maple market meadow mill north oak orchard park pine "
    "poplar queen's quarry river rose school south spring station temple tower victoria walnut water willow wood york"
)
_ROAD_NAMES: Final = tuple(_ROAD_NAMES_TEXT.split())

_DAY = rf"(?:{'|'.join(DAYS)})"
_MONTH = rf"(?:{'|'.join(f'{month}|{month[:3]}' for month in MONTHS)}|sept)"
_NTH = (
    r"(?:\d{1,2}(?:st|nd|rd|th)|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth|last)"
)
_NUMBER = rf"(?:\d+|a dozen|(?:{'|'.join(TENS)})[- ](?:{'|'.join(ONES[1:10])})|{'|'.join((*ONES[1:], *TENS))})"
_PART = r"(?:early|late|in the|morning|afternoon|evening|night|noon|lunchtime|tonight)"
_FORMS: Final[dict[ValueType, tuple[str, ...]]] = {
    "count": (_NUMBER,),
    "time": (
        r"\d{1,2}(?:[:.]\d\d)?(?: ?[ap]\.?m\.?)?(?: (?:sharp|o'clock))?",
        rf"(?:half|quarter|ten|twenty|five)(?: (?:past|to))? {_NUMBER}(?: ?[ap]m)?",
        rf"{_NUMBER} (?:o'clock|in the (?:morning|afternoon|evening)|[ap]m)",
        r"noon|midnight|midday",
    ),
    "date": (
        rf"(?:(?:next|this|on|last|every) )?{_DAY}s?(?: (?:{_PART} ?)+| week| the {_NTH})?",
        rf"(?:the )?{_NTH}(?: (?:of )?{_MONTH})?(?: \d{{4}})?",
        rf"\d{{1,2}} {_MONTH}(?: \d{{4}})?|{_MONTH} (?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?: \d{{4}})?",
        rf"today|tomorrow|tonight|yesterday|(?:tomorrow|today|this) {_PART}|(?:early|mid) {_MONTH}",
        r"the day (?:after tomorrow|before yesterday)|(?:this|next) (?:week|weekend|month)",
        rf"in {_NUMBER} (?:days|weeks)",
        r"\d{1,4}[/-]\d{1,2}(?:[/-]\d{1,4})?|\d{1,2}\.\d{1,2}\.\d{4}",
    ),
    "money": (
        r"[£$€] ?[\d.,]+k?(?: (?:a|per) \w+)?",
        rf"(?:[\d.,]+|{_NUMBER}|(?:a|one|two|three|five|six) hundred)"
        r" ?(?:euros?|dollars|pounds|bucks|quid|francs|€|£|k)(?: (?:a|per) \w+)?",
    ),
    "phone": (r"[+(]?\d[\d ().-]{5,}\d(?: ext \d+)?",),
    "email": (r"\S+@\S+",),
    "street": (rf"\d+[a-z]? (?:[\w'.]+ )+(?:{'|'.join(ROADS)})", r"(?:flat|unit) .*"),
    "person": (rf"(?:(?:mr|mrs|ms|dr)\.? )?(?:{'|'.join(FIRST_NAMES)})(?: [\w'.-]+){{0,2}}",),
}
_PATTERNS: Final = {type_: re.compile("|".join(forms)) for type_, forms in _FORMS.items()}
_ENOUGH: Final[dict[ValueType, float]] = {"person": 0.2, "street": 0.5, "count": 0.75}
"""Share of a slot's values that must look like the type; for other types `_USUAL_SHARE`."""
_USUAL_SHARE = 0.6
_NOT_A_NAME = re.compile(r"^(?:a|an|the|my|our|in|at|for)\b|\d| (?:and|&) ")


def type_of(values: Sequence[str]) -> ValueType | None:
    """The type that most of the values have.

    >>> type_of(["friday", "the 3rd of june", "tomorrow"]), type_of(["3", "twelve"]), type_of(["blue", "red"])
    ('date', 'count', None)
    """
    for type_, pattern in _PATTERNS.items():
        found = sum(bool(pattern.fullmatch(value)) for value in values)
        if found >= _ENOUGH.get(type_, _USUAL_SHARE) * len(values):
            if type_ == "person" and sum(bool(_NOT_A_NAME.search(value)) for value in values) > 0.2 * len(values):
                continue
            return type_
    return None


def new_value(type_: ValueType, values: Sequence[str], rng: Random) -> str | None:
    """Another value of the type, in the style of the written ones; None where inventing one would be unwise."""
    match type_:
        case "time":
            return _time(rng)
        case "date":
            # "yesterday" and "every friday" belong to other slots than "tomorrow"
            ahead = any(value in ("tomorrow", "next monday", "next friday", "today") for value in values)
            return _date(rng) if ahead and not any("ago" in v or "last" in v or "every" in v for v in values) else None
        case "count":
            return _count(values, rng)
        case "phone":
            return _phone(rng)
        case "email":
            name = f"{rng.choice(FIRST_NAMES)}{rng.choice(('.', '_', ''))}{rng.choice(LAST_NAMES)}"
            return f"{name}@{rng.choice(_HOSTS)}".replace("'", "")
        case "street":
            return f"{rng.randrange(1, 220)} {rng.choice(_ROAD_NAMES)} {rng.choice(ROADS)}"
        case "person":
            return _person(values, rng)
        case "money":
            return None


_HOSTS: Final = ("example.com", "example.org", "mail.example", "post.example", "example.co.uk", "example.net")


def _time(rng: Random) -> str:
    hour, minute = rng.randrange(1, 13), rng.choice(("00", "15", "30", "45", "10", "20", "40", "50"))
    half = rng.choice(("am", "pm", " am", " pm"))
    return rng.choice(
        (
            f"{rng.randrange(7, 23)}:{minute}",
            f"{hour}:{minute}{half}",
            f"{hour}{half}",
            f"half past {ONES[hour]}",
            f"quarter {rng.choice(('past', 'to'))} {ONES[hour]}",
            f"{hour} o'clock",
        )
    )


def _date(rng: Random) -> str:
    day, month = rng.randrange(1, 29), rng.choice(MONTHS)
    return rng.choice(
        (
            rng.choice(DAYS),
            rng.choice(DAYS),
            f"next {rng.choice(DAYS)}",
            f"the {_ordinal(day)}",
            f"{month} {day}",
            f"{day} {month}",
            f"the {_ordinal(day)} of {month}",
            f"{month} {_ordinal(day)}",
            f"{rng.choice(DAYS)} the {_ordinal(day)}",
        )
    )


def _ordinal(day: int) -> str:
    ending = "th" if 10 < day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


def _count(values: Sequence[str], rng: Random) -> str:
    known = [int(value) for value in values if value.isdigit()] or [2, 12]
    number = rng.randint(min(known), max(known)) if max(known) <= 60 else rng.choice(known) + rng.choice((-5, 5, 10))
    return ONES[number] if 0 < number < 13 and rng.random() < 0.4 else str(max(number, 2))


def _phone(rng: Random) -> str:
    digits = [str(rng.randrange(10)) for _ in range(4)]
    start = rng.choice(("555 0", "07700 90", "020 7946 0", "0161 496 0", "555-0", "+44 7700 90", "312 555 0"))
    return start + "".join(digits[: 4 if start.endswith("90") else 3])


def _person(values: Sequence[str], rng: Random) -> str:
    first, last = rng.choice(FIRST_NAMES), rng.choice(LAST_NAMES)
    long = sum(" " in value for value in values) / len(values)
    if rng.random() >= long:
        return first
    return f"{rng.choice(('mr', 'mrs', 'ms', 'dr'))} {last}" if rng.random() < 0.1 else f"{first} {last}"


def ordered_pair(type_: ValueType | None, values: Sequence[str], rng: Random) -> tuple[str, str] | None:
    """Two times or dates of which the first is clearly the earlier one; None for other types.

    >>> ordered_pair("date", ["tomorrow", "friday"], Random(1))
    ('the 4th', 'the 16th')
    """
    if type_ == "time":
        early, late = sorted(rng.sample(range(8 * 4, 21 * 4), 2))
        return _clock(early, late, rng)
    if type_ == "date" and new_value("date", values, rng):
        early, late = sorted(rng.sample(range(1, 29), 2))
        month = rng.choice(MONTHS)
        form = rng.choice((f"{month} {{0}}", f"{{0}} {month}", f"the {{1}} of {month}", "the {1}", f"{month} {{1}}"))
        return form.format(early, _ordinal(early)), form.format(late, _ordinal(late))
    return None


def _clock(early: int, late: int, rng: Random) -> tuple[str, str]:
    """Two times of the day, in quarters of an hour, in the same style."""
    style = rng.randrange(3)
    texts = []
    for quarters in (early, late):
        hour, minute = quarters // 4, f":{quarters % 4 * 15:02}"
        clock, half = (hour - 1) % 12 + 1, "am" if hour < 12 else "pm"
        short = "" if minute == ":00" else minute
        texts.append((f"{hour}{minute}", f"{clock}{short} {half}", f"{clock}{short}{half}")[style])
    return texts[0], texts[1]
