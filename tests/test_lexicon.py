"""Known values: what is nearly one becomes it, everything else stays."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from somdst import DONTCARE, Dialogue, Schema, Slot, State, Turn
from somdst.errors import ModelError
from somdst.memory.state import Value
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


def written(*values: Value) -> list[Dialogue]:
    """Dialogues of one turn that write these values."""
    return [
        Dialogue(str(i), (Turn("", "", State({"a-name": value, "x-y": "outside"})),)) for i, value in enumerate(values)
    ]


def known(*values: Value) -> dict[str, list[str]]:
    return Lexicon.collect(written(*values), Schema([Slot.of("a", "name")]), cutoff=0.8).to_json()


def test_values_are_collected_where_they_are_written() -> None:
    assert known(*["often"] * 40, "once", DONTCARE) == {"a-name": ["often"]}
    kept = Turn("", "", State({"a-name": "often"}))
    assert Lexicon.collect([Dialogue("d", (kept,) * 40)], Schema([Slot.of("a", "name")]), cutoff=0.8).to_json() == {}


@pytest.mark.parametrize("values", [["east"] * 9 + ["west"] * 2, ["east"] * 20, ["east"] * 40 + ["west", "north"]])
def test_values_of_a_few_dialogues_are_not_all_values(values: list[str]) -> None:
    assert known(*values) == {}


def test_load_undoes_saving(tmp_path: Path) -> None:
    assert Lexicon.load(tmp_path, cutoff=0.8).to_json() == {}
    (tmp_path / FILE).write_text(json.dumps(LEXICON.to_json()))
    assert Lexicon.load(tmp_path, cutoff=0.8).to_json() == LEXICON.to_json()
    for damaged in ("[", "[]", '{"a": 3}'):
        (tmp_path / FILE).write_text(damaged)
        with pytest.raises(ModelError, match="is damaged"):
            Lexicon.load(tmp_path, cutoff=0.8)
