"""Perturbations: each kind on sentences of its own, seeds, and that labels keep their words."""

import random
import re

import pytest

from somdst.corpora.perturbation import PERTURBATIONS, Perturbation, perturb, perturb_all, perturb_dialogue
from somdst.errors import InputError
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.state import State
from somdst.model.text import normalise


def ways(text: str, kind: Perturbation, *, values: tuple[str, ...] = ()) -> set[str]:
    return {perturb(text, kind, random.Random(seed), values=values) for seed in range(40)}


def test_lowercase_drops_punctuation_but_no_time_price_or_name() -> None:
    text = "I don't mind! Arrive by 17:15, at Rosa's Bed & Breakfast; about 4.50, please."
    said = perturb(text, "lowercase", random.Random(0), values=("rosa's bed and breakfast",))
    assert said == "i dont mind arrive by 17:15 at rosa's bed & breakfast about 4.50 please"


def test_typos_change_words_but_never_those_of_values() -> None:
    text = "Could you find something called charlie chan restaurant quickly"
    for said in ways(text, "typos", values=("charlie chan",)):
        assert said != text and "charlie chan" in said
        assert [word[0] for word in said.split()] == [word[0] for word in text.split()]
    assert perturb("ok 5", "typos", random.Random(0)) == "ok 5"  # nothing long enough: nothing to do


@pytest.mark.parametrize("hour", range(24))
def test_a_time_said_in_words_is_read_as_that_time(hour: int) -> None:
    for minute in range(60):
        time = f"{hour:02}:{minute:02}"
        said = {perturb(f"leave at {time}", "times", random.Random(seed)) for seed in range(12)}
        read = {normalise(text, "everyday").removeprefix("leave at ") for text in said}
        if 10 <= hour <= 12 and minute in (50, 55):  # "ten to five" may also be from ten to five
            continue
        assert read <= {time, f"{hour}:{minute:02}" if hour in (10, 11, 12) else time}, said


def test_chat_has_short_forms_that_no_rule_writes_out() -> None:
    assert normalise(perturb("a hotel tomorrow", "chat", random.Random(0)), "everyday") == "a htl tomorrow"


def test_chat() -> None:
    assert ways("Two people on Friday tomorrow, thank you", "chat") == {"2 ppl on fri tmrw, ty"}
    assert ways("you want to see all saints church", "chat", values=("you saints",)) == {
        "you wanna see all saints church"
    }


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("at 17:15.", {"at quarter past five in the afternoon.", "at 5:15pm."}),
        ("at 17:00", {"at five o'clock in the afternoon", "at 5pm", "at 5 pm"}),
        ("by 09:45 then", {"by quarter to ten in the morning then", "by 9:45am then"}),
        ("5:30 pm", {"half past five in the afternoon", "5:30pm"}),
        ("at 5pm", {"at five o'clock in the afternoon", "at 5pm", "at 5 pm"}),
        ("at 11:30", {"at half past eleven"}),  # which half of the day is not said, and must not be
        ("at 11:31", {"at 11:31"}),
        ("at 23:50", {"at ten to twelve at night", "at 11:50pm"}),
        ("it costs 10.10 pounds, TR1715, 99:15 and 12:345", {"it costs 10.10 pounds, TR1715, 99:15 and 12:345"}),
    ],
)
def test_times(said: str, expected: set[str]) -> None:
    assert ways(said, "times") == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("3 nights for two people", "three nights for 2 people"),
        ("book one ticket for that one", "book 1 ticket for that one"),
        ("at 17:15 for 4.50, postcode cb21ab", "at 17:15 for 4.50, postcode cb21ab"),
        ("a 4-star hotel for 6.", "a 4-star hotel for six."),
    ],
)
def test_numbers(said: str, expected: str) -> None:
    assert perturb(said, "numbers", random.Random(0)) == expected


def test_vowels_go_but_not_those_of_values() -> None:
    said = ways("Looking for the charlie chan restaurant", "vowels", values=("charlie chan",))
    assert all("charlie chan" in text for text in said) and any(text.startswith("Lkng fr") for text in said)


def test_a_change_of_mind_ends_with_what_was_said_first() -> None:
    for said in ways("On Friday please", "change-of-mind"):
        days = re.findall(r"\w+day", said)
        assert len(days) == 2 and days[1] == "Friday" and days[0] != "friday"
    name = "the west end cinema"
    assert ways(name, "change-of-mind", values=("west end cinema",)) == {name}


def test_dialogues_are_perturbed_by_seed_and_keep_their_labels() -> None:
    turn = Turn("Which day, and WHEN?", "Friday at 17:15 with two people, please!", State({"train-day": "friday"}))
    dialogue = Dialogue("D1", (turn, turn))
    for kind in PERTURBATIONS:
        once, again = perturb_dialogue(dialogue, kind, seed=3), perturb_dialogue(dialogue, kind, seed=3)
        assert once == again and once != dialogue
        assert [turn.state for turn in once.turns] == [turn.state for turn in dialogue.turns]
        assert [turn.system for turn in once.turns] == [turn.system for turn in dialogue.turns]
    assert perturb_all([dialogue], "typos", seed=1) != perturb_all([dialogue], "typos", seed=2)


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(InputError, match='Did you mean "typos"'):
        perturb("hello", "typo", random.Random(0))  # type: ignore[arg-type]
