"""Tiny real models for tests: a WordPiece tokenizer, a schema and an untrained network, made on the spot."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from somdst.corpora.synthetic import SYNTHETIC_SCHEMA
from somdst.memory.dialogue import Turn
from somdst.memory.schema import Schema, Slot
from somdst.memory.state import State
from somdst.model.config import ModelConfig
from somdst.model.encoding import Encoder
from somdst.model.prediction import TurnInput

CHARACTERS = string.ascii_lowercase + string.digits
WORDS = """
    hotel train area name day north south east friday monday the in to on is it i want need please hello yes no
    dont care null sep slot mid tex mex guest house ##ern 10 30 where when which what
"""
TOKENS = [
    *("[PAD]", "[unused0]", "[unused1]", "[unused2]", "[UNK]", "[CLS]", "[SEP]"),
    *";-:'[].,?|",
    *CHARACTERS,
    *(f"##{character}" for character in CHARACTERS),
    *(word for word in WORDS.split() if len(word) > 1),
]
SCHEMA = Schema([Slot.of("hotel", "area"), Slot.of("hotel", "name"), Slot.of("train", "day")])


def tokenizer() -> Tokenizer:
    made = Tokenizer(WordPiece({token: i for i, token in enumerate(TOKENS)}, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = BertNormalizer(lowercase=True), BertPreTokenizer()
    made.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    return made


def encoder(schema: Schema = SCHEMA, **config: Any) -> Encoder:
    """An encoder of text; text rules are those of a user's own data unless something else is said."""
    return Encoder(tokenizer(), schema, ModelConfig.model_validate({"normalisation": "lowercase", **config}))


def turn_input(
    user: str,
    system: str = "",
    *,
    previous: Turn | None = None,
    state: State | None = None,
    older: tuple[Turn, ...] = (),
) -> TurnInput:
    return TurnInput(previous, Turn(system, user), state or State(), older)


def tokens(encoder: Encoder, ids: list[int]) -> str:
    """Ids as readable text, with the special tokens by the names that the paper gives them."""
    names = {encoder.slot: "[SLOT]", encoder.null: "[NULL]", encoder.eos: "[EOS]"}
    return " ".join(names.get(i) or str(encoder.tokenizer.id_to_token(i)) for i in ids)


def model(schema: Schema = SYNTHETIC_SCHEMA, *, seed: int = 3, width: int = 16, **config: Any) -> tuple[Any, Encoder]:
    """An untrained network that does something: (SomDst, Encoder)."""
    import torch

    from somdst.learn.encoders import tiny_encoder
    from somdst.learn.model import SomDst
    from somdst.learn.torch_predictor import model_options

    torch.manual_seed(seed)
    text = encoder(schema, **{"max_value_length": 5, **config})
    made = SomDst(tiny_encoder(text.vocabulary_size, width=width), model_options(text)).eval()
    torch.nn.init.normal_(made.operation_predictor.W_opr.weight, std=1.0)
    # Vectors that differ from each other, as trained ones do: else every slot says the same.
    torch.nn.init.normal_(made.operation_predictor.word_embeddings.weight, std=0.5)
    for weight in (made.value_generator.gru.weight_ih_l0, made.value_generator.gru.weight_hh_l0):
        torch.nn.init.normal_(weight, std=1.0)
    return made, text


def model_folder(path: Path, schema: Schema = SYNTHETIC_SCHEMA, **config: Any) -> Path:
    """A model's folder on the disk."""
    from somdst.learn.checkpoints import save_model

    made, text = model(schema, **config)
    save_model(path, made, text)
    return path
