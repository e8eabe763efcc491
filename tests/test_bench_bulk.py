"""The benchmark of many dialogues does all three kinds of work; how fast that is depends on the machine."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from somdst.cli.main import app


def test_command() -> None:
    done = CliRunner().invoke(app, ["bench", "bulk", "synthetic:3", "--repeats", "1", "--limit", "2", "--json"])
    assert done.exit_code == 0, done.output
    measured = json.loads(done.stdout)
    assert measured["turns"] > 2
    assert measured["one_at_a_time"]["times"] == 1
    assert all(measured[way]["turns_per_s"] > 0 for way in ("one_at_a_time", "evaluate", "annotate"))
