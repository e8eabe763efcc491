"""Connections and transactions on SQLite or PostgreSQL: one code path for both.

SQLite is set up so that a commit that returned is on the disk (WAL, synchronous=FULL) and so that erased text is
overwritten (secure_delete). Driver errors become a `StoreError` of one sentence. Does not know any table.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from sqlalchemy import Connection, Engine, Row, Select, Table, create_engine, event, tuple_
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from somdst.errors import StoreError, Unavailable
from somdst.files import make_folder
from somdst.store.migrations import check_layout, migrate

BUSY_SECONDS = 10.0
POOL, OVERFLOW = 8, 4
"""Connections that stay open, and those that are opened when these are busy: together one for each thread of a service
(`service/core.py`)."""
WAL_LIMIT = 16 * 2**20
"""Bytes of SQLite's write-ahead file at which a writer merges it into the database. SQLite does that by itself, but
starts the file again only at a moment when nobody reads. Busy processes leave no such moment: the file would grow for
ever, and every read and write would get slower."""
MERGE_SECONDS = 0.2
"""How long such a merge waits for readers, and holds up other writers. A long reader makes it give up for a while."""


class Database:
    """Connections to one database, which is created and brought up to date at the first use. With `upgrade=False`,
    one that is not up to date is refused and stays as it is."""

    def __init__(self, url: str, *, upgrade: bool = True) -> None:
        self.url = _parse(url)
        self.upgrade = upgrade
        self.engine = _engine(self.url)
        self._ready = False
        self._lock = Lock()
        self._merge_at = WAL_LIMIT

    @property
    def sqlite(self) -> bool:
        return self.url.get_backend_name() == "sqlite"

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one moment of the database, whatever is written or erased meanwhile."""
        self.prepare()
        with self.read_as_it_is() as connection:
            yield connection

    @contextmanager
    def read_as_it_is(self) -> Iterator[Connection]:
        """The same, for tables of any age."""
        with self._translated(), self._reader() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that is durable when this returns, and did nothing when it raises."""
        self.prepare()
        with self.write_as_it_is() as connection:
            yield connection
        if self.sqlite and self._wal_size() >= self._merge_at:
            self._merge()

    @contextmanager
    def write_as_it_is(self) -> Iterator[Connection]:
        """The same, for tables of any age, or none."""
        with self._translated(), self._writer() as connection, connection.begin():
            yield connection

    def prepare(self) -> None:
        """Make the tables, or bring them up to date; once per process."""
        if self._ready:
            return
        with self._lock:
            if not self._ready:
                if self.upgrade:
                    with self.write_as_it_is() as connection:
                        migrate(connection)
                else:
                    with self.read_as_it_is() as connection:
                        check_layout(connection)
                self._ready = True

    def scrub(self) -> bool:
        """Make sure that no file contains what was deleted; False where a reader still needs a part of it.

        In SQLite the deleted rows were overwritten in the main file at the latest when the WAL was merged into it. It
        does not wait long for readers, because other writers wait for it.
        PostgreSQL reuses the space by its own vacuum, and old write-ahead files go at its next checkpoints.
        """
        if not self.sqlite:
            return True
        with self._translated(), self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            _wait_for_locks(connection, MERGE_SECONDS)
            try:
                busy, _, _ = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
            finally:
                _wait_for_locks(connection, BUSY_SECONDS)
            return not busy

    def close(self) -> None:
        self.engine.dispose()

    def _wal_size(self) -> int:
        try:
            return Path(f"{self.url.database}-wal").stat().st_size
        except FileNotFoundError:
            return 0

    def _merge(self) -> None:
        try:
            merged = self.scrub()
        except StoreError:
            merged = False  # a full disk, say; what was written is safe, and the next write will say what is wrong
        self._merge_at = WAL_LIMIT if merged else max(WAL_LIMIT, 2 * self._wal_size())

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (IntegrityError, ProgrammingError, DataError) as error:
            if "permission denied" in str(error.orig):
                raise StoreError("The database refuses this user: grant it the rights on the tables.") from error
            raise  # not the database's fault: a bug, and its trace is needed
        except DBAPIError as error:
            raise self._problem(str(error.orig)) from error
        except PoolTimeout as error:
            raise Unavailable("The database is too busy: try again in a moment.") from error

    def _problem(self, message: str) -> StoreError:
        name = Path(str(self.url.database)).name
        if "file is not a database" in message:
            return StoreError(f"{name} is not a somdst database: give the file that `somdst serve` was started with.")
        if "malformed" in message:
            return StoreError(f"The database {name} is damaged: put a backup in its place.")
        if "unable to open database file" in message:
            return StoreError(f"The database {name} cannot be opened: check its folder and its permissions.")
        if re.search(
            r"authentication failed|no password supplied|no pg_hba|(database|role) .* does not exist", message
        ):
            return StoreError("The database refuses the connection: check user, password and database in its URL.")
        if "readonly database" in message:
            return StoreError(f"The database {name} cannot be written: check the permissions of it and its folder.")
        return Unavailable(_sentence(message))

    def _writer(self) -> Connection:
        return self.engine.connect().execution_options(somdst_write=True)

    def _reader(self) -> Connection:
        connection = self.engine.connect()
        # By default each statement of a PostgreSQL transaction sees its own moment. In SQLite all see the same.
        return connection if self.sqlite else connection.execution_options(isolation_level="REPEATABLE READ")


def count_rows(connection: Connection) -> None:
    """After many rows were written at once: PostgreSQL plans by counts, which it would take a minute to make itself.
    Until then it may read whole tables. SQLite needs none."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("ANALYZE")


