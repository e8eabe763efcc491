"""The one step that everything that tracks calls, and the batches in which many dialogues go through it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from scripted import RulePredictor

from somdst.memory.dialogue import Turn
from somdst.memory.state import State
from somdst.tracking.log import EMPTY
from somdst.tracking.step import Rules, rolling_batches, step, step_each
from somdst.tracking.tracker import Tracker


def test_a_step_gives_the_entry_the_memory_and_what_the_model_said() -> None:
    predictor = RulePredictor()
    rules = Rules(predictor.schema, predictor.operation_set, threshold=0.5)
    labelled = Turn("", "hotel area north, maybe hotel stars 4", state=State({"hotel-area": "peeked"}), domain="x")
    [result] = step(predictor, [(EMPTY, labelled)], rules)
    assert result.state == State({"hotel-area": "north"}) and result.snapshot.pending.keys() == {"hotel-stars"}
    assert result.prediction is not None
    assert result.prediction.slots.keys() == {"hotel-area", "hotel-stars"}, "before any rule"
    assert result.entry.turn == Turn("", labelled.user), "labels are not stored"
    again = Tracker(predictor, threshold=0.5).step(EMPTY, labelled)
    assert replace(again.entry, time=result.entry.time) == result.entry and again.prediction == result.prediction
    assert step(predictor, [], rules) == []


def test_a_bad_turn_spoils_no_other() -> None:
    tracker = Tracker(RulePredictor())
    turns = [Turn("", "hotel area north"), Turn("", " "), Turn("", "hotel area south")]
    north, error, south = step_each(tracker.predictor, [(EMPTY, turn) for turn in turns], [tracker.rules] * len(turns))
    assert "The turn is empty" in str(error)
    assert [result.state["hotel-area"] for result in (north, south) if not isinstance(result, Exception)] == [
        "north",
        "south",
    ]


@given(lengths=st.lists(st.integers(0, 6), max_size=12), batch=st.integers(1, 5))
def test_batches_hold_every_turn_once_and_in_order(lengths: list[int], batch: int) -> None:
    batches = list(rolling_batches(lengths, batch=batch))
    places = [place for places in batches for place in places]
    assert sorted(places) == [(dialogue, turn) for dialogue, length in enumerate(lengths) for turn in range(length)]
    for dialogue, length in enumerate(lengths):
        assert [turn for place, turn in places if place == dialogue] == list(range(length))
    for done, together in enumerate(batches):
        assert len({dialogue for dialogue, _ in together}) == len(together) <= batch
        unfinished = len({dialogue for later in batches[done:] for dialogue, _ in later})
        assert len(together) == min(batch, unfinished), "full as long as there is enough to do"
