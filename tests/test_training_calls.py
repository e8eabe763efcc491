"""Training from Python: `train`, `calibrate` and `export` as calls, and what a fresh model can be used for at once."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny
from typer.main import get_command
from typer.testing import CliRunner

torch = pytest.importorskip("torch")

from somdst import Tracker  # noqa: E402
from somdst.cli.main import app  # noqa: E402
from somdst.corpora import open_corpus  # noqa: E402
from somdst.corpora.jsonlines import write_dialogues  # noqa: E402
from somdst.corpora.synthetic import synthetic_dialogues  # noqa: E402
from somdst.errors import CorpusError, InputError  # noqa: E402
from somdst.evaluate.saved import Saved, save  # noqa: E402
from somdst.learn import Progress, Settings, Task, TrainResult, calibrate, export, read_task, train  # noqa: E402
from somdst.learn.budget import BUDGET  # noqa: E402
from somdst.learn.checkpoints import load_checkpoint, read_weights, save_model  # noqa: E402
from somdst.learn.training import empty_state_accuracy, fitted  # noqa: E402
from somdst.memory.schema import Schema  # noqa: E402
from somdst.model.folder import WEIGHTS, ModelFolder, shipped_path  # noqa: E402

DIALOGUES = synthetic_dialogues(dialogues=6)
TINY = Settings(encoder="tiny", precision="fp32", batch_size=8, epochs=1, evaluate_every=0.5)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainResult, list[Progress]]:
    out = tmp_path_factory.mktemp("runs") / "first"
    heard: list[Progress] = []
    return train(DIALOGUES[:4], out, dev=DIALOGUES[4:], settings=TINY, progress=heard.append), heard


def test_training_is_a_call(
    trained: tuple[TrainResult, list[Progress]], capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    result, heard = trained
    assert result.finished and result.minutes > 0
    assert ModelFolder.open(result.model).metrics()["dev_joint_goal_accuracy"] == result.dev_joint_goal_accuracy
    phases = {progress.phase: progress for progress in heard}
    assert list(phases) == ["training", "evaluating on dev"]
    assert all(progress.done == progress.total for progress in phases.values())
    assert phases["training"].total == result.step
    assert phases["evaluating on dev"].total == sum(len(dialogue.turns) for dialogue in DIALOGUES[4:])
    again = train(DIALOGUES[:4], result.model, dev=DIALOGUES[4:], settings=TINY)
    assert again == result, "a finished run is not trained again"
    train(DIALOGUES[:1], tmp_path / "silent", settings=TINY)
    assert capfd.readouterr() == ("", ""), "the library is silent"


def test_importing_the_calls_does_not_start_torch() -> None:
    code = """
import sys
import somdst.learn
from somdst.learn import Progress, Settings, calibrate, read_task
print([name for name in ("torch", "transformers", "accelerate") if name in sys.modules])
try:
    somdst.learn.nothing
except AttributeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "module 'somdst.learn' has no attribute 'nothing'"]


def test_a_model_that_has_learned_nothing_comes_with_a_hint() -> None:
    def result(accuracy: float | None, *, finished: bool = True) -> TrainResult:
        return TrainResult(Path("run"), finished, 3, 0.1, accuracy, 12.5)

    assert result(12.6).hint is None and result(None).hint is None and result(0.0, finished=False).hint is None
    for accuracy in (0.0, 12.5):
        assert str(result(accuracy).hint).startswith(
            "The model is not better than a tracker that never writes anything, which has 12.50 on dev: train for more"
        )


def test_the_empty_state_is_measured(trained: tuple[TrainResult, list[Progress]]) -> None:
    states = [state for dialogue in DIALOGUES[4:] for state in dialogue.states()]
    assert trained[0].empty_state_accuracy == 100 * sum(not state for state in states) / len(states)


def test_the_empty_state_of_dialogues_with_their_own_slots() -> None:
    written = open_corpus("domains", split="dev").dialogues[:3]
    states = [state for dialogue in written for state in dialogue.states()]
    assert empty_state_accuracy(written, Schema.multiwoz()) == 100 * sum(not state for state in states) / len(states)


