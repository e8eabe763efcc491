"""Running dialogues side by side, with and without oracles."""

from itertools import combinations

import pytest

from somdst.corpora.opening import check_fit, outside_schema
from somdst.errors import CorpusError, InputError
from somdst.evaluate.metrics import joint_goal_accuracy
from somdst.evaluate.run import ORACLES, Oracles, parse_oracles, run
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.operations import OPERATION_SETS, Operation
from somdst.memory.schema import Schema
from somdst.memory.state import State
from somdst.model.prediction import Prediction, SlotPrediction
from somdst.tracking.tracker import Tracker

from .noisy import SCHEMA, NoisyPredictor, dialogues

DIALOGUES = dialogues(40)


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_batches_change_nothing(batch_size: int) -> None:
    noisy = NoisyPredictor(DIALOGUES, noise=0.3)
    assert run(noisy, DIALOGUES, batch_size=batch_size) == run(noisy, DIALOGUES, batch_size=7)


def test_batches_stay_full_until_the_last_dialogues() -> None:
    noisy = NoisyPredictor(DIALOGUES)
    seen: list[int] = []
    run(noisy, DIALOGUES, batch_size=8, progress=seen.append)
    turns = sum(len(dialogue.turns) for dialogue in DIALOGUES)
    assert seen == noisy.batches and sum(seen) == turns
    assert seen[:-6] == [8] * (len(seen) - 6)  # only the tail, no longer than one dialogue, may be ragged


def test_results_come_in_the_order_of_the_dialogues_and_start_empty() -> None:
    runs = run(NoisyPredictor(DIALOGUES), DIALOGUES, batch_size=4)
    assert [run.id for run in runs] == [dialogue.id for dialogue in DIALOGUES]
    assert all(run.turns[0].fed == State() for run in runs)
    assert [[t.gold for t in r.turns] for r in runs] == [d.states() for d in DIALOGUES]
    assert joint_goal_accuracy(runs) == 100.0


def test_predicted_states_are_fed_and_the_oracle_feeds_gold_ones() -> None:
    noisy = NoisyPredictor(DIALOGUES, noise=0.5)
    for oracle, before in (("", "predicted"), ("state", "gold")):
        for done in run(noisy, DIALOGUES, oracle=parse_oracles(oracle)):
            for previous, turn in zip(done.turns, done.turns[1:], strict=False):
                assert turn.fed == getattr(previous, before)


@pytest.mark.parametrize("name", OPERATION_SETS)
def test_gold_operations_and_values_give_exactly_100(name: str) -> None:
    noisy = NoisyPredictor(DIALOGUES, noise=0.8, operation_set=OPERATION_SETS[name])
    for oracle in ("operations,values", "state,operations,values"):
        assert joint_goal_accuracy(run(noisy, DIALOGUES, oracle=parse_oracles(oracle))) == 100.0


def test_every_oracle_helps_or_is_neutral() -> None:
    noisy = NoisyPredictor(DIALOGUES, noise=0.3)
    accuracy: dict[Oracles, float] = {}
    for size in range(4):
        for chosen in combinations(ORACLES, size):
            accuracy[frozenset(chosen)] = joint_goal_accuracy(run(noisy, DIALOGUES, oracle=frozenset(chosen)))
    assert len(accuracy) == 8
    for chosen, value in accuracy.items():
        for other in ORACLES:
            assert accuracy[chosen | {other}] >= value
    assert accuracy[frozenset()] < accuracy[frozenset({"state"})] < 100.0


def test_gold_operations_are_relative_to_the_state_that_was_fed() -> None:
    noisy = NoisyPredictor(DIALOGUES, noise=0.5)
    runs = run(noisy, DIALOGUES, oracle=frozenset({"operations"}))
    for done in runs:
        for turn in done.turns:
            wanted = noisy.operation_set.derive(turn.fed, turn.gold).operations
            assert turn.prediction.operations == wanted


def test_gold_values_do_not_mend_a_wrong_operation() -> None:
    dialogue = Dialogue("D", (Turn("", "hi", State({"hotel-stars": "4"})),))

    class Wrong(NoisyPredictor):
        def predict(self, inputs, *, operations=None):  # type: ignore[no-untyped-def]
            update = SlotPrediction(Operation.UPDATE, 0.9, "wrong")
            return [Prediction({"hotel-stars": update, "hotel-area": update}) for _ in inputs]

    (done,) = run(Wrong([dialogue]), [dialogue], oracle=frozenset({"values"}))
    assert done.turns[0].predicted == State({"hotel-stars": "4", "hotel-area": "wrong"})


def test_slots_outside_the_schema_are_not_counted() -> None:
    state = State({"hotel-area": "north", "hospital-department": "heart"})
    dialogue = Dialogue("D", (Turn("", "hi", state), Turn("Hello.", "bye", state)))
    assert joint_goal_accuracy(run(NoisyPredictor([dialogue]), [dialogue])) == 100.0
    assert outside_schema([dialogue], SCHEMA) == {"hospital-department": 2}


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(CorpusError, match="without a state"):
        run(NoisyPredictor([]), [Dialogue("D", (Turn("", "hi"),))])
    with pytest.raises(CorpusError, match="no slot is in both"):
        check_fit([Dialogue("D", (Turn("", "hi", State({"taxi-leaveat": "5"})),))], SCHEMA)
    with pytest.raises(CorpusError, match="no labelled turn"):
        check_fit([], SCHEMA)
    with pytest.raises(InputError, match='Did you mean "operations"'):
        parse_oracles("state,operation")
    with pytest.raises(InputError, match="at least one turn"):
        run(NoisyPredictor([]), [], batch_size=0)


CLOSED = Schema.from_json(
    {
        "domains": {"hotel": {"area": ["north", "centre"], "name": None, "stars": ["3", "4"]}},
    }
)
"""A user's own schema: no train, and closed lists that hold neither "south" nor "garbled"."""


@pytest.mark.parametrize("schema", [None, CLOSED], ids=["the model's schema", "closed lists and fewer slots"])
@pytest.mark.parametrize("threshold", [0.0, 0.5, 0.9])
def test_evaluation_gets_the_states_that_a_tracker_gets(threshold: float, schema: Schema | None) -> None:
    noisy = NoisyPredictor(DIALOGUES, noise=0.3)
    tracker = Tracker(noisy, threshold=threshold, schema=schema)
    held = refused = 0
    for done in run(noisy, DIALOGUES, threshold=threshold, schema=schema):
        conversation = tracker.start()
        for turn in done.turns:
            result = conversation.update(turn.turn.user, turn.turn.system)
            held += len(result.entry.held)
            refused += len(result.refused)
            assert result.state == turn.predicted
            assert set(turn.gold) <= set(tracker.schema)
    assert (held > 0) == (threshold > 0.5)
    assert (refused > 0) == (schema is not None)


def test_a_closed_list_is_part_of_what_is_measured() -> None:
    dialogue = Dialogue("D", (Turn("", "hi", State({"hotel-area": "centre"})),))

    class American(NoisyPredictor):
        def predict(self, inputs, *, operations=None):  # type: ignore[no-untyped-def]
            return [Prediction({"hotel-area": SlotPrediction(Operation.UPDATE, 0.9, "center")}) for _ in inputs]

    assert joint_goal_accuracy(run(American([dialogue]), [dialogue])) == 0.0
    assert joint_goal_accuracy(run(American([dialogue]), [dialogue], schema=CLOSED)) == 100.0
