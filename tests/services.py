"""The service in a process of its own, for tests that talk to it as a client would, kill it or drown it."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Self

import httpx
from waiting import LIMIT, until

SCRIPT = Path(__file__).parent / "serve_scripted.py"
_PORTS = itertools.count(os.getpid())


def free_port() -> int:
    """A port that nobody takes before the service does.

    It is below those that the system gives to outgoing connections, and each worker of a test run has its own range.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    while True:
        port = 11_000 + 1_000 * (worker % 20) + next(_PORTS) % 1_000
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


class Server:
    """`tests/serve_scripted.py` on a free port. `options` are its command line's."""

    def __init__(self, database: str, *options: str, environment: dict[str, str] | None = None) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.command = [sys.executable, str(SCRIPT), "--port", str(self.port), "--database", database, *options]
        self.environment = {**os.environ, **(environment or {})}
        self.process: subprocess.Popen[bytes] | None = None
        self.log = b""

    def start(self, *, path: str = "/readyz") -> Self:
        """Start it, and wait until it answers 200 at `path`."""
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, env=self.environment)
        until(lambda: self._ended() or self._answers(path), what="the start of the service")
        assert not self._ended(), f"the service did not start: {self.stop()!r}"
        return self

    def _ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def _answers(self, path: str) -> bool:
        try:
            return httpx.get(self.url + path, timeout=60).status_code == 200
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        """As if the power went."""
        assert self.process is not None
        self.process.kill()
        self.process.communicate()

    def stop(self) -> str:
        """As an operator does it; what it wrote into its log."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.log = self.process.communicate(timeout=LIMIT)[1]
        return self.log.decode()

    @property
    def memory(self) -> float:
        """Megabytes."""
        assert self.process is not None
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        raise AssertionError

    def __enter__(self) -> Self:
        return self if self.process else self.start()

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop()
