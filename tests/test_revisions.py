"""Made-up turns in which the user takes something back: what they say is what their label says."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("torch")

from somdst.dialogue import Dialogue, Turn
from somdst.learn.batches import Example
from somdst.learn.revisions import revise
from somdst.learn.wrong_states import ValuePool
from somdst.state import DONTCARE, State

STATE = State({"hotel-area": "north", "hotel-book day": "friday", "train-day": "monday", "hotel-internet": "yes"})
DIALOGUE = Dialogue("D1", (Turn("", "Hello"), Turn("Booked.", "Thanks", STATE), Turn("Which day?", "Bye")))
POOL = ValuePool({"hotel-area": ("south",), "hotel-book day": ("sunday",), "train-day": ("tuesday",)})


def test_one_slot_is_taken_back_and_the_sentence_says_so() -> None:
    outcomes = set()
    for seed in range(300):
        found = revise(DIALOGUE, 1, STATE, POOL, random.Random(seed))
        assert found is not None
        dialogue, after = found
        turn = dialogue.turns[-1]
        assert dialogue.turns[:-1] == DIALOGUE.turns[:2] and turn.system == "Which day?"
        (slot,) = (slot for slot in STATE if after.get(slot) != STATE[slot])
        assert slot != "hotel-internet", 'nobody says "yes instead of no"'
        assert turn.domain == slot.split("-")[0]
        value = after.get(slot)
        outcomes.add((slot, value))
        if value not in (None, DONTCARE):
            assert str(value) in turn.user
        if str(STATE[slot]) not in turn.user:  # then the slot itself is named, with its domain: both have a day
            assert slot.replace("-book ", " ").replace("-", " ") in turn.user
    slots = ("hotel-area", "hotel-book day", "train-day")
    assert outcomes == {(s, v) for s in slots for v in (None, DONTCARE, *POOL.values[s])}


def test_shorter_sentences_where_only_one_slot_can_be_meant() -> None:
    state = State({"train-leaveat": "10:00"})
    pool = ValuePool({"train-leaveat": ("17:45",)})
    said = {revise(DIALOGUE, 2, state, pool, random.Random(seed))[0].turns[-1].user for seed in range(200)}  # type: ignore[index]
    assert "actually, make the train leave at 17:45" in said and "17:45 instead of 10:00, please." in said


@pytest.mark.parametrize("state", [State(), State({"hotel-parking": "no"}), State({"hotel-area": "north|south"})])
def test_nothing_to_take_back(state: State) -> None:
    assert revise(DIALOGUE, 0, state, POOL, random.Random(0)) is None
    example = Example(DIALOGUE, 0, State(), state)
    assert example.revised(POOL, random.Random(0)) is example


def test_a_revised_example_is_the_turn_after() -> None:
    example = Example(DIALOGUE, 2, STATE, STATE, own=State()).revised(POOL, random.Random(0))
    assert example.before == STATE and example.after != STATE and example.own is None
    assert len(example.dialogue.turns) == 4 and example.number == 3
    assert example.dialogue.turns[3].system.startswith("Is there anything else")
