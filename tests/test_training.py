"""The training loop: it learns, it can be stopped anywhere, and it says clearly what is wrong."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny

torch = pytest.importorskip("torch")

from safetensors.torch import load_file  # noqa: E402
from small_runs import DIALOGUES, EVERYTHING, LEARNING, SMALL, assert_same, trainer, weights  # noqa: E402

from somdst.corpora.synthetic import SYNTHETIC_SCHEMA  # noqa: E402
from somdst.errors import FileError, InputError, ModelError  # noqa: E402
from somdst.evaluate.metrics import joint_goal_accuracy  # noqa: E402
from somdst.evaluate.pictures import read_metrics  # noqa: E402
from somdst.evaluate.run import run  # noqa: E402
from somdst.learn.checkpoints import CHECKPOINT, PREVIOUS, load_checkpoint, save_model  # noqa: E402
from somdst.learn.progress import Progress, TrainingRecord  # noqa: E402
from somdst.learn.settings import load_settings  # noqa: E402
from somdst.learn.start import from_model  # noqa: E402
from somdst.learn.torch_predictor import TorchPredictor  # noqa: E402
from somdst.learn.trainer import Outcome  # noqa: E402
from somdst.memory.schema import Schema, Slot  # noqa: E402
from somdst.memory.state import State  # noqa: E402
from somdst.model.folder import WEIGHTS, ModelFolder  # noqa: E402


def scalars(out: Path, tag: str) -> list[tuple[int, Any]]:
    """What TensorBoard reads from the run's folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(out / "tensorboard"))
    board.Reload()
    return [(event.step, pytest.approx(event.value)) for event in board.Scalars(tag)]


# A whole run.


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome, list[Progress]]:
    out = tmp_path_factory.mktemp("learned")
    heard: list[Progress] = []
    evaluate = lambda predictor: joint_goal_accuracy(run(predictor, DIALOGUES))  # noqa: E731
    return out, trainer(out, LEARNING, evaluate=evaluate, report=heard.append).run(), heard


def records_in(heard: list[Progress]) -> list[TrainingRecord]:
    return [progress.record for progress in heard if progress.record]


@pytest.mark.slow
def test_it_learns(learned: tuple[Path, Outcome, list[Progress]]) -> None:
    out, outcome, heard = learned
    assert outcome.finished
    assert [progress.done for progress in heard] == list(range(outcome.step + 1)), "every step is reported"
    first, *_, last = records_in(heard)
    assert last.loss < 0.1 * first.loss
    assert outcome.best >= 85
    predictor = TorchPredictor.open(out)  # the folder is a model like any other
    assert joint_goal_accuracy(run(predictor, DIALOGUES)) == pytest.approx(outcome.best)


