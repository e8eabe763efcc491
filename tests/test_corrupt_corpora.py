"""Damage anywhere in a dialogue: it is read or named, never lost, and never an unexpected error."""

import copy
import tempfile
from pathlib import Path
from typing import Any

import pytest
from corpus_files import HOTEL, SGD_DIALOGUE, SGD_SCHEMA, WOZ_DIALOGUE, write_json
from hypothesis import given, settings
from hypothesis import strategies as st

from somdst.corpora import open_corpus
from somdst.corpora.jsonlines import dialogue_from_json, dialogue_to_json
from somdst.errors import CorpusError
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.state import State

DAMAGE = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just([]) | st.just({}) | st.just([[1]])


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All the places in a JSON value."""
    keys = data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    return [place for key in keys for place in [(*path, key), *places(data[key], (*path, key))]]


def broken(data: Any, place: tuple[Any, ...], damage: Any) -> Any:
    data = copy.deepcopy(data)
    inside = data
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = damage
    return data


def write(folder: Path, kind: str, good: Any, bad: Any) -> Path:
    if kind == "multiwoz":
        return write_json(folder / "some.json", {"A.json": good, "B.json": bad})
    if kind == "woz":
        return write_json(folder / "woz_test_en.json", [good, bad])
    write_json(folder / "schema.json", SGD_SCHEMA)
    write_json(folder / "dialogues_001.json", [good, bad])
    return folder


@pytest.mark.parametrize(
    ("kind", "good"), {"multiwoz": HOTEL, "woz": WOZ_DIALOGUE, "sgd": SGD_DIALOGUE}.items(), ids=lambda x: str(x)[:8]
)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_dialogues_are_read_or_named(kind: str, good: Any, data: st.DataObject) -> None:
    bad = broken(good, data.draw(st.sampled_from(places(good))), data.draw(DAMAGE))
    with tempfile.TemporaryDirectory() as folder:
        corpus = open_corpus(write(Path(folder), kind, good, bad))
    assert len(corpus.dialogues) + len(corpus.dropped) == 2
    for dialogue in corpus.dialogues:  # what was read is sound: it can be written and read again
        assert dialogue_from_json(dialogue_to_json(dialogue)) == dialogue


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_damaged_schema_is_read_or_named(data: st.DataObject) -> None:
    bad = broken(SGD_SCHEMA, data.draw(st.sampled_from(places(SGD_SCHEMA))), data.draw(DAMAGE))
    with tempfile.TemporaryDirectory() as folder:
        write_json(Path(folder) / "dialogues_001.json", [SGD_DIALOGUE])
        write_json(Path(folder) / "schema.json", bad)
        try:
            corpus = open_corpus(folder)
        except CorpusError as error:
            assert "schema" in str(error)
        else:
            assert len(corpus.dialogues) + len(corpus.dropped) == 1


@given(data=st.data())
def test_damaged_lines_are_read_or_named(data: st.DataObject) -> None:
    good = dialogue_to_json(Dialogue("a", (Turn("", "hi", State({"hotel-area": "north"}), "hotel"),), ("hotel",)))
    bad = broken(good, data.draw(st.sampled_from(places(good))), data.draw(DAMAGE))
    try:
        dialogue_from_json(bad, where="x.jsonl, line 1")
    except CorpusError as error:
        assert str(error).startswith("x.jsonl, line 1")
