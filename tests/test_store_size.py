"""A store costs the same however many conversations are in it: work of the database, counted, not timed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from store_size import operations, stock
from test_store_length import Counter, Work

FEW, MANY = 200, 20_000


def measure(counter: Counter, number: int) -> dict[str, Work]:
    return {name: counter.of(lambda work=work: work(0)) for name, work in operations(counter.store, number, 1).items()}  # type: ignore[misc]


def test_many_conversations_cost_what_a_few_do(tmp_path: Path) -> None:
    counter = Counter(tmp_path / "conversations.sqlite")
    stock(counter.store, 0, FEW)
    few = measure(counter, FEW)
    stock(counter.store, FEW, MANY)
    many = measure(counter, MANY)
    for name, work in few.items():
        assert many[name].instructions <= 1.2 * work.instructions + 20, name
        assert many[name].read <= 1.1 * work.read + 100, name
        assert work.instructions > 10, "else nothing was counted"
    counter.store.close()


def test_the_benchmark_runs() -> None:
    script = Path(__file__).parents[1] / "benchmarks" / "store_size.py"
    command = [sys.executable, script, "--repeats", "1", "--longest", "10", "--conversations", "300", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [row["entries"] for row in report["by_length"]] == [10]
    assert [row["conversations"] for row in report["by_number"]] == [30, 300]
    assert {"read", "turn", "first page", "erase", "erase a subject", "usage"} <= report["by_number"][0].keys()
