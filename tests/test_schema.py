import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from somdst import Schema, Slot
from somdst.errors import SchemaError


def test_the_thirty_slots_of_multiwoz_ship_with_the_package() -> None:
    schema = Schema.multiwoz()
    assert len(schema) == 30
    assert schema.domains == ("attraction", "hotel", "restaurant", "taxi", "train")
    assert list(schema.slots) == sorted(schema.slots)
    assert (schema.slots[0], schema.slots[-1]) == ("attraction-area", "train-leaveat")
    assert schema["hotel-book day"].name == "book day"


def test_a_schema_is_a_small_file(tmp_path: Path) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text(
        "domains:\n  pizza:\n    size: [small, 30]\n    vegan: [yes, no]\n    name:\n    topping: {description: on it}"
    )
    schema = Schema.load(path)
    assert list(schema) == ["pizza-name", "pizza-size", "pizza-topping", "pizza-vegan"]
    assert schema["pizza-size"].values == ("small", "30")
    assert schema["pizza-vegan"].values == ("yes", "no")
    assert schema["pizza-topping"].description == "on it"
    assert schema["pizza-name"].values is None


name = st.text(st.characters(codec="utf-8", exclude_characters="-", exclude_categories=["C", "Z"]), min_size=1)


@given(slots=st.dictionaries(st.tuples(name, name), st.none() | st.lists(st.text(), min_size=1), min_size=1))
def test_load_undoes_save(
    slots: dict[tuple[str, str], list[str] | None], tmp_path_factory: pytest.TempPathFactory
) -> None:
    schema = Schema(Slot.of(domain, slot, values=values) for (domain, slot), values in slots.items())
    path = tmp_path_factory.mktemp("schema") / "schema.json"
    schema.save(path)
    assert Schema.load(path) == schema


def test_slots_that_are_different(tmp_path: Path) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text("domains: {bus: [a, b, c]}\ndifferent:\n  - [bus-c, bus-a, bus-b]\n")
    schema = Schema.load(path)
    assert schema.different == (("bus-a", "bus-b"), ("bus-a", "bus-c"), ("bus-b", "bus-c"))
    schema.save(tmp_path / "schema.json")
    assert Schema.load(tmp_path / "schema.json") == schema
    assert Schema(schema.slots) != schema
    path.write_text("domains: {bus: [a, b, c]}\ndifferent:\n")
    assert Schema.load(path).different == ()


def test_slots_survive_pickling() -> None:
    slot = pickle.loads(pickle.dumps(Slot.of("a", "b", description="d", values=["x"])))
    assert (slot, slot.domain, slot.values) == ("a-b", "a", ("x",))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "mapping with the key `domains`"),
        ("domains: {}", "at least one slot"),
        ("domains: {hotel: }", '"hotel" needs at least one slot'),
        ("domains: {a-b: {x: }}", 'use "_" instead'),
        ("domains: {hotel: {area: 3}}", "must be empty, a list"),
        ("domains: {hotel: {area: {valeus: [x]}}}", "unknown key `valeus`"),
        ("domains: {hotel: {area: {values: []}}}", "not a list with at least one"),
        ("domains: {taxi: [from, to]}\ndifferent: taxi-from", "a list of lists of slots"),
        ("domains: {taxi: [from, to]}\ndifferent: [taxi-from, taxi-to]", "a list of lists of slots"),
        ("domains: {taxi: [from, to]}\ndifferent: [[taxi-from]]", "needs at least two slots"),
        ("domains: {taxi: [from, to]}\ndifferent: [[taxi-from, taxi-from]]", "needs at least two slots"),
        ("domains: {taxi: [from, to]}\ndifferent: [[taxi-from, taxi-too]]", 'Did you mean "taxi-to"'),
        ("domains: [", "not valid YAML"),
    ],
)
def test_a_bad_schema_gets_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text(text)
    with pytest.raises(SchemaError, match=says) as caught:
        Schema.load(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_an_unknown_slot_names_the_nearest() -> None:
    with pytest.raises(SchemaError, match='Did you mean "hotel-area"'):
        Schema.multiwoz()["hotel-aera"]
    with pytest.raises(SchemaError, match="Cannot read the schema"):
        Schema.load("no/such/file.yaml")


def test_yaml_values_are_the_text_that_was_written(tmp_path: Path) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text(
        "domains:\n  train:\n    leaveat: [17:15, 09:00, 010, 4.50, null]\n    on: {values: }\n    off: null\n"
    )
    schema = Schema.load(path)
    assert schema["train-leaveat"].values == ("17:15", "09:00", "010", "4.50", "null")
    assert schema["train-on"].values is None and schema["train-off"].values is None


@pytest.mark.parametrize("nothing", ["", "~", "null"])
def test_nothing_in_yaml_is_nothing(tmp_path: Path, nothing: str) -> None:
    keys = ("description", "values", "type", "required", "redact", "ask", "confirm")
    (tmp_path / "schema.yaml").write_text(
        "domains:\n  train:\n    day:\n" + "".join(f"      {key}: {nothing}\n" for key in keys)
    )
    assert Schema.load(tmp_path / "schema.yaml") == Schema([Slot.of("train", "day")])


def test_quoted_and_listed_words_are_text(tmp_path: Path) -> None:
    (tmp_path / "schema.yaml").write_text(
        "domains:\n  t:\n    null: {description: '~', ask: \"null\", values: [null, ~]}\n"
    )
    schema = Schema.load(tmp_path / "schema.yaml")
    assert schema == Schema([Slot.of("t", "null", description="~", ask="null", values=("null", "~"))])
    assert Schema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize("name", ["deep.yaml", "deep.json"])
def test_a_schema_that_is_too_deep(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("[" * 100_000)
    with pytest.raises(SchemaError, match="not valid YAML or JSON"):
        Schema.load(tmp_path / name)


@pytest.mark.parametrize("ending", ["yaml", "json", "schema.json"])
def test_the_order_of_whoever_wrote_it_is_kept(tmp_path: Path, ending: str) -> None:
    names = [("stay", "town"), ("stay", "day"), ("a b", "x"), ("stay", "nights"), ("a", "z"), ("a", "y")]
    written = ["stay-town", "stay-day", "stay-nights", "a b-x", "a-z", "a-y"]
    schema = Schema(Slot.of(*parts, required=parts[1] == "day") for parts in names)
    assert list(schema.written) == written and list(schema) == sorted(written)
    schema.save(tmp_path / f"schema.{ending}")
    loaded = Schema.load(tmp_path / f"schema.{ending}")
    assert list(loaded.written) == written and loaded == schema
    assert list(pickle.loads(pickle.dumps(schema)).written) == written
    other = Schema(reversed(schema.slots))
    assert other.id == schema.id == "c15b8fa6b906b7dc8c3b3995", "as ever"
    assert str(other.content()) == str(schema.content()) and str(other.to_json()) != str(schema.to_json())
