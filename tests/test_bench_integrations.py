"""`benchmarks/integrations.py` measures every way; how fast that is, is not tested."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_way_is_measured() -> None:
    script = [str(ROOT / "benchmarks" / "integrations.py"), "--rounds", "1", "--dialogues", "1", "--json"]
    done = subprocess.run([sys.executable, *script], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert set(told) == {
        "bare update",
        "with a store",
        "LangGraph node",
        "LangGraph graph",
        "MCP over stdio",
        "MCP over HTTP",
    }
    assert len({way["turns"] for way in told.values()}) == 1, "all do the same turns"
    assert told["bare update"]["added_ms"] == 0
