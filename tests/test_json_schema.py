"""Schemas from pydantic models, JSON Schema and tool definitions, and back; what cannot be one gets one sentence."""

from __future__ import annotations

import json
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from somdst import Schema, Slot
from somdst.errors import FileError, SchemaError
from somdst.memory.json_schema import MAX_SLOTS, MAX_VALUES
from somdst.memory.schema import MAX_FILE, SlotType
from somdst.service.views import SchemaView


class Area(Enum):
    NORTH = "north"
    SOUTH = "south"


class Hotel(BaseModel):
    area: Area | None = Field(None, description="part of town")
    stars: Literal[3, 4, 5]
    parking: bool
    price: Decimal
    nights: int = 1
    day: date
    at: time | None
    paid: datetime | None = None
    guest: str = Field(title="Name of the guest", json_schema_extra={"x-redact": True})


class BigTrip(BaseModel):
    model_config = ConfigDict(json_schema_extra={"x-different": [["departure", "destination"]]})
    hotel: Hotel | None = None
    departure: str
    destination: str = Field(title="Destination")


class Node(BaseModel):
    value: int
    parent: Node | None = None


def flat(**properties: Any) -> dict[str, Any]:
    return {"title": "Pizza", "type": "object", "properties": properties}


def test_a_pydantic_model_is_a_schema() -> None:
    schema = Schema.from_pydantic(BigTrip)
    assert schema.domains == ("big_trip", "hotel")
    assert schema.different == (("big_trip-departure", "big_trip-destination"),)
    assert {slot.name: slot.type for slot in schema.slots if slot.domain == "hotel"} == {
        "area": "text", "at": "time", "day": "date", "guest": "text", "nights": "integer", "paid": "datetime",
        "parking": "boolean", "price": "number", "stars": "integer",
    }  # fmt: skip
    assert schema["hotel-area"].values == ("north", "south") and schema["hotel-stars"].values == ("3", "4", "5")
    assert schema["hotel-parking"].values == ("yes", "no")
    assert schema["hotel-area"].description == "part of town"
    assert schema["hotel-guest"].description == "Name of the guest", "a title that says more than the name"
    assert schema["big_trip-destination"].description == "", "a title that says nothing more"
    assert {slot.name for slot in schema.slots if slot.required} == {"departure", "destination"}, "no hotel is needed"
    assert {slot.name for slot in Schema.from_pydantic(Hotel).slots if slot.required} == {
        "stars", "parking", "price", "day", "guest",
    }  # fmt: skip
    assert schema.written[0] == "hotel-area" and schema.written[-1] == "big_trip-destination"
    assert [slot for slot in schema.slots if slot.redact] == ["hotel-guest"]


def test_a_domain_can_be_given_and_properties_left_out() -> None:
    schema = Schema.from_pydantic(BigTrip, domain="trip", skip=["hotel.price", "destination", "hotel.guest"])
    assert "trip-departure" in schema and "hotel-price" not in schema and "hotel-day" in schema
    with pytest.raises(SchemaError, match=r"no property `hotel\.prize` to skip"):
        Schema.from_pydantic(BigTrip, skip=["hotel.prize"])


TOOL = {
    "name": "book-table",
    "description": "Book a table.",
    "parameters": {"type": "object", "properties": {"people": {"type": "integer", "description": "how many come"}}},
}
PARAMETERS = TOOL["parameters"]


@pytest.mark.parametrize(
    "data",
    [
        TOOL,
        {"type": "function", **TOOL},
        {"type": "function", "function": TOOL},
        {"name": "book-table", "input_schema": PARAMETERS},
        {"name": "book-table", "inputSchema": PARAMETERS},
        {"type": "json_schema", "json_schema": {"name": "book-table", "schema": PARAMETERS, "strict": True}},
        [{"type": "function", "function": TOOL}, {"name": "now", "input_schema": {"type": "object", "properties": {}}}],
        [TOOL, {"type": "web_search_20250305", "name": "web_search"}],
        {"tools": [TOOL]},
    ],
    ids=["functions", "responses", "chat", "anthropic", "mcp", "structured", "list", "server tool", "request"],
)
def test_a_tool_is_a_domain(data: object) -> None:
    schema = Schema.from_json_schema(data)
    assert list(schema) == ["book_table-people"]
    assert (schema.slots[0].type, schema.slots[0].description) == ("integer", "how many come")
    assert Schema.from_json(data) == schema


def test_tools_together() -> None:
    schema = Schema.from_json_schema([TOOL, {**TOOL, "name": "cancel"}])
    assert list(schema) == ["book_table-people", "cancel-people"]


