"""The benchmark of many dialogues does every kind of work; how fast that is depends on the machine."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from somdst.bench.bulk import WAYS
from somdst.cli.main import app


def test_command() -> None:
    command = ["bench", "bulk", "synthetic:3", "--repeats", "1", "--limit", "2", "--torch", "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    measured = json.loads(done.stdout)
    assert measured["turns"] > 2
    assert measured["one_at_a_time"]["times"] == 1
    assert all(measured[way]["turns_per_s"] > 0 for way in WAYS)