Place = tuple[float, str]
"""Where a page starts: when the last row of the page before was made, and its id."""


def newest_page(
    connection: Connection, query: Select[Any], table: Table, *, limit: int, after: Place | None
) -> tuple[list[Row[Any]], Place | None]:
    """At most `limit` rows of a query on this table, newest first, and where the next page starts."""
    order = (table.c.created_at, table.c.id)
    if after is not None:
        query = query.where(tuple_(*order) < tuple_(*after))
    rows = list(connection.execute(query.order_by(*(column.desc() for column in order)).limit(limit + 1)))
    last = rows[limit - 1] if len(rows) > limit else None
    return rows[:limit], (last.created_at, last.id) if last else None


def sqlite_file(url: str) -> Path | None:
    """The file of an SQLite database, given as a path or a URL; None for any other database."""
    if "://" in url and not url.startswith("sqlite:///"):
        return None
    return Path(url.removeprefix("sqlite:///")).expanduser()


def _parse(url: str) -> URL:
    """A database URL; a plain path means an SQLite file."""
    try:
        file = sqlite_file(url)
        parsed = make_url(url) if file is None else URL.create("sqlite", database=str(file) if file.name else "")
    except ArgumentError as error:
        raise StoreError("The database must be a path or a URL such as postgresql://user@host/name.") from error
    backend = parsed.get_backend_name()
    if backend in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    if backend == "sqlite" and parsed.database not in (None, "", ":memory:"):
        return parsed.set(drivername="sqlite+pysqlite")
    raise StoreError("The database must be an SQLite file or a PostgreSQL URL such as postgresql://user@host/name.")


def _engine(url: URL) -> Engine:
    options: dict[str, Any] = {"pool_size": POOL, "max_overflow": OVERFLOW, "pool_timeout": BUSY_SECONDS}
    options["hide_parameters"] = True  # they are what people said; SQLAlchemy would put them into its errors
    if url.get_backend_name() == "sqlite":
        make_folder(Path(str(url.database)).parent)
        engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS}, **options)
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    try:
        return create_engine(url, pool_pre_ping=True, connect_args=_postgres_limits(url), **options)
    except ModuleNotFoundError as error:
        raise StoreError("PostgreSQL needs the driver psycopg: pip install 'somdst[postgres]'.") from error


def _postgres_limits(url: URL) -> dict[str, Any]:
    """Time limits, so that a server that does not answer blocks nobody for ever. What the URL says takes precedence."""
    limits = {
        "connect_timeout": 5,
        "keepalives_idle": 10,
        "tcp_user_timeout": 15_000,
        "options": "-c statement_timeout=30s -c lock_timeout=10s -c idle_in_transaction_session_timeout=60s",
    }
    return {name: value for name, value in limits.items() if name not in url.query}


def _set_up_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where `_begin_sqlite` says so, not where the driver guesses
    cursor = connection.cursor()
    _switch_to_wal(cursor)
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA secure_delete=ON")
    cursor.close()


def _wait_for_locks(connection: Connection, seconds: float) -> None:
    connection.exec_driver_sql(f"PRAGMA busy_timeout={int(1000 * seconds)}")


def _switch_to_wal(cursor: Any) -> None:
    # The switch needs the file for itself and does not wait for it, unlike everything else: two processes that
    # start at once would see "database is locked".
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except Exception as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that reads first and writes later can fail for good when another one wrote in between.
    # Taking the write lock at the start makes it wait for its turn instead.
    writes = connection.get_execution_options().get("somdst_write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _sentence(message: str) -> str:
    if re.search(r"disk is full|No space left|disk I/O error|could not extend file", message):
        return "The database has no space left: free some, then try again; nothing was written."
    if "locked" in message or re.search("(lock|statement) timeout|deadlock detected", message):
        return "The database is locked by another process: try again in a moment; nothing was written."
    # A connection can be lost after the commit was sent: then nobody knows, and only the same key is safe.
    return "The database cannot be reached: try again in a moment, with the same idempotency key if there was one."
