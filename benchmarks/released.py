"""A model of BERT-base's size, run the way the authors' released code runs it: the yardstick of `turns.py`.

Float32, every input padded to 256, slots generated one after the other, always nine steps. Its weights are random,
which costs the same time; the number of slots to generate is given, as many as are really updated.
"""

from __future__ import annotations

import torch
from transformers import BertConfig, BertModel

from somdst.learn.model import ModelOptions, SomDst
from somdst.learn.naive import generate_one
from somdst.learn.tensors import Batch
from somdst.model.config import ModelConfig
from somdst.model.encoding import Encoder
from somdst.model.prediction import TurnInput
from somdst.model.predictor import pad

LENGTH, STEPS = 256, 9


class ReleasedWay:
    """Not a `Predictor`: it only spends the time. `layers` and `width` are BERT-base's unless a test says otherwise."""

    def __init__(self, encoder: Encoder, *, layers: int = 12, width: int = 768) -> None:
        config = ModelConfig(layout="paper", max_length=LENGTH, scaled_logits=False, encoder="bert-base-uncased")
        self.encoder = Encoder(encoder.tokenizer, encoder.schema, config)
        shape = BertConfig(
            vocab_size=encoder.vocabulary_size,
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=width // 64 or 1,
            intermediate_size=4 * width,
        )
        domains = len(encoder.schema.domains)
        options = ModelOptions(operations=4, domains=domains, eos=-1, fixed_schema=True, scaled_logits=False)
        self.model = SomDst(BertModel(shape, add_pooling_layer=False), options).eval()

    @torch.inference_mode()
    def run(self, input: TurnInput, updates: int) -> int:
        """One turn, with this many slots generated; gives the number of tokens that were."""
        encoding = self.encoder.encode(input)
        arrays = pad([encoding], pad_id=self.encoder.pad, multiple=LENGTH)
        batch = Batch(*map(torch.from_numpy, arrays[:5]))  # type: ignore[arg-type]
        encoded = self.model.encode(batch)
        encoded.operations.softmax(-1).argmax(-1)
        # No token is the end (eos is -1), so that every slot takes all nine steps.
        values = [generate_one(self.model, batch, encoded, 0, slot, steps=STEPS) for slot in range(updates)]
        return sum(map(len, values))
