"""What to ask the user next, and in which words."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, Field
from scripted import RulePredictor

from somdst import Schema, Slot, Tracker
from somdst.errors import InputError, SchemaError
from somdst.memory.operations import Operation
from somdst.memory.state import DONTCARE
from somdst.tracking.questions import Question, ask, confirm
from somdst.tracking.records import Change

ONE_DOMAIN = Schema.from_json({"domains": {"pizza": {"size": ["small", "large"], "number": {}}}})


def careful(schema: Schema | None = None) -> Tracker:
    return Tracker(RulePredictor(schema), threshold=0.5)


@pytest.mark.parametrize(
    ("description", "question"),
    [
        ("", "What is the hotel book stay?"),
        ("number of nights", "How many nights?"),
        ("The number of nights.", "How many nights?"),
        ("kind of food", "What kind of food?"),
        ("name of the hotel", "What is the name of the hotel?"),
        ("price of the hotel, such as cheap", "What is the price of the hotel?"),
        ("when the taxi leaves", "Can you tell me when the taxi leaves?"),
        ("whether the hotel has parking", "Does it matter whether the hotel has parking?"),
        ("IATA code", "What is the IATA code?"),
        ("The U.S. state to go to. Any will do.", "What is the U.S. state to go to?"),
        ("no. of guests", "What is the no. of guests?"),
        ("explains at length " * 10, "What is the hotel book stay?"),
    ],
)
def test_a_question_is_made_of_the_description(description: str, question: str) -> None:
    assert ask(Slot.of("hotel", "book_stay", description=description)) == question


def test_a_question_names_the_values_if_they_are_few() -> None:
    assert ask(Slot.of("pizza", "size", values=["small", "medium", "large"])) == (
        "What is the pizza size: small, medium or large?"
    )
    assert ask(Slot.of("hotel", "area", values=[str(number) for number in range(7)])) == "What is the hotel area?"
    assert ask(Slot.of("hotel", "area", values=["north"])) == "What is the hotel area?"


@pytest.mark.parametrize(
    ("before", "after", "question"),
    [
        (None, "3", "Did you mean 3 for the number of nights?"),
        ("3", None, "Should I forget 3 for the number of nights?"),
        (DONTCARE, None, "Should I forget any for the number of nights?"),
        (None, DONTCARE, "Is any number of nights fine?"),
    ],
)
def test_a_write_that_was_held_back_is_asked_about(before: object, after: object, question: str) -> None:
    slot = Slot.of("hotel", "book stay", description="number of nights")
    assert confirm(Change(slot, Operation.UPDATE, before, after), slot) == question  # type: ignore[arg-type]


def test_an_indirect_question_does_not_fit_into_a_confirmation() -> None:
    slot = Slot.of("hotel", "parking", description="whether the hotel has parking")
    assert confirm(Change(slot, Operation.UPDATE, None, "yes"), slot) == "Did you mean yes for the hotel parking?"


def test_what_was_held_back_comes_first_then_what_is_empty() -> None:
    conversation = careful().start()
    conversation.update(user="taxi departure station, maybe taxi leaveat 10:00")
    conversation.update(user="maybe taxi arriveby 11:00")
    assert [(item.slot, item.kind, item.value) for item in conversation.what_to_ask()] == [
        ("taxi-leaveat", "confirm", "10:00"),
        ("taxi-arriveby", "confirm", "11:00"),
        ("taxi-destination", "ask", None),
    ]
    conversation.confirm("taxi-leaveat")
    conversation.reject("taxi-arriveby")
    assert [(item.slot, item.kind) for item in conversation.what_to_ask()] == [
        ("taxi-arriveby", "ask"),
        ("taxi-destination", "ask"),
    ]


def test_only_domains_that_were_talked_about_are_asked_about() -> None:
    conversation = careful().start()
    assert conversation.what_to_ask() == ()
    conversation.update(user="any taxi departure")
    assert {item.slot for item in conversation.what_to_ask()} == {"taxi-arriveby", "taxi-destination", "taxi-leaveat"}
    conversation.undo()
    assert conversation.what_to_ask() == ()


def test_the_only_domain_is_asked_about_from_the_start() -> None:
    assert careful(ONE_DOMAIN).start().what_to_ask() == (
        Question("pizza-size", "ask", "What is the pizza size: small or large?", values=("small", "large")),
        Question("pizza-number", "ask", "What is the pizza number?"),
    )


def test_slots_that_are_named_are_asked_for_in_that_order() -> None:
    conversation = careful().start()
    conversation.update(user="hotel area north")
    wanted = conversation.what_to_ask("train-day", "hotel-area", "hotel-book stay")
    assert [item.question for item in wanted] == ["What is the day of the journey?", "How many nights?"]
    with pytest.raises(InputError, match='Did you mean "hotel-area"'):
        conversation.what_to_ask("hotel-aera")


def test_a_question_goes_to_json_and_back() -> None:
    conversation = careful().start()
    conversation.update(user="maybe any hotel area")
    first = conversation.what_to_ask()[0]
    assert first.value is DONTCARE
    assert first.to_json()["value"] == "dontcare" and Question.from_json(first.to_json()) == first


def test_a_schema_may_have_words_of_its_own() -> None:
    schema = Schema.from_json(
        {
            "domains": {
                "stay": {
                    "nights": {"ask": "How long will you stay?", "confirm": "{value} nights, is that right?"},
                    "day": {"description": "first day of the stay"},
                }
            }
        }
    )
    conversation = careful(schema).start()
    assert [item.question for item in conversation.what_to_ask()] == [
        "How long will you stay?",
        "What is the first day of the stay?",
    ]
    held = conversation.update(user="maybe stay nights {value}").pending[0]  # what users say is never a template
    assert held.question == "{value} nights, is that right?"
    conversation.update(user="maybe stay nights 3")
    assert conversation.what_to_ask("stay-nights")[0].question == "3 nights, is that right?"
    assert conversation.update(user="maybe any stay nights").pending[0].question == "Is any stay nights fine?"
    assert Schema.from_json(schema.to_json()) == schema == Schema.from_json_schema(schema.to_json_schema())
    with pytest.raises(SchemaError, match="`confirm` without"):
        Slot.of("stay", "nights", confirm="Is that right?")


def test_only_what_is_required_is_asked_for() -> None:
    class Stay(BaseModel):
        area: str = Field(description="part of town", json_schema_extra={"x-ask": "Where in town?"})
        nights: int = Field(description="number of nights")
        parking: bool = Field(False, description="whether the hotel has parking")

    conversation = careful(Schema.from_pydantic(Stay)).start()
    assert [item.question for item in conversation.what_to_ask()] == ["Where in town?", "How many nights?"]
    conversation.update(user="stay area north, maybe stay parking yes")
    assert [item.slot for item in conversation.what_to_ask()] == ["stay-parking", "stay-nights"]
    conversation.update(user="stay nights 3, stay parking no")
    assert conversation.what_to_ask() == ()
    assert [item.slot for item in conversation.undo() and conversation.what_to_ask()] == ["stay-parking", "stay-nights"]


class Room(BaseModel):
    town: str
    nights: int
    breakfast: bool = False


class Ride(BaseModel):
    start: str
    end: str


class Insurance(BaseModel):
    insurer: str


class Journey(BaseModel):
    """Neither the objects nor their fields are in alphabetical order."""

    room: Room
    ride: Ride
    insurance: Insurance | None = None
    name: str


def test_all_that_is_required_is_asked_for_as_it_was_written_domains_in_play_first() -> None:
    conversation = careful(Schema.from_pydantic(Journey)).start()

    def open_slots() -> list[str]:
        return [item.slot for item in conversation.what_to_ask()]

    assert open_slots() == ["room-town", "room-nights", "ride-start", "ride-end", "journey-name"]
    conversation.update(user="ride end station, insurance insurer bluewell")
    assert open_slots() == ["ride-start", "room-town", "room-nights", "journey-name"]
    conversation.update(user="ride start home, maybe room nights 3, journey name ann")
    assert open_slots() == ["room-nights", "room-town"], "what was held back is to be confirmed"
    conversation.update(user="room nights 3")
    assert open_slots() == ["room-town"]
    conversation.update(user="any room town")
    assert open_slots() == [], "so everything that is required is there"
