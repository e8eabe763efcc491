"""`somdst bench` runs every variant for real and says what it promises; how fast that is, is not tested."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from somdst.model.folder import shipped_path

pytestmark = pytest.mark.skipif(not shipped_path().is_dir(), reason="this checkout has no shipped model")


@pytest.mark.slow
def test_bench_measures_every_variant() -> None:
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "somdst", "bench", "--turns", "4", "--rounds", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    told = json.loads(done.stdout)
    assert set(told["turn_ms"]) == {"int8", "float32", "torch", "every slot, as TRADE", "released way, BERT-base"}
    for latency in told["turn_ms"].values():
        assert 0 < latency["p50"] <= latency["p95"]
    assert told["turn_ms"]["released way, BERT-base"]["p50"] > told["turn_ms"]["int8"]["p50"]
    for name in ("batch_turns_per_s", "cold_start_s", "peak_mb"):
        assert told[name] > 0


def test_the_shipped_model_is_small() -> None:
    sizes = {file.name: file.stat().st_size / 1e6 for file in shipped_path().iterdir()}
    assert sum(sizes.values()) <= 110
    assert sum(size for name, size in sizes.items() if "int8" in name) <= 40