@pytest.mark.slow
def test_what_a_run_leaves(learned: tuple[Path, Outcome, list[Progress]]) -> None:
    out, outcome, heard = learned
    told = records_in(heard)
    records = read_metrics(out / "metrics.jsonl")
    assert [record["step"] for record in records] == [record.step for record in told]
    assert records[-1]["step"] == records[-1]["steps"] == outcome.step
    assert records[-1]["dev_joint_goal_accuracy"] == told[-1].dev_joint_goal_accuracy
    assert {"epoch", "loss", "loss_operations", "loss_domain", "loss_values", "turns_per_second"} <= records[0].keys()
    assert (out / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert scalars(out, "loss_values") == [(record["step"], record["loss_values"]) for record in records]
    best = json.loads((out / "metrics.json").read_text())
    assert best["dev_joint_goal_accuracy"] == outcome.best
    assert not [path for path in out.iterdir() if path.name.startswith((".", "next"))], "no drafts are left"
    assert ModelFolder.open(out).config.normalisation == "lowercase"


def test_new_weights_take_the_place_of_old_graphs(tmp_path: Path) -> None:
    model, text = tiny.model()
    save_model(tmp_path, model, text)
    (tmp_path / "encoder.int8.onnx").write_bytes(b"old")
    save_model(tmp_path, model, text)
    assert not list(tmp_path.glob("*.onnx"))


def test_a_finished_run_does_nothing_more(learned: tuple[Path, Outcome, list[Progress]]) -> None:
    out, outcome, _ = learned
    before = (out / CHECKPOINT).stat().st_mtime_ns
    told: list[Progress] = []
    again = trainer(out, LEARNING, report=told.append).run()
    assert (again.finished, again.step, told) == (True, outcome.step, [])
    assert (out / CHECKPOINT).stat().st_mtime_ns == before


def test_training_goes_on_from_a_trained_model(tmp_path: Path) -> None:
    run_of = trainer(tmp_path / "first", SMALL | {"epochs": 0.5})
    run_of.run()
    folder = ModelFolder.open(tmp_path / "first")
    settings = load_settings("cpu", **SMALL | {"dropout": 0.2})
    model, _ = from_model(folder, settings, SYNTHETIC_SCHEMA)
    assert_same(dict(model.state_dict()), load_file(tmp_path / "first" / WEIGHTS))
    assert model.operation_predictor.encoder.config.hidden_dropout_prob == 0.2
    other = Schema([Slot.of("museum", "name"), Slot.of("museum", "day")])
    model, text = from_model(folder, settings, other)
    assert len(text.table().names) == 2
    gru = model.value_generator.gru.weight_ih_l0
    assert torch.equal(gru, run_of.model.value_generator.gru.weight_ih_l0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"layout": "paper"}, "has layout compact, and not paper: train with the same layout"),
        ({"operation_set": "2"}, "has operation_set 4, and not 2"),
        ({"scaled_logits": False}, "has scaled_logits True, and not False"),
        ({"max_length": 4000}, "max_length is 4000, but the encoder reads at most 512 word pieces"),
    ],
)
def test_a_model_that_does_not_fit(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    folder = ModelFolder.open(tiny.model_folder(tmp_path))
    with pytest.raises(InputError, match=sentence):
        from_model(folder, load_settings("cpu", **SMALL | change), SYNTHETIC_SCHEMA)


# Stopped and resumed.


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("uninterrupted")
    assert trainer(out, EVERYTHING).run().finished
    return out


def test_an_interrupted_run_ends_with_equal_weights(uninterrupted: Path, tmp_path: Path) -> None:
    steps = []
    for stop in (1, 4, 9, None):
        outcome = trainer(tmp_path, EVERYTHING, stop_after=stop).run()
        steps.append(outcome.step)
        assert outcome.finished == (stop is None)
    assert steps[:3] == [1, 4, 9]
    assert_same(weights(tmp_path), weights(uninterrupted))
    assert_same(load_file(tmp_path / WEIGHTS), load_file(uninterrupted / WEIGHTS))
    assert [r["step"] for r in read_metrics(tmp_path / "metrics.jsonl")][-1] == steps[-1]


def test_an_interrupted_run_with_fused_attention(tmp_path: Path) -> None:
    fused = EVERYTHING | {"attention_dropout": 0.0}
    whole = trainer(tmp_path / "whole", fused)
    whole.run()
    assert whole.model.operation_predictor.encoder.config._attn_implementation == "sdpa"
    trainer(tmp_path / "parts", fused, stop_after=3).run()
    trainer(tmp_path / "parts", fused).run()
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))


