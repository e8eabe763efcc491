"""The measuring commands, on a predictor that errs in place of a model's folder."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from somdst.cli.main import app
from somdst.corpora import write_dialogues
from somdst.corpora.opening import open_parts
from somdst.errors import CorpusError, InputError, SomdstError
from somdst.model.config import ModelConfig
from somdst.model.prediction import TurnInput

from .noisy import SCHEMA, NoisyPredictor, dialogues

DIALOGUES = dialogues(30)


class ByPlace(NoisyPredictor):
    """Finds its gold by the words that no perturbation changes: the dialogue's and the turn's number."""

    def _one(self, given: TurnInput, wanted: Any) -> Any:
        key = _place(given.turn.user)
        system, user = next(known for known in self._gold if _place(known[1]) == key)
        return super()._one(TurnInput(None, type(given.turn)(system, user), given.state), wanted)


def _place(text: str) -> tuple[str, ...]:
    words = text.lower().replace(":", "").split()
    return words[0], words[2]


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "corpus.jsonl"
    write_dialogues(path, DIALOGUES)
    noise = {"good": 0.05, "bad": 0.4}
    monkeypatch.setattr("somdst.model.folder.open_predictor", lambda name, **_: ByPlace(DIALOGUES, noise=noise[name]))
    return path


def somdst(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, SomdstError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_evaluate_prints_one_json_object(corpus: Path) -> None:
    data = json.loads(somdst("evaluate", "bad", corpus, "--json"))
    assert 0 < data["joint_goal_accuracy"] < 100
    assert data["turns"] == sum(len(dialogue.turns) for dialogue in DIALOGUES)
    assert {"slot_accuracy", "slot_f1", "domains", "operations", "by_turn", "turns_per_second", "calibration"} <= set(
        data
    )
    limited = json.loads(somdst("evaluate", "bad", corpus, "--json", "--limit", 3, "--oracle", "operations,values"))
    assert limited["joint_goal_accuracy"] == 100.0 and limited["dialogues"] == 3


def test_evaluate_prints_tables(corpus: Path) -> None:
    text = somdst("evaluate", "bad", corpus)
    for part in (
        "joint goal accuracy",
        "Accuracy by domain",
        "State operations",
        "The hardest slots",
        "per second",
    ):
        assert part in text


def test_perturbations_are_measured_one_by_one(corpus: Path) -> None:
    data = json.loads(somdst("evaluate", "good", corpus, "--json", "--perturb", "lowercase"))
    assert list(data["perturbations"]) == ["lowercase"]
    assert data["perturbations"]["lowercase"]["turns_changed"] == data["turns"]
    everything = json.loads(somdst("evaluate", "good", corpus, "--json", "--perturb", "all"))
    assert len(everything["perturbations"]) == 7
    assert everything["perturbations"]["lowercase"]["joint_goal_accuracy"] == data["joint_goal_accuracy"]
    assert "change-of-mind" in somdst("evaluate", "good", corpus, "--perturb", "change-of-mind")


def test_wrong_options_are_named_before_any_work(corpus: Path) -> None:
    with pytest.raises(InputError, match="no oracle"):
        somdst("evaluate", "good", corpus, "--oracle", "truth")
    with pytest.raises(InputError, match="no perturbation"):
        somdst("evaluate", "good", corpus, "--perturb", "noise")
    refused = CliRunner().invoke(app, ["evaluate", "good", str(corpus), "--split", "valid"])
    assert refused.exit_code == 2 and "--split" in refused.output
    with pytest.raises(CorpusError):
        somdst("evaluate", "good", corpus.with_name("absent.jsonl"))


def test_an_engine_that_is_not_there_is_named() -> None:
    from somdst.model.folder import open_predictor

    with pytest.raises(InputError, match='Did you mean "torch"'):
        open_predictor("default", engine="torhc")
    with pytest.raises(InputError, match="no precision"):
        open_predictor("default", precision="int4")


def test_analyze(corpus: Path) -> None:
    data = json.loads(somdst("analyze", "bad", corpus, "--json", "--timed-turns", 5))
    assert len(data["error_analysis"]["joint_goal_accuracy"]) == 8
    text = somdst("analyze", "bad", corpus, "--timed-turns", 5)
    for part in ("Error analysis", "Where the error comes from", "times as large", "Inference time", "batches"):
        assert part in text


def test_saved_predictions_are_compared(corpus: Path, tmp_path: Path) -> None:
    for model in ("bad", "good"):
        somdst("evaluate", model, corpus, "--save", tmp_path / f"{model}.jsonl")
    data = json.loads(somdst("compare", tmp_path / "bad.jsonl", tmp_path / "good.jsonl", "--json"))
    assert data["difference"] > 0 and data["interval"][0] > 0
    assert len(data["better"]) > len(data["worse"])
    text = somdst("compare", tmp_path / "bad.jsonl", tmp_path / "good.jsonl", "--show", 2)
    assert "clearly better" in text and "instead of" in text
    assert "no clear difference" in somdst("compare", tmp_path / "bad.jsonl", tmp_path / "bad.jsonl")


def test_report(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.5}\n')
    out = tmp_path / "out"
    printed = somdst("report", "bad", corpus, "--out", out, "--run", tmp_path, "--timed-turns", 5)
    assert printed.split() == [str(out / f"report.{ending}") for ending in ("html", "md", "json")]
    page = (out / "report.html").read_text()
    assert "Learning curve" in page and "change-of-mind" in page
    data = json.loads(somdst("report", "bad", corpus, "--out", out, "--no-perturb", "--json", "--timed-turns", 5))
    assert data["perturbations"] == {} and data["files"][0].endswith("report.html")


def test_a_report_refuses_a_run_without_a_curve_before_it_works(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no learning curve in"):
        somdst("report", "bad", corpus, "--out", tmp_path / "out", "--run", tmp_path / "runs", "--timed-turns", 5)


def test_a_report_on_a_few_dialogues_says_so(corpus: Path, tmp_path: Path) -> None:
    somdst("report", "bad", corpus, "--out", tmp_path, "--limit", 5, "--no-perturb", "--timed-turns", 1)
    text = (tmp_path / "report.md").read_text()
    assert "the first 5 of 30 dialogues: 5 dialogues," in text
    assert "### Joint goal accuracy" not in text, "no published score stands beside it"


def test_calibrate_writes_the_configuration(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "model"
    model.mkdir()
    SCHEMA.save(model / "schema.json")
    (model / "config.json").write_text(ModelConfig(name="mine").model_dump_json())
    monkeypatch.setattr("somdst.model.folder.open_predictor", lambda name, **_: ByPlace(DIALOGUES, noise=0.5))
    before = json.loads((model / "config.json").read_text())
    data = json.loads(somdst("calibrate", model, corpus, "--json", "--dry-run"))
    assert json.loads((model / "config.json").read_text()) == before and data["temperature"] > 1.0
    assert "expected calibration error" in somdst("calibrate", model, corpus)
    after = json.loads((model / "config.json").read_text())
    assert (after["temperature"], after["pending_threshold"]) == (data["temperature"], data["pending_threshold"])
    assert after["name"] == "mine"


@pytest.mark.parametrize("command", ["evaluate", "analyze", "calibrate", "compare", "report"])
def test_help_has_an_example(command: str) -> None:
    assert f"somdst {command} " in " ".join(somdst(command, "--help").split())


def test_comparing_what_is_not_alike_is_said(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("somdst.cli.measure.notice", said.append)
    somdst("evaluate", "bad", corpus, "--save", tmp_path / "all.jsonl", "--threshold", 0.1)
    somdst("evaluate", "bad", corpus, "--save", tmp_path / "some.jsonl", "--limit", 3, "--oracle", "state,values")
    data = json.loads(somdst("compare", tmp_path / "all.jsonl", tmp_path / "some.jsonl", "--json"))
    assert data["model_a"].endswith("(threshold 0.1)") and data["model_b"].endswith("(gold state, values)")
    assert "left out, because only" in said[-1]


def test_of_a_corpus_with_parts_dev_is_measured(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("somdst.cli.measure.notice", said.append)
    for part, lines in (("train", 4), ("dev", 2)):
        (tmp_path / "parts").mkdir(exist_ok=True)
        text = "".join(corpus.read_text().splitlines(keepends=True)[:lines])
        (tmp_path / "parts" / f"{part}.jsonl").write_text(text)
    data = json.loads(somdst("evaluate", "bad", tmp_path / "parts", "--json"))
    assert data["dialogues"] == 2 and data["corpus"].endswith("(dev)")
    assert "measuring on dev" in said[-1]
    assert json.loads(somdst("evaluate", "bad", tmp_path / "parts", "--split", "train", "--json"))["dialogues"] == 4


def test_without_dev_nobody_measures_on_train_unasked(corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for part in ("train", "test"):
        (folder / f"{part}.jsonl").write_text(corpus.read_text())
    with pytest.raises(CorpusError, match="has no dev part: say which part is meant with --split train or"):
        somdst("evaluate", "bad", folder)
    with pytest.raises(InputError, match="There is no folder"):  # before anything is measured
        somdst("evaluate", "bad", corpus, "--save", tmp_path / "nowhere" / "saved.jsonl")
    (folder / "train.jsonl").write_text("{\n")
    with pytest.raises(CorpusError, match=r"train\.jsonl"):  # a damaged part is not left out
        open_parts(folder)


def test_a_schema_of_ones_own(corpus: Path, tmp_path: Path) -> None:
    """Closed lists change what is written, and slots that the schema leaves out are not counted."""
    schema = tmp_path / "schema.yaml"
    schema.write_text("domains:\n  hotel:\n    area: [north, centre]\n")
    data = json.loads(somdst("evaluate", "bad", corpus, "--schema", schema, "--json"))
    assert [row["slot"] for row in data["slots"]] == ["hotel-area"]
    errors = json.loads(somdst("analyze", "bad", corpus, "--schema", schema, "--json", "--timed-turns", 5))
    assert errors["joint_goal_accuracy"] == data["joint_goal_accuracy"] and errors["efficiency"]["slots"] == 1
    out = tmp_path / "out"
    somdst("report", "bad", corpus, "--out", out, "--schema", schema, "--no-perturb", "--timed-turns", 5)
    assert json.loads((out / "report.json").read_text())["joint_goal_accuracy"] == data["joint_goal_accuracy"]
    schema.write_text("domains:\n  hotel: [aera]\n")
    with pytest.raises(SomdstError, match="hotel-aera"):
        somdst("evaluate", "bad", corpus, "--schema", schema)
