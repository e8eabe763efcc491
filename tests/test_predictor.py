"""What every model does around its network: the same alone and in a batch, and forced operations."""

from __future__ import annotations

from typing import Any

import pytest
import tiny

pytest.importorskip("torch")

from somdst.corpora.synthetic import SYNTHETIC_SCHEMA, synthetic_dialogues
from somdst.errors import InputError, SchemaError
from somdst.learn.torch_predictor import TorchPredictor
from somdst.memory.dialogue import Turn
from somdst.memory.operations import Operation
from somdst.memory.state import State
from somdst.model.prediction import Prediction, TurnInput
from somdst.model.predictor import pad


def inputs(dialogues: int) -> list[TurnInput]:
    found = []
    for dialogue in synthetic_dialogues(dialogues=dialogues):
        before, previous = State(), None
        for turn, after in zip(dialogue.turns, dialogue.states(), strict=True):
            found.append(TurnInput(previous, turn, before))
            before, previous = after, turn
    return found


def predictor(**config: Any) -> TorchPredictor:
    model, text = tiny.model(**config)
    return TorchPredictor(model, text)


def same(one: Prediction, other: Prediction) -> bool:
    assert one.slots.keys() == other.slots.keys() and one.domain == other.domain
    for slot, predicted in one.slots.items():
        twin = other.slots[slot]
        assert (predicted.operation, predicted.value, predicted.evidence) == (twin.operation, twin.value, twin.evidence)
        assert predicted.probability == pytest.approx(twin.probability, abs=1e-4)
    assert one.carryover == pytest.approx(other.carryover, abs=1e-4)
    return True


@pytest.mark.parametrize("layout", ["paper", "compact"])
def test_alone_is_as_in_a_batch(layout: str) -> None:
    model = predictor(layout=layout)
    given = inputs(6)
    assert len(given) > 32, "more than one batch"
    together = model.predict(given)
    assert sum(len(prediction.slots) for prediction in together) > len(given)
    for input, prediction in list(zip(given, together, strict=True))[::5]:
        assert same(model.predict([input])[0], prediction)
    assert all(same(a, b) for a, b in zip(model.predict(given[::-1])[::-1], together, strict=True))
    assert model.predict([]) == []


def test_every_slot_is_predicted_or_carried_over() -> None:
    for prediction in predictor().predict(inputs(1)):
        assert set(prediction.slots) | set(prediction.carryover) == set(SYNTHETIC_SCHEMA)
        assert not set(prediction.slots) & set(prediction.carryover)
        assert all(0 < slot.probability < 1 for slot in prediction.slots.values())
        assert prediction.domain in SYNTHETIC_SCHEMA.domains


def test_forced_operations() -> None:
    model = predictor()
    given = inputs(1)[:3]
    forced = [
        {"hotel-area": Operation.UPDATE, "hotel-name": Operation.DELETE},
        {},
        dict.fromkeys(map(str, SYNTHETIC_SCHEMA), Operation.UPDATE),
    ]
    predictions = model.predict(given, operations=forced)
    assert [prediction.operations for prediction in predictions] == forced
    assert [set(prediction.values) for prediction in predictions] == [{"hotel-area"}, set(), set(SYNTHETIC_SCHEMA)]
    (alone,) = model.predict(given[:1], operations=[{"hotel-area": Operation.UPDATE}])
    assert alone.slots["hotel-area"].value == predictions[0].slots["hotel-area"].value
    carried = model.predict(given[:1], operations=[{"hotel-area": Operation.CARRYOVER}])
    assert carried[0].operations == {}


def test_forced_operations_that_are_wrong() -> None:
    model = predictor(operation_set="2")
    with pytest.raises(InputError, match=r'no operation "delete" .*; it has carryover, update'):
        model.predict(inputs(1)[:1], operations=[{"hotel-area": Operation.DELETE}])
    with pytest.raises(SchemaError, match=r'no slot "hotel-aera" in the schema. Did you mean "hotel-area"'):
        model.predict(inputs(1)[:1], operations=[{"hotel-aera": Operation.UPDATE}])


@pytest.mark.parametrize("operation_set", ["2", "3-without-delete", "3-without-dontcare", "6"])
def test_other_operation_sets(operation_set: str) -> None:
    model = predictor(operation_set=operation_set)
    for input, prediction in zip(inputs(2), model.predict(inputs(2)), strict=True):
        assert set(prediction.operations.values()) <= set(model.operation_set.operations)
        model.operation_set.apply(input.state, prediction.operations, prediction.values)


def test_history_is_read() -> None:
    short, long = predictor(history=1), predictor(history=3)
    turns = tuple(Turn("", f"i want the {word} one") for word in ("north", "south", "east", "west"))
    with_older = TurnInput(turns[2], turns[3], State(), older=turns[:2])
    without = TurnInput(turns[2], turns[3], State())
    assert same(short.predict([with_older])[0], short.predict([without])[0])
    a, b = long.predict([with_older])[0], long.predict([without])[0]
    assert a.carryover != b.carryover


def test_temperature_softens() -> None:
    sure, unsure = (predictor(temperature=t).predict(inputs(1)) for t in (1.0, 4.0))
    pairs = [
        (one.slots[slot].probability, other.slots[slot].probability)
        for one, other in zip(sure, unsure, strict=True)
        for slot in one.slots
    ]
    assert pairs and all(abs(b - 0.5) < abs(a - 0.5) and (a - 0.5) * (b - 0.5) > 0 for a, b in pairs)


def test_padding() -> None:
    encoder = tiny.encoder()
    encodings = [encoder.encode(tiny.turn_input(text)) for text in ("hello", "hello i want it in the north")]
    arrays = pad(encodings, pad_id=encoder.pad, multiple=16)
    assert arrays.ids.shape == arrays.mask.shape == arrays.segments.shape == (2, 16)
    assert arrays.mask.sum(1).tolist() == [len(encoding) for encoding in encodings]
    assert arrays.ids[0, len(encodings[0]) :].tolist() == [encoder.pad] * (16 - len(encodings[0]))
    assert arrays.slots.tolist() == [encoding.slots for encoding in encodings]
    assert pad(encodings, pad_id=0).ids.shape == (2, len(encodings[1]))


def test_bf16_needs_no_other_answers_here() -> None:
    """The option is passed through; bfloat16 itself is run where a process was prepared for it."""
    model, text = tiny.model()
    assert TorchPredictor(model, text, precision="bf16")._autocast()._enabled
    assert not TorchPredictor(model, text)._autocast()._enabled
