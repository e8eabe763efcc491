"""The benchmark of the data layer measures what it says; how fast that is depends on the machine and is not tested."""

import json
import os
import subprocess
import sys
from pathlib import Path

import data
import pytest
from data import Rate, Seconds, measure_reading, one_core, turn_inputs

from somdst.corpora import Corpus, open_corpus
from somdst.memory.state import State


def test_rate_is_the_median() -> None:
    rate = Rate("x", 100, (Seconds(1.0, 0.5), Seconds(50.0, 0.5), Seconds(2.0, 0.25)))
    assert (rate.turns_per_second, rate.turns_per_processor_second) == (50.0, 200.0)
    assert rate.to_json()["turns_per_second"] == 50.0


def test_reading_starts_again_each_time() -> None:
    calls: list[int] = []

    def read() -> Corpus:
        calls.append(1)
        return open_corpus("synthetic:3")

    rate = measure_reading(read, repeats=4)
    assert len(calls) == len(rate.repeats) == 4
    assert rate.turns == open_corpus("synthetic:3").turns


def test_inputs_carry_the_state_before() -> None:
    corpus = open_corpus("synthetic:3")
    inputs = turn_inputs(corpus, most=10_000)
    assert len(inputs) == corpus.turns
    assert inputs[0].state == State() and inputs[0].previous_turn is None
    first = corpus.dialogues[0]
    assert inputs[1].state == first.turns[0].state and inputs[1].previous_turn == first.turns[0]
    assert inputs[len(first.turns)].previous_turn is None
    assert len(turn_inputs(corpus, most=5)) == 5


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system cannot tie a process to a core")
def test_one_core_and_back() -> None:
    before = os.sched_getaffinity(0)
    with one_core():
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before


def test_command() -> None:
    options = ["synthetic:5", "--repeats", "2", "--turns", "20", "--json"]
    done = subprocess.run([sys.executable, str(Path(data.__file__)), *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    assert measured["reading_and_deriving"]["turns"] == open_corpus("synthetic:5").turns
    if "encoding_paper" in measured:
        assert measured["encoding_paper"]["turns"] == measured["encoding_compact"]["turns"] == 20
