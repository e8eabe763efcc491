"""Every count, by hand on a dialogue of three turns and against the paper on its test set."""

from pathlib import Path

import pytest

from somdst.corpora import open_corpus
from somdst.corpora.paper_counts import OPERATIONS
from somdst.errors import CorpusError
from somdst.evaluate.agreement import agreement
from somdst.evaluate.metrics import Metrics, Spread, measure
from somdst.evaluate.paper_results import SLOTS_GENERATED
from somdst.evaluate.run import DialogueRun, TurnRun, run
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.operations import FOUR, Operation
from somdst.memory.schema import Schema
from somdst.memory.state import DONTCARE, State
from somdst.model.prediction import Prediction, SlotPrediction

from .noisy import SCHEMA, NoisyPredictor, dialogues
from .scripted import AnyRules


def turn(fed: State, gold: State, **slots: tuple[Operation, str | None]) -> TurnRun:
    named = {name.replace("_", "-"): SlotPrediction(o, 0.9, value) for name, (o, value) in slots.items()}
    prediction = Prediction(named)
    return TurnRun(Turn("", ""), fed, prediction, FOUR.apply(fed, prediction.operations, prediction.values), gold)


def three_turns() -> Metrics:
    north = State({"hotel-area": "north"})
    first = turn(State(), north, hotel_area=(Operation.UPDATE, "north"))
    second = turn(  # writes the wrong day
        north,
        State({"hotel-area": "north", "train-day": "friday"}),
        train_day=(Operation.UPDATE, "monday"),
    )
    third = turn(  # the day stays wrong; dontcare is missed; a star too many
        second.predicted,
        State({"hotel-area": DONTCARE, "train-day": "friday"}),
        hotel_stars=(Operation.UPDATE, "4"),
    )
    return measure([DialogueRun("D", (first, second, third))], schema=SCHEMA, operation_set=FOUR)


def test_accuracies_by_hand() -> None:
    metrics = three_turns()
    assert metrics.turns == 3
    assert metrics.joint_goal_accuracy == pytest.approx(100 / 3)
    assert metrics.final_turn_joint_accuracy == 0.0
    assert metrics.slot_accuracy == pytest.approx(100 * (1 - 4 / 12))  # wrong slots: 0, 1, 3 of four each
    assert metrics.slot_f1 == pytest.approx((100 + 50 + 0) / 3)
    assert [(row.number, row.joint_goal_accuracy) for row in metrics.by_turn] == [(1, 100.0), (2, 0.0), (3, 0.0)]


def test_domains_count_turns_that_have_one_of_their_slots() -> None:
    hotel, train = three_turns().domains
    assert (hotel.domain, hotel.turns, train.domain, train.turns) == ("hotel", 3, "train", 2)
    assert hotel.joint_goal_accuracy == pytest.approx(200 / 3)  # wrong in the third turn only
    assert hotel.slot_accuracy == pytest.approx(100 * (1 - 2 / (3 * 4)))  # against all four slots, as in the paper
    assert hotel.own_slot_accuracy == pytest.approx(100 * (1 - 2 / (3 * 3)))
    assert train.joint_goal_accuracy == 0.0 and train.own_slot_accuracy == 0.0


def test_operations_are_counted_against_the_state_that_was_fed() -> None:
    metrics = three_turns()
    update, dontcare = metrics.operation(Operation.UPDATE), metrics.operation(Operation.DONTCARE)
    assert update.between_gold_states == 2  # north, friday
    assert update.gold == 3  # and friday again in the third turn, where monday was fed
    assert update.predicted == 3
    assert update.f1 == pytest.approx(100 * 2 * 2 / 6)
    assert (dontcare.gold, dontcare.recall, dontcare.precision, dontcare.f1) == (1, 0.0, 0.0, 0.0)
    assert sum(map(sum, metrics.confusion)) == 12
    carryover, updates = FOUR.index(Operation.CARRYOVER), FOUR.index(Operation.UPDATE)
    assert metrics.confusion[updates][carryover] == 1 and metrics.confusion[carryover][updates] == 1
    assert metrics.slots_generated == Spread(1, 1.0, 1)
    assert metrics.slots_to_generate == Spread(0, pytest.approx(2 / 3), 1)


def test_the_hardest_slot_comes_first_with_its_kind_of_error() -> None:
    day = three_turns().slots[0]
    assert (day.slot, day.wrong, day.different, day.missing, day.extra) == ("train-day", 2, 2, 0, 0)
    stars = next(row for row in three_turns().slots if row.slot == "hotel-stars")
    assert (stars.extra, stars.accuracy) == (1, 0.0)


def test_a_perfect_run_is_perfect_and_json_has_the_key() -> None:
    some = dialogues(20)
    metrics = measure(run(NoisyPredictor(some), some), schema=SCHEMA, operation_set=FOUR)
    assert all(row.f1 == 100.0 for row in metrics.operations)
    assert metrics.to_json()["joint_goal_accuracy"] == 100.0
    assert metrics.to_json()["operations"][0]["operation"] == "carryover"
    assert [row.wrong for row in metrics.slots] == [0] * 4


def test_nothing_to_measure_is_said() -> None:
    with pytest.raises(CorpusError, match="no turn"):
        measure([], schema=SCHEMA, operation_set=FOUR)


def test_agreement_counts_the_slots_that_a_dialogue_was_tracked_with() -> None:
    own = Schema.from_json({"domains": {"taxi": {"destination": None, "departure": None}}})
    taxi = Dialogue("D", (Turn("", "taxi destination ely", State({"taxi-destination": "ely"})),), schema=own)
    greeting = Dialogue("E", (Turn("", "hello", State()),))
    rules, silent = AnyRules(SCHEMA), AnyRules(SCHEMA)
    silent.script = lambda item: Prediction({})
    found = agreement(rules, silent, [taxi, greeting])
    assert found.operations == pytest.approx(100 * 5 / 6)  # one of the taxi's two slots differs, none of the other four
    assert (found.turns, found.joint_goal_accuracy, found.change) == (2, 100.0, -50.0)


@pytest.mark.data
def test_the_papers_counts_come_out_to_the_digit(data: Path) -> None:
    """Its operation table, slots generated and COMER's filled slots, on the test set."""
    test = open_corpus(data / "multiwoz-2.1" / "test.jsonl.xz").dialogues
    runs = run(NoisyPredictor(test, schema=Schema.multiwoz()), test, oracle=frozenset({"operations", "values"}))
    metrics = measure(runs, schema=Schema.multiwoz(), operation_set=FOUR)
    assert metrics.turns == 7368 and metrics.joint_goal_accuracy == 100.0
    assert {str(row.operation): row.between_gold_states for row in metrics.operations} == {
        name: counts[2] for name, counts in OPERATIONS.items()
    }
    least, mean, most = SLOTS_GENERATED["SOM-DST"]
    spread = metrics.slots_to_generate
    assert (spread.least, round(spread.mean, 2), spread.most) == (least, mean, most)
    filled = Spread.of([len(turn.gold) for done in runs for turn in done.turns])
    least, mean, most = SLOTS_GENERATED["COMER"]  # COMER prepared its labels in its own way: 5.72, not 5.68
    assert (filled.least, filled.most) == (least, most) and filled.mean == pytest.approx(mean, abs=0.05)
