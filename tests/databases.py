"""Real databases for tests: an SQLite file, and a PostgreSQL server started from the machine's own binaries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres import PostgresServer, find_binaries, own_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    if find_binaries() is None:
        pytest.skip("no PostgreSQL binaries on this machine: install Debian's postgresql")
    with own_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database: every test that takes it runs on both kinds."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/conversations.sqlite"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_database()
