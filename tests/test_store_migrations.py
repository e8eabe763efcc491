"""Migrations: from the oldest layout with its data, by two processes at once, and what is too new."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from sqlalchemy import inspect, text

from somdst.errors import StoreError
from somdst.memory.state import State
from somdst.store import Store, verify
from somdst.store.database import Database
from somdst.store.layout import LATEST, MIGRATIONS, current, metadata, migrate
from somdst.tracking import edits
from somdst.tracking.log import EMPTY, append
from somdst.tracking.records import Entry

OLD = "0" * 32


def make_old(url: str, *, upto: int) -> None:
    """A database as the first release left it, with one conversation in it."""
    database = Database(url)
    entry = edits.correct(EMPTY, {"hotel-area": "north"})
    with database._writer() as connection, connection.begin():
        assert migrate(connection, upto=upto) == list(range(1, upto + 1))
        connection.execute(
            text(
                "INSERT INTO conversations (id, tenant, created_at, updated_at, version, snapshot) "
                "VALUES (:id, 'a', 1.5, 2.5, 1, :snapshot)"
            ),
            {"id": OLD, "snapshot": json.dumps(append(EMPTY, entry).to_json())},
        )
        connection.execute(
            text("INSERT INTO entries VALUES (:id, 1, 'correction', 'person', :entry)"),
            {"id": OLD, "entry": json.dumps(entry.to_json())},
        )
    database.close()


@pytest.mark.parametrize("upto", range(1, LATEST + 1))
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
    assert [process.communicate(timeout=60)[0] for process in processes] == [b"done\n"] * 3
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


def test_an_entry_of_the_first_release_still_reads() -> None:
    data = {"kind": "correction", "source": "person", "time": "2026-01-01T00:00:00+00:00"}
    assert Entry.from_json(data).kind == "correction"
