"""A state as an instance of a pydantic model: converted, validated, partial, and nothing dropped silently."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from scripted import RulePredictor

from somdst import DONTCARE, Schema, State, Tracker
from somdst.errors import SchemaError
from somdst.memory.filling import Note, _spoken, number


class Area(Enum):
    NORTH = "North"
    SOUTH = "South"


class Hotel(BaseModel):
    area: Area
    stars: Literal[3, 4, 5] | None = None
    nights: int = Field(1, ge=1, le=30)
    parking: bool = False
    price: Decimal | None = None
    day: date
    at: time | None = None
    paid: datetime | None = None


class Trip(BaseModel):
    hotel: Hotel | None = None
    purpose: str


STATE = State({"hotel-area": "north", "hotel-nights": "three", "hotel-parking": "yes", "trip-purpose": "work"})


def test_values_are_converted_and_the_rest_is_unset() -> None:
    trip, notes = STATE.as_model(Trip)
    assert notes == ()
    assert isinstance(trip, Trip) and trip.hotel is not None
    assert (trip.hotel.area, trip.hotel.nights, trip.hotel.parking) == (Area.NORTH, 3, True)
    assert trip.hotel.model_fields_set == {"area", "nights", "parking"}
    assert trip.model_fields_set == {"hotel", "purpose"}
    assert not hasattr(trip.hotel, "day"), "required, and nobody said it"
    assert trip.hotel.stars is None, "the default of the model, and not set"


def test_a_complete_state_is_a_whole_instance() -> None:
    said = {"hotel-stars": "4", "hotel-price": "1,200.50", "hotel-day": "2026-03-01", "hotel-at": "17:15"}
    state = STATE.with_values({**said, "hotel-paid": "2026-03-01T10:00:00"})
    trip, notes = state.as_model(Trip)
    hotel = Hotel(
        area=Area.NORTH, stars=4, nights=3, parking=True, price=Decimal("1200.5"), day=date(2026, 3, 1),
        at=time(17, 15), paid=datetime(2026, 3, 1, 10),
    )  # fmt: skip
    assert (trip, notes) == (Trip(hotel=hotel, purpose="work"), ())


def test_an_empty_state_sets_nothing() -> None:
    trip, notes = State().as_model(Trip)
    assert (trip.model_fields_set, trip.hotel, notes) == (set(), None, ())


@pytest.mark.parametrize("text", ["next friday", "5", "2026", "20260301", "2026-02-31", "25:00"])
@pytest.mark.parametrize("field", ["day", "at", "paid"])
def test_a_date_that_is_none_stays_text_with_a_note(field: str, text: str) -> None:
    trip, notes = State({f"hotel-{field}": text}).as_model(Trip)
    assert getattr(trip.hotel, field) == text
    reason = f'"{text}" does not fit `hotel.{field}`: it stays text, since only the application knows today\'s date.'
    assert notes == (Note(f"hotel-{field}", f"hotel.{field}", text, True, reason),)


class Stay(BaseModel):
    """Dates and times with limits and validators of their own."""

    day: date | None = Field(None, ge=date(2026, 1, 1))
    at: time | None = None
    paid: datetime | None = Field(None, lt=datetime(2030, 1, 1))
    nights: int = 1

    @field_validator("at")
    @classmethod
    def _while_open(cls, value: time) -> time:
        if value.hour < 8:
            raise ValueError("the desk opens at eight")
        return value

    @model_validator(mode="after")
    def _short(self) -> Stay:
        if self.nights > 7:
            raise ValueError("a week at most")
        return self


@pytest.mark.parametrize(
    ("field", "text", "says"),
    [
        ("day", "2025-12-31", "input should be greater than or equal to 2026-01-01."),
        ("at", "07:30", "the desk opens at eight."),
        ("paid", "2031-05-01T10:00:00", "input should be less than 2030-01-01"),
        ("paid", "2031-05-01", "input should be less than 2030-01-01"),
    ],
)
def test_a_date_that_the_model_refuses_is_unset_for_the_reason_of_the_model(field: str, text: str, says: str) -> None:
    stay, [note] = State({f"stay-{field}": text}).as_model(Stay)
    assert note.reason.startswith(f'"{text}" does not fit `{field}`: {says}') and not note.kept
    assert getattr(stay, field) is None and stay.model_fields_set == set()


def test_the_whole_is_not_validated_while_a_date_is_text() -> None:
    state = State({"stay-nights": "9", "stay-day": "tomorrow"})
    stay, [note] = state.as_model(Stay)
    assert (stay.day, stay.nights, note.kept) == ("tomorrow", 9, True)
    _, [note] = state.with_values({"stay-day": "2026-03-01"}).as_model(Stay)
    assert note.reason == "Stay as a whole is not valid: a week at most."


@pytest.mark.parametrize(
    ("slot", "value", "says"),
    [
        ("hotel-nights", "a few", '"a few" does not fit `hotel.nights`: input should be a valid integer'),
        ("hotel-nights", "ninety", '"ninety" does not fit `hotel.nights`: input should be less than or equal to 30.'),
        ("hotel-parking", "maybe", '"maybe" does not fit `hotel.parking`: input should be a valid boolean'),
        ("hotel-area", "moon", "\"moon\" does not fit `hotel.area`: input should be 'North' or 'South'."),
        ("hotel-stars", "6", '"6" does not fit `hotel.stars`: input should be 3, 4 or 5.'),
        ("hotel-pool", "yes", 'Trip has no field for the slot "hotel-pool".'),
        ("hotel-area", DONTCARE, "The user has no preference: `hotel.area` is unset."),
    ],
)
def test_what_does_not_fit_is_reported_and_unset(slot: str, value: Any, says: str) -> None:
    trip, [note] = State({slot: value, "trip-purpose": "work"}).as_model(Trip)
    assert note.reason.startswith(says) and note.reason.endswith(".")
    assert (note.slot, note.value, note.kept) == (slot, value, False)
    assert trip.model_fields_set == {"purpose"} and trip.hotel is None


class Careful(BaseModel):
    """Validators of fields and of the whole, an alias, and strict types."""

    model_config = ConfigDict(strict=True, populate_by_name=True)
    start: Annotated[int, AfterValidator(lambda value: value)] = Field(alias="startHour")
    end: int
    day: date | None = None
    name: str = ""

    @field_validator("end")
    @classmethod
    def _not_noon(cls, value: int) -> int:
        if value == 12:
            raise ValueError("nobody ends at noon")
        return value

    @field_validator("name")
    @classmethod
    def _not_like_another(cls, value: str, info: ValidationInfo) -> str:
        return f"{value} {info.data['end']}"

    @model_validator(mode="after")
    def _in_order(self) -> Careful:
        if self.start > self.end:
            raise ValueError("it ends before it starts")
        return self


def test_validators_of_fields_count_and_those_of_the_whole_once_it_is_complete() -> None:
    made, notes = State({"careful-startHour": "nine", "careful-day": "2026-03-01"}).as_model(Careful)
    assert (made.start, made.day, notes, made.model_fields_set) == (9, date(2026, 3, 1), (), {"start", "day"})
    made, [note] = State({"careful-end": "twelve"}).as_model(Careful)
    assert note.reason == '"twelve" does not fit `end`: nobody ends at noon.' and not made.model_fields_set
    made, notes = State({"careful-startHour": "3", "careful-end": "5", "careful-name": "x"}).as_model(Careful)
    assert (made.name, notes) == ("x 5", ())
    made, [note] = State({"careful-startHour": "9", "careful-end": "5"}).as_model(Careful)
    assert (made.start, made.end) == (9, 5)
    assert note == Note(None, None, None, False, "Careful as a whole is not valid: it ends before it starts.")


def test_a_field_that_cannot_be_a_slot_stays_unset() -> None:
    class Pizza(BaseModel):
        size: str
        toppings: list[str] = []

    pizza, notes = State({"pizza-size": "large"}).as_model(Pizza)
    assert (pizza, notes) == (Pizza(size="large"), ()) and pizza.model_fields_set == {"size"}
    pizza, _ = State({"order-size": "large"}).as_model(Pizza, domain="order")
    assert pizza.size == "large"


def test_what_is_no_model() -> None:
    with pytest.raises(SchemaError, match="Expected a pydantic model class"):
        STATE.as_model(dict)


def test_results_and_conversations_have_it() -> None:
    schema = Schema.from_pydantic(Trip)
    conversation = Tracker(RulePredictor(schema)).start()
    result = conversation.update("hotel nights two and hotel parking yes and any hotel area")
    trip, notes = result.as_model(Trip)
    assert trip.hotel is not None and (trip.hotel.nights, trip.hotel.parking) == (2, True)
    assert [note.value for note in notes] == [DONTCARE]
    assert conversation.state.as_model(Trip) == (trip, notes)


@given(n=st.integers(0, 999), hyphen=st.booleans())
def test_numbers_in_words(n: int, hyphen: bool) -> None:
    words = _spoken(n)
    assert number(words.replace(" ", "-") if hyphen else words.title()) == n
    assert number(str(n)) == n and number(f"{n} people") is None
    assert number(words.replace("hundred ", "hundred and ")) == n


@given(text=st.text())
def test_any_text_is_a_number_or_none(text: str) -> None:
    assert number(text) is None or isinstance(number(text), int | float)
    trip, notes = State({"hotel-nights": text, "hotel-day": text, "trip-purpose": text}).as_model(Trip)
    assert trip.purpose == text if "purpose" in trip.model_fields_set else notes
