"""Text rules: what they do, that nothing breaks them, and that the way back is right."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from somdst.corpora.normalisation import WORDS, _align, normalise, source_span
from somdst.errors import InputError

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
ANY_TEXT = st.text() | st.text(st.characters(categories=["Cs", "Ll", "Nd", "Zs", "Lu", "Po"]))
TALK = st.lists(st.sampled_from([*WORDS, "b&b", "two two", "10.30", "?", "...", "it's;", "a/b-c", "Ely", "7"])).map(
    " ".join
)


@pytest.mark.parametrize("raw", RULES)
def test_multiwoz_rules(raw: str) -> None:
    assert normalise(raw, "multiwoz") == RULES[raw]


@pytest.mark.parametrize("raw", RULES)
def test_normal_text_stays_as_it_is(raw: str) -> None:
    assert normalise(RULES[raw], "multiwoz") == RULES[raw]


def test_lowercase_keeps_the_words() -> None:
    assert normalise(" It's  a B&B;\n TWO-star ", "lowercase") == "it's a b&b; two-star"


def test_unknown_kind() -> None:
    with pytest.raises(InputError, match="multiwoz"):
        normalise("x", "uppercase")  # type: ignore[arg-type]


@given(ANY_TEXT | TALK, st.sampled_from(["multiwoz", "lowercase"]))
def test_any_text_becomes_tidy_text(raw: str, kind: str) -> None:
    text = normalise(raw, kind)  # type: ignore[arg-type]
    text.encode()  # no half characters are left, which tokenizers would refuse
    assert text == " ".join(text.split())


@given(ANY_TEXT | TALK, st.sampled_from(["multiwoz", "lowercase"]), st.data())
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
    ("raw", "part", "source"),
    [
        ("A B&B, please!", "bed and breakfast", "B&B"),
        ("On FRIDAY at 10:15.", "friday", "FRIDAY"),
        ("for two  people", "2 people", "two  people"),
        ("Cheaper restaurants", "cheap -er", "Cheaper"),
        ("call 01223 337 766", "01223337766", "01223 337 766"),
        ("the Alpha-Milton", "alpha milton", "Alpha-Milton"),
        ("ΑΣ İ café Ely", "ely", "Ely"),
    ],
)
def test_source_span(raw: str, part: str, source: str) -> None:
    text = normalise(raw, "multiwoz")
    start = text.index(part)
    first, last = source_span(raw, text, start, start + len(part))
    assert raw[first:last] == source


def test_source_span_of_other_text_is_everything() -> None:
    assert source_span("one thing", "another", 0, 3) == (0, 9)


def test_long_text_is_no_trap() -> None:
    """Each of these is slow where a pattern backtracks or looks back over all of the text."""
    start = time.process_time()
    for piece in ("two ", "1 ", "1", " ", ". ", "b ", "b  and ", "'s", "- ", "two three "):
        normalise(piece * (200_000 // len(piece)), "multiwoz")
    assert time.process_time() - start < 10  # takes 0.2 seconds; minutes where it is one
