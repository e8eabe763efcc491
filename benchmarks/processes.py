"""A service in a process of its own, on a port of this machine: started, waited for, killed, stopped, weighed.

Benchmarks and tests both use it. Faults that need more than a kill are in `nemesis.py`.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from somdst.errors import InputError

SCRIPTED = [sys.executable, str(Path(__file__).parents[1] / "tests" / "serve_scripted.py")]
"""The real service with a predictor of rules: it needs no model, and takes the options that `somdst serve` has."""
PATIENCE = 300.0
"""Seconds in which a process has to start or to end, on a machine that is busy with other things."""
_PORTS = itertools.count(os.getpid())


def free_port() -> int:
    """A port that nobody takes before the service does.

    It is below those that the system gives to outgoing connections, and each worker of a test run has its own range.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for _ in range(1_000):
        port = 11_000 + 1_000 * (worker % 20) + next(_PORTS) % 1_000
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise InputError("There is no free port between 11,000 and 31,000: stop what uses them.")


class Service:
    """`program` with a port, a database and other options of the command line."""

    def __init__(
        self, program: Sequence[str], database: str, *options: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.command = [*program, "--port", str(self.port), "--database", database, *options]
        self.environment = {**os.environ, **(environment or {})}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *, path: str = "/readyz") -> Self:
        """Start it, and wait until it answers 200 at `path`."""
        self.launch()
        self.wait(path)
        return self

    def launch(self) -> None:
        # Not a pipe: one that nobody reads would stop the service when it is full.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=self._log, env=self.environment)

    def wait(self, path: str = "/readyz") -> None:
        """Until it answers 200 at `path`. One that cannot be used is stopped."""
        assert self.process is not None
        deadline = time.monotonic() + PATIENCE
        while (said := self._problem(path)) is not None:
            hopeless = "could not be loaded" in said or time.monotonic() > deadline
            if hopeless or self.process.poll() is not None:
                log = self.stop()
                raise InputError(f"The service did not start: {said or log}")
            time.sleep(0.02)

    def _problem(self, path: str) -> str | None:
        """What the service says is wrong; empty if it does not answer, None if it answers 200."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return None if answer.status == 200 else str(json.loads(answer.read())["error"])
        except (OSError, http.client.HTTPException):
            return ""
        finally:
            connection.close()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def kill(self) -> None:
        """As if the power went."""
        os.kill(self.pid, signal.SIGKILL)
        self._end()

    def stop(self) -> str:
        """As an operator does it: what was accepted is finished. Returns what it wrote into its log."""
        if self.process is not None and self.process.poll() is None:
            os.kill(self.pid, signal.SIGTERM)
        return self._end()

    def _end(self) -> str:
        assert self.process is not None
        self.process.communicate(timeout=PATIENCE)
        self._log.seek(0)
        return self._log.read().decode()

    @property
    def memory(self) -> float:
        """Megabytes that are its own. Only Linux says so."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))

    def __enter__(self) -> Self:
        return self if self.process else self.start()

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop()
