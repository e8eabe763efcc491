"""Slots with `redact: true`: whoever holds the conversation sees their values, and nobody else does."""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import AnyRules
from services import Server
from waiting import LIMIT

from somdst import Client, Conversation, Dialogue, Schema, Slot, State, Tracker, Turn
from somdst.bulk.annotating import Annotated, annotate
from somdst.bulk.on_ray import Annotator
from somdst.service.monitoring import JsonFormatter
from somdst.store import Store, Write, verify
from somdst.tracking.redaction import HIDDEN

SCHEMA = Schema(
    [
        Slot.of("guest", "name", description="name of the guest", redact=True),
        Slot.of("guest", "phone", redact=True),
        Slot.of("guest", "insured", type="boolean", redact=True),
        Slot.of("hotel", "area", values=["north", "south"]),
        Slot.of("hotel", "parking", type="boolean"),
        Slot.of("taxi", "for"),
    ]
)
SECRETS = ("smythe", r"(?<![0-9a-z.])07700", r"900[ -]?123(?![0-9a-z])", "jane")
"""Patterns. Digits count where a number begins or ends: times and ids have any four digits in a row now and then."""


def tracker(*, threshold: float = 0.5, schema: Schema = SCHEMA) -> Tracker:
    return Tracker(AnyRules(schema), threshold=threshold)


def tell(conversation: Conversation) -> None:
    """The secrets, in every way that they can come up."""
    conversation.update(
        "guest name Jane Smythe, and hotel area north. I am JANE   SMYTHE!", system="Hello, Jane Smythe?"
    )
    conversation.update("maybe guest phone 07700 900-123", system="Thank you, jane_smythe.")  # held back
    conversation.confirm("guest-phone")
    conversation.update("taxi for like guest name. My number is 07700900123, hotel parking yes")
    conversation.correct("guest-name", "Jayne Smythe-Jones")
    conversation.update("It is Jayne Smythe Jones.")
    conversation.undo()
    conversation.update("guest insured yes and hotel area south")


def assert_hidden(text: str) -> None:
    assert not [secret for secret in SECRETS if re.search(secret, text.lower())], text


def test_a_dialogue_to_train_on() -> None:
    conversation = tracker().start()
    tell(conversation)
    assert conversation.state["guest-name"] == "Jayne Smythe-Jones"  # the owner sees it
    dialogue = conversation.to_dialogue(id="d")
    assert_hidden(repr(dialogue))
    first, second, third, last = dialogue.turns
    assert first.user == f"guest name {HIDDEN}, and hotel area north. I am {HIDDEN}!"
    assert first.system == f"Hello, {HIDDEN}?"
    assert second.user == f"maybe guest phone {HIDDEN}"
    assert third.user == f"taxi for like guest name. My number is {HIDDEN}, hotel parking yes"
    assert last.user == HIDDEN  # it says "yes", which cannot be searched for
    assert last.state == State(
        {
            "guest-name": HIDDEN, "guest-phone": HIDDEN, "guest-insured": HIDDEN,
            "hotel-area": "south", "hotel-parking": "yes", "taxi-for": HIDDEN,
        }
    )  # fmt: skip


def test_nothing_is_hidden_without_a_redacted_slot() -> None:
    plain = Schema.from_json({"domains": {"guest": {"name": {}}}})
    conversation = tracker(schema=plain).start()
    conversation.update("guest name Jane Smythe")
    assert conversation.entries[0].redacted == () and conversation.snapshot.redacted == frozenset()
    assert conversation.to_dialogue(id="d").turns[0] == Turn(
        "", "guest name Jane Smythe", State({"guest-name": "jane smythe"})
    )


def test_another_schema_or_an_undo_tells_nothing() -> None:
    conversation = tracker().start()
    conversation.update("guest name Jane Smythe")
    conversation.change_schema(Schema.from_json({"domains": {"guest": {"name": {}}}}))
    conversation.update("guest name Jane Smythe")
    assert_hidden(repr(conversation.to_dialogue(id="d")))
    conversation.undo()
    conversation.undo()
    conversation.undo()
    conversation.update("Jane Smythe again")
    assert conversation.to_dialogue(id="d").turns[0].user == f"{HIDDEN} again"


