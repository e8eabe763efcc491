"""What moves the weights: the optimiser, its learning rates, and the running average of the weights.

The loop that uses them is in `trainer.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from somdst.learn.settings import Settings

WEIGHT_DECAY = 0.01
"""Of the encoder's matrices, as BERT was trained with."""
CLIP = 1.0
"""Largest norm of the gradient."""

Average = dict[str, Tensor]
"""The running average of every trained parameter, by name."""


def trained(model: Any) -> Iterator[tuple[str, Tensor]]:
    """The parameters that change in training."""
    return ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)


def make_optimizer(model: Any, settings: Settings) -> torch.optim.AdamW:
    """AdamW with the paper's two learning rates; only the encoder's matrices decay."""
    if settings.freeze_embeddings:
        model.text_encoder.word_embeddings.weight.requires_grad_(False)
    matrices: list[Tensor] = []
    others: list[Tensor] = []
    decoder: list[Tensor] = []
    for name, parameter in trained(model):
        if model.in_decoder(name):
            decoder.append(parameter)
        else:
            (matrices if parameter.dim() > 1 else others).append(parameter)
    groups = [
        {"params": matrices, "peak": settings.encoder_learning_rate, "weight_decay": WEIGHT_DECAY},
        {"params": others, "peak": settings.encoder_learning_rate, "weight_decay": 0.0},
        {"params": decoder, "peak": settings.decoder_learning_rate, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=0.0, eps=1e-6, fused=True)


def schedule(progress: float, warmup: float) -> float:
    """Rises linearly to 1 over the warm-up, then falls linearly to 0."""
    if progress < warmup:
        return progress / warmup
    return max(0.0, (1 - progress) / (1 - warmup))


@torch.no_grad()
def update_average(average: Average, model: Any, decay: float, step: int) -> None:
    # The decay starts small, so that the untrained weights soon have no part in the average.
    decay = min(decay, (1 + step) / (10 + step))
    names, current = zip(*trained(model), strict=True)
    torch._foreach_lerp_([average[name] for name in names], list(current), 1 - decay)


@torch.no_grad()
def blended(weights: Average, start: Average, share: float) -> Average:
    """The mean of two sets of weights, with this share of the second."""
    return {name: torch.lerp(tensor, start[name], share) for name, tensor in weights.items()}


@contextmanager
def averaged(model: Any, average: Average | None) -> Iterator[None]:
    """The model with its averaged weights, for as long as the context lasts."""
    if average is None:
        yield
        return
    kept = {name: parameter.detach().clone() for name, parameter in trained(model)}
    _assign(model, average)
    try:
        yield
    finally:
        _assign(model, kept)


@torch.no_grad()
def _assign(model: Any, weights: Average) -> None:
    for name, parameter in trained(model):
        parameter.copy_(weights[name])
