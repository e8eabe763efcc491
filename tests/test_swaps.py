"""Values swapped for others of their slot: texts and memory stay in agreement, and nothing else changes."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("torch")

import tiny

from somdst.corpora.synthetic import synthetic_dialogues
from somdst.dialogue import Turn
from somdst.learn.batches import Batches, examples
from somdst.learn.settings import Settings
from somdst.learn.swaps import renamed, swap_values
from somdst.learn.wrong_states import ValuePool
from somdst.state import DONTCARE, State

CHOICES = {"food-kind": ["thai"], "place-area": ["north"], "place-name": ["blue house"]}


def swap(text: str, after: dict[str, object], before: dict[str, object] | None = None) -> tuple[str, dict[str, str]]:
    turns = [Turn("", text)]
    old, new = State(before or {}), State(after)  # type: ignore[arg-type]
    changed, swapped = swap_values(turns, old, new, CHOICES, rate=1.0, rng=random.Random(0))
    return changed[0].user, swapped


def test_texts_and_memory_change_together() -> None:
    text, swapped = swap("Chinese food in the centre.", {"food-kind": "chinese", "place-area": "centre"})
    assert text == "thai food in the north."
    state = State({"food-kind": "chinese", "place-area": "centre", "place-name": DONTCARE})
    assert renamed(state, swapped) == State({"food-kind": "thai", "place-area": "north", "place-name": DONTCARE})


@pytest.mark.parametrize(
    ("text", "after", "before"),
    [
        ("some noodles", {"food-kind": "chinese"}, {}),  # not said in these words
        ("a chinesey place", {"food-kind": "chinese"}, {}),  # not a whole word
        ("chinese or thai", {"food-kind": "chinese"}, {}),  # the other value is there already
        ("no, chinese", {"food-kind": "chinese"}, {"food-kind": "thai"}),  # or in the memory before
        ("the red house", {"place-name": "red house", "place-area": "red"}, {}),  # shares a word with another value
        ("at 17:00", {"place-area": "17:00"}, {}),  # a time
        ("yes", {"place-area": "yes"}, {}),
        ("chinese", {"other-slot": "chinese"}, {}),  # no other value is known
        ("", {"food-kind": DONTCARE}, {}),
    ],
)
def test_what_is_left_alone(text: str, after: dict[str, object], before: dict[str, object]) -> None:
    assert swap(text, after, before) == (text, {})


def test_batches_with_swapped_values_still_agree_with_their_labels() -> None:
    """Every value to be written that was swapped stands in the text that is read."""
    _, text = tiny.model()
    dialogues = synthetic_dialogues(dialogues=20)
    found, pool = examples(dialogues, text), ValuePool.collect(dialogues, text.schema)
    settings = Settings(swap_values=1.0, wrong_states=0.0, shuffle_slots=0.0, word_dropout=0.0)
    batches = Batches(found, text, settings, pool)
    swapped = 0
    for example in found:
        other = batches._swapped(example, random.Random(0))
        read = " ".join(turn.system + " " + turn.user for turn in other.read(settings.history)).lower()
        new = {value for slot, value in other.after.items() if value != example.after[slot]}
        assert all(value in read for value in new)
        assert other.after.keys() == example.after.keys()
        swapped += bool(new)
    assert swapped > len(found) / 4
    batches.tensors(range(len(found)), 0)
