"""The soak benchmark in small: it kills, counts, checks and draws. How fast the machine is, is not tested."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from soak import Plan, Point, Soaked, draw, soak, table


@pytest.mark.slow
def test_a_short_one(tmp_path: Path) -> None:
    plan = Plan(seconds=4, conversations=3, kill_every=1, calibrate=1)
    soaked = soak(str(tmp_path / "c.sqlite"), tmp_path, plan)
    assert soaked.violations == []
    assert soaked.counts["acknowledged"] == soaked.counts["writes"] == soaked.counts["entries"] > 0
    assert soaked.kills
    assert soaked.points[-1].memory_mb > 10 and soaked.points[-1].handles > 5
    assert {"kills", "broken promises", "p99 ms", "memory MB"} <= {row[0] for row in table(soaked).rows}


def test_the_picture(tmp_path: Path) -> None:
    points = [Point(10.0 * n, None if n == 2 else 5.0 + n, 20.0, 100.0, 30) for n in range(1, 5)]
    soaked = Soaked(100.0, 70.0, points=points, kills=[15.0])
    draw(soaked, tmp_path / "soak.svg")
    assert (tmp_path / "soak.svg").read_text().startswith("<?xml")
    assert soaked.halves("p50_ms") == (6.0, 8.5) and soaked.halves("handles") == (30, 30)
    assert soaked.to_json()["halves"]["memory_mb"] == (100.0, 100.0)


def test_what_grows_is_named() -> None:
    def verdicts(**second: float) -> dict[str, str]:
        first = Point(10.0, 5.0, 20.0, 100.0, 30)
        soaked = Soaked(100.0, 70.0, points=[first, replace(first, **second)])  # type: ignore[arg-type]
        return {str(row[0]): str(row[3]) for row in table(soaked).rows[-3:]}

    flat = {"p99 ms": "flat", "memory MB": "flat", "file handles": "flat"}
    assert verdicts() == verdicts(p50_ms=50.0, p99_ms=30.0, memory_mb=110.0, handles=33) == flat
    assert verdicts(p99_ms=30.1) == {**flat, "p99 ms": "grew"}
    assert verdicts(memory_mb=110.1) == {**flat, "memory MB": "grew"}
    assert verdicts(handles=34) == {**flat, "file handles": "grew"}
