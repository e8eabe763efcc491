"""Leaving a domain out: what is learned, what is measured, and the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scripted import RulePredictor
from typer.testing import CliRunner

from somdst import Dialogue, State, Turn
from somdst.cli.main import app
from somdst.corpora.synthetic import SYNTHETIC_SCHEMA, synthetic_dialogues
from somdst.errors import InputError
from somdst.evaluate.run import run

torch = pytest.importorskip("torch")
from somdst.learn.settings import Settings  # noqa: E402
from somdst.learn.task import Task  # noqa: E402
from somdst.learn.zero_shot import is_about, only, within_slots, without, zero_shot  # noqa: E402

DIALOGUES = tuple(synthetic_dialogues(dialogues=40))
TASK = Task(DIALOGUES[:30], DIALOGUES[30:], SYNTHETIC_SCHEMA)
TINY = Settings(encoder="tiny", epochs=0.1, batch_size=8)


def test_a_dialogue_is_about_the_domains_of_its_turns_and_its_labels() -> None:
    said = Dialogue("D", (Turn("", "hello", State(), "taxi"), Turn("", "north", State({"hotel-area": "north"}))))
    assert [domain for domain in ("hotel", "taxi", "train") if is_about(said, domain)] == ["hotel", "taxi"]


@pytest.mark.parametrize("domain", SYNTHETIC_SCHEMA.domains)
def test_nothing_about_the_domain_is_learned_and_nothing_else_is_measured(domain: str) -> None:
    rest = without(TASK, domain)
    assert 0 < len(rest.dialogues) < len(TASK.dialogues)
    assert not any(is_about(dialogue, domain) for dialogue in (*rest.dialogues, *rest.dev))
    assert domain not in rest.schema.domains and len(rest.schema) + len(only(TASK.schema, domain)) == len(TASK.schema)
    assert only(TASK.schema, domain).domains == (domain,)


def test_a_domain_that_is_not_there() -> None:
    with pytest.raises(InputError, match=r'"hotl" cannot be left out of the schema: it is none of its domains.*hotel'):
        without(TASK, "hotl")
    with pytest.raises(InputError, match="it is the only one"):
        without(Task(DIALOGUES, DIALOGUES, only(TASK.schema, "hotel")), "hotel")


def test_every_domain_in_turn(tmp_path: Path) -> None:
    done = zero_shot(TASK, tmp_path, settings=TINY)
    assert done.finished and [one.domain for one in done.results] == list(SYNTHETIC_SCHEMA.domains)
    for one in done.results:
        about = [dialogue for dialogue in TASK.dev if is_about(dialogue, one.domain)]
        assert one.turns == sum(len(dialogue.turns) for dialogue in about)
        empty = [not any(slot.startswith(one.domain) for slot in turn.state or ()) for d in about for turn in d.turns]
        assert one.empty_state == pytest.approx(100 * sum(empty) / len(empty))
    assert done.table().rows[-1][0] == "mean" and "T5DST" not in done.table().note
    again = zero_shot(TASK, tmp_path, settings=TINY)
    assert again.to_json() == done.to_json()


def test_what_a_run_did_about_some_slots() -> None:
    dialogue, slots = DIALOGUES[0], only(SYNTHETIC_SCHEMA, "hotel")
    [whole] = run(RulePredictor(), [dialogue], schema=SYNTHETIC_SCHEMA)
    part = within_slots(whole, slots)
    assert [turn.gold for turn in part.turns] == [(turn.state or State()).within(slots) for turn in dialogue.turns]
    for before, after in zip(whole.turns, part.turns, strict=True):
        assert after.predicted == before.predicted.within(slots)
        assert set(after.prediction.slots) == {slot for slot in before.prediction.slots if slot in slots}


def test_the_command(tmp_path: Path) -> None:
    options = ["--encoder", "tiny", "--epochs", "0.1", "--dev", "synthetic:6", "--domains", "taxi", "--json"]
    done = CliRunner().invoke(app, ["leave-out", "synthetic:30", str(tmp_path), *options])
    assert done.exit_code == 0, done.output
    assert [row["domain"] for row in json.loads(done.stdout)["domains"]] == ["taxi"]
