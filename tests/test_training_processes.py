"""Training in processes of their own: stopped, killed, started by torchrun, and by the command line."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from waiting import until

torch = pytest.importorskip("torch")

from safetensors.torch import load_file  # noqa: E402

from somdst.cli.main import app  # noqa: E402
from somdst.corpora import open_corpus  # noqa: E402
from somdst.corpora.jsonlines import write_dialogues  # noqa: E402
from somdst.errors import CorpusError, InputError, SomdstError  # noqa: E402
from somdst.evaluate.pictures import read_metrics  # noqa: E402
from somdst.learn.checkpoints import CHECKPOINT, load_checkpoint  # noqa: E402
from somdst.learn.settings import Settings  # noqa: E402
from somdst.learn.task import read_task  # noqa: E402
from somdst.model.folder import WEIGHTS, ModelFolder  # noqa: E402

TINY = ["--encoder", "tiny", "--set", "precision=fp32", "--set", "batch_size=7"]
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}


def position(out: Path) -> int:
    saved = load_checkpoint(out)
    return saved["position"]["step"] if saved else 0


@pytest.mark.slow
def test_stopped_by_a_signal_and_killed_anywhere(tmp_path: Path) -> None:
    """The process ends itself at chosen places, so that the test does not depend on how fast it runs."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["somdst.learn.training"])  # torch is imported once
    import training_child

    def run(out: Path, *ending: Any) -> tuple[int | None, bool]:
        finished = context.Value("b", False)
        process = context.Process(target=training_child.train, args=(out, finished, *ending))
        process.start()
        process.join()
        return process.exitcode, bool(finished.value)

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert run(whole) == (0, True)
    endings = [
        (3, signal.SIGTERM, "after a step", 3),
        (5, signal.SIGKILL, "after a step", 4),  # killed before the checkpoint of step 5
        (7, signal.SIGKILL, "while a checkpoint is written", 6),
        (9, signal.SIGKILL, "between the two renames", 8),
        (11, signal.SIGINT, "after a step", 11),
    ]
    for step, number, place, kept in endings:
        killed = -signal.SIGKILL if number == signal.SIGKILL else 0
        assert run(parts, step, number, place) == (killed, False)
        assert position(parts) == kept, place
    assert run(parts) == (0, True)
    one, other = load_checkpoint(whole), load_checkpoint(parts)
    assert one is not None and other is not None
    assert one["position"]["step"] == other["position"]["step"] > endings[-1][0]
    for kind in ("weights", "average"):
        assert [name for name in one[kind] if not torch.equal(one[kind][name], other[kind][name])] == []
    assert load_file(whole / WEIGHTS).keys() == load_file(parts / WEIGHTS).keys()
    assert not [path.name for path in parts.iterdir() if path.name.startswith((".", "next"))]


@pytest.mark.slow
def test_two_processes_are_as_one(tmp_path: Path) -> None:
    options = ["synthetic:10", *TINY, "--epochs", "0.5", "--dev-limit", "1"]
    for setting in ("teacher_forcing=0.5", "accumulation=2", "freeze_embeddings=false", "wrong_states=0.5"):
        options += ["--set", setting]
    one = CliRunner().invoke(app, ["train", *options[:1], str(tmp_path / "one"), *options[1:]])
    assert one.exit_code == 0, one.output
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m", "somdst"]
    two = subprocess.run(
        [*launch, "train", *options[:1], str(tmp_path / "two"), *options[1:]],
        env=ONE_THREAD,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert two.returncode == 0, two.stderr[-3000:]
    assert two.stdout.split() == [str(tmp_path / "two")], "only the first process speaks"
    alone, together = load_checkpoint(tmp_path / "one"), load_checkpoint(tmp_path / "two")
    assert alone is not None and together is not None
    assert alone["position"]["turns"] == together["position"]["turns"] > 0
    for kind in ("weights", "average"):
        for name, tensor in alone[kind].items():
            torch.testing.assert_close(together[kind][name], tensor, rtol=1e-4, atol=1e-5, msg=f"{kind} {name}")
    losses = [read_metrics(tmp_path / name / "metrics.jsonl")[-1]["loss"] for name in ("one", "two")]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4), "the loss told is that of all processes"


