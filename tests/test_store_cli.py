"""`somdst store` and `somdst serve` on the command line: answers on stdout, notices on stderr, one-line errors."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest
from scripted import RulePredictor
from sqlalchemy import text

from somdst.corpora import open_corpus
from somdst.memory.dialogue import Turn
from somdst.memory.state import State
from somdst.store import Store, Write
from somdst.tracking import edits
from somdst.tracking.tracker import Tracker


def somdst(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "somdst", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with two conversations, of which one was corrected."""
    path = tmp_path / "conversations.sqlite"
    store, tracker = Store(str(path)), Tracker(RulePredictor())
    for subject in ("s", "t"):
        record = store.create("local", subject=subject)
        step = tracker.step(record.snapshot, Turn("", "hotel area north"))
        store.append(Write("local", record.id, step))
        if subject == "s":
            store.append(Write("local", record.id, edits.correct(step.snapshot, {"hotel-area": "east"})))
    store.close()
    return path


def test_verify(path: Path) -> None:
    done = somdst("store", "verify", "--database", path)
    assert (done.returncode, done.stdout) == (0, "2 conversations, 0 damaged\n")
    store = Store(str(path))
    with store.database.write() as connection:
        connection.execute(text("DELETE FROM entries WHERE version = 2"))
    store.close()
    done = somdst("store", "verify", "--database", path, "--json")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["conversations"] == 2
    assert "its log has the entries 1 to 1" in report["damaged"][0]["problem"]


def test_export_is_a_corpus(path: Path, tmp_path: Path) -> None:
    output = tmp_path / "corrections.jsonl"
    done = somdst("store", "export", output, "--database", path)
    assert (done.returncode, done.stdout) == (0, f"1 dialogue in {output}\n")
    [dialogue] = open_corpus(output).dialogues
    assert dialogue.states() == [State({"hotel-area": "east"})]
    assert somdst("store", "export", output, "--database", path, "--every").stdout.startswith("2 dialogues")


def test_erase_and_expire(path: Path) -> None:
    assert somdst("store", "erase", "--subject", "s", "--database", path).stdout == "1 conversation erased\n"
    assert somdst("store", "expire", "--database", path).stdout == "0 conversations erased\n"
    assert somdst("store", "expire", "--older-than-days", "0", "--database", path).stdout == "1 conversation erased\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("store", "verify", "--database", "/nowhere/x.sqlite"), "There is no database /nowhere/x.sqlite"),
        (("store", "erase", "--database", "{path}"), "Give either --conversation ID or --subject NAME"),
        (("store", "erase", "--database", "{path}", "--conversation", "x"), "There is no conversation x"),
        (("store", "export", "{path}", "--database", "{path}"), "only JSON lines are written"),
        (("serve", "--host", "0.0.0.0"), "listens on loopback only"),
        (("serve", "--keys", "/nowhere/keys"), "Cannot read the API keys in /nowhere/keys"),
        (("serve", "--other", "candidate"), "given as NAME=FOLDER"),
        (("serve", "--log-level", "loud"), "is not one of 'debug', 'info', 'warning', 'error'"),
        (("serve", "--port", "0", "--database", "mysql://x/y"), "must be an SQLite file or a PostgreSQL URL"),
    ],
)
def test_errors_are_one_line(path: Path, arguments: Sequence[str], sentence: str) -> None:
    done = somdst(*(argument.replace("{path}", str(path)) for argument in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("somdst: ")
    assert sentence in line


@pytest.mark.parametrize("command", [("verify",), ("export", "out.jsonl"), ("erase", "--subject", "s"), ("expire",)])
@pytest.mark.parametrize("kind", ["garbage", "of another program", "cut short", "a folder's name"])
def test_a_file_that_is_no_database(path: Path, tmp_path: Path, command: tuple[str, ...], kind: str) -> None:
    file = tmp_path / "file.bin"
    if kind == "garbage":
        file.write_bytes(b"garbage, not a database " * 100)
        sentence = "file.bin is not a somdst database: give the file that `somdst serve` was started with."
    elif kind == "cut short":
        file.write_bytes(path.read_bytes()[:-5000])
        sentence = "The database file.bin is damaged: put a backup in its place."
    elif kind == "of another program":
        other = sqlite3.connect(file)
        other.execute("CREATE TABLE notes (words TEXT)")
        other.close()
        sentence = "This is not a somdst database: it has a table notes. Give another file or database."
    else:
        file.mkdir()
        sentence = f"There is no database {file}: give the file that `somdst serve` was started with."
    done = somdst("store", *command, "--database", file)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [f"somdst: {sentence}"]


def test_serve_says_where_it_listens(tmp_path: Path) -> None:
    options = ["--port", "0", "--database", str(tmp_path / "c.sqlite"), "--model", str(tmp_path / "no-model")]
    process = subprocess.Popen(
        [sys.executable, "-m", "somdst", "serve", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    found = re.search(r"http://127\.0\.0\.1:\d+", process.stderr.readline())
    assert found is not None
    assert "loopback only" in process.stderr.readline()
    with httpx.Client(transport=httpx.HTTPTransport(retries=20), base_url=found[0], timeout=300) as web:
        assert web.get("/healthz").json() == {"status": "ok"}
        ready = web.get("/readyz")
        assert ready.status_code == 503
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=300)
    assert out == ""
