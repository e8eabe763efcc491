"""Migrations: from the oldest layout with its data, by two processes at once, and what is too new."""

from __future__ import annotations

import gzip
import json
import sqlite3
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import inspect, text
from waiting import LIMIT

from somdst.errors import StoreError
from somdst.memory.state import State
from somdst.store import Key, Repeated, Store, Write, usage, verify
from somdst.store.database import Database
from somdst.store.layout import metadata
from somdst.store.migrations import LATEST, MIGRATIONS, current, migrate
from somdst.tracking import edits
from somdst.tracking.log import EMPTY
from somdst.tracking.records import WINDOW

OLD = "0" * 32


def make_old(url: str, *, upto: int) -> None:
    """A database as the first release left it, with one conversation in it."""
    change = {"slot": "hotel-area", "operation": "update", "before": None, "after": "north"}
    entry = {"kind": "correction", "source": "person", "time": "2026-01-01T00:00:00+00:00", "changes": [change]}
    state = {"hotel-area": "north"}
    snapshot = {"version": 1, "state": state, "turns": [], "pinned": [], "pending": [], "done": [1], "undone": []}
    database = Database(url)
    with database._writer() as connection, connection.begin():
        assert migrate(connection, upto=upto) == list(range(1, upto + 1))
        connection.execute(
            text(
                "INSERT INTO conversations (id, tenant, created_at, updated_at, version, snapshot) "
                "VALUES (:id, 'a', 1.5, 2.5, 1, :snapshot)"
            ),
            {"id": OLD, "snapshot": json.dumps(snapshot)},
        )
        connection.execute(
            text("INSERT INTO entries VALUES (:id, 1, 'correction', 'person', :entry)"),
            {"id": OLD, "entry": json.dumps(entry)},
        )
    database.close()


@pytest.mark.parametrize("upto", range(1, 4))
def test_every_older_layout_opens_with_its_data(database: str, upto: int) -> None:
    make_old(database, upto=upto)
    store = Store(database)
    record = store.read("a", OLD)
    assert record.snapshot.state == State({"hotel-area": "north"})
    assert (record.subject, record.expires_at, record.created_at) == (None, None, 1.5)
    assert [entry.kind for entry in store.log("a", OLD)] == ["correction"]
    assert list(verify(store)) == [None]
    assert store.create("a", subject="s").id in {record.id for record in store.page("a").records}
    with store.database.read() as connection:
        assert current(connection) == LATEST
    store.close()


def test_migrations_make_the_tables_that_queries_expect(database: str) -> None:
    store = Store(database)
    store.ping()
    with store.database.read() as connection:
        found = inspect(connection)
        assert set(found.get_table_names()) == set(metadata.tables)
        for name, table in metadata.tables.items():
            columns = {column["name"]: column["nullable"] for column in found.get_columns(name)}
            keys = {column.name for column in table.primary_key}
            assert columns.keys() == {column.name for column in table.columns}
            assert set(found.get_pk_constraint(name)["constrained_columns"]) == keys
            for column in table.columns:
                assert column.name in keys or columns[column.name] == column.nullable, (name, column.name)
            assert {index["name"] for index in found.get_indexes(name)} >= {str(index.name) for index in table.indexes}
    store.close()


def test_numbers_have_no_gap() -> None:
    assert list(MIGRATIONS) == list(range(1, LATEST + 1))


@pytest.mark.parametrize("old", [True, False], ids=["from the oldest", "from nothing"])
def test_processes_that_start_at_once(database: str, old: bool) -> None:
    if old:
        make_old(database, upto=1)
    code = f"from somdst.store import Store; s = Store({database!r}); s.create('a'); print('done')"
    processes = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(3)]
    assert [process.communicate(timeout=LIMIT)[0] for process in processes] == [b"done\n"] * 3
    store = Store(database)
    assert len(store.page("a").records) == 3 + old
    with store.database.read() as connection:
        numbers = connection.execute(text("SELECT number FROM migrations ORDER BY number")).scalars().all()
    assert list(numbers) == list(MIGRATIONS)
    store.close()


def test_a_newer_database_is_refused(database: str) -> None:
    store = Store(database)
    store.ping()
    with store.database.write() as connection:
        connection.execute(text("INSERT INTO migrations VALUES (:n, 0)"), {"n": LATEST + 1})
    store.close()
    with pytest.raises(StoreError, match="newer somdst"):
        Store(database).ping()


# A database that the code of version 0.1.0 made: commit 2c46ca6, with the rules of tests/scripted.py as its model

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture
def first_release(database: str, tmp_path: Path) -> str:
    """The URL of that database; on PostgreSQL a copy of its rows."""
    path = Path(database.removeprefix("sqlite:///")) if database.startswith("sqlite") else tmp_path / "old.sqlite"
    path.write_bytes(gzip.decompress((FIXTURES / "store-0.1.0.sqlite.gz").read_bytes()))
    if not database.startswith("sqlite"):
        old, new = sqlite3.connect(path), Database(database)
        old.row_factory = sqlite3.Row
        with new._writer() as connection, connection.begin():
            migrate(connection, upto=3)
            for table in ("conversations", "entries", "idempotency_keys"):
                rows = [dict(row) for row in old.execute(f"SELECT * FROM {table}")]
                columns = ", ".join(f":{name}" for name in rows[0])
                connection.execute(text(f"INSERT INTO {table} ({', '.join(rows[0])}) VALUES ({columns})"), rows)
        new.close()
    return database