@pytest.mark.slow
def test_the_command_is_stopped_and_goes_on(tmp_path: Path) -> None:
    """With the default precision: where bfloat16 does not work as announced, the command finds a way."""
    options = ["--encoder", "tiny", "--dev-limit", "1"]
    for setting in ("batch_size=8", "checkpoint_minutes=0.000001", "evaluate_every=1000"):
        options += ["--set", setting]
    out = tmp_path / "run"
    command = [sys.executable, "-m", "somdst", "train", "synthetic:40", str(out), *options, "--epochs", "10000"]
    process = subprocess.Popen(command, env=ONE_THREAD, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until(lambda: (out / CHECKPOINT).exists() or process.poll() is not None, what="a checkpoint")
    process.send_signal(signal.SIGTERM)
    stdout, stderr = process.communicate()
    assert (process.returncode, stdout) == (130, "")
    assert "stopped at step" in stderr and "run the same command to go on" in stderr
    assert position(out) >= 1
    other = CliRunner().invoke(app, ["train", "synthetic:40", str(out), *options, "--seed", "3"])
    assert isinstance(other.exception, InputError)
    assert "was started with another seed (0, not 3)" in str(other.exception)


# The command in this process.


def train(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["train", *arguments])


def test_the_command_trains_with_a_file_of_settings(tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("encoder: tiny\nprecision: fp32\nepochs: 3\nbatch_size: 16\n")
    done = train("synthetic:5", str(tmp_path / "run"), "--config", str(settings), "--epochs", "0.5")
    assert done.exit_code == 0, done.output
    assert done.stdout.strip() == str(tmp_path / "run")
    assert "5 dialogues to learn from, 1 to evaluate on, 13 slots" in done.stderr
    evaluations = [line for line in done.stderr.splitlines() if "dev joint goal accuracy" in line]
    assert [line.split(": ")[1] for line in evaluations] == ["training, epoch 0.40", "done"], "a log stays short"
    assert "not better than a tracker that never writes anything" in done.stderr
    saved = load_checkpoint(tmp_path / "run")
    assert saved is not None
    assert (saved["settings"]["epochs"], saved["settings"]["batch_size"]) == (0.5, 16)
    folder = ModelFolder.open(tmp_path / "run")
    assert folder.config.normalisation == "lowercase", "MultiWOZ's text rules are for MultiWOZ"
    further = train("synthetic:5", str(tmp_path / "next"), "--from", str(tmp_path / "run"), *TINY, "--epochs", "0.1")
    assert further.exit_code == 0, further.output


def refused(*arguments: str) -> SomdstError:
    done = train(*arguments)
    assert isinstance(done.exception, SomdstError), done.output
    assert "\n" not in str(done.exception)
    return done.exception


def test_a_corpus_with_unknown_slots(tmp_path: Path) -> None:
    corpus, schema = tmp_path / "mine.jsonl", tmp_path / "schema.yaml"
    write_dialogues(corpus, open_corpus("synthetic:5").dialogues)
    names = sorted({slot for d in open_corpus("synthetic:5").dialogues for t in d.turns for slot in t.state or ()})
    misspelled = {"hotel-area": "hotel-aera"}
    domains: dict[str, dict[str, None]] = {}
    for name in names:
        domain, _, slot = misspelled.get(name, name).partition("-")
        domains.setdefault(domain, {})[slot] = None
    schema.write_text(json.dumps({"domains": domains}))
    arguments = [str(corpus), str(tmp_path / "run"), "--schema", str(schema), *TINY, "--epochs", "0.1"]
    error = refused(*arguments)
    assert isinstance(error, CorpusError)
    assert 'The corpus labels the slot "hotel-area" in ' in str(error)
    assert 'Did you mean "hotel-aera"?' in str(error)
    assert not (tmp_path / "run").exists()
    done = train(*arguments, "--skip-unknown-slots")
    assert done.exit_code == 0, done.output
    assert 'left out: the slot "hotel-area"' in done.stderr
    schema.write_text('{"domains": {"museum": ["name"]}}')
    assert "and no slot is in both: give dialogues that are labelled with" in str(refused(*arguments))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--preset", "papr"], 'There is no preset "papr"'),
        (["--epochs", "-3"], "The setting epochs is wrong: Input should be greater than 0."),
        (["--set", "operation_set=5"], 'There is no operation set "5"'),
        (["--set", "epoch=3"], 'There is no setting "epoch". Did you mean "epochs"?'),
        (["--set", "epochs=3", "--epochs", "2"], "The setting epochs is given twice: leave out --set epochs=3."),
        (["--minutes", "1", "--epochs", "1"], "Give a budget either in minutes or in epochs, not in both."),
        (["--from", "nowhere"], 'There is no model at "nowhere"'),
        (["--schema", "nowhere.yaml"], "Cannot read the schema nowhere.yaml"),
        (["--encoder", "/nowhere/at/all"], 'There is no encoder "/nowhere/at/all"'),
        (["--encoder", "tiny", "--set", "max_length=9000"], "max_length is 9000, but the encoder reads at most 512"),
    ],
)
def test_wrong_options(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    assert str(refused("synthetic:2", str(tmp_path / "run"), *arguments)).startswith(sentence)
    assert not (tmp_path / "run").exists()


def test_an_unlabelled_corpus(tmp_path: Path) -> None:
    corpus = tmp_path / "mine.jsonl"
    corpus.write_text('{"id": "a", "turns": [{"system": "", "user": "hello"}]}\n')
    assert refused(str(corpus), str(tmp_path / "run"), *TINY)


def test_all_settings_are_printed() -> None:
    for command in ("train", "ablate"):
        done = CliRunner().invoke(app, [command, "--settings"])
        assert done.exit_code == 0, done.output
        for name, field in Settings.model_fields.items():
            (line,) = (line for line in done.stdout.splitlines() if line.split()[:1] == [name])
            assert str(field.description) in line
        assert "bert-base-uncased" in done.stdout


def test_an_encoder_that_cannot_be_reached(tmp_path: Path) -> None:
    """One line, without retries: a port that refuses connections acts as a hub that cannot be reached."""
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "somdst", "train", "synthetic:2", str(tmp_path / "run"), "--encoder", "nosuch/enc"]
    done = subprocess.run(command, env=ONE_THREAD | nowhere, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        'somdst: Cannot load the encoder "nosuch/enc": the hub cannot be reached, and the encoder is not in its cache. '
        "Give a local folder, a hub name that can be reached, or minilm.\n"
    )


@pytest.mark.data
def test_multiwoz_is_read_although_it_labels_hospitals(data: Path) -> None:
    task = read_task(data / "multiwoz-2.1" / "dev.jsonl.xz")
    assert (len(task.dialogues), len(task.schema)) == (1000, 30)
    assert task.outside["hospital-department"] == 7
