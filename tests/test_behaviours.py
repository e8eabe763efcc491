"""How the shipped tracker behaves among people: ten kinds of things that they say. Half of the dialogues are about
MultiWOZ's slots, half have a schema of their own. None of them is trained on, but their errors were read while the
model and the written dialogues were made, and some short answers ("oh go on") are in both.
So this is a dev set, not a test.

A turn counts if it changed what it should, to the right values, and nothing else. The bounds are what the shipped
weights do, less two turns: processors round differently.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from somdst.corpora import open_corpus
from somdst.evaluate.metrics import measure
from somdst.evaluate.run import DialogueRun, run
from somdst.memory.schema import Schema
from somdst.model.folder import open_predictor

FIXTURES = Path(__file__).parent / "fixtures"
DIALOGUES = open_corpus(FIXTURES / "behaviours.jsonl").dialogues
AT_LEAST = {
    "negation": 50,
    "short_answer": 75,
    "accepted_offer": 63,
    "refused_offer": 55,
    "counts": 38,
    "references": 50,
    "out_of_domain": 71,
    "deletion": 59,
    "correction": 63,
    "several_at_once": 25,
}
"""Percent of the turns."""


@pytest.fixture(scope="module")
def runs() -> dict[str, list[DialogueRun]]:
    predictor = open_predictor("default")
    found: dict[str, list[DialogueRun]] = defaultdict(list)
    for done in run(predictor, DIALOGUES):
        found[done.id.rpartition("-")[0]].append(done)
    return found


@pytest.mark.parametrize("kind", AT_LEAST)
def test_turns_right(runs: dict[str, list[DialogueRun]], kind: str) -> None:
    operation_set = open_predictor("default").operation_set
    metrics = measure(runs[kind], schema=Schema.multiwoz(), operation_set=operation_set)
    assert metrics.dialogues == 14
    assert metrics.turns_right >= AT_LEAST[kind]


def test_conversations_that_nobody_tuned_for() -> None:
    """A test set: 60 conversations under 20 schemas that no training dialogue has, written by somebody who had seen
    neither the tracker nor its training dialogues. Do not read its errors, or it becomes a dev set too."""
    predictor = open_predictor("default")
    runs = list(run(predictor, open_corpus(FIXTURES / "people.jsonl").dialogues))
    metrics = measure(runs, schema=Schema.multiwoz(), operation_set=predictor.operation_set)
    assert metrics.turns == 364 and metrics.turns_right >= 45
