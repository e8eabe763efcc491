"""Text rules: what they do, that nothing breaks them, and that the way back is right."""

from functools import partial

import pytest
from counting import lines_run
from hypothesis import given
from hypothesis import strategies as st

from somdst.errors import InputError
from somdst.memory.schema import TextRules
from somdst.model.text import WORDS, _align, normalise, source_span

RULES = {
    "I need a B&B": "i need a bed and breakfast",
    "b and b, please": "bed and breakfast , please",
    "a club and bar": "a club and bar",
    "It’s fine; really": "it is fine , really",
    "north/south": "north and south",
    "alpha-milton": "alpha milton",
    'say "hi" <b> (x) a@b': "say hi b x ab",
    "Really?! Yes.": "really ? ! yes .",
    "at 10.30, 1,000 or 9:45.": "at 10.30 , 1,000 or 9:45 .",
    "the hotel's phone": "the hotel 's phone",
    "I don't, can't and won't": "i do not , cannot and will not",
    "cheaper restaurants": "cheap -er restaurant -s",
    "moderately priced lunches": "moderate -ly priced lunch -s",
    "one phone for twelve": "1 phone for 12",
    "call 01223 337 766 now": "call 01223337766 now",
    "restaurant two two": "restaurant 2 two",
    "so . . . yes": "so . yes",
    "good bye": "goodbye",
    "  a \t b\n": "a b",
    "[NULL] [SLOT] [SEP]": "[null] [slot] [sep]",
    "": "",
}
EVERYDAY = {
    "2 ppl tmrw pls": "2 people tomorrow please",
    "a table w/ a view, w/o u": "a table with a view , without you",
    "north/south": "north and south",
    "on Fri, or sat, or next Wed": "on friday , or saturday , or next wednesday",
    "We sat in the sun, to wed": "we sat in the sun , to wed",
    "at 5pm, 5 PM, 5:15 p.m. or 17:15 pm": "at 17:00 , 17:00 , 17:15 or 17:15",
    "12am and 12pm": "00:00 and 12:00",
    "I leave at 9 am.": "i leave at 09:00 .",
    "quarter past five in the afternoon": "17:15",
    "A quarter to twelve at night": "23:45",
    "half past five": "5:30",
    "twenty-five minutes to 1": "12:35",
    "five to seven": "5 to 7",
    "a table for 2 in the evening": "a table for 2 in the evening",
    "for 5 after 7 on friday": "for 5 after 7 on friday",
    "from 5 to 7 pm": "from 5 to 19:00",
    "10 to 5 pm": "10 to 17:00",
    "from ten to one in the afternoon": "from 10 to 13:00",
    "half after six": "6:30",
    "wed like it on wed": "wed like it on wednesday",
    "seven in the evening": "19:00",
    "at 5:15 in the evening": "at 17:15",
    "quarter to twelve in the morning": "11:45",
    "mon-fri, move it to sun, mon": "monday friday , move it to sunday , monday",
    "quarter to 7": "6:45",
    "ten to one in the afternoon": "12:50",
    "ten to one in the morning": "00:50",
    "five minutes past 9 pm": "21:05",
    "eight o'clock in the evening": "20:00",
    "seven oclock": "7:00",
    "1 at night": "01:00",
    "five to seven people": "5 to 7 people",
    "from ten to 12:30": "from 10 to 12:30",
    "half to six": "half to 6",
    "25 am, 9:75 pm": "25 am , 9:75 pm",
    "I am 5": "i am 5",
    "it's r&b, you're": "it is r&b , you are",
}
KINDS = ["multiwoz", "everyday", "lowercase"]
ANY_TEXT = st.text() | st.text(st.characters(categories=["Cs", "Ll", "Nd", "Zs", "Lu", "Po"]))
TALK = st.lists(
    st.sampled_from(
        [*WORDS, "b&b", "two two", "10.30", "?", "...", "it's;", "a/b-c", "Ely", "7", "w/", "5 pm", "half past"]
    )
).map(" ".join)


