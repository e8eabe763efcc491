"""What to ask the user next: `what_to_ask` lists writes to confirm, then slots that are still empty, as questions.

A schema may have its own words for a slot, `ask` and `confirm`. Else they come from the description: "number of nights"
becomes "How many nights?"; if that is missing or is not a short phrase, from the name. Does not decide which writes
are held back; see `step.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from somdst.memory.schema import Schema, Slot
from somdst.memory.state import DONTCARE
from somdst.tracking.records import Change, JsonRecord, JsonValue, Snapshot

LONGEST_PHRASE = 60
"""Characters. A longer description explains; it is not a phrase to put into a question."""
MOST_CHOICES = 6
"""A question names the values of a closed list if there are at most this many."""
_INDIRECT = re.compile(r"(how|what|when|where|which|who|whose|why|whether|if)\b")


@dataclass(frozen=True, slots=True)
class Question(JsonRecord):
    """Something to ask the user."""

    slot: str
    kind: Literal["confirm", "ask"]
    """`confirm`: a write was held back, and the user should say whether it is right. `ask`: the slot is empty."""
    question: str
    """The question, in words."""
    value: JsonValue | None = None
    """For `confirm`: the value that was held back; null where the write would empty the slot."""
    values: tuple[str, ...] | None = None
    """The values that the slot may take; null where it takes any text."""


def what_to_ask(snapshot: Snapshot, schema: Schema, slots: Sequence[str] | None = None) -> tuple[Question, ...]:
    """Writes to confirm, oldest first, then empty slots.

    The empty slots are all required ones, those of the domains in play first; if the schema requires none, all slots of
    the domains in play. Both are in the order in which the schema was written. Or they are those of `slots`, in the
    order given.
    """
    wanted = [schema[slot] for slot in slots] if slots is not None else _to_fill(snapshot, schema)
    held = sorted(snapshot.pending.values(), key=lambda item: (item.turn, item.slot))
    return (
        *(Question(item.slot, "confirm", item.question, item.after, _values(item.slot, schema)) for item in held),
        *(
            Question(slot, "ask", ask(slot), values=slot.values)
            for slot in wanted
            if slot not in snapshot.state and slot not in snapshot.pending
        ),
    )


def _values(slot: str, schema: Schema) -> tuple[str, ...] | None:
    return schema[slot].values if slot in schema else None  # the write may be of an earlier schema


def _to_fill(snapshot: Snapshot, schema: Schema) -> list[Slot]:
    """The slots to ask for. A domain is in play if it has a value or a write to confirm; one domain alone always is."""
    known = {schema[slot].domain for slot in (*snapshot.state, *snapshot.pending) if slot in schema}
    in_play = known if len(schema.domains) > 1 else set(schema.domains)
    if required := [slot for slot in schema.written if slot.required]:
        return sorted(required, key=lambda slot: slot.domain not in in_play)
    return [slot for slot in schema.written if slot.domain in in_play]


# Words


def ask(slot: Slot) -> str:
    """What to ask about an empty slot.

    >>> ask(Slot.of("hotel", "book stay", description="number of nights"))
    'How many nights?'
    >>> ask(Slot.of("hotel", "book_day"))
    'What is the hotel book day?'
    >>> ask(Slot.of("pizza", "size", description="how big it is", values=["small", "large"]))
    'Can you tell me how big it is: small or large?'
    >>> ask(Slot.of("hotel", "parking", description="Whether the hotel has parking.", values=["yes", "no"]))
    'Does it matter whether the hotel has parking?'
    """
    if slot.ask:
        return slot.ask
    phrase = _phrase(slot)
    if phrase.startswith(("whether ", "if ")):
        return f"Does it matter {phrase}?"
    choices = f": {_either(slot.values)}" if slot.values and 1 < len(slot.values) <= MOST_CHOICES else ""
    if phrase.startswith("number of "):
        return f"How many {phrase.removeprefix('number of ')}{choices}?"
    if phrase.startswith(("kind of ", "type of ")):
        return f"What {phrase}{choices}?"
    if _INDIRECT.match(phrase):
        return f"Can you tell me {phrase}{choices}?"
    return f"What is the {phrase or _name(slot)}{choices}?"


def confirm(change: Change, slot: Slot) -> str:
    """What to ask about a write that was held back.

    >>> from somdst.memory.operations import Operation
    >>> stay = Slot.of("hotel", "book stay", description="number of nights")
    >>> confirm(Change(stay, Operation.UPDATE, None, "3"), stay)
    'Did you mean 3 for the number of nights?'
    """
    phrase = _phrase(slot)
    words = phrase if phrase and not _INDIRECT.match(phrase) else _name(slot)
    if change.after is None:
        return f"Should I forget {'any' if change.before is DONTCARE else change.before} for the {words}?"
    if change.after is DONTCARE:
        return f"Is any {words} fine?"
    if slot.confirm:
        return slot.confirm.replace("{value}", change.after)
    return f"Did you mean {change.after} for the {words}?"


def _phrase(slot: Slot) -> str:
    """The description up to its first comma or full stop, to stand inside a question; empty where it is too long. The
    full stop of an abbreviation ends no sentence: what comes behind it starts with a small letter, or is one more."""
    phrase = re.split(r"[,;:(]|(?<!\.\w)\.(?=\s+[A-Z]|\s*$)", " ".join(slot.description.split()))[0].strip()
    phrase = re.sub(r"^(the|a|an) ", "", phrase, flags=re.IGNORECASE)
    if phrase[1:2].islower():  # not an abbreviation
        phrase = phrase[0].lower() + phrase[1:]
    return phrase if len(phrase) <= LONGEST_PHRASE else ""


def _name(slot: Slot) -> str:
    return f"{slot.domain} {slot.name}".replace("_", " ")


def _either(values: Sequence[str]) -> str:
    return f"{', '.join(values[:-1])} or {values[-1]}"