@given(
    secret=st.text(min_size=1, max_size=12).filter(lambda text: text == text.strip() and "dontcare" not in text),
    before=st.text(max_size=5), after=st.text(max_size=5),
)  # fmt: skip
def test_whatever_a_person_wrote_is_hidden(secret: str, before: str, after: str) -> None:
    conversation = tracker().start()
    conversation.correct("guest-name", secret)
    conversation.update(f"{before} {secret} {after} x")
    [turn] = conversation.to_dialogue(id="d").turns
    assert turn.state == State({"guest-name": HIDDEN})
    assert HIDDEN in turn.user or secret.lower() in ("yes", "no")


def test_secrets_that_overlap_are_all_hidden() -> None:
    conversation = tracker().start()
    conversation.correct("guest-name", "Anna Maria")
    conversation.correct("guest-name", "Maria Bell")
    conversation.update("ask for anna-maria bell, or Straße, or annamariabella")
    assert conversation.to_dialogue(id="d").turns[0].user == f"ask for {HIDDEN}, or Straße, or annamariabella"
    conversation.correct("guest-name", "STRASSE")
    assert conversation.to_dialogue(id="d").turns[0].user == f"ask for {HIDDEN}, or {HIDDEN}, or annamariabella"


# Files


def annotated(threshold: float = 0.5) -> Annotated:
    turns = (
        Turn("", "guest name Jane Smythe, hotel area north", State({"guest-phone": "07700 900123"})),
        Turn("Jane Smythe?", "maybe guest phone 07700 900-123, maybe taxi for like guest name"),
        Turn("", "Call 07700900123, taxi for the guest name Jane Smythe, hotel area west"),
    )
    [done] = annotate(tracker(threshold=threshold), [Dialogue("d", turns)])
    return done


def test_annotated_dialogues() -> None:
    done = annotated()
    assert "07700 900-123" in done.results[1].pending[0].question
    assert "Smythe" in json.dumps(done.to_json(redact=False))
    data = done.to_json()
    assert_hidden(done.to_line())
    first, second, third = data["turns"]
    assert first["state"] == {"guest-name": HIDDEN, "hotel-area": "north"}
    name, area = first["changes"]
    assert (name["after"], name["evidence"]) == (HIDDEN, None)
    evidence = area["evidence"]  # its characters are those of the text that is shown
    assert first["user"][evidence["start"] : evidence["end"]] == evidence["text"] == "north"
    held = {item["slot"]: item for item in second["pending"]}
    assert held["guest-phone"]["question"] == HIDDEN
    assert held["taxi-for"]["question"] == f"Did you mean {HIDDEN} for the taxi for?"
    assert [item["reason"] for item in third["refused"]] == [done.results[2].refused[0].reason]  # of hotel-area


def test_the_same_words_are_there_without_redaction() -> None:
    """So that the test above cannot pass by searching for something that was never said."""
    data = json.dumps(annotated().to_json(redact=False)).lower()
    assert all(re.search(secret, data) for secret in SECRETS)


class Opener:
    @property
    def identity(self) -> Mapping[str, str]:
        return {"model": "rules"}

    def __call__(self, *, threads: int | None = None) -> Tracker:
        return tracker()


def test_parquet() -> None:
    block = pa.Table.from_pylist([{"text": json.dumps({"id": "d", "turns": [{"user": "guest name Jane Smythe"}]})}])
    [row] = Annotator(Opener(), "in", 2, False)(block).to_pylist()
    assert_hidden(repr(row))
    assert row["turns"][0]["user"] == f"guest name {HIDDEN}"


# The store


def stored(path: Path, turns: Sequence[str], *, correction: str) -> str:
    """A database with one conversation; its schema is the tracker's own, which the database does not know."""
    store, own = Store(str(path)), tracker()
    record = store.create("local")
    snapshot = record.snapshot
    for text in turns:
        snapshot = store.append(Write("local", record.id, own.step(snapshot, Turn("", text))))
    store.append(Write("local", record.id, own.correct(snapshot, {"guest-name": correction})))
    store.close()
    return record.id


