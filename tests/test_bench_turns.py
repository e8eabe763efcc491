"""`somdst bench` and `benchmarks/turns.py` measure what they say; how fast that is, is not tested."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from somdst.corpora.examples import examples
from somdst.evaluate.speed import Latency, measure_latencies, work_of
from somdst.memory.dialogue import Turn
from somdst.memory.state import State
from somdst.model.folder import shipped_path

ROOT = Path(__file__).parents[1]
DIALOGUES = [item.dialogue for item in examples().values()]


def output(*command: str) -> dict[str, object]:
    done = subprocess.run([sys.executable, *command, "--json"], capture_output=True, text=True, check=True)
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_work_is_every_turn_on_its_gold_memory() -> None:
    turns = sum(len(dialogue.turns) for dialogue in DIALOGUES)
    work = work_of(DIALOGUES, most=10_000)
    assert len(work) == turns and len(work_of(DIALOGUES, most=5)) == 5
    assert work[0].input.state == State() and work[1].input.state == DIALOGUES[0].turns[0].state
    assert work[1].input.previous_turn == Turn(DIALOGUES[0].turns[0].system, DIALOGUES[0].turns[0].user)
    assert work[0].updates == len(DIALOGUES[0].turns[0].state or ())


def test_variants_alternate_and_slow_ones_do_fewer_turns() -> None:
    work, order = work_of(DIALOGUES, most=4), []
    variants = {name: (lambda one, name=name: order.append(name)) for name in ("a", "b")}
    found = measure_latencies(variants, work, rounds=2, few={"b": 1})
    assert order == ["a"] * 3 + ["b"] * 3 + (["a"] * 4 + ["b"]) * 2, "three of each to warm up, then two rounds"
    assert (found["a"].turns, found["b"].turns) == (8, 2)


def test_latencies_are_in_milliseconds() -> None:
    latency = Latency.of([0.001] * 19 + [0.101])
    assert latency.p50 == 1.0 and 1.0 < latency.p95 <= 101 and latency.turns == 20
    assert Latency.of([0.002]).p95 == 2.0


@pytest.mark.skipif(not shipped_path().is_dir(), reason="this checkout has no shipped model")
class TestTheShippedModel:
    def test_the_command(self) -> None:
        told = output("-m", "somdst", "bench", "--turns", "4", "--rounds", "1")
        assert set(told) == {"corpus", "model", "turn_ms", "batch_turns_per_s", "cold_start_s", "peak_mb"}
        assert told["turn_ms"]["turns"] == 4  # type: ignore[index]

    @pytest.mark.slow
    def test_every_variant_is_measured(self) -> None:
        pytest.importorskip("torch")
        told = output(str(ROOT / "benchmarks" / "turns.py"), "--turns", "4", "--rounds", "1")
        assert set(told["turn_ms"]) == {  # type: ignore[call-overload]
            "int8", "float32", "torch", "every slot, as TRADE", "released way, BERT-base",
        }  # fmt: skip

    def test_it_is_small(self) -> None:
        sizes = {file.name: file.stat().st_size / 1e6 for file in shipped_path().iterdir()}
        assert sum(sizes.values()) <= 110
        assert sum(size for name, size in sizes.items() if "int8" in name) <= 40