def test_a_part_of_the_old_weights_is_kept(trained: tuple[TrainResult, list[Progress]], tmp_path: Path) -> None:
    start = trained[0].model
    found = {}
    for share in (0.0, 0.25):
        settings = TINY.model_copy(update={"keep_start": share, "encoder_learning_rate": 1e-3})
        train(DIALOGUES[:4], tmp_path / str(share), start_from=start, settings=Settings(**settings.model_dump()))
        found[share] = read_weights(ModelFolder.open(tmp_path / str(share)))
    for name, old in read_weights(ModelFolder.open(start)).items():
        torch.testing.assert_close(found[0.25][name], 0.75 * found[0.0][name] + 0.25 * old)
    assert any((found[0.0][name] != found[0.25][name]).any() for name in found[0.0])
    with pytest.raises(InputError, match="keep_start needs a model to go on from"):
        train(DIALOGUES[:4], tmp_path / "none", settings=Settings(encoder="tiny", keep_start=0.5))


def test_a_run_that_keeps_old_weights_is_resumed_from_the_same_model(
    trained: tuple[TrainResult, list[Progress]], tmp_path: Path
) -> None:
    first, other = trained[0].model, tmp_path / "other"
    train(DIALOGUES[:4], other, start_from=first, settings=TINY)
    settings = Settings(**TINY.model_dump() | {"keep_start": 0.5})
    train(DIALOGUES[:4], tmp_path / "run", start_from=first, settings=settings)
    train(DIALOGUES[:4], tmp_path / "run", start_from=first, settings=settings)
    with pytest.raises(InputError, match="encoder or model to start from"):
        train(DIALOGUES[:4], tmp_path / "run", start_from=other, settings=settings)


def test_going_on_takes_small_steps_and_keeps_half() -> None:
    shipped = ModelFolder.open()
    went_on = fitted(Settings(epochs=3), shipped.schema, shipped)
    assert (went_on.encoder_learning_rate, went_on.decoder_learning_rate, went_on.keep_start) == (5e-5, 3e-4, 0.5)
    chosen = fitted(Settings(encoder_learning_rate=1e-4, keep_start=0.0), shipped.schema, shipped)
    assert (chosen.encoder_learning_rate, chosen.keep_start) == (1e-4, 0.0)
    assert fitted(Settings(), shipped.schema).keep_start == 0.0


