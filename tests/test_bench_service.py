"""`somdst bench service` in small: the whole measurement, against a predictor that is as slow as a model."""

from __future__ import annotations

import json
import math
import sys

import pytest
from services import SCRIPT

from somdst.bench.load import percentile
from somdst.bench.service import measure
from somdst.errors import InputError


def command(*options: str):  # type: ignore[no-untyped-def]
    def line(port: int, database: str, max_batch: int) -> list[str]:
        fixed = ["--port", str(port), "--database", database, "--max-batch", str(max_batch), "--max-turns", "64"]
        return [sys.executable, str(SCRIPT), *fixed, *options]

    return line


@pytest.mark.slow
def test_the_whole_measurement() -> None:
    said: list[str] = []
    report = measure(command("--delay", "0.02", "0.002"), seconds=0.6, conversations=8, notice=said.append)
    assert len(said) == 3
    assert report.speedup > 1.5
    assert report.unbatched.mean_batch == 1
    assert report.batched.mean_batch > 2
    for speed in (report.batched, report.unbatched):
        assert speed.statuses.keys() == {"200"}
        assert 0 < speed.p50_ms <= speed.p95_ms <= speed.p99_ms
    assert set(report.overload.statuses) <= {"200", "503"}
    assert report.overload.recovery_s is not None
    assert report.overload.recovery_s < 5
    assert report.overload.memory_mb_most is not None
    assert report.overload.memory_mb_before is not None
    assert report.overload.memory_mb_most < report.overload.memory_mb_before + 60
    assert json.loads(json.dumps(report.to_json()))["speedup"] == report.speedup


def test_a_service_that_does_not_start() -> None:
    with pytest.raises(InputError, match="could not be loaded"):
        measure(command("--model", "broken"), seconds=0.1)


def test_percentiles() -> None:
    values = [float(n) for n in range(1, 101)]
    assert [percentile(values, share) for share in (0.5, 0.95, 0.99, 1.0)] == [50, 95, 99, 100]
    assert percentile([7.0], 0.5) == 7
    assert math.isnan(percentile([], 0.5))
