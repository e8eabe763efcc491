"""Copies of a store: online, whole, checked, from SQLite to PostgreSQL and back; commands that read change nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres import PostgresServer
from services import Server
from sqlalchemy import text
from test_store import Clock, say
from waiting import until

from somdst import Client
from somdst.errors import StoreError
from somdst.store import Key, Repeated, Store, copy, verify
from somdst.store.copies import Copied
from somdst.store.database import Database
from somdst.store.migrations import LATEST, MIGRATIONS, current, migrate


@pytest.fixture
def filled(database: str) -> Iterator[str]:
    store = Store(database, clock=Clock())
    for number in range(3):
        record = store.create("a", subject=f"s{number}", key=Key(f"create-{number}", "f"))
        for turn in range(number):
            say(store, record, f"hotel name place {turn}", key=Key(f"turn-{number}-{turn}", "f"))
    store.close()
    yield database


def rows(url: str) -> dict[str, list[tuple[object, ...]]]:
    database = Database(url, upgrade=False)
    with database.read_as_it_is() as connection:
        tables = ("conversations", "entries", "idempotency_keys")
        found = {
            table: sorted(tuple(row) for row in connection.execute(text(f"SELECT * FROM {table}"))) for table in tables
        }
    database.close()
    return found


def somdst(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "somdst", "store", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_there_and_back(filled: str, tmp_path: Path, postgres: PostgresServer) -> None:
    """Into a file, from there into PostgreSQL, from there into a file: every row as it was, and keys still answer."""
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


def test_while_the_service_writes(database: str, tmp_path: Path) -> None:
    """Each copy has everything that was acknowledged before it began, as a prefix of the log, and is sound."""
    with Server(database) as server, Client(server.url, retries=50) as client:
        conversations = [client.start() for _ in range(3)]
        acknowledged: list[list[str]] = [[] for _ in conversations]
        stopping = threading.Event()

        def write(who: int) -> None:
            while not stopping.is_set():
                words = f"hotel name place {len(acknowledged[who])}"
                conversations[who].update(words)
                acknowledged[who].append(words)

        threads = [threading.Thread(target=write, args=(who,)) for who in range(3)]
        for thread in threads:
            thread.start()
        before: list[list[int]] = []
        try:
            for number in range(3):
                goal = [len(words) + 2 for words in acknowledged]
                until(lambda goal=goal: all(len(w) >= g for w, g in zip(acknowledged, goal, strict=True)))
                before.append([len(words) for words in acknowledged])
                copy(database, str(tmp_path / f"copy{number}.sqlite"))
        finally:
            stopping.set()
            for thread in threads:
                thread.join()
    for number, least in enumerate(before):
        store = Store(str(tmp_path / f"copy{number}.sqlite"), upgrade=False)
        assert list(verify(store)) == [None] * 3
        for who, conversation in enumerate(conversations):
            said = [entry.turn.user for entry in store.log("local", conversation.id) if entry.turn]
            assert said == acknowledged[who][: len(said)]
            assert len(said) >= least[who]
        store.close()


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
