"""The ablation of operation sets: trained alike, compared on dev, resumable."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch")

from somdst.cli.main import app  # noqa: E402
from somdst.corpora.synthetic import SYNTHETIC_SCHEMA, synthetic_dialogues  # noqa: E402
from somdst.errors import SomdstError  # noqa: E402
from somdst.learn import Ablation, Progress, Settings, ablate  # noqa: E402
from somdst.learn.ablation import Difference, SetResult  # noqa: E402
from somdst.learn.checkpoints import CHECKPOINT, load_checkpoint  # noqa: E402
from somdst.memory.operations import OPERATION_SETS  # noqa: E402
from somdst.memory.schema import Schema  # noqa: E402
from somdst.model.folder import ModelFolder  # noqa: E402

DIALOGUES = synthetic_dialogues(dialogues=8)
TINY = Settings(encoder="tiny", precision="fp32", batch_size=16, epochs=1, evaluate_every=10, max_value_length=4)
OPTIONS = ["--encoder", "tiny", "--set", "precision=fp32", "--set", "batch_size=16", "--set", "evaluate_every=10"]
OPTIONS += ["--set", "max_value_length=4"]  # models that have learned nothing write long values


def command(out: Path, *options: str) -> Any:
    return CliRunner().invoke(app, ["ablate", "synthetic:5", str(out), *OPTIONS, *options])


def test_all_sets_are_trained_alike_and_compared(tmp_path: Path) -> None:
    heard: list[Progress] = []
    found = ablate(DIALOGUES[:5], tmp_path, dev=DIALOGUES[5:], settings=TINY, progress=heard.append)
    assert found.finished and found.dev_turns == sum(len(dialogue.turns) for dialogue in DIALOGUES[5:])
    assert [one.operation_set for one in found.results] == list(OPERATION_SETS)
    assert len({one.steps for one in found.results}) == 1
    for one in found.results:
        folder = ModelFolder.open(tmp_path / one.operation_set)
        assert folder.config.operation_set == one.operation_set
        assert set(one.f1) == set(OPERATION_SETS[one.operation_set].operations)
    assert [one.operation_set for one in found.differences] == list(OPERATION_SETS)[1:]
    first = found.results[0].joint_goal_accuracy
    for difference, result in zip(found.differences, found.results[1:], strict=True):
        assert difference.points == pytest.approx(result.joint_goal_accuracy - first)
        assert difference.low <= difference.points <= difference.high
    ends = {progress.phase: (progress.done, progress.total) for progress in heard}
    assert all(done == total for done, total in ends.values()), "every phase is told to its end"
    assert {"4: training", "4: evaluating on dev", "4: comparing on dev", "6: comparing on dev"} <= set(ends)
    seeds = {saved["settings"]["seed"] for name in OPERATION_SETS if (saved := load_checkpoint(tmp_path / name))}
    assert seeds == {0}


def test_limits_bound_everything(tmp_path: Path) -> None:
    heard: list[Progress] = []
    settings = TINY.model_copy(update={"dev_limit": 1})
    found = ablate(
        DIALOGUES[:5], tmp_path, dev=DIALOGUES[5:], settings=settings, sets=["4"], limit=1, progress=heard.append
    )
    assert found.dev_turns == len(DIALOGUES[5].turns)
    turns = {progress.total for progress in heard if progress.unit == "turns"}
    assert turns == {found.dev_turns}
    assert found.results[0].steps == -(-len(DIALOGUES[0].turns) // TINY.batch_size)


def test_several_seeds(tmp_path: Path) -> None:
    found = ablate(DIALOGUES[:5], tmp_path, dev=DIALOGUES[5:], settings=TINY, sets=["4", "2"], seeds=2)
    assert [(one.operation_set, one.seed) for one in found.results] == [("4", 0), ("2", 0), ("4", 1), ("2", 1)]
    assert {path.name for path in tmp_path.iterdir()} == {"4", "2", "4-seed-1", "2-seed-1", "sets"}
    four, two, four_again, two_again = (one.joint_goal_accuracy for one in found.results)
    assert found.differences[0].points == pytest.approx((two + two_again - four - four_again) / 2)
    table = found.table()
    assert "2 seeds" in table.note and [row[0] for row in table.rows] == ["4", "2"]
    assert table.rows[0][1] == pytest.approx((four + four_again) / 2)


def test_a_stopped_ablation_goes_on(tmp_path: Path) -> None:
    first = command(tmp_path, "--epochs", "1", "--sets", "4, 2", "--json")
    assert first.exit_code == 0, first.output
    kept = [tmp_path / name / file for name in ("4", "2") for file in (CHECKPOINT, "dev.predictions.jsonl")]
    before = {file: file.stat().st_mtime_ns for file in kept}
    again = command(tmp_path, "--epochs", "1", "--sets", "4,2,6")
    assert again.exit_code == 0, again.output
    assert before == {file: file.stat().st_mtime_ns for file in kept}, "nothing is trained or predicted twice"
    assert "Operation sets" in again.stdout and (tmp_path / "6" / CHECKPOINT).exists()
    figures = {row["operation_set"]: f"{row['joint_goal_accuracy']:.2f}" for row in json.loads(first.stdout)["sets"]}
    rows = {words[0]: words[1] for line in again.stdout.splitlines() if len(words := line.split()) > 1}
    assert {name: rows[name] for name in figures} == figures
    fewer = command(tmp_path, "--epochs", "1", "--sets", "4", "--set", "seed=3")
    assert "was started with another seed" in str(fewer.exception)


def test_results_are_enough_to_go_on(tmp_path: Path) -> None:
    options = ("--minutes", "0.02", "--sets", "4,2", "--json")
    first = command(tmp_path / "first", *options)
    assert first.exit_code == 0, first.output
    shutil.copytree(tmp_path / "first" / "sets", tmp_path / "other" / "sets")
    again = command(tmp_path / "other", *options)
    assert json.loads(again.stdout) == json.loads(first.stdout)
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["sets"], "nothing is trained again"
    changed = command(tmp_path / "other", *options, "--set", "dropout=0.1")
    assert json.loads(changed.stdout)["settings"]["dropout"] == 0.1
    assert (tmp_path / "other" / "4" / CHECKPOINT).exists(), "a result of other settings does not count"


def test_a_budget_in_minutes(tmp_path: Path) -> None:
    options = ("--minutes", "0.02", "--sets", "4,2", "--json")
    first = command(tmp_path, *options)
    assert first.exit_code == 0, first.output
    budget = json.loads((tmp_path / "sets" / "budget.json").read_text())
    told = json.loads(first.stdout)
    assert budget["minutes"] == 0.02 and told["settings"]["epochs"] == budget["epochs"] > 0
    assert len({row["steps"] for row in told["sets"]}) == 1
    again = command(tmp_path, *options)
    assert json.loads(again.stdout) == told, "the speed is measured once"
    other = command(tmp_path, "--minutes", "5")
    assert "was started with 0.02 minutes: give the same number to go on" in str(other.exception)
    (tmp_path / "sets" / "budget.json").write_text("{")
    assert "budget.json is damaged" in str(command(tmp_path, *options).exception)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--minutes", "1", "--epochs", "1"], "Give a budget either in minutes or in epochs, not in both."),
        (["--sets", "4,five"], 'There is no operation set "five"'),
        (["--sets", ","], "Give at least one operation set"),
    ],
)
def test_wrong_options(tmp_path: Path, options: list[str], sentence: str) -> None:
    done = command(tmp_path / "out", *options)
    assert isinstance(done.exception, SomdstError)
    assert str(done.exception).startswith(sentence)


def test_a_corpus_without_dev(tmp_path: Path) -> None:
    corpus = tmp_path / "mine.jsonl"
    turn = {"system": "", "user": "north please", "state": {"hotel-area": "north"}, "domain": "hotel"}
    corpus.write_text(json.dumps({"id": "a", "turns": [turn]}) + "\n")
    done = CliRunner().invoke(app, ["ablate", str(corpus), str(tmp_path / "out"), *OPTIONS])
    assert "Models are compared on dev" in str(done.exception)


def test_the_papers_figures_are_labelled_as_test() -> None:
    results = tuple(SetResult(name, 0, 50.0, 97.0, {"update": 80.0}, 10, 1.5, (2,), (1,)) for name in OPERATION_SETS)
    differences = (Difference("2", -1.0, -1.5, -0.5),)

    def found(schema: Schema) -> Ablation:
        return Ablation(Settings(), schema, 7371, results, differences, finished=True)

    ours = found(Schema.multiwoz()).table()
    assert ours.columns[:4] == ("operations", "joint goal accuracy", "paper, on test", "minus 4")
    assert [row[2] for row in ours.rows] == [53.01, 52.06, 52.63, 52.64, 52.97]
    assert [row[3] for row in ours.rows[:2]] == [None, "-1.00 (-1.50 to -0.50)"]
    assert "7,371 turns of dev" in ours.note and "One seed, 10 steps for each set" in ours.note
    assert "paper, on test" not in found(SYNTHETIC_SCHEMA).table().columns
