"""The benchmark of the service, in small: the whole measurement, against a predictor of rules.

It counts right; how fast the service is, and what it refuses under load, depends on the machine and is not tested.
"""

from __future__ import annotations

import json
import math

import pytest
import service
from load import Sample, percentile, statuses
from processes import SCRIPTED

from somdst.errors import InputError

PROGRAM = [*SCRIPTED, "--max-turns", "64"]


@pytest.mark.slow
def test_the_whole_measurement() -> None:
    said: list[str] = []
    done = service.measure(PROGRAM, seconds=0.5, conversations=4, notice=said.append)
    assert len(said) == 3
    assert done.unbatched.mean_batch == 1 <= done.batched.mean_batch <= 32
    for speed in (done.batched, done.unbatched):
        assert speed.offered_per_s == pytest.approx(service.SHARE * speed.turns_per_s, abs=0.1)
        assert speed.p50_ms <= speed.p95_ms <= speed.p99_ms
    assert set(done.overload.statuses) <= {"200", "503"}, "what it cannot take it refuses, and nothing else goes wrong"
    assert done.speedup == pytest.approx(done.batched.turns_per_s / done.unbatched.turns_per_s, abs=0.01)
    assert json.loads(json.dumps(done.to_json()))["speedup"] == done.speedup
    one_by_one, batches = service.tables(done)[0].rows
    assert one_by_one[1] == done.unbatched.turns_per_s and batches[1] == done.batched.turns_per_s


def test_a_service_that_does_not_start() -> None:
    with pytest.raises(InputError, match="could not be loaded"):
        service.measure([*PROGRAM, "--model", "broken"], seconds=0.1)


def test_samples_are_counted() -> None:
    samples = [Sample(1.0, 1.5, 200), Sample(1.0, 1.1, 503), Sample(2.0, 2.25, 200)]
    assert statuses(samples) == {"200": 2, "503": 1}
    assert samples[2].milliseconds == 250


def test_percentiles() -> None:
    values = [float(n) for n in range(1, 101)]
    assert [percentile(values, share) for share in (0.5, 0.95, 0.99, 1.0)] == [50, 95, 99, 100]
    assert percentile([7.0], 0.5) == 7
    assert math.isnan(percentile([], 0.5))
