"""How a training starts: the model and its encoder of text, from a pretrained encoder or from a trained model."""

from __future__ import annotations

import torch

from somdst.encoding import Encoder
from somdst.errors import InputError
from somdst.folder import ModelFolder
from somdst.learn.checkpoints import empty_model, read_weights
from somdst.learn.encoders import load_encoder, load_tokenizer
from somdst.learn.model import SomDst
from somdst.learn.predictor import model_options
from somdst.learn.settings import Settings
from somdst.schema import Schema


def new_model(settings: Settings, schema: Schema) -> tuple[SomDst, Encoder]:
    """A model on a pretrained encoder; the rows of [SLOT], [NULL] and [EOS] are drawn anew."""
    encoder = Encoder(load_tokenizer(settings.encoder), schema, settings.model())
    torch.manual_seed(settings.seed)
    network = load_encoder(settings.encoder, dropout=settings.dropout, attention_dropout=settings.attention_dropout)
    longest = getattr(network.config, "max_position_embeddings", 512)
    if settings.max_length > longest:
        raise InputError(f"max_length is {settings.max_length}, and the encoder reads {longest} word pieces at most.")
    model = SomDst(network, model_options(encoder, dropout=settings.dropout))
    with torch.no_grad():
        for token in (encoder.slot, encoder.null, encoder.eos):
            model.operation_predictor.word_embeddings.weight[token].normal_(std=0.02)
    return model, encoder


def from_model(folder: ModelFolder, settings: Settings, schema: Schema) -> tuple[SomDst, Encoder]:
    """A model that goes on from a trained one, for the same slots or others.

    Layout and operations stay the trained model's; what belongs to the old schema alone, the domain classifier, is
    drawn anew where the domains differ.
    """
    if folder.config.layout != settings.layout or folder.config.operation_set != settings.operation_set:
        raise InputError(
            f"The model {folder.path} has the layout {folder.config.layout} and the operation set "
            f"{folder.config.operation_set}: train on with the same."
        )
    encoder = Encoder(folder.encoder().tokenizer, schema, settings.model())
    torch.manual_seed(settings.seed)
    model = empty_model(folder, encoder, dropout=settings.dropout)
    weights = read_weights(folder)
    if schema.domains != folder.schema.domains:
        weights = {name: tensor for name, tensor in weights.items() if ".W_dom." not in name}
    model.load_state_dict(weights, strict=False)
    return model, encoder
