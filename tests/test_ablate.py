"""The ablation of operation sets: trained alike, compared on dev, resumable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch")

from somdst.cli.ablate import Result, table  # noqa: E402
from somdst.cli.main import app  # noqa: E402
from somdst.corpora.synthetic import SYNTHETIC_SCHEMA  # noqa: E402
from somdst.errors import SomdstError  # noqa: E402
from somdst.learn.checkpoints import CHECKPOINT, load_checkpoint  # noqa: E402
from somdst.memory.operations import OPERATION_SETS  # noqa: E402
from somdst.memory.schema import Schema  # noqa: E402
from somdst.model.folder import ModelFolder  # noqa: E402

TINY = ["--encoder", "tiny", "--precision", "fp32", "--batch-size", "16", "--evaluate-every", "10"]


def ablate(out: Path, *options: str) -> Any:
    return CliRunner().invoke(app, ["ablate", "synthetic:5", str(out), *TINY, *options])


def test_all_sets_are_trained_alike_and_compared(tmp_path: Path) -> None:
    done = ablate(tmp_path, "--epochs", "1", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert [row["operation_set"] for row in told["sets"]] == list(OPERATION_SETS)
    assert {row["steps"] for row in told["sets"]} == {told["sets"][0]["steps"]}
    assert all(0 <= row["joint_goal_accuracy"] <= 100 for row in told["sets"])
    assert "operation_set" not in told["settings"] and "paper" not in told["sets"][0]
    for row in told["sets"]:
        folder = ModelFolder.open(tmp_path / row["operation_set"])
        assert folder.config.operation_set == row["operation_set"]
        assert set(row["f1"]) == set(OPERATION_SETS[row["operation_set"]].operations)
    saved = [load_checkpoint(tmp_path / name) for name in OPERATION_SETS]
    assert {one["settings"]["seed"] for one in saved if one} == {0}


def test_a_stopped_ablation_goes_on(tmp_path: Path) -> None:
    first = ablate(tmp_path, "--epochs", "1", "--sets", "4, 2", "--json")
    assert first.exit_code == 0, first.output
    before = {name: (tmp_path / name / CHECKPOINT).stat().st_mtime_ns for name in ("4", "2")}
    again = ablate(tmp_path, "--epochs", "1", "--sets", "4,2,6")
    assert again.exit_code == 0, again.output
    assert before == {name: (tmp_path / name / CHECKPOINT).stat().st_mtime_ns for name in before}, "nothing twice"
    assert "Operation sets" in again.stdout and (tmp_path / "6" / CHECKPOINT).exists()
    figures = {row["operation_set"]: f"{row['joint_goal_accuracy']:.2f}" for row in json.loads(first.stdout)["sets"]}
    for line in again.stdout.splitlines():
        if line.split() and line.split()[0] in figures:
            assert line.split()[1] == figures[line.split()[0]]


def test_a_budget_in_minutes(tmp_path: Path) -> None:
    options = ("--minutes", "0.02", "--sets", "4,2", "--json")
    first = ablate(tmp_path, *options)
    assert first.exit_code == 0, first.output
    budget = json.loads((tmp_path / "budget.json").read_text())
    told = json.loads(first.stdout)
    assert budget["minutes"] == 0.02 and told["settings"]["epochs"] == budget["epochs"] > 0
    assert len({row["steps"] for row in told["sets"]}) == 1
    again = ablate(tmp_path, *options)
    assert json.loads(again.stdout) == told, "the speed is measured once"
    other = ablate(tmp_path, "--minutes", "5")
    assert "was started with 0.02 minutes: go on with the same" in str(other.exception)
    (tmp_path / "budget.json").write_text("{")
    assert "budget.json is damaged" in str(ablate(tmp_path, *options).exception)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--minutes", "1", "--epochs", "1"], "A budget is given as --minutes or as --epochs, not as both."),
        (["--sets", "4,five"], 'There is no operation set "five"'),
        (["--sets", ","], "Give at least one operation set"),
    ],
)
def test_wrong_options(tmp_path: Path, options: list[str], sentence: str) -> None:
    done = ablate(tmp_path / "out", *options)
    assert isinstance(done.exception, SomdstError)
    assert str(done.exception).startswith(sentence)


def test_a_corpus_without_dev(tmp_path: Path) -> None:
    corpus = tmp_path / "mine.jsonl"
    turn = {"system": "", "user": "north please", "state": {"hotel-area": "north"}, "domain": "hotel"}
    corpus.write_text(json.dumps({"id": "a", "turns": [turn]}) + "\n")
    done = CliRunner().invoke(app, ["ablate", str(corpus), str(tmp_path / "out"), *TINY])
    assert "The sets are compared on dev" in str(done.exception)


def test_the_papers_figures_stand_beside_ours() -> None:
    results = [Result(name, 50.0, 97.0, {"update": 80.0}, 10, 1.5) for name in OPERATION_SETS]
    ours = table(results, Schema.multiwoz())
    assert [row[2] for row in ours.rows] == [53.01, 52.06, 52.63, 52.64, 52.97]
    assert ours.columns[:3] == ("operations", "joint goal accuracy", "paper")
    assert "paper" not in table(results, SYNTHETIC_SCHEMA).columns
