"""Made-up turns in which the user takes something back: another value for a slot, any value, or none.

Corpora of tasks that end well have few of them, and people do it often. The sentences name the slot or what is taken
back, so that it is always clear which slot is meant.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from somdst.dialogue import Dialogue, Turn
from somdst.learn.wrong_states import ValuePool
from somdst.schema import Slot
from somdst.state import DONTCARE, State, Value

_ANOTHER = (
    "actually, make the {slot} {value}",
    "can you change the {slot} to {value}?",
    "I changed my mind: {value} for the {slot}, please.",
    "sorry, the {slot} should be {value}",
)
_NOT_THE_OLD = ("sorry, I meant {value}, not {old}.", "{value} instead of {old}, please.", "no, {value}, not {old}")
_BY_NAME = {
    "leaveat": ("actually, make the {domain} leave at {value}", "I would rather leave at {value}"),
    "arriveby": ("make the {domain} arrive by {value} instead", "actually, I have to arrive by {value}."),
    "departure": ("I will leave from {value} instead.", "actually, the {domain} should leave from {value}"),
    "destination": ("I want to go to {value} instead.", "actually, the {domain} should go to {value}"),
    "day": ("actually, make it {value}.", "{value} would be better", "let us do {value} instead"),
    "people": ("make that {value} people", "we will be {value} people after all."),
    "stay": ("make it {value} nights instead.", "actually we will stay {value} nights"),
    "time": ("make it {value} instead", "can we come at {value} instead?"),
}
_ANY = (
    "the {slot} does not matter any more",
    "any {slot} is fine after all.",
    "actually, I do not care about the {slot}",
)
_NONE = ("forget the {slot}, please", "please remove the {slot}.", "take the {slot} out again")

_SPELLED_OUT = {"leaveat": "departure time", "arriveby": "arrival time", "pricerange": "price range"}
_ANYTHING_ELSE = "Is there anything else I can help you with?"
_ANOTHER_RATE, _ANY_RATE = 0.7, 0.15


def revise(
    dialogue: Dialogue, number: int, after: State, pool: ValuePool, rng: random.Random
) -> tuple[Dialogue, State] | None:
    """The dialogue up to this turn and one turn more, in which the user takes a slot back, and the state after it.

    None where there is nothing to take back.
    """
    found = list(_takeable(after))
    if not found:
        return None
    slot = rng.choice(found)
    user, value = _say(slot, after, pool, rng)
    turns = dialogue.turns
    system = turns[number + 1].system if number + 1 < len(turns) else ""
    turn = Turn(system or _ANYTHING_ELSE, user, domain=slot.domain)
    return replace(dialogue, turns=(*turns[: number + 1], turn)), after.with_values({slot: value})


def _takeable(state: State) -> Iterator[Slot]:
    """Slots whose values can be said: not "yes", which nobody would say in these sentences, nor one of several."""
    for name, value in state.items():
        if value is DONTCARE or not (value in ("yes", "no") or "|" in str(value)):
            yield Slot.of(*name.split("-", 1))


def _say(slot: Slot, state: State, pool: ValuePool, rng: random.Random) -> tuple[str, Value | None]:
    old, new, chance = state[slot], pool.draw(slot, rng), rng.random()
    words = {"slot": _words(slot), "domain": slot.domain, "value": str(new), "old": str(old)}
    if chance < _ANOTHER_RATE and new not in (None, old, DONTCARE, "yes", "no") and "|" not in str(new):
        return rng.choice(_ways(slot, state)).format(**words), new
    if chance < _ANOTHER_RATE + _ANY_RATE and old is not DONTCARE:
        return rng.choice(_ANY).format(**words), DONTCARE
    return rng.choice(_NONE).format(**words), None


def _ways(slot: Slot, state: State) -> list[str]:
    """How to say that it is another value: shorter where no other slot can be meant."""
    ways = [*_ANOTHER]
    if sum(_kind(other) == _kind(slot) for other in state) == 1:
        ways += _BY_NAME.get(_last_word(slot), ())
    if state[slot] is not DONTCARE and list(state.values()).count(state[slot]) == 1:
        ways += _NOT_THE_OLD
    return ways


def _kind(slot: str) -> str:
    """Slots of one kind take values that look alike: "make it 17:45" may mean any time."""
    name = _last_word(slot)
    return {"leaveat": "time", "arriveby": "time", "departure": "place", "destination": "place"}.get(name, name)


def _last_word(slot: str) -> str:
    return slot.split("-", 1)[1].split()[-1]


def _words(slot: Slot) -> str:
    """As a person would call it: "hotel day", not "hotel book day"."""
    name = slot.name.removeprefix("book ").replace("_", " ")
    return f"{slot.domain} {_SPELLED_OUT.get(name, name)}"
