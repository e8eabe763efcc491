"""Which listed values and which slots a turn says word for word, and how the model is shown them."""

import tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import tokens, turn_input

from somdst.memory.schema import Schema, Slot
from somdst.memory.state import State
from somdst.model.encoding import mention
from somdst.model.mentions import LONGEST, MOST, RECENT, NamedSlots

AREA = Slot.of("hotel", "area", values=("north", "south", "north east"))
DAY = Slot.of("train", "day", values=("friday", "monday", "2"))
PETS = Slot.of("hotel", "pets", values=("yes", "no"))
SCHEMA = Schema([AREA, Slot.of("hotel", "name"), PETS, DAY])
ENCODER = tiny.encoder(SCHEMA, layout="compact")


def found(text: str, schema: Schema = SCHEMA) -> dict[str, str]:
    """What is shown per slot, as text."""
    table = ENCODER.table(schema)
    assert table.mentions is not None
    said = table.mentions.find([ENCODER.pieces(text)])
    return {str(schema.slots[j]): tokens(ENCODER, table.mentions.shown(j, places)) for j, places in said.items()}


def test_a_listed_value_is_shown_beside_its_slot() -> None:
    encoding = ENCODER.encode(turn_input("south please", "north ?", state=State({"hotel-area": "north"})))
    assert tokens(ENCODER, encoding.ids) == (
        "[CLS] [SEP] north ? ; south please [SEP] [SLOT] north : north south [SLOT] [SLOT] [SLOT]"
    )
    assert [tokens(ENCODER, [encoding.ids[j]]) for j in encoding.slots] == ["[SLOT]"] * 4


def test_the_words_of_a_listed_value_are_its_evidence() -> None:
    encoding = ENCODER.encode(turn_input("I need a guest house please"))
    for value in ("guest_house", "Guest House"):
        evidence = mention(encoding, value)
        assert evidence is not None and evidence.text == "guest house"
    assert mention(encoding, "guest") is not None and mention(encoding, "plea") is None


def test_the_longest_value_counts_once() -> None:
    assert found("the north east please") == {"hotel-area": "north east"}
    assert found("north or north east") == {"hotel-area": "north north east"}


def test_whole_words_only() -> None:
    assert found("northern mondays") == {}
    assert found("north, on monday.") == {"hotel-area": "north", "train-day": "monday"}


def test_numbers_in_words() -> None:
    schema = Schema([Slot.of("bus", "seats", values=("1", "2"))])
    assert found("two please", schema) == found("2 please", schema) == {"bus-seats": "2"}
    assert found("2 please", Schema([Slot.of("bus", "seats", values=("1", "two"))])).keys() == {"bus-seats"}
    assert found("1 seat", schema) == {"bus-seats": "1"}
    assert found("the second one", schema) == {}, "this says which, and not how many"


def test_long_values_and_the_beginning_of_a_long_text_are_not_searched() -> None:
    long = " ".join(["north"] * (LONGEST + 1))
    assert found(f"{long} monday", Schema([Slot.of("hotel", "area", values=(long, "monday"))])) == {
        "hotel-area": "monday"
    }
    assert found("monday " + "please " * (RECENT - 1)) == {"train-day": "monday"}
    assert found("monday " + "please " * RECENT) == {}


def test_numbers_in_words_and_digits() -> None:
    assert found("two please") == found("2 please") == {"train-day": "2"}
    assert found("at 12 or 22") == {}


def test_yes_and_no_are_said_of_anything() -> None:
    assert found("yes no") == {}


def test_names_as_programmers_write_them() -> None:
    schema = Schema([Slot.of("hotel", "area", values=("mid_north", "South"))])
    assert found("Mid north or SOUTH", schema) == {"hotel-area": "mid north south"}


def test_at_most_the_last_few() -> None:
    values = ("north", "south", "east", "friday", "monday")
    schema = Schema([Slot.of("hotel", "area", values=values)])
    assert found(" ".join(values), schema) == {"hotel-area": " ".join(values[-MOST:])}


def test_a_slot_without_a_list_and_a_fixed_schema_show_nothing() -> None:
    assert found("hotel name north").keys() == {"hotel-area"}
    assert tiny.encoder(SCHEMA, layout="paper").table().mentions is None


@given(st.lists(st.sampled_from(["north", "east", "south", "the", "2", "two", "monday", "-", "no"]), max_size=8))
@settings(max_examples=50, deadline=None)
def test_as_a_naive_search_finds_them(words: list[str]) -> None:
    """Per value: is it a run of words of the text? What stands inside a longer value is left out."""
    text = f" {' '.join(words)} "
    longer = text.replace(" north east ", " | ")
    naive = {
        "hotel-area": {v for v in AREA.values or () if f" {v} " in (text if v == "north east" else longer)},
        "train-day": {v for v in ("monday", "friday") if f" {v} " in text}
        | ({"2"} if {"2", "two"} & {*words} else set()),
    }
    shown = found(text)
    for slot, values in naive.items():
        assert sorted(shown.get(slot, "").split()) == sorted(" ".join(values).split())


def test_what_a_turn_names() -> None:
    schema = Schema(
        [Slot.of("trip", name) for name in ("departure_time", "leaving from", "travelDay", "ünïcode", "of")]
    )
    named = NamedSlots(schema)

    def names(*texts: str) -> set[str]:
        return {schema.slots[j].name for j in named.find(texts)}

    assert names("At what time does it depart?") == {"departure_time"}
    assert names("when do you leave?") == {"leaving from"}
    assert names("on which day", "departing") == {"travelDay", "departure_time"}
    assert names("the ÜNÏCODE") == {"ünïcode"}
    assert names("of what, please?") == names("") == names() == set(), "small words name nothing"
    assert names("who is it?") == set()
