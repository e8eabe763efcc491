"""Training runs of seconds: two layers of width 32, six synthetic dialogues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from somdst.corpora.synthetic import SYNTHETIC_SCHEMA, synthetic_dialogues
from somdst.learn.checkpoints import load_checkpoint
from somdst.learn.encoders import tiny_encoder, tiny_tokenizer
from somdst.learn.model import SomDst
from somdst.learn.settings import load_settings
from somdst.learn.torch_predictor import model_options
from somdst.learn.trainer import Trainer
from somdst.model.encoding import Encoder

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
    "encoder_learning_rate": 3e-3,
    "operation_weight": 10.0,
    "epochs": 60.0,
    "evaluate_every": 30.0,
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
