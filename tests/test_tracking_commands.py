"""The commands that track: `track`, `demo`, `annotate`, `init`, `models`, with a predictor of rules behind them."""

from __future__ import annotations

import gzip
import io
import json
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from scripted import GoldPredictor, RulePredictor

from somdst import Schema, Tracker
from somdst.cli import rendering
from somdst.cli.main import main
from somdst.cli.terminal import COMMANDS, Completer, Session, screen
from somdst.cli.track import read_input
from somdst.corpora import read_dialogues
from somdst.corpora.examples import examples
from somdst.corpora.jsonlines import dialogue_to_json
from somdst.errors import CorpusError

ROOT = Path(__file__).parents[1]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in this process: exit code, stdout, stderr."""

    def open_rules(cls: type[Tracker], model: str = "default", **options: object) -> Tracker:
        schema, threshold = options.get("schema"), options.get("threshold")
        predictor = RulePredictor() if model == "default" else _gold()
        chosen = Schema.load(schema) if isinstance(schema, (str, Path)) else None
        return cls(predictor, schema=chosen, threshold=threshold)  # type: ignore[arg-type]

    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setattr(Tracker, "from_pretrained", classmethod(open_rules))
    monkeypatch.setattr("somdst.bulk.annotating.Pretrained.identity", {"model": "rules"})

    def command(*arguments: object, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["somdst", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
        capfd.readouterr()
        try:
            main()
            code = 0
        except SystemExit as error:
            code = int(error.code or 0)
        out, err = capfd.readouterr()
        return code, out, err

    return command


def _gold() -> GoldPredictor:
    return GoldPredictor(Schema.multiwoz(), [item.dialogue for item in examples().values()])


# track


def test_track_json_reads_plain_text_from_stdin(run: Run) -> None:
    text = "hotel area north\nsystem: hotel name acorn?\nyes, any hotel stars\n"
    code, out, err = run("track", "--json", stdin=text)
    assert code == 0 and err == "" and out.count("\n") == 1
    (dialogue,) = json.loads(out)["dialogues"]
    assert [turn["state"] for turn in dialogue["turns"]] == [
        {"hotel-area": "north"},
        {"hotel-area": "north", "hotel-name": "acorn", "hotel-stars": "dontcare"},
    ]
    assert dialogue["turns"][1]["changes"][0]["evidence"]["source"] == "system"
    assert json.loads(out)["model"] == "rules"


@pytest.mark.parametrize(
    "text",
    [
        '{"id": "a", "turns": [{"user": "hotel area north"}]}\n{"id": "b", "turns": [{"user": "hi"}]}\n',
        '[{"id": "a", "turns": [{"user": "hotel area north"}]}, {"id": "b", "turns": [{"user": "hi"}]}]',
    ],
)
def test_track_json_reads_files(run: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "in.json").write_text(text)
    code, out, _ = run("track", tmp_path / "in.json", "--json")
    assert code == 0
    assert [d["id"] for d in json.loads(out)["dialogues"]] == ["a", "b"]


def test_track_shows_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text('{"turns": [{"user": "hotel area north"}, {"user": "no hotel area"}]}')
    code, out, err = run("track", tmp_path / "in.json")
    assert code == 0 and err == ""
    assert "+ hotel area  north  95%" in out and "- hotel area  north → nothing" in out and "turn 2" in out


def test_talking_through_a_pipe(run: Run) -> None:
    lines = [
        "hotel area north, maybe hotel stars 4",
        "/correct hotel-book people 3",
        "/correct hotel-book peple 3",
        "/yes",
        "/undo",
        "/why hotel area",
        "/json",
        "/quit",
        "never read",
    ]
    code, out, _ = run("track", "--threshold", "0.5", stdin="\n".join(lines))
    assert code == 0
    assert "? Did you mean 4 for the number of stars of the hotel?" in out
    assert 'Did you mean "hotel-book people"?' in out
    assert "hotel area is north" in out and "user: north" in out
    assert '"kind": "undo"' in out and "never read" not in out


def test_bytes_that_are_no_text_are_read_as_well_as_can_be(tmp_path: Path) -> None:
    script = tmp_path / "talk.py"
    script.write_text(talking_script())
    done = subprocess.run([sys.executable, script], input=b"\xff hotel area north\n", capture_output=True)
    assert done.returncode == 0 and b"+ hotel area  north" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "stdin", "sentence"),
    [
        (["track", "none.json"], "", "Cannot read none.json"),
        (["track", "-"], "", "standard input is empty"),
        (["track", "-", "--json"], '{"id": "x"', "standard input, line 1 is not valid JSON"),
        (["track", "-", "--json"], '{"id": "x", "turns": []}', 'needs "turns"'),
        (["track", "-", "--json"], "[]", "empty list"),
        (["track", "-", "--json"], "[{" * 50_000, "not valid JSON"),
        (["track", "-"], "x" * 100_000, "at most 20,000"),
        (["track", "-", "--schema", "none.yaml"], "hi", "Cannot read the schema none.yaml"),
        (["demo", "weekends"], "", 'Did you mean "weekend"?'),
        (["annotate", "none.jsonl", "out.jsonl"], "", "Cannot read none.jsonl"),
        (["annotate", "none.jsonl", "out.jsonl", "--address", "auto"], "", "give --engine ray"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], stdin: str, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments, stdin=stdin)
    assert (code, out) == (2, "")
    assert err.startswith("somdst: ") and err.count("\n") == 1 and sentence in err


def test_plain_text_with_special_lines() -> None:
    with pytest.raises(CorpusError, match="Cannot read"):
        read_input("/nowhere/at/all")


# The session behind the screen


def session(*lines: str) -> Session:
    current = Session(Tracker(RulePredictor(), threshold=0.5))
    for line in lines:
        current.handle(line)
    return current


def drawn(renderable: object, width: int = 100) -> str:
    console = Console(width=width, file=io.StringIO(), record=True, highlight=False)
    console.print(renderable)
    return console.export_text()


def test_every_command_does_what_it_says() -> None:
    current = session("hotel area north, maybe hotel stars 4", "/system hotel name acorn")
    assert current.system == "hotel name acorn"
    current.handle("fine")
    assert current.conversation.state["hotel-name"] == "acorn" and current.system == ""
    current.handle("/no hotel stars")
    assert not current.conversation.snapshot.pending
    current.handle("/delete hotel name")
    current.handle("/pin hotel-area")
    assert "hotel-name" not in current.conversation.state and current.conversation.snapshot.pinned == {"hotel-area"}
    current.handle("/unpin hotel-area")
    current.handle("/undo")
    current.handle("/redo")
    assert current.conversation.snapshot.pinned == frozenset()
    assert "nothing has happened" in drawn(current.handle("/why train day"))
    for name in COMMANDS:
        assert f"/{name}" in drawn(current.handle("/help"))
    for line, sentence in [
        ("/jsno", 'Did you mean "json"'),
        ("/correct hotel-area", "What is the hotel area?"),
        ("/pin", "Which slot?"),
        ("/yes", "nothing is pending"),
        ("x" * 30_000, "at most 20,000"),
    ]:
        version = current.conversation.version
        shown = " ".join(drawn(current.handle(line)).split())
        assert sentence in shown and current.conversation.version == version
    assert current.handle("") is None
    current.handle("/new")
    assert current.conversation.version == 0
    current.handle("/quit")
    assert not current.open


def test_the_screen_shows_both_sides() -> None:
    current = session(
        "hotel area north, any hotel stars", "no hotel area, maybe train day friday", "/system Anything else?"
    )
    text = drawn(screen(current, width=130, height=30), width=130)
    beside = [line for line in text.splitlines() if "conversation" in line]
    assert "memory" in beside[0], "the memory is beside the conversation"
    assert "- hotel area  north → nothing" in text and "? Did you mean friday for the day of the journey?" in text
    assert re.search(r"\? +day +friday\?", text), "and in the memory in short"
    assert "system Anything else?" in text
    narrow = drawn(screen(current, width=60), width=60).splitlines()
    assert not [line for line in narrow if "conversation" in line and "memory" in line]
    tall = session(*(f"hotel name house {i}" for i in range(40)))
    assert len(drawn(screen(tall, width=100, height=24)).splitlines()) <= 24
    assert "house 39" in drawn(screen(tall, width=100, height=24))


def test_what_people_type_cannot_move_the_cursor() -> None:
    current = session("\x1b[2J[bold]hotel area north\x07[/bold]")
    text = drawn(screen(current, width=100))
    assert "\x1b" not in text and "\x07" not in text and "[bold]hotel area" in text
    assert rendering.plain("a\x00b\u202ec\nd") == "a\ufffdb\u202ec\nd"


def test_completion() -> None:
    complete = Completer(session()).complete
    assert complete("/cor") == ["/correct "]
    assert "/why hotel-area " in complete("/why hotel-a")
    assert complete("hotel") == [] and complete("/json h") == []


def talking_script() -> str:
    return (
        "import sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from scripted import RulePredictor\n"
        "from somdst.tracking.tracker import Tracker\n"
        "from somdst.cli.terminal import talk\n"
        "talk(Tracker(RulePredictor()))\n"
    )


def test_through_a_pipe_every_answer_is_printed_once(tmp_path: Path) -> None:
    script = tmp_path / "talk.py"
    script.write_text(talking_script())
    done = subprocess.run([sys.executable, str(script)], input="/why hotel-area\n", capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "hotel area is nothing: nothing has happened to it.\n"


def test_in_a_real_terminal(tmp_path: Path) -> None:
    script = tmp_path / "talk.py"
    script.write_text(talking_script())
    master, slave = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "NO_COLOR")}
    environment |= {"TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    process = subprocess.Popen([sys.executable, str(script)], stdin=slave, stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    seen = bytearray()

    def read() -> None:
        try:
            while block := os.read(master, 4096):
                seen.extend(block)
        except OSError:
            pass  # the terminal is gone: the program has ended

    reader = threading.Thread(target=read)
    reader.start()
    os.write(master, b"hotel area north\n/quit\n")
    assert process.wait(timeout=300) == 0
    reader.join(timeout=300)
    os.close(master)
    text = seen.decode("utf-8", "replace")
    assert "conversation" in text and "memory" in text and "\x1b[32m" in text, "drawn, and coloured"


# demo, annotate, init, models


def test_demo(run: Run) -> None:
    code, out, err = run("demo", "--model", "gold")
    assert code == 0 and "A day trip by train" in err and "~ train day" in " ".join(out.split())
    code, out, err = run("demo", "weekend", "--model", "gold")
    assert code == 0 and "A weekend for two" in err
    for sign in ("~ hotel area", "- hotel internet", "* restaurant pricerange", "from hotel name"):
        assert sign in " ".join(out.split()) or sign in out
    code, out, err = run("demo", "dinner", "--model", "gold", "--json")
    assert code == 0 and err == "" and json.loads(out)["dialogues"][0]["id"] == "dinner"
    code, out, _ = run("demo", "--list")
    assert code == 0 and len(out.splitlines()) == len(examples())
    code, out, _ = run("demo", "--list", "--json")
    assert [item["name"] for item in json.loads(out)["examples"]] == list(examples())


def test_annotate(run: Run, tmp_path: Path) -> None:
    lines = [json.dumps(dialogue_to_json(item.dialogue)) for item in examples().values()]
    (tmp_path / "in.jsonl").write_text("\n".join([*lines, "{broken"]))
    out_file = tmp_path / "out.jsonl"
    code, out, err = run("annotate", tmp_path / "in.jsonl", out_file, "--workers", 1, "--model", "gold")
    assert (code, out) == (2, "") and "line 6" in err and not out_file.exists()
    options = ["--workers", 1, "--model", "gold", "--keep-going"]
    code, out, err = run("annotate", tmp_path / "in.jsonl", out_file, *options)
    assert code == 0 and out == "" and "skipped: " in err and "line 6" in err and "5 dialogues" in err
    assert [d.states() for d in read_dialogues(out_file)] == [item.dialogue.states() for item in examples().values()]
    code, out, err = run("annotate", tmp_path / "in.jsonl", out_file, *options, "--force", "--json")
    summary = json.loads(out)
    assert code == 0 and (summary["dialogues"], summary["skipped"]) == (5, 1) and summary["turns_per_s"] > 0


def test_init_makes_a_project_that_passes_the_check(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("init", tmp_path / "pizza")
    assert code == 0 and "somdst data check train.jsonl --schema schema.yaml" in out
    schema = Schema.load(tmp_path / "pizza" / "schema.yaml")
    dialogues = [*read_dialogues(tmp_path / "pizza" / "train.jsonl"), *read_dialogues(tmp_path / "pizza" / "dev.jsonl")]
    assert len(dialogues) >= 20
    from somdst.memory.operations import FOUR
    from somdst.memory.state import State

    seen = {
        operation
        for dialogue in dialogues
        for before, after in zip([State(), *dialogue.states()], dialogue.states(), strict=False)
        for operation in FOUR.derive(before, after).operations.values()
    }
    assert seen == {"update", "delete", "dontcare"}, "and every other slot is carried over"
    assert all(slot in schema for dialogue in dialogues for state in dialogue.states() for slot in state)
    for name in ("train.jsonl", "dev.jsonl"):
        code, out, err = run("data", "check", tmp_path / "pizza" / name, "--schema", tmp_path / "pizza" / "schema.yaml")
        assert code == 0, out + err
    code, out, err = run("init", tmp_path / "pizza")
    assert code == 2 and "has a README.md already" in err
    code, out, _ = run("init", tmp_path / "other", "--json")
    assert json.loads(out)["files"] == ["README.md", "schema.yaml", "train.jsonl", "dev.jsonl"]


def test_the_starters_commands_exist() -> None:
    """Every option in the starter's README is one of the command's."""
    from typer.main import get_command

    from somdst.cli.main import app

    text = (ROOT / "somdst" / "cli" / "starter" / "README.md").read_text()
    commands = [line.split() for line in text.splitlines() if line.startswith("somdst ")]
    assert [words[1] for words in commands] == ["track", "data", "train", "track"]
    for words in commands:
        command = get_command(app)
        for word in words[1:3]:
            command = getattr(command, "commands", {}).get(word, command)
        options = {name for parameter in command.params for name in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options


def test_models(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from somdst.model.config import ModelConfig

    folder = tmp_path / "runs" / "first"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(ModelConfig(name="first").model_dump_json())
    Schema.multiwoz().save(folder / "schema.json")
    (folder / "metrics.json").write_text('{"dev_joint_goal_accuracy": 51.25}')
    (folder / "model.safetensors").write_bytes(bytes(300_000))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    (tmp_path / "broken" / "schema.json").write_text("{}")
    code, out, err = run("models", tmp_path)
    assert code == 0 and "51.25" in out and "torch" in out and "skipped" in err
    code, out, _ = run("models", tmp_path, "--json")
    found = {row["name"]: row for row in json.loads(out)["models"]}
    first = found[str(folder)]
    assert (first["slots"], first["dev_joint_goal_accuracy"], first["engines"]) == (30, 51.25, ["torch"])
    assert first["megabytes"] == pytest.approx(0.3, abs=0.1)
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr("somdst.model.folder.shipped_path", lambda: tmp_path / "absent")
    code, out, err = run("models", tmp_path / "empty")
    assert code == 0 and "No model was found" in err and not out


@pytest.mark.parametrize(
    ("text", "turns"),
    [
        ("[SLOT] [NULL] [SEP]\n", [("", "[SLOT] [NULL] [SEP]")]),
        ("{hello} there\n", [("", "{hello} there")]),
        ("User: one\nUSER: two\n", [("", "one"), ("", "two")]),
        ("System: a\nsystem: b\nuser: c\n", [("a b", "c")]),
        ("at 5:30 please\n", [("", "at 5:30 please")]),
        ("one\x0ctwo\u2028three\r\nfour", [("", "one\x0ctwo\u2028three"), ("", "four")]),
    ],
)
def test_what_plain_text_says(tmp_path: Path, text: str, turns: list[tuple[str, str]]) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(text.encode())
    (dialogue,) = read_input(str(path))
    assert [(turn.system, turn.user) for turn in dialogue.turns] == turns


def test_json_lines_are_lines_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl.gz"
    lines = [json.dumps({"turns": [{"user": f"a\u2028b {i}"}]}, ensure_ascii=False) for i in range(2)]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    assert [dialogue.turns[0].user for dialogue in read_input(str(path))] == ["a\u2028b 0", "a\u2028b 1"]


def test_half_a_character_in_a_name(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"id": "\\ud800", "turns": [{"user": "hotel area north"}]}\n')
    code, out, _ = run("track", path, "--json")
    assert code == 0 and json.loads(out)["dialogues"][0]["id"] == "\ud800"


@pytest.mark.parametrize(
    "arguments",
    [
        ["track", "--threshold", "3"],
        ["track", "--nosuch"],
        ["nosuch"],
        ["trak"],
        ["annotate"],
        ["models", "no/such/folder"],
    ],
)
def test_usage_errors_are_one_line_too(run: Run, arguments: list[str]) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("somdst: ") and err.count("\n") == 1
    assert not re.search(r"[.?!][.?!]", err), "one full stop per sentence"
