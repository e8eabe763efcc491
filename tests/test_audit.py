"""`scripts/audit` against a server of our own: advisories, none, and nobody who answers."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from waiting import LIMIT

SCRIPT = Path(__file__).parents[1] / "scripts" / "audit"


@contextmanager
def osv(known: Mapping[tuple[str, str], list[str]], *, key: str = "results") -> Iterator[str]:
    """The address of a server that knows these advisories, by package and version, and answers under this key."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            queries = json.loads(self.rfile.read(int(self.headers["content-length"])))["queries"]
            asked = [known.get((query["package"]["name"], query["version"])) for query in queries]
            results = [{"vulns": [{"id": id} for id in ids]} if ids else {} for ids in asked]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({key: results}).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def constraints(tmp_path: Path) -> Path:
    path = tmp_path / "constraints.txt"
    path.write_text("jinja2==2.4.1\n# a comment\ntorch==2.1.0+cpu\nhttpx==0.28.1\n")
    return path


def audit(constraints: Path, url: str, *, seconds: float = LIMIT) -> tuple[int, list[str]]:
    command = [sys.executable, str(SCRIPT), "--constraints", str(constraints), "--url", url, "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def test_advisories_are_listed(constraints: Path) -> None:
    with osv({("jinja2", "2.4.1"): ["GHSA-1", "PYSEC-2"], ("torch", "2.1.0"): ["GHSA-3"]}) as url:
        code, lines = audit(constraints, url)
    assert code == 1
    assert lines == [
        "jinja2 2.4.1: GHSA-1, PYSEC-2 (https://osv.dev/GHSA-1)",
        "torch 2.1.0: GHSA-3 (https://osv.dev/GHSA-3)",
        "3 packages, 3 known advisories",
    ]


def test_none_is_one_line(constraints: Path) -> None:
    with osv({}) as url:
        assert audit(constraints, url) == (0, ["3 packages, 0 known advisories"])


def test_where_nobody_answers_it_says_so(constraints: Path) -> None:
    with socket.socket() as silent:  # takes connections, and never answers
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        code, lines = audit(constraints, url, seconds=0.1)
        assert (code, lines) == (0, [f"Advisories were not checked: {url} does not answer."])
    code, lines = audit(constraints, url)  # nobody listens there now
    assert (code, lines) == (0, [f"Advisories were not checked: {url} does not answer."])


def test_an_answer_that_cannot_be_read_is_a_failure(constraints: Path) -> None:
    with osv({}, key="other") as url:
        code, [line] = audit(constraints, url)
    assert code == 1 and "could not be read (KeyError('results'))" in line


def test_the_pinned_packages_can_be_read() -> None:
    """Every line of the real file is a name and a version."""
    lines = (SCRIPT.parents[1] / "constraints.txt").read_text().splitlines()
    assert len(lines) > 100 and all("==" in line for line in lines if line and not line.startswith("#"))
