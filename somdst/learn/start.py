"""What a training starts from: a model and its encoder of text, from a pretrained encoder or from a trained model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from somdst.errors import InputError
from somdst.learn.checkpoints import empty_model, fill, read_weights, upgraded
from somdst.learn.encoders import TINY, load_encoder, load_tokenizer, tiny_encoder, tiny_tokenizer
from somdst.learn.model import SomDst
from somdst.learn.settings import Settings
from somdst.learn.torch_predictor import model_options
from somdst.memory.dialogue import Dialogue
from somdst.memory.schema import Schema
from somdst.model.encoding import Encoder
from somdst.model.folder import ModelFolder
from somdst.model.text import normalise

SHARED = ("layout", "operation_set", "scaled_logits")
"""What a model that goes on from a trained one has in common with it, because its weights depend on it."""


def new_model(settings: Settings, schema: Schema, dialogues: Sequence[Dialogue] = ()) -> tuple[SomDst, Encoder]:
    """A model on a pretrained encoder. The embeddings of [SLOT], [NULL] and [EOS] are random.

    The dialogues are only used by the encoder `tiny`, whose vocabulary is made of their words.
    """
    network, encoder = new_encoder(settings, schema, dialogues)
    model = SomDst(network, model_options(encoder, dropout=settings.dropout))
    with torch.no_grad():
        for token in (encoder.slot, encoder.null, encoder.eos):
            model.operation_predictor.word_embeddings.weight[token].normal_(std=0.02)
    return model, encoder


def new_encoder(settings: Settings, schema: Schema, dialogues: Sequence[Dialogue] = ()) -> tuple[Any, Encoder]:
    """A pretrained encoder and the encoder of text before it."""
    torch.manual_seed(settings.seed)
    dropout, attention_dropout = settings.dropout, settings.attention_dropout
    if settings.encoder == TINY:
        tokenizer = tiny_tokenizer(_texts(dialogues, schema, settings))
        size = tokenizer.get_vocab_size()
        network = tiny_encoder(size, width=64, dropout=dropout, attention_dropout=attention_dropout)
    else:
        tokenizer = load_tokenizer(settings.encoder)
        network = load_encoder(settings.encoder, dropout=dropout, attention_dropout=attention_dropout)
    encoder = Encoder(tokenizer, schema, settings.model())
    _check_length(network, settings)
    return network, encoder


def _texts(dialogues: Iterable[Dialogue], schema: Schema, settings: Settings) -> Iterator[str]:
    """All texts that a model will read or write, normalised as it will see them."""
    yield from (f"{slot.domain} {slot.name}" for slot in schema.slots)
    for turn in (turn for dialogue in dialogues for turn in dialogue.turns):
        yield from (normalise(text, settings.normalisation) for text in (turn.system, turn.user))
        yield from (normalise(str(value), settings.normalisation) for value in (turn.state or {}).values())


def _check_length(network: Any, settings: Settings) -> None:
    longest = getattr(network.config, "max_position_embeddings", 512)
    if settings.max_length > longest:
        raise InputError(f"max_length is {settings.max_length}, but the encoder reads at most {longest} word pieces.")


def from_model(folder: ModelFolder, settings: Settings, schema: Schema) -> tuple[SomDst, Encoder]:
    """A model that goes on from a trained one, for the same slots or others.

    Layout and operations stay those of the trained model. The domain classifier, which belongs to the old schema, is
    random if the domains differ.
    """
    for field in SHARED:
        theirs, ours = getattr(folder.config, field), getattr(settings, field)
        if theirs != ours:
            raise InputError(
                f"The model {folder.path} has {field} {theirs}, and not {ours}: train with the same {field}."
            )
    config = settings.model().model_copy(update={"encoder": folder.config.encoder})
    encoder = Encoder(folder.encoder().tokenizer, schema, config)
    torch.manual_seed(settings.seed)
    model = empty_model(folder, encoder, dropout=settings.dropout, attention_dropout=settings.attention_dropout)
    _check_length(model.operation_predictor.encoder, settings)
    weights, whole = upgraded(read_weights(folder), model)
    if model.options.fixed_schema and schema.domains != folder.schema.domains:
        weights, whole = {name: tensor for name, tensor in weights.items() if ".W_dom." not in name}, False
    fill(model, weights, folder, strict=whole)
    return model, encoder
