import pytest
from hypothesis import given
from hypothesis import strategies as st

from somdst import DONTCARE, Schema, State
from somdst.errors import StateError


def test_a_state_is_an_immutable_mapping() -> None:
    source = {"hotel-area": "north"}
    state = State(source)
    source["hotel-area"] = "south"
    assert state["hotel-area"] == "north"
    assert state.with_values({"hotel-area": None}) == State()
    assert state == State({"hotel-area": "north"})
    with pytest.raises(TypeError):
        state["hotel-area"] = "south"  # type: ignore[index]


def test_the_part_within_some_slots() -> None:
    state = State({"hotel-area": "north", "train-day": DONTCARE})
    assert state.within(Schema.from_json({"domains": {"train": {"day": None}}})) == State({"train-day": DONTCARE})
    assert state.within(()) == State()
    assert state.within(("hotel-area", "train-day", "train-leaveat")) is state  # it is immutable: no copy is needed


@given(st.dictionaries(st.text(), st.text()))
def test_from_json_undoes_to_json(values: dict[str, str]) -> None:
    assert State.from_json(values).to_json() == values


def test_dontcare_is_a_word_in_json_only() -> None:
    assert State.from_json({"a-b": "dontcare"})["a-b"] is DONTCARE
    assert State({"a-b": DONTCARE}) != State({"a-b": "dontcare"})
    assert State({"a-b": DONTCARE}).to_json() == {"a-b": "dontcare"}


@pytest.mark.parametrize("data", [[], "x", None, 3, {"a-b": 3}, {"a-b": None}, {"a-b": ["x"]}])
def test_what_is_not_a_state_gets_one_sentence(data: object) -> None:
    with pytest.raises(StateError, match=r"must .*\.$"):
        State.from_json(data)
