"""The docs of the tracker run as written, and those of the command line are what the commands say."""

from __future__ import annotations

import doctest
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from scripted import GoldPredictor
from typer.main import get_command

from somdst import Dialogue, Schema, State, Tracker, Turn
from somdst.cli.main import app

ROOT = Path(__file__).parents[1]
WORDS = Dialogue(
    "docs",
    (
        Turn("", "A cheap hotel in the north, please.", State({"hotel-area": "north", "hotel-pricerange": "cheap"})),
        Turn(
            "I have nothing cheap in the north.",
            "Then the east.",
            State({"hotel-area": "east", "hotel-pricerange": "cheap"}),
        ),
    ),
)


def test_the_readmes_lines_run_on_the_shipped_model() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("```", "")
    test = doctest.DocTestParser().get_doctest(text, {"__name__": "readme"}, "README.md", "README.md", 0)
    assert len(test.examples) >= 5
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_the_examples_of_the_tracker_run(monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = Tracker(GoldPredictor(Schema.multiwoz(), [WORDS]))
    monkeypatch.setattr(Tracker, "from_pretrained", lambda: tracker)
    text = (ROOT / "docs" / "tracker.md").read_text(encoding="utf-8")
    test = doctest.DocTestParser().get_doctest(text, {}, "tracker.md", "docs/tracker.md", 0)
    assert len(test.examples) > 20
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_the_examples_of_schemas_run(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"hotel-area": "north", "hotel-day": "next friday", "hotel-nights": "three", "hotel-parking": "yes"}
    dialogues = [
        Dialogue("a", (Turn("", "Three nights in the north from next friday, with parking.", State(said)),)),
        Dialogue("a2", (Turn("", "It is for Jane Smythe.", State(said | {"hotel-guest": "jane smythe"})),)),
        Dialogue("b", (Turn("", "Parking is a must.", State({"hotel-parking": "yes"})),)),
    ]
    monkeypatch.setattr(Tracker, "from_pretrained", lambda schema: Tracker(GoldPredictor(schema, dialogues)))
    text = (ROOT / "docs" / "schemas.md").read_text(encoding="utf-8")
    test = doctest.DocTestParser().get_doctest(text, {"__name__": "schemas"}, "schemas.md", "docs/schemas.md", 0)
    assert len(test.examples) > 20
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_the_commands_docs_are_current() -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts" / "docs", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def leaves(command: object, path: str = "somdst") -> list[tuple[str, object]]:
    children = getattr(command, "commands", None)
    if children is None:
        return [(path, command)]
    return [leaf for name, child in children.items() for leaf in leaves(child, f"{path} {name}")]


@pytest.mark.parametrize(
    ("path", "command"), leaves(get_command(app)), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_has_an_example_of_itself(path: str, command: object) -> None:
    text = inspect.cleandoc(getattr(command, "help", "") or "")
    assert "Example:" in text and path in text.split("Example:")[1]
