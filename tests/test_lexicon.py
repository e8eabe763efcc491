"""Known values: what is nearly one becomes it, everything else stays."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from somdst import DONTCARE, Dialogue, Schema, Slot, State, Turn
from somdst.errors import ModelError
from somdst.model.values import FILE, Lexicon

LEXICON = Lexicon({"a-name": ["autumn house", "caffe uno"], "a-time": ["17:15"]}, cutoff=0.8)


@pytest.mark.parametrize(
    ("slot", "value", "becomes"),
    [
        ("a-name", "autum house", "autumn house"),
        ("a-name", "caf uno", "caffe uno"),
        ("a-name", "caffe uno", "caffe uno"),
        ("a-name", "somewhere else", "somewhere else"),
        ("a-time", "17:45", "17:45"),  # digits are never a slip
        ("b-name", "autum house", "autum house"),  # another slot's values are not this one's
        ("a-name", DONTCARE, DONTCARE),
        ("a-name", None, None),
    ],
)
def test_only_what_is_near_changes(slot: str, value: str | None, becomes: str | None) -> None:
    assert LEXICON.nearest(slot, value) == becomes


@given(st.text())
def test_switched_off_it_changes_nothing(value: str) -> None:
    assert Lexicon({"a-name": ["autumn house"]}, cutoff=0.0).nearest("a-name", value) == value


def test_values_are_collected_where_they_are_written() -> None:
    schema = Schema([Slot.of("a", "name")])
    states = [State({"a-name": "often", "x-y": "outside"}), State({"a-name": "often"}), State({"a-name": "once"})]
    turns = tuple(Turn("", "", state) for state in [*states, State({"a-name": DONTCARE}), State({"a-name": "often"})])
    collected = Lexicon.collect([Dialogue("d", turns)], schema, cutoff=0.8, least=2)
    assert collected.to_json() == {"a-name": ["often"]}


def test_load_undoes_saving(tmp_path: Path) -> None:
    assert Lexicon.load(tmp_path, cutoff=0.8).to_json() == {}
    (tmp_path / FILE).write_text(json.dumps(LEXICON.to_json()))
    assert Lexicon.load(tmp_path, cutoff=0.8).to_json() == LEXICON.to_json()
    for damaged in ("[", "[]", '{"a": 3}'):
        (tmp_path / FILE).write_text(damaged)
        with pytest.raises(ModelError, match="is damaged"):
            Lexicon.load(tmp_path, cutoff=0.8)
