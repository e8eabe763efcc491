"""Repair of MultiWOZ's gold labels: many spellings of one value become one, and what is not a value becomes NULL.

Facts as tables, applied to the gold of all splits and never to what a model predicts. First the table for any slot,
then the slot's own. Text rules come before this, in `model/text.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from somdst.memory.schema import Slot
from somdst.memory.state import DONTCARE, Value
from somdst.model.text import normalise

DONTCARE_WORDS: Final = frozenset({"dontcare", "dont care", "don't care", "do not care"})
NULL_WORDS: Final = frozenset({"", "none", "not mentioned"})


def _spellings(table: Mapping[str, str]) -> dict[str, str]:
    """From "value: spelling, spelling" to a table from spelling to value."""
    return {spelling: value for value, spellings in table.items() for spelling in spellings.split(", ")}


ANY_SLOT: Final = _spellings(
    {
        "guest house": "guesthouse, guesthouses, guest",
        "multiple sports": "mutiple sports, sports, mutliple sports",
        "swimming pool": "swimmingpool, pool",
        "concert hall": "concerthall, concert",
        "nightclub": "night club",
        "museum": "mus, musuem",
        "architecture": "ol, architectural",
        "college": "colleges, coll",
        "church": "churches",
        "centre": "center, center of town, near city center, cen, ce, town center, centre of cambridge, city center, "
        "scentre, town centre, in town, centre of town",
        "north": "in the north, north part of town",
        "east": "east side, east area",
        "west": "west part of town",
        "south": "the south",
        "moderate": "mode, moderate -ly, mo",
        "friday": "next friday",
        "monday": "monda",
        "free": "free parking",
        "yes": "free internet, y",
        "no": "n, does not",
        "4": "4 star, 4 stars",
        "3": "3 .",
        "dontcare": "any, does not care",
        "none": "not, not men, not mendtioned, empty, fun, art, cb30aq, 0 star rarting",
    }
)

BY_NAME: Final = {
    "area": _spellings({"none": "moderate", "north": "no", "west": "we", "centre": "cent"}),
    "day": _spellings({"none": "t, no", "wednesday": "we"}),
    "pricerange": _spellings({"cheap": "ch"}),
    "internet": _spellings({"yes": "free"}),
}
"""For slots of this name in any domain; "book day" counts as "day"."""

BY_SLOT: Final = {
    "hotel-type": _spellings(
        {
            "none": "nigh, moderate -ly priced, bed and breakfast, centre, venetian, intern, a cheap -er hotel",
            "hotel": "hotel with free parking and free wifi, 4, 3 star hotel",
        }
    ),
    "hotel-internet": _spellings({"none": "4"}),
    "hotel-pricerange": _spellings({"none": "2"}),
    "attraction-type": _spellings({"none": "gastropub, la raza, galleria, gallery, science, m"}),
    "attraction-area": _spellings({"none": "norwich, ely, museum, same area as hotel"}),
    "restaurant-area": _spellings({"none": "stansted airport, cambridge, silver street"}),
}


def clean(slot: Slot, raw: str) -> Value | None:
    """The value that an annotator's text means; None for NULL.

    >>> clean(Slot.of("hotel", "area"), "Town Centre")
    'centre'
    >>> clean(Slot.of("hotel", "area"), "not mentioned") is None
    True
    """
    if raw in NULL_WORDS:
        return None
    if raw in DONTCARE_WORDS:
        return DONTCARE
    return repair(slot, normalise(raw, "multiwoz"))


def repair(slot: Slot, value: str) -> Value | None:
    """The repaired value of a normalised label; None for NULL."""
    value = ANY_SLOT.get(value, value)
    value = BY_NAME.get(slot.name.removeprefix("book "), {}).get(value, value)
    value = BY_SLOT.get(slot, {}).get(value, value)
    if value in NULL_WORDS:
        return None
    return DONTCARE if value in DONTCARE_WORDS else value
