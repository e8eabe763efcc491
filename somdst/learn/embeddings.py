"""The word embeddings in int8, with a scale a word: one file that the exported graphs and the weights can share.

Half of a small model's weights are its word embeddings. Where training keeps them as they were, nothing is lost by
storing them once, in the form that the runtime reads: `model.safetensors` then has their scales in their place.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from somdst.folder import EMBEDDINGS

SCALES = ".int8_scales"
"""Put behind a tensor's name: its scales are stored, its rows are in the shared file."""


def quantise_rows(matrix: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """int8 with a scale a row: matrix is about quantised * scale."""
    scales = np.maximum(np.abs(matrix).max(1) / 127, 1e-12).astype(np.float32)
    return np.round(matrix / scales[:, None]).astype(np.int8), scales


def without_embeddings(weights: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    """Weights with scales in place of the embeddings called `name`, whose rows the shared file has."""
    _, scales = quantise_rows(weights[name].float().numpy())
    return {key: tensor for key, tensor in weights.items() if key != name} | {name + SCALES: torch.from_numpy(scales)}


def with_embeddings(weights: dict[str, Tensor], folder: Path) -> dict[str, Tensor]:
    """The weights with the embeddings put back, where they were taken out."""
    for name in [name for name in weights if name.endswith(SCALES)]:
        scales = weights.pop(name)
        rows = np.fromfile(folder / EMBEDDINGS, dtype=np.int8).reshape(len(scales), -1)
        weights[name.removesuffix(SCALES)] = torch.from_numpy(rows.astype(np.float32)) * scales[:, None]
    return weights
