"""`TorchPredictor`: a trained model as a `Predictor`, on torch. Does not load weights; see `checkpoints.py`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from somdst.learn.model import ModelOptions, SomDst
from somdst.learn.tensors import Batch
from somdst.memory.operations import OperationSet
from somdst.model.compiled import Floats, Ints
from somdst.model.encoding import Encoder
from somdst.model.folder import WEIGHTS, ModelFolder
from somdst.model.predictor import Arrays, Bools, EncoderRun, GeneratorRun, ModelPredictor
from somdst.model.values import Lexicon


def model_options(encoder: Encoder, *, dropout: float = 0.0) -> ModelOptions:
    operation_set = OperationSet.named(encoder.config.operation_set)
    return ModelOptions(
        operations=len(operation_set.operations),
        domains=len(encoder.schema.domains),
        eos=encoder.eos,
        fixed_schema=encoder.config.fixed_schema,
        scaled_logits=encoder.config.scaled_logits,
        dropout=dropout,
    )


class TorchPredictor(ModelPredictor):
    def __init__(
        self,
        model: SomDst,
        encoder: Encoder,
        *,
        model_id: str = "somdst-torch",
        precision: str = "fp32",
        lexicon: Lexicon | None = None,
    ) -> None:
        super().__init__(encoder, model_id=model_id, lexicon=lexicon)
        self.model, self.precision = model, precision

    @classmethod
    def from_folder(cls, folder: ModelFolder, *, precision: str = "", threads: int | None = None) -> TorchPredictor:
        """Precision and threads are those of torch itself."""
        from somdst.learn.checkpoints import load_model

        folder = folder.upgraded()
        encoder = folder.encoder()
        model = load_model(folder, encoder)
        return cls(model, encoder, model_id=folder.model_id(WEIGHTS), lexicon=folder.lexicon())

    @classmethod
    def open(cls, path_or_name: str | Path = "default") -> TorchPredictor:
        return cls.from_folder(ModelFolder.open(path_or_name))

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16")

    @torch.inference_mode()
    def run_texts(self, texts: Sequence[Sequence[int]]) -> Floats:
        self.model.eval()
        pooled = []
        with self._autocast():
            for text in texts:
                ids = torch.tensor([list(text)], device=self.device)
                pooled.append(self.model.operation_predictor.pool(ids, torch.ones_like(ids, dtype=torch.bool)))
        found: Floats = torch.cat(pooled).float().cpu().numpy()
        return found

    @torch.inference_mode()
    def project(self, pooled: Floats, names: Ints) -> tuple[Floats, Floats]:
        given = torch.from_numpy(pooled).to(self.device), torch.from_numpy(names).to(self.device)
        slots, values = self.model.operation_predictor.reader(*given, self.model.operation_predictor.word_embeddings)
        return slots.float().cpu().numpy(), values.float().cpu().numpy()

    @torch.inference_mode()
    def run_encoder(self, arrays: Arrays, *, alone: bool = False) -> EncoderRun:
        self.model.eval()
        given = [None if array is None else torch.from_numpy(array).to(self.device) for array in arrays]
        batch = Batch(*given)  # type: ignore[arg-type]
        with self._autocast():
            encoded = self.model.encode(batch)
        operations, domain = (logits.float().cpu().numpy() for logits in (encoded.operations, encoded.domain))
        queries = None if encoded.queries is None else encoded.queries.float().cpu().numpy()
        return EncoderRun(operations, domain, queries, (batch, encoded))

    @torch.inference_mode()
    def run_generator(
        self, arrays: Arrays, context: Any, owners: Ints, slots: Ints, *, mask: Bools | None = None
    ) -> GeneratorRun:
        batch, encoded = context
        with self._autocast():
            generated = self.model.generate(
                batch,
                encoded,
                torch.from_numpy(np.ascontiguousarray(owners)).to(self.device),
                torch.from_numpy(np.ascontiguousarray(slots)).to(self.device),
                steps=self.config.max_value_length,
                mask=None if mask is None else torch.from_numpy(mask).to(self.device),
            )
        return GeneratorRun(
            generated.tokens.cpu().numpy(),
            generated.probability.float().cpu().numpy(),
            generated.positions.cpu().numpy(),
        )
