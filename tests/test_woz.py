"""WOZ 2.0: tiny files in its layout, and the published numbers."""

from pathlib import Path
from typing import Any

import pytest
from corpus_files import WOZ_DIALOGUE, woz_turn, write_json

from somdst.corpora import open_corpus
from somdst.errors import CorpusError
from somdst.memory.state import DONTCARE, State


def test_states_and_texts(tmp_path: Path) -> None:
    corpus = open_corpus(write_json(tmp_path / "woz_train_en.json", [WOZ_DIALOGUE]))
    (dialogue,) = corpus.dialogues
    assert (corpus.name, corpus.format) == ("woz_train_en", "WOZ 2.0")
    assert (dialogue.id, dialogue.goal) == ("7", ("restaurant",))
    assert dialogue.turns[1].system == "Where?"
    assert dialogue.turns[1].user == "Anywhere in the center"
    assert dialogue.states() == [
        State({"restaurant-pricerange": "cheap"}),
        State({"restaurant-pricerange": "cheap", "restaurant-area": "centre", "restaurant-food": DONTCARE}),
    ]
    assert corpus.schema is not None
    assert list(corpus.schema) == ["restaurant-area", "restaurant-food", "restaurant-pricerange"]


def test_splits(tmp_path: Path) -> None:
    for number, name in enumerate(("train", "validate", "test")):
        write_json(tmp_path / f"woz_{name}_en.json", [{**WOZ_DIALOGUE, "dialogue_idx": number}])
    write_json(tmp_path / "woz_train_de.json", [WOZ_DIALOGUE])
    assert [d.id for d in open_corpus(tmp_path, split="dev").dialogues] == ["1"]
    assert sorted(d.id for d in open_corpus(tmp_path).dialogues) == ["0", "1", "2"]
    (tmp_path / "woz_test_en.json").unlink()
    with pytest.raises(CorpusError, match=r"has no woz_test_en\.json"):
        open_corpus(tmp_path, split="test")


BAD: dict[str, Any] = {
    "no `dialogue_idx`": {"dialogue_idx": None, "dialogue": []},
    "It has no turn": {"dialogue_idx": 9, "dialogue": []},
    "`dialogue` should be a list": {"dialogue_idx": 9},
    'fills the slot "name", which is not one of': {
        "dialogue_idx": 9,
        "dialogue": [woz_turn("", "x", ("name", "y"))],
    },
    "not a slot and its value": {"dialogue_idx": 9, "dialogue": [woz_turn("", "x", ("food", 5))]},  # type: ignore[arg-type]
    "The user's text in turn 1": {"dialogue_idx": 9, "dialogue": [woz_turn("", None)]},  # type: ignore[arg-type]
}


@pytest.mark.parametrize("reason", BAD)
def test_a_corrupt_dialogue_is_counted_and_named(tmp_path: Path, reason: str) -> None:
    corpus = open_corpus(write_json(tmp_path / "woz_test_en.json", [WOZ_DIALOGUE, BAD[reason]]))
    assert [dialogue.id for dialogue in corpus.dialogues] == ["7"]
    (dropped,) = corpus.dropped
    assert reason in dropped.reason
    assert "woz_test_en.json, dialogue " in dropped.where


@pytest.mark.data
@pytest.mark.parametrize(("split", "size"), {"train": (600, 2536), "dev": (200, 830), "test": (400, 1646)}.items())
def test_the_published_files(data: Path, split: Any, size: tuple[int, int]) -> None:
    corpus = open_corpus(data / "woz-2.0", split=split)
    assert (len(corpus.dialogues), corpus.turns, corpus.dropped) == (*size, ())
    values = {
        turn.state["restaurant-area"]
        for d in corpus.dialogues
        for turn in d.turns
        if turn.state and "restaurant-area" in turn.state
    }
    assert values == {"centre", "north", "east", "south", "west", DONTCARE}
