"""A model reads schemas: slots it was not made with, listed values, several schemas in one batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny

from somdst import Dialogue, Schema, Slot, State, Tracker, Turn
from somdst.errors import ModelError
from somdst.evaluate.run import run
from somdst.memory.operations import Operation, OperationSet
from somdst.memory.state import DONTCARE
from somdst.model.prediction import TurnInput
from somdst.model.values import Proposal
from somdst.tracking.step import reads_schemas

torch = pytest.importorskip("torch")
from somdst.learn.batches import Batches, Examples  # noqa: E402
from somdst.learn.exporting import export  # noqa: E402
from somdst.learn.settings import Settings  # noqa: E402
from somdst.learn.torch_predictor import TorchPredictor  # noqa: E402
from somdst.model.folder import ModelFolder  # noqa: E402
from somdst.model.runtime import Runtime  # noqa: E402

PIZZA = Schema(
    [
        Slot.of("pizza", "size", description="how large it is", values=["small", "large"]),
        Slot.of("pizza", "topping", description="what is on it"),
    ]
)
BIKE = Schema([Slot.of("bike", "day"), Slot.of("bike", "helmet", values=["yes", "no"]), Slot.of("bike", "name")])
EVERY = {schema.id: dict.fromkeys(map(str, schema), Operation.UPDATE) for schema in (PIZZA, BIKE)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    path = tiny.model_folder(tmp_path_factory.mktemp("any") / "model", width=64)
    export(path)
    return ModelFolder.open(path)


@pytest.fixture(scope="module", params=["torch", "float32", "int8"])
def predictor(request: Any, folder: ModelFolder) -> Any:
    if request.param == "torch":
        return TorchPredictor.from_folder(folder)
    return Runtime.from_folder(folder, precision=request.param, threads=1)


def given(text: str, schema: Schema, **state: str) -> TurnInput:
    return TurnInput(None, Turn("", text), State({k.replace("_", "-"): v for k, v in state.items()}), schema=schema)


def test_slots_that_no_one_trained(predictor: Any) -> None:
    assert reads_schemas(predictor)
    found = predictor.predict([given("i want it in the north", PIZZA)], operations=[EVERY[PIZZA.id]])[0]
    assert set(found.slots) == {"pizza-size", "pizza-topping"} and found.domain == "pizza"
    assert found.slots["pizza-size"].value in ("small", "large"), "a closed slot never gets a value outside its list"


def test_schemas_share_a_batch(predictor: Any) -> None:
    turns = [given("hello", PIZZA), given("on friday", BIKE, bike_name="tex mex"), given("the north", PIZZA)]
    forced = [EVERY[turn.schema.id] for turn in turns if turn.schema]
    together = predictor.predict(turns, operations=forced)
    for turn, operations, one in zip(turns, forced, together, strict=True):
        (alone,) = predictor.predict([turn], operations=[operations])
        assert alone.values == one.values and alone.domain == one.domain
        for slot, said in one.slots.items():
            assert alone.slots[slot].probability == pytest.approx(said.probability, rel=1e-3)


def test_a_schema_is_compiled_once_and_by_content(predictor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first = predictor.compile(PIZZA)
    assert predictor.has_compiled(PIZZA) and not predictor.has_compiled(Schema([Slot.of("never", "seen")]))
    again = predictor.compile(Schema.from_json(PIZZA.to_json()))
    assert again is first and first.slots.shape[0] == 2 and first.values[0].shape[0] == 2
    monkeypatch.setattr("somdst.model.predictor.COMPILED", 3 * first.size)
    for number in range(20):
        predictor.compile(Schema([Slot.of("d", f"s{number}")]))
        assert 0 < sum(one.size for one in predictor._compiled.values()) <= 3 * first.size
    assert not predictor.has_compiled(PIZZA), "those that were not used for longest went first"
    np.testing.assert_allclose(predictor.compile(PIZZA).slots, first.slots)


def test_engines_agree_on_a_schema(folder: ModelFolder) -> None:
    exact, near = TorchPredictor.from_folder(folder), Runtime.from_folder(folder, precision="float32", threads=1)
    one, two = exact.compile(BIKE), near.compile(BIKE)
    assert one.slots is not None and two.slots is not None
    np.testing.assert_allclose(one.slots, two.slots, atol=1e-4)
    np.testing.assert_allclose(one.values[1], two.values[1], atol=1e-4)


@pytest.mark.parametrize("number", [1, 300])
def test_any_number_of_slots(predictor: Any, number: int) -> None:
    schema = Schema([Slot.of("d", f"slot {i}", description="the same for all") for i in range(number)])
    found = predictor.predict([given("hello", schema)], operations=[{str(schema.slots[-1]): Operation.DONTCARE}])[0]
    assert len(found.carryover) == number - 1


def test_names_in_other_scripts(predictor: Any) -> None:
    schema = Schema([Slot.of("ピザ", "サイズ", values=["大", "小"]), Slot.of("🍕", "🧀", description="käse")])
    assert predictor.predict([given("große pizza 🍕", schema)])[0].domain in schema.domains


def test_a_tracker_takes_any_schema(predictor: Any) -> None:
    tracker = Tracker(predictor, schema=PIZZA)
    result = tracker.start().update(user="a large one")
    assert set(result.state) <= set(PIZZA)
    assert tracker.correct(result.snapshot, {"pizza-size": "Large"}).state["pizza-size"] == "large"


def test_a_model_in_the_papers_layout_does_not(tmp_path: Path) -> None:
    path = tiny.model_folder(tmp_path / "paper", width=64, layout="paper")
    fixed = TorchPredictor.open(path)
    assert not reads_schemas(fixed)
    with pytest.raises(ModelError, match='was not trained on the slot "pizza-size"'):
        Tracker(fixed, schema=PIZZA)


def test_evaluation_takes_each_dialogue_s_own_schema(predictor: Any) -> None:
    turns = (Turn("", "a large one please", State({"pizza-size": "large"})),)
    dialogues = [
        Dialogue("one", turns, schema=PIZZA),
        Dialogue("two", (Turn("", "on friday", State({"bike-day": "friday"})),), schema=BIKE),
    ]
    one, two = run(predictor, dialogues)
    assert one.turns[0].gold == State({"pizza-size": "large"}) and set(one.turns[0].predicted) <= set(PIZZA)
    assert two.turns[0].gold == State({"bike-day": "friday"}) and set(two.turns[0].predicted) <= set(BIKE)
    truth = run(predictor, dialogues, oracle=frozenset({"operations", "values"}))
    assert all(turn.correct for dialogue in truth for turn in dialogue.turns)
    own, given = run(predictor, [dialogues[0], replace(dialogues[0], schema=None)], schema=BIKE)
    assert own.turns[0].gold == State({"pizza-size": "large"}), "a dialogue's own schema goes first"
    assert given.turns[0].gold == State()


@pytest.mark.parametrize(
    ("generated", "certainty", "expected"),
    [
        ("large", 0.9, "large"),  # said word for word
        ("lrge", 0.9, "large"),  # near enough
        ("huge", 0.9, "small"),  # not in the list: the best score
        ("large", 0.3, "small"),  # less certain than the best score
        (None, 0.9, "small"),
    ],
)
def test_of_a_closed_list_the_more_certain_is_taken(
    folder: ModelFolder, generated: str | None, certainty: float, expected: str
) -> None:
    predictor = TorchPredictor.from_folder(folder)
    turn = predictor._prepare(given("a huge one", PIZZA))
    small, large = turn.compiled.values[0]
    queries = np.zeros((2, len(small)), dtype=np.float32)
    towards = small - large
    queries[0] = np.log(4) * towards / (towards @ towards)  # P(small) = 0.8
    proposals = {"pizza-size": Proposal(generated, None, certainty), "pizza-topping": Proposal("ham", None, 0.1)}
    predictor._choose_listed(turn, proposals, queries)
    assert proposals["pizza-size"].value == expected
    assert proposals["pizza-size"].probability == pytest.approx(certainty if expected == "large" else 0.8, rel=1e-3)
    assert proposals["pizza-topping"].value == "ham", "an open slot is left alone"


@pytest.mark.parametrize(("operation_set", "kept"), [("2", True), ("3-without-delete", True), ("4", False)])
def test_no_value_and_no_preference_stay_where_the_generator_has_to_say_them(
    folder: ModelFolder, operation_set: str, kept: bool
) -> None:
    predictor = TorchPredictor.from_folder(folder)
    predictor._deletes = Operation.DELETE in OperationSet.named(operation_set).operations
    turn = predictor._prepare(given("any size", PIZZA))
    queries = np.zeros((2, len(turn.compiled.values[0][0])), dtype=np.float32)
    proposals = {"pizza-size": Proposal(None, None, 0.9)}
    predictor._choose_listed(turn, proposals, queries)
    assert (proposals["pizza-size"].value is None) is kept
    proposals = {"pizza-size": Proposal(DONTCARE, None, 0.9)}
    predictor._choose_listed(turn, proposals, queries)
    assert proposals["pizza-size"].value is DONTCARE


def test_a_listed_value_is_learned_both_ways_where_it_is_said() -> None:
    _, text = tiny.model()
    said, meant = (Turn("", words, State({"pizza-size": "large"})) for words in ("a large one", "as big as you have"))
    dialogues = [Dialogue("said", (said,), schema=PIZZA), Dialogue("meant", (meant,), schema=PIZZA)]
    batches = Batches(Examples(dialogues, PIZZA), text, Settings(shuffle_slots=0, word_dropout=0, perturb=0))
    both, scored = batches.tensors([0], 0), batches.tensors([1], 0)
    assert both.choices is not None and both.values is not None and both.values.slots.tolist() == [0]
    assert scored.choices is not None and scored.choices.right.tolist() == [1] and scored.values is None