@pytest.mark.parametrize(
    ("node", "type_", "values"),
    [
        ({}, "text", None),
        (True, "text", None),
        ({"type": ["integer", "null"]}, "integer", None),
        ({"type": ["integer", "number"]}, "number", None),
        ({"anyOf": [{"type": "number"}, {"type": "string"}]}, "number", None),
        ({"anyOf": [{"type": "boolean"}, {"type": "string"}]}, "text", None),
        ({"anyOf": [{"enum": ["a"]}, {"enum": ["b", "a"]}, {"type": "null"}]}, "text", ("a", "b")),
        ({"anyOf": [{"enum": ["a"]}, {"type": "string"}]}, "text", None),
        ({"oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]}, "text", ("a", "b")),
        ({"type": "string", "anyOf": [{"format": "date"}, {"format": "date"}]}, "date", None),
        ({"enum": [1, 2.5, None]}, "number", ("1", "2.5")),
        ({"enum": [1, "one"]}, "text", ("1", "one")),
        ({"const": True}, "boolean", ("yes", "no")),
        ({"enum": [True, False]}, "boolean", ("yes", "no")),
        ({"$ref": "#/$defs/size"}, "text", ("small", "large")),
        ({"$ref": "#/$defs/a~1b"}, "integer", None),
        ({"allOf": [{"$ref": "#/$defs/size"}]}, "text", ("small", "large")),
        ({"type": "string", "format": "date-time", "nullable": True}, "datetime", None),
        ({"type": "string", "enum": ["one"], "x-type": "integer"}, "integer", ("one",)),
    ],
)
def test_what_a_property_may_be(node: object, type_: SlotType, values: tuple[str, ...] | None) -> None:
    definitions = {"size": {"enum": ["small", "large"]}, "a/b": {"type": "integer"}}
    slot = Schema.from_json_schema({**flat(x=node), "$defs": definitions}).slots[0]
    assert (slot, slot.type, slot.values) == ("pizza-x", type_, values)


def test_slots_that_are_different_are_named_by_property_or_slot() -> None:
    train = {"properties": {"a": {"x-different": ["b"]}, "b": {}, "c": {}}, "x-different": [["a", "c"]]}
    data = {**flat(train=train, d={}), "x-different": [["d", "train-c"]]}
    different = Schema.from_json_schema(data).different
    assert set(different) == {("train-a", "train-b"), ("train-a", "train-c"), ("pizza-d", "train-c")}
    with pytest.raises(SchemaError, match='Did you mean "pizza-d"'):
        Schema.from_json_schema({**flat(d={}, e={}), "x-different": [["e", "pizza-dd"]]})


def test_a_property_is_skipped_in_every_tool() -> None:
    tools = [
        {"name": name, "input_schema": flat(items={"type": "array"}, day={}, place={})} for name in ("order", "return")
    ]
    assert list(Schema.from_json_schema(tools, skip=["items"])) == [
        f"{tool}-{name}" for tool in ("order", "return") for name in ("day", "place")
    ]


def test_what_is_skipped_need_not_differ(tmp_path: Path) -> None:
    slots = [Slot.of("train", name) for name in ("day", "departure", "destination")] + [Slot.of("taxi", "goal")]
    pairs = [["train-departure", "train-destination"], ["train-destination", "taxi-goal"]]
    file = tmp_path / "x.schema.json"
    file.write_text(json.dumps(Schema(slots, different=pairs).to_json_schema()))
    read = partial(Schema.from_json_schema, json.loads(file.read_text()))
    assert set(map(frozenset, read(skip=["train.departure"]).different)) == {frozenset(pairs[1])}
    assert read(skip=["train"]).different == () and list(read(skip=["train"])) == ["taxi-goal"]


def test_alternatives_that_only_restrict_an_object_are_no_alternatives() -> None:
    data = {**flat(a={}, b={}), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    assert len(Schema.from_json_schema(data)) == 2
    parts = [{"$ref": "#/$defs/base"}, flat(b={})]
    data = {"title": "P", "allOf": parts, "required": ["b"], "$defs": {"base": {**flat(a={}), "required": ["a"]}}}
    assert [slot.required for slot in Schema.from_json_schema(data).slots] == [True, True]


# And back

name = st.text(st.characters(codec="utf-8", exclude_characters="-", exclude_categories=["C", "Z"]), min_size=1)
text = st.text(st.characters(codec="utf-8"), max_size=20)
number = st.integers().map(str) | st.floats(allow_nan=False).map(str) | st.sampled_from(["four", "007", "1.50"])


@st.composite
def slots(draw: st.DrawFn) -> Slot:
    type_: SlotType = draw(st.sampled_from(get_args(SlotType)))
    values = st.none() if type_ == "boolean" else st.none() | st.lists(text | number, min_size=1, unique=True)
    return Slot.of(
        draw(name), draw(name), description=draw(text), values=draw(values), type=type_,
        required=draw(st.booleans()), redact=draw(st.booleans()),
        ask=draw(text), confirm=draw(st.sampled_from(["", "{value}?"])),
    )  # fmt: skip


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    found = draw(st.lists(slots(), min_size=1, max_size=5, unique=True))
    different = [found[:2]] if len(found) > 1 and draw(st.booleans()) else []
    return Schema(found, different=different, text_rules=draw(st.sampled_from([None, "everyday"])))


@given(schema=schemas())
def test_reading_undoes_writing(schema: Schema) -> None:
    made = json.loads(json.dumps(schema.to_json_schema()))
    jsonschema.Draft202012Validator.check_schema(made)
    for read in (Schema.from_json_schema(made), Schema.from_json(schema.to_json())):
        assert read == schema and read.written == schema.written


@given(schema=schemas())
@pytest.mark.parametrize("ending", ["yaml", "json", "schema.json"])
def test_every_file_loads_again(schema: Schema, ending: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / f"round.{ending}"
    schema.save(path)
    assert Schema.load(path) == schema


def test_files_of_others_load(tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text(json.dumps([TOOL]))
    (tmp_path / "model.yaml").write_text(
        "title: Pizza\ntype: object\nproperties:\n  size: {enum: [30, 40], type: integer, x-redact: true}\n"
        "  vegan: {anyOf: [{type: boolean}, {type: 'null'}]}\nrequired: [size, vegan]\n"
    )
    assert list(Schema.load(tmp_path / "tools.json")) == ["book_table-people"]
    size, vegan = Schema.load(tmp_path / "model.yaml").slots
    assert (size.values, size.type, size.required, size.redact) == (("30", "40"), "integer", True, True)
    assert (vegan.type, vegan.required) == ("boolean", False)


def test_the_id_of_a_schema_without_types_is_the_old_one() -> None:
    assert Schema.multiwoz().id == "69128554a45b382005bb4a23"
    plain = Schema([Slot.of("a", "b", description="d", values=["x"])])
    assert plain.to_json() == {"domains": {"a": {"b": {"description": "d", "values": ["x"]}}}}
    assert len({Schema([Slot.of("a", "b", type=kind)]).id for kind in get_args(SlotType)}) == len(get_args(SlotType))


# What is refused, and what is not


def nested(depth: int) -> dict[str, Any]:
    node: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        node = {"anyOf": [node]}
    return flat(x=node)


def doubling(levels: int) -> dict[str, Any]:
    definitions = {str(i): {"anyOf": [{"$ref": f"#/$defs/{i + 1}"}] * 2} for i in range(levels)}
    return {**flat(x={"$ref": "#/$defs/0"}), "$defs": {**definitions, str(levels): {"type": "string"}}}


MANY = {"properties": {str(i): {} for i in range(100)}}
LONG = {"enum": [f"v{i}" for i in range(5000)]}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (Node, r"The property `parent` contains itself \(#/\$defs/Node\): make it one value, or leave it out"),
        (flat(x={"type": "array", "items": {"type": "string"}}), "`x` is a list, and a slot holds one value"),
        (flat(x=["a"], y={"type": "array"}), r"not a JSON Schema.*1 more like this"),
        (flat(x={"type": "object", "additionalProperties": {"type": "string"}}), "without fixed properties"),
        (flat(a=flat(b=flat(c={}))), "`a.b` is an object inside an object, and only one level is read"),
        (flat(x={"anyOf": [flat(y={}), {"type": "string"}]}), "or an object or something else"),
        (flat(x={"type": "null"}), "can only be null"),
        (flat(x={"type": "tuple"}), "unknown type 'tuple'"),
        (flat(x={"enum": [["a"]]}), "neither text nor numbers"),
        (flat(x={"enum": []}), "empty `enum`"),
        (flat(x={"x-type": "money"}), "`x-type` 'money', which is none of text, integer"),
        (flat(x={"x-redact": "perhaps"}), "`x-redact` of `x` is true or false, not 'perhaps'"),
        (flat(x={"$ref": "#/$defs/no"}), "refers to '#/\\$defs/no', which is not there"),
        (flat(x={"$ref": "https://example.org/x.json"}), "outside the document"),
        ({**flat(x={"$ref": "#/$defs/a"}), "$defs": {"a": {"$ref": "#/$defs/a"}}}, "`x` contains itself"),
        ({**flat(my_place=flat(a={})), **flat(**{"my-place": flat(a={}), "my_place": flat(a={})})}, "would both be"),
        (flat(**{"area": {}, " area ": {}}), r'`area` and ` area ` would both be the slot "pizza-area": rename'),
        ({"properties": {"x": {}}}, "Nothing names the domain of `x`: give the JSON Schema a `title`"),
        ({"type": "string"}, "is not an object with `properties`"),
        ({"title": "Pizza", "properties": {}}, "at least one slot"),
        (["a"], "A JSON Schema is a mapping, not list"),
        (flat(**{f"d{i}": MANY for i in range(MAX_SLOTS // 100 + 1)}), "more than 1,000 properties"),
        (flat(**{f"d{i}": LONG for i in range(MAX_VALUES // 5000 + 1)}), "more than 20,000 values together"),
        (flat(x={"type": "string", "enum": [["a"]]}), "neither text nor numbers"),
        (flat(x={"anyOf": [LONG] * 5}), "`x` has more than 20,000 values"),
        (nested(100_000), "nested too deeply"),
        (doubling(40), "too many alternatives"),
        (flat(x={"type": ["string"] * 100_001}), "too many alternatives"),
        (flat(x={"allOf": [{"required": ["a"] * 2_000}] * 100}), "too many alternatives"),
        (flat(**{f"s{i}": {"x-different": ["s0"] * 1_000} for i in range(200)}), "too many alternatives"),
        (flat(x={"$ref": "#1/properties/y"}, y={"type": "string"}), "refers to '#1/properties/y', which is not there"),
        (int, "Expected a pydantic model class"),
        (Hotel.model_construct(), "Expected a pydantic model class"),
    ],
)
def test_one_clear_sentence(data: Any, says: str) -> None:
    with pytest.raises(SchemaError, match=says) as caught:
        if isinstance(data, (type, BaseModel)):
            Schema.from_pydantic(data)
        else:
            Schema.from_json_schema(data)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300 and str(caught.value).endswith((".", ")"))


KEYS = (
    "properties", "$ref", "$defs", "anyOf", "oneOf", "allOf", "type", "enum", "const", "title", "description", "format",
    "required", "nullable", "x-different", "x-redact", "x-type", "x-text-rules", "name", "function", "parameters",
    "a", "-",
)  # fmt: skip
LEAVES = (
    "string",
    "object",
    "array",
    "null",
    "boolean",
    "integer",
    "date",
    "#",
    "#/$defs/a",
    "#/properties/a",
    "a",
    "",
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(LEAVES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=30,
)


@given(data=anything, properties=st.dictionaries(st.sampled_from(("a", "b", "-")), anything, max_size=3))
def test_anything_is_a_schema_or_one_sentence(data: Any, properties: dict[str, Any]) -> None:
    rest = data if isinstance(data, dict) else {}
    for found in (data, {**rest, "title": "X", "properties": properties}):
        try:
            schema = Schema.from_json_schema(found)
        except SchemaError as error:
            assert "\n" not in str(error)
        else:
            assert Schema.from_json_schema(schema.to_json_schema()) == schema


def test_a_recursive_model_without_its_recursion() -> None:
    assert list(Schema.from_pydantic(Node, skip=["parent"])) == ["node-value"]


def test_large_schemas_work() -> None:
    wide = Schema.from_json_schema(flat(**{f"slot {i}": {"type": "string"} for i in range(300)}))
    assert len(wide) == 300
    values = [f"value {i}" for i in range(10_000)]
    assert Schema.from_json_schema(flat(x={"enum": values})).slots[0].values == tuple(values)


def test_a_file_that_is_too_large_is_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    path.write_text(json.dumps(flat(x={"description": "x" * 5_000_000})))
    with pytest.raises(SchemaError, match=rf"5,000,\d+ bytes; at most {MAX_FILE:,} are read"):
        Schema.load(path)


def test_what_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="Cannot write"):
        Schema.multiwoz().save(tmp_path / "missing" / "x.yaml")
    with pytest.raises(SchemaError, match="half a surrogate pair"):
        Schema([Slot.of("a", "\ud800")]).save(tmp_path / "x.json")
    path = tmp_path / "long.json"
    path.write_text(json.dumps(flat(x={"enum": [1]})).replace("[1]", f"[{'1' * 5000}]"))
    with pytest.raises(SchemaError, match="not valid YAML or JSON"):
        Schema.load(path)


def test_markup_in_descriptions_is_text() -> None:
    text = "<script>alert('x')</script>'; DROP TABLE slots; --\n[bold]{{ x }}"
    schema = Schema.from_json_schema(flat(x={"description": text}))
    assert schema.slots[0].description == text
    assert Schema.from_json_schema(schema.to_json_schema()) == schema


def test_the_service_sends_all_of_it() -> None:
    schema = Schema.from_pydantic(BigTrip)
    assert SchemaView.from_json(json.loads(json.dumps(SchemaView.of(schema).to_json()))).schema() == schema
