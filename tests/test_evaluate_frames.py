"""Frames by service, turns right, spellings, and dialogues that each have a schema of their own."""

from __future__ import annotations

import pytest
from scripted import RulePredictor

from somdst import DONTCARE, Dialogue, Schema, Slot, State, Turn
from somdst.evaluate.frames import FrameMetrics, measure_frames, table, totals
from somdst.evaluate.metrics import measure
from somdst.evaluate.run import DialogueRun, TurnRun, as_labelled, run
from somdst.memory.operations import FOUR
from somdst.model.prediction import Prediction

SCHEMA = Schema([Slot.of("Taxi_1", "to"), Slot.of("Taxi_1", "riders"), Slot.of("Bank_1", "amount")])


def turn(predicted: dict[str, str], gold: dict[str, str], frames: tuple[str, ...]) -> TurnRun:
    return TurnRun(Turn("", "x", frames=frames), State(), Prediction({}), State(predicted), State(gold))


RUN = DialogueRun(
    "D",
    (
        turn({}, {}, ("Taxi_1",)),
        turn({"Taxi_1-to": "rome"}, {"Taxi_1-to": "paris"}, ("Taxi_1",)),
        # What was wrong before is still wrong, and this turn did what it should.
        turn(
            {"Taxi_1-to": "rome", "Bank_1-amount": "5"},
            {"Taxi_1-to": "paris", "Bank_1-amount": "5"},
            ("Taxi_1", "Bank_1"),
        ),
        # The right state at last, by a change that the turn did not ask for.
        turn(
            {"Taxi_1-to": "paris", "Bank_1-amount": "5"},
            {"Taxi_1-to": "paris", "Bank_1-amount": "5"},
            ("Taxi_1", "Bank_1"),
        ),
    ),
)


def test_a_frame_is_right_if_all_slots_of_its_service_are() -> None:
    bank, taxi = measure_frames([RUN], seen={"Taxi_1"})
    assert bank == FrameMetrics("Bank_1", 2, 100.0, 0.0, seen=False)
    assert taxi == FrameMetrics("Taxi_1", 4, 50.0, 25.0, seen=True)
    every, seen, unseen = totals([bank, taxi])
    assert (every.frames, every.accuracy, every.empty_accuracy) == (
        6,
        pytest.approx(66.667, abs=1e-3),
        pytest.approx(100 / 6),
    )
    assert (seen.accuracy, unseen.accuracy) == (50.0, 100.0)


def test_without_seen_services_there_is_one_total() -> None:
    rows = measure_frames([RUN])
    assert {row.seen for row in rows} == {None}
    assert [row.service for row in totals(rows)] == ["all services"]
    assert [row[0] for row in table(rows).rows] == ["all services", "Bank_1", "Taxi_1"]


def test_a_corpus_without_frames_has_none() -> None:
    assert (
        measure_frames([DialogueRun("D", (TurnRun(Turn("", "x"), State(), Prediction({}), State(), State()),))]) == ()
    )
    assert totals([]) == ()


def test_a_turn_is_right_by_what_it_changed() -> None:
    metrics = measure([RUN], schema=SCHEMA, operation_set=FOUR)
    assert metrics.turns_right == 50.0  # the first and the third
    assert metrics.joint_goal_accuracy == 50.0  # the first and the last
    assert metrics.empty_state.joint_goal_accuracy == 25.0
    assert metrics.empty_state.turns_right == 50.0  # nothing was to be done in the first and the last


def test_a_spelling_that_the_corpus_accepts_is_right() -> None:
    said = Turn("", "x", spellings={"Taxi_1-to": ("new york city", "nyc"), "Taxi_1-riders": ("2", "two")})
    gold = State({"Taxi_1-to": "new york city", "Taxi_1-riders": DONTCARE})
    assert as_labelled(State({"Taxi_1-to": "nyc"}), gold, said) == State({"Taxi_1-to": "new york city"})
    assert as_labelled(State({"Taxi_1-to": "ny"}), gold, said) == State({"Taxi_1-to": "ny"})
    unlabelled = State({"Bank_1-amount": "2"})
    assert as_labelled(unlabelled, gold, said) == unlabelled


def test_spellings_count_in_a_run() -> None:
    gold = State({"hotel-area": "the north"})
    dialogue = Dialogue("D", (Turn("", "hotel area north", gold, spellings={"hotel-area": ("the north", "north")}),))
    [done] = run(RulePredictor(), [dialogue])
    assert done.turns[0].correct and done.turns[0].predicted == gold


def test_each_dialogue_is_counted_over_its_own_slots() -> None:
    one, three = Schema(SCHEMA.slots[:1]), SCHEMA
    right, wrong = TurnRun(Turn("", "x"), State(), Prediction({}), State(), State()), RUN.turns[1]
    runs = [DialogueRun("A", (right,), one), DialogueRun("B", (wrong,), three)]
    metrics = measure(runs, schema=SCHEMA, operation_set=FOUR)
    assert metrics.slot_accuracy == 75.0  # one of 1 + 3
    assert sum(map(sum, metrics.confusion)) == 4
