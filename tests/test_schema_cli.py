"""`somdst schema convert` and `somdst schema check`, and what the check finds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from somdst import Schema, Slot
from somdst.cli.main import app
from somdst.errors import SchemaError
from somdst.model.schema_check import check_schema

MODEL = """
from typing import Literal
from pydantic import BaseModel, Field

class Pizza(BaseModel):
    size: Literal["small", "large"] = Field(description="how big it is")
    toppings: list[str] = []
"""


def run(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["schema", *map(str, arguments)])
    if isinstance(done.exception, SchemaError):
        return 2, str(done.exception)
    return done.exit_code, done.output


def test_convert_there_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("my_pizza.py").write_text(MODEL)
    assert run("convert", "my_pizza:Pizza", "pizza.yaml", "--skip", "toppings") == (
        0,
        "somdst: pizza.yaml: 1 slot in 1 domain\n",
    )
    assert run("convert", "pizza.yaml", "pizza.schema.json")[0] == 0
    assert run("convert", "pizza.schema.json", "again.json")[0] == 0
    made = Schema.load("again.json")
    assert made == Schema.load("pizza.yaml") and made["pizza-size"].values == ("small", "large")
    assert json.loads(Path("pizza.schema.json").read_text())["properties"]["pizza"]["required"] == ["size"]
    Path("tool.json").write_text('{"type": "object", "properties": {"day": {"type": "string", "format": "date"}}}')
    assert run("convert", "tool.json", "tool.yaml", "--domain", "taxi")[0] == 0
    assert Schema.load("tool.yaml")["taxi-day"].type == "date"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["convert", "my_pizza:Pizza", "x.yaml"], "`toppings` is a list, and a slot holds one value"),
        (["convert", "my_pizza:Pasta", "x.yaml"], "Cannot import my_pizza:Pasta: AttributeError"),
        (["convert", "no_such:Pasta", "x.yaml"], "Cannot import no_such:Pasta: ModuleNotFoundError"),
        (["convert", "my_pizza:Field", "x.yaml"], "Expected a pydantic model class"),
        (["convert", "multiwoz", "x.txt"], "x.txt must end in .yaml or .json"),
        (["convert", "missing.yaml", "x.yaml"], "Cannot read the schema missing.yaml"),
        (["check", "missing.yaml"], "Cannot read the schema missing.yaml"),
    ],
)
def test_one_sentence(arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_pizza", raising=False)
    Path("my_pizza.py").write_text(MODEL)
    code, output = run(*arguments)
    assert code == 2 and says in output and "\n" not in output
    assert not Path("x.yaml").exists()


def test_the_schema_of_multiwoz_is_fine() -> None:
    assert check_schema(Schema.multiwoz()) == ()
    assert run("check", "multiwoz") == (0, "30 slots in 5 domains: nothing to improve\n")


def test_a_check_says_what_to_improve(tmp_path: Path) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text(
        "domains:\n  pizza:\n    size: {description: '[bold]how <b>big</b>', values: [large, small]}\n"
        "    drink: {description: size of the drink, values: [large, tiny]}\n    name:\n"
    )
    code, output = run("check", path)
    assert code == 1
    assert "no description  pizza-name has no description: say in a few words what it is." in output
    assert "slots alike  pizza-drink and pizza-size both take large: say in the descriptions" in output
    assert output.endswith("3 slots in 1 domain: 2 remarks\n")
    code, output = run("check", path, "--json")
    assert code == 1 and json.loads(output)["remarks"][0] == {
        "kind": "no description",
        "slots": ["pizza-name"],
        "message": "pizza-name has no description: say in a few words what it is.",
    }


def kinds(*slots: Slot, different: list[list[str]] | None = None) -> list[tuple[str, ...]]:
    return [(remark.kind, *remark.slots) for remark in check_schema(Schema(slots, different=different or []))]


def test_slots_that_could_be_confused() -> None:
    place, same = Slot.of("taxi", "from", description="a place"), Slot.of("taxi", "to", description="A  place")
    assert kinds(place, same) == [("slots alike", "taxi-from", "taxi-to")]
    assert kinds(place, same, different=[["taxi-from", "taxi-to"]]) == []
    assert kinds(place, Slot.of("bus", "from", description="a place")) == []
    words = [Slot.of("hotel", name, description=text) for name, text in (("checkIn", "first day"), ("check_in", "x"))]
    assert kinds(*words) == [("slots alike", "hotel-checkIn", "hotel-check_in")]
    near = [Slot.of("hotel", f"bed{n}", description="how wide the bed in the room of the hotel is") for n in "ab"]
    assert kinds(*near) == [("slots alike", "hotel-beda", "hotel-bedb")]
    yes = [Slot.of("hotel", name, description=f"whether it has {name}", type="boolean") for name in ("wifi", "parking")]
    assert kinds(*yes) == []


def test_a_description_of_which_the_end_is_not_read() -> None:
    for words, found in ((24, []), (28, [("long description", "hotel-area")])):
        assert kinds(Slot.of("hotel", "area", description=" ".join(f"w{n}" for n in range(words)))) == found


def test_values_that_are_nearly_equal() -> None:
    lists = {"area": ["centre", "center", "north"], "day": ["monday", "sunday"], "time": ["12:00", "2:00", "11:00"]}
    slots = [Slot.of("x", name, description=f"the {name}", values=values) for name, values in lists.items()]
    [remark] = check_schema(Schema(slots))
    assert remark.message == "x-area takes values that are nearly equal: 'centre' and 'center'."
    many = Slot.of("x", "y", description="z", values=[f"{a}{b}long" for a in "abcdefghijkl" for b in "mnopqr"])
    assert "more pairs." in check_schema(Schema([many]))[0].message


def test_what_is_too_much() -> None:
    long = Slot.of("x", "y", description="word " * 100)
    assert kinds(long) == [("long description", "x-y")]
    listed = Slot.of("x", "y", description="z", values=[f"{i:05}" for i in range(10_000)])
    assert kinds(listed) == [("many values", "x-y")]
    many = [Slot.of("x", f"n{i}", description=f"{i} {i * 7919}") for i in range(300)]
    assert ("many slots",) in kinds(*many)


def test_a_schema_of_others_needs_no_pydantic_to_load(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"title": "X", "properties": {"y": {"type": "boolean"}}}')
    code = (
        "import sys, somdst; s = somdst.Schema.load('x.json'); s.to_json_schema()\n"
        "print(s.slots, 'pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "('x-y',) False\n", done.stderr