@pytest.mark.parametrize("raw", RULES)
def test_multiwoz_rules(raw: str) -> None:
    assert normalise(raw, "multiwoz") == RULES[raw]


@pytest.mark.parametrize("raw", RULES)
def test_normal_text_stays_as_it_is(raw: str) -> None:
    assert normalise(RULES[raw], "multiwoz") == RULES[raw]


@pytest.mark.parametrize("raw", EVERYDAY)
def test_everyday_rules(raw: str) -> None:
    text = normalise(raw, "everyday")
    assert text == EVERYDAY[raw]
    assert normalise(text, "everyday") == text


def test_letters_of_an_abbreviation_are_no_short_forms() -> None:
    assert normalise("the R.U.K., u-turn", "everyday") == "the r . u . k . , u turn"


@pytest.mark.parametrize("raw", sorted(RULES))
def test_everyday_rules_are_those_of_multiwoz_and_more(raw: str) -> None:
    assert normalise(raw, "everyday") == RULES[raw]


def test_lowercase_keeps_the_words() -> None:
    assert normalise(" It's  a B&B;\n TWO-star ", "lowercase") == "it's a b&b; two-star"


def test_unknown_kind() -> None:
    with pytest.raises(InputError, match="multiwoz"):
        normalise("x", "uppercase")  # type: ignore[arg-type]


@given(ANY_TEXT | TALK, st.sampled_from(KINDS))
def test_any_text_becomes_tidy_text(raw: str, kind: str) -> None:
    text = normalise(raw, kind)  # type: ignore[arg-type]
    text.encode()  # no half characters are left, which tokenizers would refuse
    assert text == " ".join(text.split())


@given(ANY_TEXT | TALK, st.sampled_from(KINDS), st.data())
def test_source_span_lies_in_the_raw_text(raw: str, kind: str, data: st.DataObject) -> None:
    text = normalise(raw, kind)  # type: ignore[arg-type]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    assert _align(raw, kind).text == text  # type: ignore[arg-type]
    first, last = source_span(raw, text, start, end)
    assert 0 <= first <= last <= len(raw)
    if text[start:end].strip():
        assert first < last


@pytest.mark.parametrize(
    ("raw", "kind", "part", "source"),
    [
        ("A B&B, please!", "multiwoz", "bed and breakfast", "B&B"),
        ("On FRIDAY at 10:15.", "multiwoz", "friday", "FRIDAY"),
        ("for two  people", "multiwoz", "2 people", "two  people"),
        ("Cheaper restaurants", "multiwoz", "cheap -er", "Cheaper"),
        ("call 01223 337 766", "multiwoz", "01223337766", "01223 337 766"),
        ("the Alpha-Milton", "multiwoz", "alpha milton", "Alpha-Milton"),
        ("ΑΣ İ café Ely", "multiwoz", "ely", "Ely"),
        ("Leave at Quarter past 5 in the evening!", "everyday", "17:15", "Quarter past 5 in the evening"),
        ("On Fri, ok", "everyday", "friday", "Fri"),
    ],
)
def test_source_span(raw: str, kind: TextRules, part: str, source: str) -> None:
    text = normalise(raw, kind)
    start = text.index(part)
    first, last = source_span(raw, text, start, start + len(part))
    assert raw[first:last] == source


def test_source_span_of_other_text_is_everything() -> None:
    assert source_span("one thing", "another", 0, 3) == (0, 9)


@pytest.mark.parametrize("kind", ["multiwoz", "everyday"])
@pytest.mark.parametrize(
    "piece", ["two ", "1 ", "1", " ", ". ", "b ", "b  and ", "'s", "- ", "5 past ", "w/", "ten to "]
)
def test_long_text_is_no_trap(kind: TextRules, piece: str) -> None:
    """Ten times the text takes ten times the steps. Those of the patterns themselves are counted in
    `test_patterns.py`."""
    short, long = (lines_run(partial(normalise_and_align, piece * (size // len(piece)), kind)) for size in (200, 2000))
    assert long <= 12 * short


def normalise_and_align(text: str, kind: TextRules) -> None:
    normalise(text, kind)
    _align(text, kind)
