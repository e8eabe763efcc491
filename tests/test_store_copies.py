"""Copies of a store: online, whole, checked, from SQLite to PostgreSQL and back; commands that read change nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from clients import Bounds, Clients
from history import Call, History, check, count
from postgres import PostgresServer
from services import Server
from sqlalchemy import inspect, text
from test_store import Clock, say
from torture import read_database

from somdst.errors import StoreError
from somdst.memory.schema import Schema
from somdst.store import Key, Repeated, Store, copy, verify
from somdst.store.copies import Copied
from somdst.store.database import Database
from somdst.store.layout import metadata
from somdst.store.migrations import LATEST, MIGRATIONS, current, migrate


@pytest.fixture
def filled(database: str) -> Iterator[str]:
    """A row in every table: conversations, one with a schema of its own, their entries and keys, and an erasure."""
    store = Store(database, clock=Clock())
    store.erase("a", store.create("a").id)
    for number in range(3):
        schema = None if number else Schema.multiwoz()
        record = store.create("a", subject=f"s{number}", schema=schema, key=Key(f"create-{number}", "f"))
        for turn in range(number):
            say(store, record, f"hotel name place {turn}", key=Key(f"turn-{number}-{turn}", "f"))
    store.close()
    yield database


def rows(url: str) -> dict[str, list[tuple[object, ...]]]:
    """Of every table that the database has. When a migration was applied is its own affair."""
    database = Database(url, upgrade=False)
    with database.read_as_it_is() as connection:
        what = dict.fromkeys(inspect(connection).get_table_names(), "*") | {"migrations": "number"}
        found = {
            name: sorted(tuple(row) for row in connection.execute(text(f"SELECT {columns} FROM {name}")))
            for name, columns in what.items()
        }
    database.close()
    return found


def somdst(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "somdst", "store", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_there_and_back(filled: str, tmp_path: Path, postgres: PostgresServer) -> None:
    """Into a file, from there into PostgreSQL, from there into a file: every row as it was, and keys still answer."""
    assert len(rows(filled)) == len(metadata.tables) and all(rows(filled).values())
    one, two, three = str(tmp_path / "one.sqlite"), postgres.new_database(), str(tmp_path / "three.sqlite")
    for source, target in ((filled, one), (one, two), (two, three)):
        assert copy(source, target) == Copied(3, up_to_date=True)
        assert rows(target) == rows(filled)
    moved = Store(two)
    with moved.database.read() as connection:
        counted = connection.exec_driver_sql("SELECT reltuples FROM pg_class WHERE relname = 'conversations'").scalar()
    moved.close()
    assert counted == 3, "or PostgreSQL would read whole tables until it has counted their rows itself"
    store = Store(three)
    assert list(verify(store)) == [None] * 3
    [repeated] = store.find_keys([("a", Key("turn-2-1", "f"))])
    assert isinstance(repeated, Repeated) and repeated.version == 2
    store.close()
    assert sorted(path.name for path in tmp_path.glob("[ot]*")) == ["one.sqlite", "three.sqlite"], "and nothing else"


@pytest.mark.slow
def test_while_the_service_writes(database: str, tmp_path: Path, postgres: PostgresServer) -> None:
    """Each backup and what is restored from it have everything that was acknowledged before the backup began, and keep
    the contract."""
    bounds = Bounds(writers=3, writes=1, ahead=100, seconds=1e6)
    copies: list[tuple[str, int, int]] = []
    with Server(database) as server, ThreadPoolExecutor(bounds.writers) as threads:
        clients = Clients([server.url], seed=1, bounds=bounds)
        clients.begin()
        writers = [threads.submit(clients.write, number) for number in range(bounds.writers)]
        try:
            for number in (1, 2):
                clients.reach(30 * number)
                copied, back = str(tmp_path / f"copy{number}.sqlite"), postgres.new_database()
                began = clients.tick()
                done = somdst("backup", copied, "--database", database)
                assert done.returncode == 0, done.stderr
                copies.append((copied, began, clients.tick()))
                done = somdst("restore", copied, "--database", back)
                assert done.returncode == 0, done.stderr
                copies.append((back, *copies[-1][1:]))
        finally:
            clients.finish()
        for writer in writers:
            writer.result()
    for url, began, ended in copies:
        stored, damages = read_database(url)
        history = History(list(seen(clients.calls, stored, began, ended)), stored, complete=True)
        assert count(history)["acknowledged"] > 0
        assert [*check(history), *damages] == []


def seen(calls: Sequence[Call], stored: Collection[str], began: int, ended: int) -> Iterator[Call]:
    """What clients saw of a copy that was made between these moments. What was under way then may be in it or not;
    conversations that were made meanwhile and are not in it are left out, and so is what came later."""
    made = {call.conversation for call in calls if call.kind == "create" and call.ended < began}
    for call in calls:
        if call.ended < began:
            yield call
        elif call.began < ended and (call.kind == "create" or call.conversation in made.union(stored)):
            name = "" if call.kind == "create" else call.conversation
            yield replace(call, conversation=name, status=None, answer={}, expires=None)


def test_what_is_not_empty_is_left_alone(filled: str, tmp_path: Path, postgres: PostgresServer) -> None:
    file = tmp_path / "taken.sqlite"
    file.write_text("mine")
    with pytest.raises(StoreError, match="exists already"):
        copy(filled, str(file))
    assert file.read_text() == "mine"
    full, used = postgres.new_database(), Store(postgres.new_database())
    copy(filled, full)
    with pytest.raises(StoreError, match="not empty"):
        copy(filled, full)
    used.ping()  # the tables are there, and nothing is in them
    used.close()
    assert copy(filled, used.database.url.render_as_string(hide_password=False)).conversations == 3


def test_schemas_without_conversations_are_not_empty_either(filled: str, postgres: PostgresServer) -> None:
    target = postgres.new_database()
    store = Store(target)
    store.schemas.add("a", Schema.multiwoz())
    store.close()
    with pytest.raises(StoreError, match="not empty"):
        copy(filled, target)


def test_a_newer_database_is_not_copied_in_part(filled: str, tmp_path: Path) -> None:
    database = Database(filled)
    with database.write() as connection:
        connection.execute(text("INSERT INTO migrations VALUES (:number, 0)"), {"number": LATEST + 1})
    database.close()
    with pytest.raises(StoreError, match="newer somdst"):
        copy(filled, str(tmp_path / "copy.sqlite"))
    assert [path.name for path in tmp_path.iterdir() if "copy" in path.name] == []


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path) -> None:
    empty = tmp_path / "empty.sqlite"
    empty.touch()
    with pytest.raises(StoreError, match="nothing to copy"):
        copy(str(empty), str(tmp_path / "copy.sqlite"))
    assert [path.name for path in tmp_path.iterdir() if "copy" in path.name] == []


@pytest.mark.parametrize("upto", sorted(MIGRATIONS)[:-1])
def test_commands_that_read_do_not_upgrade(database: str, tmp_path: Path, upto: int) -> None:
    old = Database(database)
    with old.write_as_it_is() as connection:
        migrate(connection, upto=upto)
    with pytest.raises(StoreError, match=f"older somdst \\(layout {upto}, this one reads {LATEST}\\)"):
        next(verify(Store(database, upgrade=False)))
    assert copy(database, str(tmp_path / "copy.sqlite")) == Copied(0, up_to_date=False)
    for url in (database, str(tmp_path / "copy.sqlite")):
        looked_at = Database(url)
        with looked_at.read_as_it_is() as connection:
            assert current(connection) == upto
        looked_at.close()
    old.close()


def test_the_commands(tmp_path: Path) -> None:
    path, copied, back = (tmp_path / f"{name}.sqlite" for name in ("store", "copy", "back"))
    store = Store(str(path))
    say(store, store.create("local"), "hotel area north")
    store.close()
    assert somdst("backup", copied, "--database", path).stdout == f"1 conversation in {copied}, 0 damaged\n"
    assert somdst("restore", copied, "--database", back).stdout == f"1 conversation in {back}, 0 damaged\n"
    again = somdst("copy", copied, back)
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr == f"somdst: {back} exists already: give a new file, or remove it first.\n"
    assert somdst("upgrade", "--database", back).stdout == f"{back} is up to date\n"
    damaged = Store(str(path))
    with damaged.database.write() as connection:
        connection.execute(text("DELETE FROM entries"))
    damaged.close()
    done = somdst("backup", tmp_path / "damaged.sqlite", "--database", path)
    assert (done.returncode, done.stdout.endswith(", 1 damaged\n")) == (1, True)