@pytest.mark.slow
def test_a_fresh_model_works_without_an_export(
    trained: tuple[TrainResult, list[Progress]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`evaluate`, `calibrate`, `track` and the library open it in the same way."""
    model = Path(shutil.copytree(trained[0].model, tmp_path / "model"))
    assert not list(model.glob("*.onnx"))
    Tracker.from_pretrained(model).start().update("hello")
    for command in (
        ["evaluate", str(model), "synthetic:4", "--json"],
        ["calibrate", str(model), "synthetic:4", "--json"],
        ["track", "--model", str(model), "--json"],
    ):
        done = CliRunner().invoke(app, command, input="hello\n")
        assert done.exit_code == 0, (command, done.output)
        json.loads(done.stdout)


def test_own_states_are_fed(tmp_path: Path) -> None:
    from somdst.evaluate.run import run
    from somdst.memory.operations import FOUR
    from somdst.model.folder import open_predictor

    first = train(DIALOGUES[:2], tmp_path / "first", settings=TINY)
    predictor = open_predictor(first.model)
    runs = tuple(run(predictor, DIALOGUES[:2]))
    save(tmp_path / "own.jsonl", Saved(predictor.model_id, "train", predictor.schema, FOUR, runs))
    settings = TINY.model_copy(update={"own_states": tmp_path / "own.jsonl", "own_rate": 1.0})
    second = train(DIALOGUES[:2], tmp_path / "second", start_from=first.model, settings=settings)
    assert second.finished
    saved = load_checkpoint(second.model)
    assert saved is not None and saved["settings"]["own_states"] == str(tmp_path / "own.jsonl")


def test_minutes_of_training(tmp_path: Path) -> None:
    settings = Settings(encoder="tiny", precision="fp32", batch_size=8)
    heard: list[Progress] = []
    done = train(DIALOGUES[:2], tmp_path / "run", settings=settings, minutes=0.01, progress=heard.append)
    budget = json.loads((tmp_path / "run" / BUDGET).read_text())
    saved = load_checkpoint(done.model)
    assert saved is not None and saved["settings"]["epochs"] == budget["epochs"] > 0
    assert heard[0].phase == "measuring the speed" and heard[0].total == 20
    with pytest.raises(InputError, match=r"was started with 0.01 minutes: give the same number to go on"):
        train(DIALOGUES[:2], tmp_path / "run", settings=settings, minutes=5)


# What is learned from.


def test_a_folder_without_dev_is_learned_from_without_dev(tmp_path: Path) -> None:
    for name in ("train", "test"):
        write_dialogues(tmp_path / f"{name}.jsonl", DIALOGUES[:2])
    task = read_task(tmp_path)
    assert len(task.dialogues) == 2 and not task.dev


def test_a_whole_corpus_is_never_learned_from_whole() -> None:
    """The corpus's own dev and test dialogues stay unseen, also if dev is named."""
    for dev in (None, "synthetic:20"):
        task = read_task("synthetic:20", dev)
        assert task.dialogues == open_corpus("synthetic:20", split="train").dialogues
        assert task.dev == open_corpus("synthetic:20", split="dev").dialogues
    assert len(read_task("synthetic:20", limit=3).dialogues) == 3


def test_a_schema_that_does_not_fit() -> None:
    museum = Schema.from_json({"domains": {"museum": {"name": None}}})
    with pytest.raises(CorpusError, match="no slot is in both: give dialogues that are labelled"):
        read_task(DIALOGUES, schema=museum)
    with pytest.raises(CorpusError, match="no labelled turn"):
        read_task([], schema=museum)


def test_settings_follow_schema_and_model(tmp_path: Path) -> None:
    """What nobody chose is taken from the schema and from the model to go on from."""
    multiwoz, other = Schema.multiwoz(), open_corpus("synthetic:2").schema
    assert other is not None
    assert fitted(Settings(), multiwoz).normalisation == "everyday"
    assert fitted(Settings(), other).normalisation == "lowercase"
    assert fitted(Settings(normalisation="everyday"), other).normalisation == "everyday"
    assert fitted(Settings(mix="domains=0.5"), multiwoz).normalisation == "lowercase", "other schemas name no rules"
    paper = ModelFolder.open(tiny.model_folder(tmp_path, layout="paper", normalisation="multiwoz"))
    follows = fitted(Settings(), paper.schema, paper)
    assert (follows.layout, follows.normalisation) == ("paper", "multiwoz")
    assert fitted(Settings(layout="compact"), paper.schema, paper).layout == "compact"
    by_heart = ModelFolder.open(tiny.model_folder(tmp_path / "by-heart", slot_names="others"))
    assert fitted(Settings(), by_heart.schema, by_heart).slot_names == "others"
    assert fitted(Settings(), multiwoz, by_heart).slot_names == "all", "it does not know these slots by heart"
    assert fitted(Settings(slot_names="none"), multiwoz, by_heart).slot_names == "none"


def test_a_task_is_read_once(tmp_path: Path) -> None:
    task = Task(DIALOGUES[:2], (), read_task(DIALOGUES).schema)
    assert train(task, tmp_path, settings=TINY).dev_joint_goal_accuracy is None


# Calibration.


def test_calibrate_says_what_was_and_what_is(tmp_path: Path) -> None:
    model = tiny.model_folder(tmp_path / "model", layout="paper")  # it writes much, all of it wrong
    before = (model / "config.json").read_bytes()
    tried = calibrate(model, "synthetic:10", dry_run=True)
    assert tried.file is None and (model / "config.json").read_bytes() == before
    assert tried.before == ModelFolder.open(model).config != tried.after
    done = calibrate(model, "synthetic:10")
    assert done.file == model / "config.json" and ModelFolder.open(model).config == done.after == tried.after
    again = calibrate(model, "synthetic:10", dry_run=True)
    assert again.before == done.after


def test_calibrate_on_the_command_line(tmp_path: Path) -> None:
    model = tiny.model_folder(tmp_path / "model", layout="paper")  # it writes much, all of it wrong
    done = CliRunner().invoke(app, ["calibrate", str(model), "synthetic:10", "--dry-run"])
    assert done.exit_code == 0, done.output
    assert "before" in done.stdout and "after" in done.stdout
    (threshold,) = (line.split() for line in done.stdout.splitlines() if line.split()[:1] == ["pending"])
    assert threshold[:3] == ["pending", "threshold", "0.0000"] and float(threshold[3]) > 0
    assert "nothing was written, because of --dry-run" in done.stderr


def test_calibrating_on_several_corpora_counts_all_and_reports_each(tmp_path: Path) -> None:
    model = tiny.model_folder(tmp_path / "model", layout="paper")
    alone = [calibrate(model, corpus, dry_run=True).measured.changes for corpus in ("synthetic:10", "synthetic:4")]
    both = calibrate(model, ["synthetic:10", "synthetic:4"], dry_run=True)
    assert [one.changes for one in both.corpora] == alone and both.measured.changes == sum(alone)
    held = both.measured.threshold
    assert (sum(one.held_back for one in both.corpora), sum(one.wrong for one in both.corpora)) == (
        held.held_back,
        held.wrong,
    )
    done = CliRunner().invoke(app, ["calibrate", str(model), "synthetic:10", "synthetic:4", "--dry-run"])
    assert done.exit_code == 0, done.output
    assert "by corpus" in done.stdout and "synthetic:4" in done.stdout


# Export.


def test_the_installed_package_is_never_written_to(tmp_path: Path) -> None:
    before = {file.name: file.stat().st_mtime_ns for file in shipped_path().iterdir()}
    with pytest.raises(InputError, match=r"never written to: name a folder for the exported model with --out"):
        export("default")
    with pytest.raises(InputError, match="never written to"):
        export(tiny.model_folder(tmp_path), shipped_path())
    with pytest.raises(InputError, match=r"copy it with `somdst export default --out DIR` and calibrate DIR"):
        calibrate("default", "synthetic:2")
    assert {file.name: file.stat().st_mtime_ns for file in shipped_path().iterdir()} == before


def test_an_export_into_another_folder_is_complete(tmp_path: Path) -> None:
    model, out = tiny.model_folder(tmp_path / "model"), tmp_path / "new" / "out"
    (model / "README.md").write_text("A card.\n")
    heard: list[Progress] = []
    done = export(model, out, check="synthetic:4", limit=2, progress=heard.append)
    assert [progress.done for progress in heard] == [1, 2] and set(done.agreement) == {"int8", "float32"}
    assert {file.name for file in model.iterdir()} | {file.name for file in done.files} == {
        file.name for file in out.iterdir()
    }
    assert not list(model.glob("*.onnx")), "the model's own folder stays as it is"
    for engine in ("onnx", "torch"):
        assert ModelFolder.open(out).predictor(engine=engine).schema == ModelFolder.open(model).schema
    export(model, out, precisions=["int8"])
    other, text = tiny.model(seed=4)
    save_model(tmp_path / "other", other, text)
    kept = (out / WEIGHTS).read_bytes()
    with pytest.raises(InputError, match="There is another model in"):
        export(tmp_path / "other", out)
    assert (out / WEIGHTS).read_bytes() == kept


@pytest.mark.slow
def test_the_built_in_model_is_exported_elsewhere(tmp_path: Path) -> None:
    done = export("default", tmp_path / "mine", precisions=["int8"])
    mine, built_in = (Tracker.from_pretrained(path).start() for path in (done.folder, "default"))
    said = "I need a cheap hotel in the north for three nights."
    assert mine.update(said).state == built_in.update(said).state != {}


def test_an_export_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_graph(*_: Any) -> Any:
        raise InputError("no graph")

    monkeypatch.setattr("somdst.learn.exporting.encoder_graph", no_graph)
    with pytest.raises(InputError, match="no graph"):
        export(tiny.model_folder(tmp_path / "model"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


# The docs.

DOCS = (Path(__file__).parents[1] / "docs" / "training.md").read_text(encoding="utf-8")


def test_the_docs_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", DOCS, flags=re.DOTALL)
    exec(code, {})
    assert (tmp_path / "models" / "first" / "encoder.int8.onnx").exists()


@pytest.mark.parametrize("line", sorted(set(re.findall(r"(?<=[\n`])somdst [^`\n#]+", DOCS))))
def test_the_docs_commands_are_understood(line: str) -> None:
    name, *words = shlex.split(line)[1:]
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    if words and words != ["--settings"]:
        command.make_context(name, words)


def test_kept_memory_is_given_back_after_a_run() -> None:
    """Freed memory stays with the process while it trains, and goes back to the system when a run is done."""
    script = (
        "import re\n"
        "from pathlib import Path\n"
        "from somdst.learn import machine\n"
        "def used(): return int(re.search(r'VmRSS:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]) // 1024\n"
        "machine.keep_memory()\n"
        "before = used()\n"
        "blocks = [bytearray(b'x' * 2**20) for _ in range(300)]\n"
        "del blocks\n"
        "kept = used()\n"
        "machine.release_memory()\n"
        "print(kept - before, used() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    kept, released = map(int, done.stdout.split())
    assert kept > 250 and released < 50
