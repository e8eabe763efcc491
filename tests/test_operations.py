"""derive and apply undo each other, for every operation set and any text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from somdst import DONTCARE, State
from somdst.errors import StateError
from somdst.memory.operations import FOUR, OPERATION_SETS, Operation, OperationSet, apply, derive
from somdst.memory.state import Value

TRAPS = [
    "none",
    "null",
    "NULL",
    "dontcare",
    "dont care",
    "yes",
    "no",
    "a-b",
    "12:30",
    'the "x"',
    "l'été",
    "京都",
    " ",
    "-",
]
slots = st.one_of(st.sampled_from(["hotel-area", "hotel-book day", "train-arrive-by"]), st.text(min_size=1))
values: st.SearchStrategy[Value] = st.one_of(st.sampled_from(TRAPS), st.just(DONTCARE), st.text())
states = st.dictionaries(slots, values, max_size=12).map(State)


@given(before=states, after=states, name=st.sampled_from(sorted(OPERATION_SETS)))
def test_apply_undoes_derive(before: State, after: State, name: str) -> None:
    operation_set = OperationSet.named(name)
    operations, updated = operation_set.derive(before, after)
    assert operation_set.apply(before, operations, updated) == after
    assert set(operations.values()) <= set(operation_set.operations) - {Operation.CARRYOVER}
    assert set(updated) == {slot for slot, operation in operations.items() if operation is Operation.UPDATE}


@given(before=states, after=states)
def test_derive_undoes_apply(before: State, after: State) -> None:
    derived = derive(before, after)
    reached = apply(before, derived.operations, derived.values)
    assert derive(before, reached) == derived
    assert derive(reached, reached).operations == {}


def test_the_four_operations_of_the_paper() -> None:
    before = State({"hotel-area": "north", "hotel-stars": "4", "train-day": "friday"})
    after = State({"hotel-area": "south", "hotel-stars": DONTCARE, "taxi-departure": "dontcare"})
    operations, updated = derive(before, after)
    assert operations == {
        "hotel-area": Operation.UPDATE,
        "hotel-stars": Operation.DONTCARE,
        "taxi-departure": Operation.UPDATE,  # the word, not the special value
        "train-day": Operation.DELETE,
    }
    assert updated == {"hotel-area": "south", "taxi-departure": "dontcare"}


def test_sets_without_an_operation_put_it_into_the_value() -> None:
    before, after = State({"a-x": "1", "a-z": "1"}), State({"a-y": DONTCARE, "a-z": "yes"})
    assert OperationSet.named("2").derive(before, after).values == {"a-y": DONTCARE, "a-z": "yes", "a-x": None}
    assert OperationSet.named("3-without-delete").derive(before, after).values == {"a-z": "yes", "a-x": None}
    assert OperationSet.named("3-without-dontcare").derive(before, after).values == {"a-y": DONTCARE, "a-z": "yes"}
    assert OperationSet.named("6").derive(before, after).values == {}


def test_bad_operations_change_nothing_and_say_why() -> None:
    state = State({"a-x": "1"})
    with pytest.raises(StateError, match=r"not in the operation set 4\."):
        FOUR.apply(state, {"a-x": Operation.YES}, {})
    with pytest.raises(StateError, match="needs a value"):
        apply(state, {"a-x": Operation.UPDATE}, {})
    with pytest.raises(StateError, match='Did you mean "3-without-delete"'):
        OperationSet.named("3-without-delet")
    assert state == State({"a-x": "1"})
