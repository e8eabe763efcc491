"""SGD and MultiWOZ 2.2, in tiny files of the published layout."""

import copy
from pathlib import Path
from typing import Any

import pytest
from corpus_files import (
    MULTIWOZ22_DIALOGUE,
    MULTIWOZ22_SCHEMA,
    SGD_DIALOGUE,
    SGD_SCHEMA,
    frame,
    system,
    user,
    write_json,
    zipped,
)

from somdst.corpora import open_corpus
from somdst.errors import CorpusError
from somdst.memory.state import DONTCARE, State


def write_sgd(folder: Path, *dialogues: dict[str, Any]) -> Path:
    """As SGD is published: a schema in each split."""
    for split in ("train", "dev"):
        write_json(folder / split / "schema.json", SGD_SCHEMA)
        write_json(folder / split / "dialogues_001.json", list(dialogues))
    return folder


def write_multiwoz22(folder: Path) -> Path:
    """As MultiWOZ 2.2 is published: one schema above the splits."""
    write_json(folder / "schema.json", MULTIWOZ22_SCHEMA)
    for split in ("train", "dev"):
        write_json(folder / split / "dialogues_001.json", [MULTIWOZ22_DIALOGUE])
        write_json(folder / split / "dialogues_002.json", [{**MULTIWOZ22_DIALOGUE, "dialogue_id": "MUL1.json"}])
    return folder


def test_sgd(tmp_path: Path) -> None:
    corpus = open_corpus(write_sgd(tmp_path / "sgd", SGD_DIALOGUE), split="dev")
    (dialogue,) = corpus.dialogues
    assert (corpus.name, corpus.format, corpus.dropped) == ("sgd", "SGD", ())
    assert (dialogue.id, dialogue.goal) == ("1_00000", ("Restaurants_2", "Media_1"))
    assert [(turn.system, turn.user, turn.domain) for turn in dialogue.turns] == [
        ("", "A table in San Jose", "Restaurants_2"),
        ("For how many?", "Two, anywhere", "Restaurants_2"),
        ("Done.", "Play Up", "Media_1"),
        ("Playing.", "Thanks", "Media_1"),
    ]
    place = {"Restaurants_2-location": "san jose"}
    assert dialogue.states() == [
        State(place),
        State({**place, "Restaurants_2-seats": "2", "Restaurants_2-outdoors": DONTCARE}),
        State({**place, "Media_1-title": "up"}),
        State({**place, "Media_1-title": "up"}),  # a service without a frame keeps its state
    ]


def test_the_schema_of_sgd_has_what_intents_ask_for(tmp_path: Path) -> None:
    schema = open_corpus(write_sgd(tmp_path, SGD_DIALOGUE)).schema
    assert schema is not None
    assert list(schema) == [
        "Media_1-title",
        "Restaurants_2-location",
        "Restaurants_2-outdoors",
        "Restaurants_2-seats",
    ]
    assert schema["Restaurants_2-outdoors"].values == ("true", "false")
    assert schema["Restaurants_2-location"].values is None
    assert schema["Restaurants_2-location"].description == "the location"


@pytest.mark.parametrize("as_zip", [False, True], ids=["folder", "zip"])
def test_multiwoz22(tmp_path: Path, as_zip: bool) -> None:
    path = write_multiwoz22(tmp_path / "MultiWOZ_2.2")
    if as_zip:
        path = zipped(path, tmp_path / "MultiWOZ_2.2.zip")
    corpus = open_corpus(path, split="train")
    assert (corpus.name, corpus.format) == ("MultiWOZ_2.2", "MultiWOZ 2.2")
    assert corpus.schema is not None and len(corpus.schema) == 30
    assert [dialogue.id for dialogue in corpus.dialogues] == ["PMUL4398", "MUL1"]
    assert len(open_corpus(path).dialogues) == 4
    assert [turn.domain for turn in corpus.dialogues[0].turns] == [None, "hotel", "hotel"]
    assert corpus.dialogues[0].states() == [
        State(),
        State({"hotel-type": "guest house"}),
        State({"hotel-type": "guest house", "hotel-book day": "friday"}),
    ]


def test_one_split_or_one_file_finds_its_schema(tmp_path: Path) -> None:
    for path in (write_multiwoz22(tmp_path / "m"), write_sgd(tmp_path / "s", SGD_DIALOGUE)):
        folder = open_corpus(path / "dev")
        file = open_corpus(path / "dev" / "dialogues_001.json")
        assert folder.schema == file.schema == open_corpus(path).schema
        assert folder.dialogues[:1] == file.dialogues