@pytest.mark.parametrize(
    ("capabilities", "precision", "attention"),
    [
        ({"avx2": True}, "fp32", "sdpa"),
        ({"avx512_bf16": True, "amx_bf16": False}, "bf16", "eager"),
        ({"amx_bf16": True}, "bf16", "eager"),
        ({"architecture": "another one"}, "fp32", "sdpa"),
    ],
)
def test_precision_is_what_the_processor_computes_in(
    capabilities: dict[str, Any], precision: str, attention: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    run = trainer(tmp_path, SMALL | {"precision": "auto"}, stop_after=1)
    run.run()
    assert run.precision == precision
    assert run.model.operation_predictor.encoder.config._attn_implementation == attention
    saved = load_checkpoint(tmp_path)
    assert saved is not None and saved["settings"]["precision"] == "auto", "it may go on elsewhere"


def test_steps_after_the_last_checkpoint_are_repeated(uninterrupted: Path, tmp_path: Path) -> None:
    """As after a kill: the journal and the model are ahead of the checkpoint."""
    trainer(tmp_path, EVERYTHING, stop_after=3).run()
    kept = (tmp_path / CHECKPOINT).read_bytes()
    trainer(tmp_path, EVERYTHING, report_every=1, stop_after=7).run()
    (tmp_path / CHECKPOINT).write_bytes(kept)
    (tmp_path / PREVIOUS).unlink()
    (tmp_path / f".0a1b2c3d-next.{CHECKPOINT}").write_bytes(b"half")
    trainer(tmp_path, EVERYTHING, report_every=1).run()
    assert_same(weights(tmp_path), weights(uninterrupted))
    steps = [record["step"] for record in read_metrics(tmp_path / "metrics.jsonl")]
    assert steps == sorted(set(steps)) == [step for step, _ in scalars(tmp_path, "loss")]
    assert not (tmp_path / f".0a1b2c3d-next.{CHECKPOINT}").exists()


def test_killed_between_the_two_renames(uninterrupted: Path, tmp_path: Path) -> None:
    trainer(tmp_path, EVERYTHING, stop_after=3).run()
    (tmp_path / CHECKPOINT).rename(tmp_path / PREVIOUS)
    trainer(tmp_path, EVERYTHING).run()
    assert_same(weights(tmp_path), weights(uninterrupted))


def test_seeds(uninterrupted: Path, tmp_path: Path) -> None:
    trainer(tmp_path, EVERYTHING | {"seed": 5}).run()
    gru = "value_generator.gru.weight_ih_l0"
    assert not torch.equal(weights(tmp_path)[gru], weights(uninterrupted)[gru])


def test_the_averaged_weights_are_kept_as_the_model(uninterrupted: Path) -> None:
    saved = load_checkpoint(uninterrupted)
    model = load_file(uninterrupted / WEIGHTS)
    gru = "value_generator.gru.weight_ih_l0"
    assert saved is not None
    assert torch.equal(model[gru], saved["average"][gru])
    assert not torch.equal(model[gru], saved["weights"][gru])


def test_early_stopping(tmp_path: Path) -> None:
    settings = SMALL | {"epochs": 9.0, "evaluate_every": 0.2, "patience": 2}
    accuracies = iter([10.0, 30.0, 20.0, 30.0, 40.0])
    outcome = trainer(tmp_path, settings, evaluate=lambda predictor: next(accuracies)).run()
    assert outcome.finished and outcome.best == 30.0
    again = trainer(tmp_path, settings, evaluate=lambda predictor: next(accuracies)).run()
    assert (again.finished, again.step) == (True, outcome.step), "patience does not start again"
    assert json.loads((tmp_path / "metrics.json").read_text())["dev_joint_goal_accuracy"] == 30.0


def test_checkpoints_are_written_by_the_clock_too(tmp_path: Path) -> None:
    settings = SMALL | {"epochs": 1.0, "checkpoint_minutes": 1e-9}
    written: list[int] = []

    def report(progress: Progress) -> None:
        saved = load_checkpoint(tmp_path)
        written.append(saved["position"]["step"] if saved else 0)

    trainer(tmp_path, settings, report=report).run()
    assert written[:5] == [0, 0, 1, 2, 3], "at the start, then before the checkpoint of each step"
    with pytest.raises(InputError, match="checkpoint_minutes"):
        load_settings("cpu", checkpoint_minutes=11)


# What can go wrong with a run's folder.


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    trainer(tmp_path, SMALL | {"epochs": 1.0}, stop_after=2).run()
    trainer(tmp_path, SMALL | {"epochs": 1.0}, stop_after=4).run()
    return tmp_path


def test_a_damaged_checkpoint(stopped: Path) -> None:
    whole = (stopped / CHECKPOINT).read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"no checkpoint"):
        (stopped / CHECKPOINT).write_bytes(damaged)
        with pytest.raises(ModelError, match=r"is damaged .*: rename checkpoint.previous.pt to checkpoint.pt to go on"):
            trainer(stopped, SMALL | {"epochs": 1.0}).run()
    (stopped / PREVIOUS).rename(stopped / CHECKPOINT)
    assert trainer(stopped, SMALL | {"epochs": 1.0}).run().finished


def test_a_checkpoint_of_something_else(stopped: Path) -> None:
    torch.save({"what": 1}, stopped / CHECKPOINT)
    with pytest.raises(ModelError, match="does not fit this model"):
        trainer(stopped, SMALL | {"epochs": 1.0}).run()


