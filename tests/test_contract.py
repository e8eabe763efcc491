"""What docs/contract.md promises, where no other test file is about it, and that every test that it names exists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pytest
from services import Server
from sqlalchemy import text
from waiting import LIMIT

from somdst import Client
from somdst.store import Store, Write
from somdst.tracking import edits

DOCS = Path(__file__).parents[1] / "docs"
SECRET = "saltwater9431"


@pytest.mark.parametrize("page", ["contract.md", "threats.md"])
def test_every_test_that_is_named_exists(page: str) -> None:
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", (DOCS / page).read_text(encoding="utf-8"))
    assert len(named) > 10
    for file, name in named:
        source = (Path(__file__).parent / file).read_text(encoding="utf-8")
        assert re.search(rf"^def {name}\(", source, re.MULTILINE), f"{file} has no {name}"


def test_a_read_sees_one_moment(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is erased while it is read is read whole, or not found; never as a version without its entries."""
    monkeypatch.setattr("somdst.store.database.BUSY_SECONDS", 0.1)
    store, other = Store(database), Store(database)
    record = store.create("a")
    store.append(Write("a", record.id, edits.correct(record.snapshot, {"hotel-area": "north"})))
    with store.database.read() as connection:
        assert connection.execute(text("SELECT version FROM conversations")).scalar() == 1
        other.erase("a", record.id)
        assert connection.execute(text("SELECT count(*) FROM entries")).scalar() == 1
    with store.database.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM entries")).scalar() == 0
    store.close()
    other.close()


def test_an_erased_subject_is_nowhere(database: str, tmp_path: Path) -> None:
    server = Server(database, "--log-level", "INFO").start()
    with Client(server.url) as client:
        kept, gone = client.start(subject="kept"), client.start(subject=SECRET)
        kept.update("hotel area north")
        gone.update(f"hotel name {SECRET}")
        gone.correct("hotel-name", f"{SECRET} inn", source="person")
        assert SECRET in str(client.export())
        assert client.erase_subject(SECRET) == 1
        assert [summary.id for summary in client.conversations()] == [kept.id]
        assert SECRET not in str(client.export(every=True))
        assert SECRET not in httpx.get(f"{server.url}/metrics", timeout=LIMIT).text
        for path in ("", "/log", "/turns", "/versions/1", "/slots/hotel-name/history"):
            answer = httpx.get(f"{server.url}/v1/conversations/{gone.id}{path}", timeout=LIMIT)
            assert answer.status_code == 404, path
    lines = [json.loads(line) for line in server.stop().splitlines()]
    assert any(line["event"] == "request" for line in lines)
    assert SECRET not in str(lines)
    store = Store(database)
    with store.database.read() as connection:
        for table in ("conversations", "entries", "idempotency_keys"):
            rows = connection.execute(text(f"SELECT * FROM {table}")).all()
            assert rows and SECRET not in str(rows)
    store.close()
    assert not any(SECRET.encode() in path.read_bytes() for path in tmp_path.iterdir())