def test_a_test_set_without_labels(tmp_path: Path) -> None:
    bare = copy.deepcopy(SGD_DIALOGUE)
    for turn in bare["turns"]:
        for part in turn["frames"]:
            part.pop("state")
    (dialogue,) = open_corpus(write_sgd(tmp_path, bare), split="dev").dialogues
    assert [turn.state for turn in dialogue.turns] == [None] * 4


def test_a_system_that_speaks_twice_or_first(tmp_path: Path) -> None:
    odd = {**SGD_DIALOGUE, "turns": [system("Hi."), system("How can I help?"), user("A film", frame("Media_1"))]}
    (dialogue,) = open_corpus(write_sgd(tmp_path, odd), split="dev").dialogues
    assert dialogue.turns[0].system == "Hi. How can I help?"


def test_another_spelling_of_a_value_is_no_update(tmp_path: Path) -> None:
    spellings = [["half past 11"], ["11:30 am", "half past 11"], ["11:30 am"], []]
    turns = [user("x", frame("Media_1", title=titles)) for titles in spellings]
    (dialogue,) = open_corpus(write_sgd(tmp_path, {**SGD_DIALOGUE, "turns": turns}), split="dev").dialogues
    titles = [state.get("Media_1-title") for state in dialogue.states()]
    assert titles == ["half past 11", "half past 11", "11:30 am", None]


def damaged(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(SGD_DIALOGUE), **changes}


BAD: dict[str, tuple[str, Any]] = {
    "`turns` should be a list": ("1_00000", damaged(turns=None)),
    "no user turn": ("1_00000", damaged(turns=[system("Hi.")])),
    "The speaker of turn 1 should be USER or SYSTEM": ("1_00000", damaged(turns=[{"speaker": "BOT"}])),
    'The slot "stars" is not among those': ("1_00000", damaged(turns=[user("x", frame("Media_1", stars=["4"]))])),
    'The service "Cars_1" is not in schema.json': ("1_00000", damaged(turns=[user("x", frame("Cars_1", a=["4"]))])),
    '`slot_values` of "Media_1" in turn 1 should be a JSON object, not a list': (
        "1_00000",
        damaged(turns=[user("x", {"service": "Media_1", "state": {"slot_values": []}})]),
    ),
    "It has no `dialogue_id`": ("number 2", damaged(dialogue_id=None)),
    "The dialogue should be a JSON object, not a list": ("number 2", []),
}


@pytest.mark.parametrize("reason", BAD)
def test_a_corrupt_dialogue_is_counted_and_named(tmp_path: Path, reason: str) -> None:
    key, bad = BAD[reason]
    corpus = open_corpus(write_sgd(tmp_path, damaged(dialogue_id="0"), bad), split="dev")
    assert [dialogue.id for dialogue in corpus.dialogues] == ["0"]
    (dropped,) = corpus.dropped
    assert str(dropped).startswith(f"{tmp_path / 'dev' / 'dialogues_001.json'}, dialogue {key}: ")
    assert reason in dropped.reason


def test_bad_files(tmp_path: Path) -> None:
    write_json(tmp_path / "x" / "dev" / "dialogues_001.json", [SGD_DIALOGUE])
    with pytest.raises(CorpusError, match=r"has no schema\.json"):
        open_corpus(tmp_path / "x")
    path = write_sgd(tmp_path / "y", SGD_DIALOGUE)
    with pytest.raises(CorpusError, match=r"has no folder test"):
        open_corpus(path, split="test")
    write_json(path / "dev" / "dialogues_002.json", {"a": 1})
    with pytest.raises(CorpusError, match=r"dialogues_002\.json should be a list, not an object"):
        open_corpus(path, split="dev")
    for schema, sentence in (
        ({}, "should be a list"),
        ([1], "should be a JSON object"),
        ([{"service_name": "a"}], "`slots`"),
        ([{"service_name": "a", "slots": [{"name": 1}], "intents": []}], "should be text, not 1"),
        ([{"service_name": "a-b", "slots": [{"name": "c"}], "intents": []}], r"schema\.json is not .* contains \"-\""),
        ([], "no slot"),
    ):
        write_json(path / "train" / "schema.json", schema)
        with pytest.raises(CorpusError, match=sentence):
            open_corpus(path, split="train")
