"""The torch-free runtime and its export: the same results as torch, alone or in a batch, and clear errors."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from typer.testing import CliRunner

pytest.importorskip("torch")

from somdst.cli.main import app
from somdst.corpora.synthetic import SYNTHETIC_SCHEMA, synthetic_dialogues
from somdst.errors import InputError, ModelError
from somdst.evaluate.agreement import Agreement, agreement
from somdst.learn.checkpoints import load_model, share_embeddings
from somdst.learn.exporting import export
from somdst.learn.quantisation import quantise_rows
from somdst.learn.torch_predictor import TorchPredictor
from somdst.memory.operations import Operation
from somdst.memory.schema import Schema
from somdst.model.compiled import Ints
from somdst.model.folder import EMBEDDINGS, ModelFolder
from somdst.model.prediction import Prediction, TurnInput
from somdst.model.predictor import Arrays, Bools, EncoderRun, GeneratorRun
from somdst.model.runtime import Runtime, cores

DIALOGUES = tuple(synthetic_dialogues(dialogues=6, seed=4))


@pytest.fixture(scope="module", params=["compact", "paper"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tiny.model_folder(tmp_path_factory.mktemp("model"), layout=request.param, width=64, history=2)
    export(path)
    return path


def inputs() -> list[TurnInput]:
    found = []
    for dialogue in DIALOGUES:
        states = dialogue.states()
        for number, turn in enumerate(dialogue.turns[1:], start=1):
            found.append(TurnInput(dialogue.turns[number - 1], turn, states[number - 1], dialogue.turns[: number - 1]))
    return found


def every_slot() -> list[dict[str, Operation]]:
    return [dict.fromkeys(map(str, SYNTHETIC_SCHEMA), Operation.UPDATE)] * len(inputs())


def same(left: Sequence[Prediction], right: Sequence[Prediction]) -> bool:
    """But for the last digits of the probabilities, which depend on the order of sums."""
    return len(left) == len(right) and all(map(_same, left, right))


def _same(left: Prediction, right: Prediction) -> bool:
    probabilities = [
        [*(slot.probability for slot in one.slots.values()), *one.carryover.values()] for one in (left, right)
    ]
    return _without(left) == _without(right) and np.allclose(*probabilities, rtol=0, atol=1e-3)


def _without(prediction: Prediction) -> Prediction:
    slots = {name: replace(slot, probability=0.0) for name, slot in prediction.slots.items()}
    return replace(prediction, slots=slots, carryover=dict.fromkeys(prediction.carryover, 0.0))


def test_float32_is_what_torch_says(folder: Path) -> None:
    runtime, torch = Runtime.open(folder, precision="float32"), TorchPredictor.open(folder)
    assert same(runtime.predict(inputs()), torch.predict(inputs()))
    predicted = runtime.predict(inputs(), operations=every_slot())
    assert [one.values for one in predicted] == [one.values for one in torch.predict(inputs(), operations=every_slot())]
    assert any(value for one in predicted for value in one.values.values()), "the test has no value to compare"


def test_int8_is_nearly_what_torch_says(folder: Path) -> None:
    # Untrained weights choose by a hair, so numbers are compared; `somdst export --check` compares a trained model.
    torch, runtime = TorchPredictor.open(folder), Runtime.open(folder)
    arrays = torch._pad([torch._prepare(one) for one in inputs()])
    left, right = torch.run_encoder(arrays), runtime.run_encoder(arrays)
    owners, slots = np.repeat(np.arange(8), 2), np.tile([0, 5], 8)
    said = [one.run_generator(arrays, run.context, owners, slots) for one, run in ((torch, left), (runtime, right))]
    for exact, near in ((left.operations, right.operations), (left.domain, right.domain)):
        assert 0 < np.abs(exact - near).mean() < 0.1 * np.abs(exact).mean()
    assert np.mean(said[0].tokens[:, 0] == said[1].tokens[:, 0]) > 0.7
    assert agreement(torch, runtime, DIALOGUES).operations > 90


def test_covered_words_are_not_copied(folder: Path) -> None:
    torch, runtime = TorchPredictor.open(folder), Runtime.open(folder, precision="float32")
    arrays = torch._pad([torch._prepare(one) for one in inputs()[:4]])
    owners, slots = np.repeat(np.arange(4), 2), np.tile([0, 5], 4)
    mask = arrays.mask[owners]
    whole, covered = [], []
    for engine in (torch, runtime):
        context = engine.run_encoder(arrays).context
        whole.append(engine.run_generator(arrays, context, owners, slots))
        mask[np.arange(8), whole[0].positions[:, 0]] = False  # where the generator looked first
        covered.append(engine.run_generator(arrays, context, owners, slots, mask=mask))
    assert (covered[0].positions[:, 0] != whole[0].positions[:, 0]).all()
    assert (covered[0].tokens == covered[1].tokens).all() and (covered[0].positions == covered[1].positions).all()


@pytest.mark.parametrize("precision", ["int8", "float32"])
def test_a_turn_alone_and_in_a_batch_give_the_same(folder: Path, precision: str) -> None:
    runtime = Runtime.open(folder, precision=precision)
    together = runtime.predict(inputs())
    assert same(together, [runtime.predict([one])[0] for one in inputs()])


class Counting(Runtime):
    generated = 0
    encoded = 0

    def run_encoder(self, arrays: Arrays, *, alone: bool = False) -> EncoderRun:
        self.encoded += 1
        return super().run_encoder(arrays, alone=alone)

    def run_generator(
        self, arrays: Arrays, context: Any, owners: Ints, slots: Ints, *, mask: Bools | None = None
    ) -> GeneratorRun:
        self.generated += 1
        return super().run_generator(arrays, context, owners, slots, mask=mask)


def test_one_batch_and_one_decoder_loop_for_all(folder: Path) -> None:
    runtime = Counting(ModelFolder.open(folder), threads=1)
    some = inputs()[:8]
    runtime.predict(some, operations=[dict.fromkeys(map(str, runtime.schema), Operation.UPDATE)] * len(some))
    assert (runtime.encoded, runtime.generated) == (1, 1)
    runtime.predict(some, operations=[{}] * len(some))
    assert (runtime.encoded, runtime.generated) == (2, 1), "nothing is updated, so nothing is generated"
    assert runtime.predict([]) == []


def test_a_batch_is_dealt_out_to_the_threads(folder: Path) -> None:
    runtime, alone = Counting(ModelFolder.open(folder), threads=3), Runtime.open(folder, threads=1)
    some = inputs()[:8]
    assert same(runtime.predict(some), alone.predict(some))
    assert runtime.encoded == 3
    assert same(runtime.predict(some[:1]), alone.predict(some[:1]))
    assert runtime.encoded == 4


def test_the_decoder_ends_when_all_have_ended(folder: Path) -> None:
    runtime = Runtime.open(folder)
    arrays = Arrays(
        *(np.zeros((1, 4), kind) for kind in (np.int64, np.int64, bool)),
        np.zeros((1, 1), np.int64),
        np.ones((1, 1), bool),
    )
    rows: list[int] = []

    class Ending:
        """The first slot ends at once, the second at the second step."""

        def run(self, names: None, fed: dict[str, Any]) -> tuple[Any, ...]:
            rows.append(len(fed["e"]))
            said = np.array([runtime.encoder.eos, 7] if len(rows) == 1 else [runtime.encoder.eos])
            return said, np.full(len(said), 0.5, np.float32), np.zeros(len(said), np.int64), fed["e"], fed["g"]

    runtime._decoder = Ending()
    context = (np.zeros((1, 64)), np.zeros((1, 13, 64)), np.zeros((1, 4, 64)))
    owners = np.zeros(2, np.int64)
    generated = runtime.run_generator(arrays, context, owners, np.array([0, 1]))
    assert rows == [2, 1], "a slot that has ended is not run on"
    assert generated.tokens.tolist() == [[runtime.encoder.eos] * 2, [7, runtime.encoder.eos]]
    assert generated.probability.tolist() == [0.5, 0.25]


def test_rows_survive_quantising() -> None:
    matrix = np.random.default_rng(0).normal(size=(20, 50)).astype(np.float32)
    matrix[3] = 0
    quantised, scales = quantise_rows(matrix)
    assert np.abs(quantised * scales[:, None] - matrix).max() <= scales.max() / 2 + 1e-6


def test_embeddings_stored_once(folder: Path, tmp_path: Path) -> None:
    shared = shutil.copytree(folder, tmp_path / "shared")
    written = (shared / EMBEDDINGS).read_bytes()
    share_embeddings(shared)
    assert (shared / EMBEDDINGS).read_bytes() == written, "the graphs' file and the weights' are one"
    one, other = (ModelFolder.open(path) for path in (folder, shared))
    before, after = (load_model(model, model.encoder()).state_dict() for model in (one, other))
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        close = tensor.abs().amax(-1, keepdim=True) / 250 if "word_embeddings" in name else 0.0
        assert bool(((after[name] - tensor).abs() <= close).all()), name
    (shared / EMBEDDINGS).write_bytes(written[:-1])
    with pytest.raises(ModelError, match=r"is damaged .* fetch or train the model again"):
        load_model(other, other.encoder())


def test_the_runtime_needs_no_torch(folder: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['transformers'] = sys.modules['onnx'] = None\n"
        "from somdst import Tracker\n"
        f"print(Tracker.from_pretrained({str(folder)!r}).start().update(user='a table please').state)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["encoder.int8.onnx", "decoder.int8.onnx", EMBEDDINGS])
@pytest.mark.parametrize("damage", ["missing", "empty", "truncated"])
def test_a_damaged_file_gets_one_sentence(folder: Path, tmp_path: Path, name: str, damage: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    content = (copy / name).read_bytes()
    if damage == "missing":
        (copy / name).unlink()
    else:
        (copy / name).write_bytes(b"" if damage == "empty" else content[: len(content) // 2])
    with pytest.raises(ModelError, match=r"again\.$") as caught:
        Runtime.open(copy)
    assert "\n" not in str(caught.value)


def test_export_refuses_an_int8_that_costs_too_much(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "model"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*.onnx"))
    worse = Agreement(10, 99.0, 99.0, joint_goal_accuracy=50.0, other_joint_goal_accuracy=49.4)
    monkeypatch.setattr("somdst.learn.exporting.agreement", lambda *_: worse)
    result = CliRunner().invoke(app, ["export", str(copy), "--check", "synthetic:20", "--limit", "1"])
    assert isinstance(result.exception, ModelError) and "int8 costs 0.60 points" in str(result.exception)
    assert not list(copy.glob("*.onnx")) and not list(copy.glob(".export-*"))


def test_export_on_the_command_line(folder: Path, tmp_path: Path) -> None:
    copy = tiny.model_folder(tmp_path / "copy", width=64)
    result = CliRunner().invoke(app, ["export", str(copy), "--check", "synthetic:20", "--limit", "3", "--json"])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert set(answer["files"]) == {
        *("encoder.int8.onnx", "decoder.int8.onnx", "reader.int8.onnx", EMBEDDINGS),
        *("encoder.float32.onnx", "decoder.float32.onnx", "reader.float32.onnx"),
    }
    assert answer["agreement"]["float32"]["operations"] == 100.0
    assert not [file for file in copy.iterdir() if file.name.startswith(".export")]


def test_a_schema_that_is_not_the_graphs(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    schema = Schema.load(copy / "schema.json")
    Schema(schema.slots[1:]).save(copy / "schema.json")
    if "paper" in (copy / "config.json").read_text():
        with pytest.raises(ModelError, match=rf"for {len(schema)} slots, and schema.json has {len(schema) - 1}"):
            Runtime.open(copy)
    else:  # nothing in the graphs depends on the number of slots
        assert len(Runtime.open(copy).predict([inputs()[0]])) == 1


def test_graphs_that_read_something_else(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    shutil.copy(copy / "decoder.int8.onnx", copy / "encoder.int8.onnx")
    with pytest.raises(ModelError, match=r"the encoder's graph reads e, g, .* export the model again"):
        Runtime.open(copy)


def test_other_embeddings_are_another_model(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    rows = bytearray((copy / EMBEDDINGS).read_bytes())
    rows[len(rows) // 2] ^= 1
    (copy / EMBEDDINGS).write_bytes(rows)
    assert Runtime.open(copy).model_id != Runtime.open(folder).model_id


def test_what_is_not_exported_says_how(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*.float32.onnx"))
    with pytest.raises(ModelError, match="in int8 only, `somdst export"):
        Runtime.open(copy, precision="float32")
    for graph in copy.glob("*.onnx"):
        graph.unlink()
    with pytest.raises(ModelError, match="not exported yet: run `somdst export"):
        Runtime.open(copy)
    with pytest.raises(InputError, match="at least one thread"):
        Runtime.open(folder, threads=0)


def test_what_is_said_of_the_shipped_model_is_of_this_one() -> None:
    folder = ModelFolder.open()
    metrics, root = folder.metrics(), Path(__file__).parents[1]
    card, results = (folder.path / "README.md").read_text(), (root / "docs" / "results.md").read_text()
    assert f"The shipped tracker (`{Runtime.open().model_id}`)" in results
    assert f"| joint goal accuracy | {metrics['dev_joint_goal_accuracy']:.2f} |" in card
    assert f"| joint goal accuracy | {metrics['dev_joint_goal_accuracy']:.2f} |" in results
    assert f"{folder.config.temperature}, {folder.config.pending_threshold}" in card
    held = metrics["calibration"]["calibration"]["threshold"]
    assert 2 * held["wrong"] >= held["held_back"] and folder.config.pending_threshold <= held["value"] + 5e-4


def test_a_limit_on_processor_time_counts(tmp_path: Path) -> None:
    own = cores(tmp_path)  # no such file
    assert own >= 1
    for limit, expected in (("max 100000", own), ("100000 100000", 1), ("50000 100000", 1), ("99900000 100000", own)):
        (tmp_path / "cpu.max").write_text(f"{limit}\n")
        assert cores(tmp_path) == expected
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert cores(tmp_path) == min(own, 2)
