"""A whole database copied into an empty one, SQLite or PostgreSQL, while others write to it: `copy`.

A backup, its restore and a move to another database are all this one function. It reads in one transaction, so the copy
is the database at one moment. It copies every row as it is, so tables of an older somdst stay as old as they are. Does
not check anything; see `verify` in `auditing.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, MetaData, Table, func, insert, inspect, select

from somdst.errors import StoreError
from somdst.store.database import Database, count_rows, sqlite_file
from somdst.store.layout import metadata
from somdst.store.migrations import LATEST, current, migrate, refuse_newer

ROWS = 1000
"""Rows that are in memory at once."""


@dataclass(frozen=True, slots=True)
class Copied:
    conversations: int
    up_to_date: bool
    """False if the tables are of an older somdst."""


def copy(source: str, target: str) -> Copied:
    """Copy everything into `target`, a new file or an empty PostgreSQL database. If it fails, the target
    is as it was."""
    path = _new_file(target)
    unfinished = f"{path}.unfinished" if path else target
    if path:
        _remove(unfinished)
    databases = Database(source, upgrade=False), Database(unfinished)
    try:
        with databases[0].read_as_it_is() as reading, databases[1].write_as_it_is() as writing:
            copied = _copy_rows(reading, writing)
    except BaseException:
        if path:
            databases[1].close()
            _remove(unfinished)
        raise
    finally:
        for database in databases:
            database.close()  # which also merges the write-ahead log into the new file
    if path:
        Path(unfinished).replace(path)
    return copied


def _copy_rows(reading: Connection, writing: Connection) -> Copied:
    layout = current(reading)
    if not layout:
        raise StoreError("There is nothing to copy: the source is not a somdst database.")
    refuse_newer(layout)
    names = [table.name for table in metadata.sorted_tables if table.name != "migrations"]  # those referred to first
    if current(writing) > layout or any(_has_rows(writing, name) for name in names):
        raise StoreError("The database to copy into is not empty: give a new file or an empty PostgreSQL database.")
    migrate(writing, upto=layout)
    for name in names:
        if not inspect(reading).has_table(name):
            continue
        table = Table(name, MetaData(), autoload_with=reading, resolve_fks=False)
        rows = reading.execution_options(yield_per=ROWS).execute(select(table))
        for part in rows.mappings().partitions():
            writing.execute(insert(table), [dict(row) for row in part])
    conversations = Table("conversations", MetaData(), autoload_with=writing, resolve_fks=False)
    count = writing.execute(select(func.count()).select_from(conversations)).scalar_one()
    count_rows(writing)
    return Copied(count, layout == LATEST)


def _has_rows(connection: Connection, name: str) -> bool:
    if not inspect(connection).has_table(name):
        return False
    table = Table(name, MetaData(), autoload_with=connection, resolve_fks=False)
    return connection.execute(select(table).limit(1)).first() is not None


def _new_file(target: str) -> Path | None:
    """The file to make; None for PostgreSQL."""
    path = sqlite_file(target)
    if path and path.exists():
        raise StoreError(f"{path} exists already: give a new file, or remove it first.")
    return path


def _remove(path: str) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
