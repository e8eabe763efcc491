"""A PostgreSQL server of its own, started from the machine's binaries: for tests, and to be crashed by the torture."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from somdst.errors import InputError


def find_binaries() -> Path | None:
    """The newest PostgreSQL of the machine."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[4]))
    if versions:
        return versions[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


def _fast_folder() -> str:
    """In memory where there is enough: a database is some 300 files. Short either way, as a socket's path must be."""
    shared = Path("/dev/shm")
    return str(shared) if shared.is_dir() and shutil.disk_usage(shared).free > 2**31 else "/tmp"


@contextmanager
def own_postgres(*options: str) -> Iterator[PostgresServer]:
    binaries = find_binaries()
    if binaries is None:
        raise InputError("There is no PostgreSQL server on this machine: install one (Debian's `postgresql`).")
    server = PostgresServer(binaries, *options)
    try:
        yield server
    finally:
        server.remove()


class PostgresServer:
    """A server in a folder of its own, reached through a socket there, so that no port is taken."""

    def __init__(self, binaries: Path, *options: str) -> None:
        self.binaries = binaries
        self.options = options
        """Settings such as `wal_writer_delay=10s`."""
        self.folder = Path(tempfile.mkdtemp(prefix="somdst-pg-", dir=_fast_folder()))
        self.names = (f"test{number}" for number in itertools.count())
        if os.geteuid() == 0:  # initdb refuses to run as root
            user = pwd.getpwnam("postgres")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        self._run("initdb", "-D", self.folder / "data", "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8")
        self.start()

    def start(self) -> None:
        fixed = ("listen_addresses=''", f"unix_socket_directories='{self.folder}'", "fsync=off", "max_connections=60")
        settings = " ".join(f"-c {setting}" for setting in (*fixed, *self.options))
        self._run("pg_ctl", "-D", self.folder / "data", "-w", "-o", settings, "-l", self.folder / "log", "start")

    def stop(self, *, mode: str = "immediate") -> None:
        """`immediate` is a crash: what was not yet given to the system is gone."""
        self._run("pg_ctl", "-D", self.folder / "data", "-m", mode, "-w", "stop")

    def new_database(self) -> str:
        """The URL of an empty database."""
        name = next(self.names)
        self._run("createdb", "-h", self.folder, "-U", "postgres", name)
        return f"postgresql://postgres@/{name}?host={self.folder}"

    def remove(self) -> None:
        if (self.folder / "data" / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str | Path) -> None:
        command = [str(self.binaries / program), *map(str, arguments)]
        if os.geteuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/tmp", timeout=300)
        assert done.returncode == 0, done.stderr.decode()