def expected() -> dict[str, list[dict[str, Any]]]:
    """Every version of every conversation, as the code of 0.1.0 replayed it."""
    versions: dict[str, list[dict[str, Any]]] = json.loads(
        gzip.decompress((FIXTURES / "store-0.1.0.json.gz").read_bytes())
    )
    return versions


def test_a_database_of_the_first_release_opens_and_replays(first_release: str) -> None:
    store = Store(first_release)
    assert list(verify(store)) == [None] * 4
    for id, versions in expected().items():
        tenant = "b" if id.endswith("4") else "local"
        record = store.read(tenant, id)
        for version, old in enumerate(versions):
            snapshot = store.at(tenant, id, version)
            assert (snapshot.version, snapshot.state.to_json()) == (version, old["state"])
            assert sorted(snapshot.pinned) == old["pinned"]
            assert snapshot.turn_count == len(old["turns"])
            assert [{"system": r.turn.system, "user": r.turn.user} for r in snapshot.recent] == old["turns"][-WINDOW:]
        assert record.snapshot == snapshot
        entry_at = partial(store.entry, tenant, id)
        while snapshot.undone:
            snapshot = store.append(Write(tenant, id, edits.redo(snapshot, entry_at)))
        while snapshot.head:
            snapshot = store.append(Write(tenant, id, edits.undo(snapshot, entry_at)))
        assert (snapshot.state, snapshot.turn_count, snapshot.recent) == (State(), 0, ())
    assert list(verify(store)) == [None] * 4
    store.close()


def test_keys_of_the_first_release_answer_as_then(first_release: str) -> None:
    store, versions = Store(first_release), expected()
    two, three = (f"{number:032x}" for number in (2, 3))
    for key, id, version in (("turn-2", two, 4), ("redo-1", two, 8), ("long-0", three, 1), ("long-last", three, 81)):
        [repeated] = store.find_keys([("local", Key(key, "f" if key.startswith("long") else f"f-{key}"))])
        assert isinstance(repeated, Repeated)
        assert (repeated.conversation, repeated.version) == (id, version)
        assert repeated.snapshot == store.at("local", id, version)
        assert repeated.snapshot.state.to_json() == versions[id][version]["state"]
        assert repeated.entry == store.entry("local", id, version)
    made = store.create("local", key=Key("create-2", "f-create-2"))
    now = store.read("local", two)
    assert (made.id, made.subject, made.snapshot) == (two, "customer-17", EMPTY)
    assert made.updated_at == made.created_at == now.created_at
    assert made.expires_at is not None and now.expires_at is not None
    assert made.expires_at - made.created_at == now.expires_at - now.updated_at
    store.close()


def test_a_damaged_conversation_of_the_first_release_keeps_its_memory(first_release: str) -> None:
    old, three = Database(first_release), f"{3:032x}"
    with old._writer() as connection, connection.begin():
        connection.execute(text("DELETE FROM entries WHERE conversation = :id AND version = 20"), {"id": three})
    old.close()
    store = Store(first_release)
    assert [damage.conversation for damage in verify(store) if damage] == [three]
    record = store.read("local", three)
    last = expected()[three][-1]
    assert (record.version, record.snapshot.state.to_json()) == (83, last["state"])
    assert [item.turn.user for item in record.snapshot.recent] == [turn["user"] for turn in last["turns"][-WINDOW:]]
    assert record.snapshot.head == 0, "what happened before cannot be undone"
    after = store.append(Write("local", three, edits.correct(record.snapshot, {"hotel-area": "east"})))
    assert (after.version, after.state["hotel-area"]) == (84, "east")
    assert len(store.log("local", three)) == 83
    store.close()


def test_the_keys_of_an_older_database_are_counted(database: str) -> None:
    store = Store(database)
    record = store.create("a", key=Key("k", "f"))
    store.append(Write("a", record.id, edits.correct(record.snapshot, {"hotel-area": "north"})))
    now = usage(store, "a")
    with store.database.write() as connection:  # as it was before keys counted
        size = len(connection.execute(text("SELECT snapshot FROM idempotency_keys")).scalar_one())
        connection.execute(text("UPDATE conversations SET bytes = bytes - :size"), {"size": size})
        connection.execute(text("DELETE FROM migrations WHERE number = 7"))
    store.close()
    store = Store(database)
    assert usage(store, "a") == now
    store.close()


def test_the_file_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.sqlite"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE notes (words TEXT)")
    other.commit()
    with pytest.raises(StoreError, match="This is not a somdst database: it has a table notes"):
        Store(str(path)).ping()
    assert [name for (name,) in other.execute("SELECT name FROM sqlite_master")] == ["notes"]
    other.close()