def somdst(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "somdst", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_the_export_of_a_store(tmp_path: Path) -> None:
    path, out = tmp_path / "c.sqlite", tmp_path / "out.jsonl"
    stored(path, ["guest name jane smythe", "Call 07700 900123 for Jane"], correction="Jane")
    done = somdst("store", "export", out, "--database", path)
    assert done.stdout == f"1 dialogue in {out}\n", done.stderr
    line = json.loads(out.read_text())
    assert line["turns"][0] == {
        "system": "", "user": f"guest name {HIDDEN}", "domain": None, "state": {"guest-name": HIDDEN},
    }  # fmt: skip
    # Nobody tracked the number, so that it is not known to be one.
    assert line["turns"][1]["user"] == f"Call 07700 900123 for {HIDDEN}"


def test_conversations_from_before_the_schema_said_so(tmp_path: Path) -> None:
    path, out = tmp_path / "c.sqlite", tmp_path / "out.jsonl"
    before = Schema([Slot.of(slot.domain, slot.name) for slot in SCHEMA.slots])
    store, old = Store(str(path)), tracker(schema=before)
    record = store.create("local")
    step = old.step(record.snapshot, Turn("", "guest name jane smythe"))
    store.append(Write("local", record.id, step))
    store.close()
    SCHEMA.save(tmp_path / "schema.yaml")
    done = somdst("store", "export", out, "--database", path, "--every", "--schema", tmp_path / "schema.yaml")
    assert done.returncode == 0, done.stderr
    assert_hidden(out.read_text())


def test_a_damaged_log_is_reported_without_values(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    stored(path, ["guest name jane smythe"], correction="Jayne Smythe")
    damages = [('"before":"jane smythe"', '"before":"jan smythe"'), ('"slot":"guest-name"', '"slot":["jane smythe"]')]
    with sqlite3.connect(path) as database:
        [(good,)] = database.execute("SELECT entry FROM entries WHERE version = 2").fetchall()
    for right, wrong in damages:
        bad = json.dumps(json.loads(good), separators=(",", ":")).replace(right, wrong)
        assert wrong in bad
        with sqlite3.connect(path) as database:
            database.execute("UPDATE entries SET entry = ? WHERE version = 2", (bad,))
        store = Store(str(path))
        [damage] = verify(store)
        store.close()
        assert damage is not None and "cannot be replayed" in damage.problem
        assert_hidden(damage.problem)


# The service


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(str(tmp_path / "c.sqlite"), "--log-level", "DEBUG", "--log-utterances").start()


def test_the_service_tells_the_owner_and_nobody_else(server: Server) -> None:
    with Client(server.url) as client:
        conversation = client.start(schema=SCHEMA)
        answer = conversation.update("guest name Jane Smythe, maybe guest phone 07700 900123", system="Jane Smythe?")
        assert answer.state["guest-name"] == "jane smythe" and answer.entry.redacted == SCHEMA.redacted
        assert answer.pending[0].question == "Did you mean 07700 900123 for the guest phone?"
        conversation.correct("guest-name", "Jane Smythe")
        with pytest.raises(Exception, match="Smythe"):
            conversation.correct("hotel-area", "Smythe")  # the error tells the one who asked
        assert conversation.read().turns[0].user.startswith("guest name Jane Smythe")
        open_to_read = client.start()
        open_to_read.update("hotel area north")
        outputs = [
            httpx.get(f"{server.url}{path}", timeout=LIMIT).text
            for path in ("/metrics", "/v1/export", "/v1/export?every=true")
        ]
    log = server.stop()
    for text in (*outputs, log):
        assert_hidden(text)
    assert HIDDEN in outputs[1]
    turns = [line for line in map(json.loads, log.splitlines()) if line["event"] == "turn"]
    assert [line["user"] for line in turns] == [HIDDEN, "hotel area north"]


def test_an_error_is_logged_without_its_message() -> None:
    try:
        {}[SECRETS]
    except KeyError:
        record = logging.LogRecord("x", logging.ERROR, "x.py", 1, "failure", None, sys.exc_info())
    line = JsonFormatter().format(record)
    assert_hidden(line)
    assert json.loads(line)["trace"].endswith("KeyError") and "test_redaction.py" in line
