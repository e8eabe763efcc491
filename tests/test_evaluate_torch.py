"""Evaluation with a real network: tiny, untrained, but encoded, run and decoded like any other."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from somdst.corpora.synthetic import SYNTHETIC_SCHEMA, synthetic_dialogues
from somdst.evaluate.efficiency import measure_efficiency
from somdst.evaluate.metrics import Spread, joint_goal_accuracy
from somdst.evaluate.run import run

torch = pytest.importorskip("torch")
DIALOGUES = synthetic_dialogues(dialogues=6)


@pytest.fixture(scope="module")
def predictor():  # type: ignore[no-untyped-def]
    from somdst.learn.encoders import load_tokenizer, tiny_encoder
    from somdst.learn.model import SomDst
    from somdst.learn.torch_predictor import TorchPredictor, model_options
    from somdst.model.config import ModelConfig
    from somdst.model.encoding import Encoder

    torch.manual_seed(3)
    encoder = Encoder(load_tokenizer("minilm"), SYNTHETIC_SCHEMA, ModelConfig(max_value_length=4))
    model = SomDst(tiny_encoder(encoder.vocabulary_size), model_options(encoder)).eval()
    torch.nn.init.normal_(model.operation_predictor.W_opr.weight, std=1.0)  # so that it does something
    return TorchPredictor(model, encoder)


def test_a_batch_changes_no_prediction(predictor) -> None:  # type: ignore[no-untyped-def]
    one_by_one = run(predictor, DIALOGUES, batch_size=1)
    batched = run(predictor, DIALOGUES, batch_size=4)
    assert [[t.predicted for t in d.turns] for d in one_by_one] == [[t.predicted for t in d.turns] for d in batched]
    assert any(turn.prediction.slots for done in batched for turn in done.turns)


def test_oracles_and_regimes(predictor) -> None:  # type: ignore[no-untyped-def]
    assert joint_goal_accuracy(run(predictor, DIALOGUES, oracle=frozenset({"operations", "values"}))) == 100.0
    runs = run(predictor, DIALOGUES, oracle=frozenset({"operations"}))
    for turn in (turn for done in runs for turn in done.turns):
        assert turn.prediction.operations == predictor.operation_set.derive(turn.fed, turn.gold).operations
    measured = measure_efficiency(predictor, runs, to_generate=Spread(0, 0.0, 0), turns=3)
    slots = len(SYNTHETIC_SCHEMA)
    assert measured.regime("every").generated == Spread(slots, float(slots), slots)


def test_a_saved_folder_is_evaluated_by_the_command(predictor, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    from somdst.cli.main import app
    from somdst.learn.checkpoints import save_model

    save_model(tmp_path / "model", predictor.model, predictor.encoder)
    command = ["evaluate", str(tmp_path / "model"), "synthetic", "--engine", "torch", "--limit", "3", "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["dialogues"] == 3