def test_another_run_in_the_same_folder(stopped: Path) -> None:
    settings = SMALL | {"epochs": 1.0}
    before = (stopped / CHECKPOINT).read_bytes()
    with pytest.raises(InputError, match=r"another batch_size \(8, not 4\): use the same settings to go on"):
        trainer(stopped, settings | {"batch_size": 4}).run()
    with pytest.raises(InputError, match="another corpus: give the same one to go on"):
        trainer(stopped, settings, dialogues=DIALOGUES[:5]).run()
    fewer = Schema(slot for slot in SYNTHETIC_SCHEMA.slots if slot.domain != "taxi")
    with pytest.raises(InputError, match="another schema"):
        trainer(stopped, settings, schema=fewer).run()
    frozen = trainer(stopped / "frozen", settings | {"freeze_embeddings": True}, stop_after=1)
    frozen.run()
    other = trainer(stopped / "frozen", settings | {"freeze_embeddings": True})
    with torch.no_grad():
        other.model.operation_predictor.word_embeddings.weight += 1
    with pytest.raises(InputError, match="another encoder or model to start from"):
        other.run()
    assert (stopped / CHECKPOINT).read_bytes() == before


def test_a_run_goes_on_for_longer_than_it_was_meant_to(stopped: Path) -> None:
    first = trainer(stopped, SMALL | {"epochs": 1.0}).run()
    longer = trainer(stopped, SMALL | {"epochs": 2.0, "evaluate_every": 0.25}).run()
    assert first.finished and longer.finished and longer.step == 2 * first.step


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """No file may become larger: what a full disk does, without filling one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk(stopped: Path, tmp_path: Path) -> None:
    settings = SMALL | {"epochs": 1.0}
    before = (stopped / CHECKPOINT).read_bytes()
    with files_up_to(100_000), pytest.raises(FileError) as caught:
        trainer(stopped, settings, stop_after=5).run()
    assert str(caught.value).endswith(f"{CHECKPOINT}: File too large. What was there before is intact.")
    assert (stopped / CHECKPOINT).read_bytes() == before
    with files_up_to(100_000), pytest.raises(FileError, match=r"model.safetensors: File too large. What was there"):
        trainer(stopped, settings).run()
    with files_up_to(10), pytest.raises(ModelError, match="File too large"):
        trainer(stopped, settings, report_every=1).run()
    assert (stopped / CHECKPOINT).read_bytes() == before
    assert not [path for path in stopped.iterdir() if path.name.startswith((".", "next"))], "no drafts are left"
    assert trainer(stopped, settings).run().finished
    trainer(whole := tmp_path / "whole", settings).run()
    assert_same(weights(stopped), weights(whole))


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"Cannot make the folder .*: Not a directory"):
        trainer(tmp_path / "file" / "run", SMALL).run()


def test_a_loss_that_is_no_number(tmp_path: Path) -> None:
    broken = trainer(tmp_path, SMALL)
    with torch.no_grad():
        broken.model.operation_predictor.W_opr.bias += float("nan")
    with pytest.raises(ModelError, match="The loss is not a number at step 1: start again with lower learning"):
        broken.run()
    assert load_checkpoint(tmp_path) is None


def test_nothing_to_learn_from(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no turn to learn from"):
        trainer(tmp_path, SMALL, dialogues=()).run()


def test_other_mistakes_or_domains_are_another_run(tmp_path: Path) -> None:
    own = {(d.id, t): State({"hotel-area": "north"}) for d in DIALOGUES for t in range(len(d.turns))}
    trainer(tmp_path, EVERYTHING, own_states=own, stop_after=2).run()
    with pytest.raises(InputError, match="started with another corpus"):
        trainer(tmp_path, EVERYTHING).run()
    elsewhere = [replace(d, turns=tuple(replace(t, domain="hotel") for t in d.turns)) for d in DIALOGUES]
    with pytest.raises(InputError, match="started with another corpus"):
        trainer(tmp_path, EVERYTHING, own_states=own, dialogues=elsewhere).run()
    assert trainer(tmp_path, EVERYTHING, own_states=own).run().finished


def test_minutes_are_counted_over_a_stop(tmp_path: Path) -> None:
    first = trainer(tmp_path, SMALL, stop_after=1).run()
    assert 0 < first.seconds < trainer(tmp_path, SMALL, stop_after=2).run().seconds


def test_a_tiny_corpus_smaller_than_a_batch(tmp_path: Path) -> None:
    one = replace(DIALOGUES[0], turns=DIALOGUES[0].turns[:1])
    assert trainer(tmp_path, SMALL | {"epochs": 1.0, "accumulation": 3}, dialogues=(one,)).run().finished
