"""`ModelConfig`: everything about a trained model that is needed to use it, besides its schema and its weights.

It is `config.json` in a model's folder. How a model is trained is `learn/settings.py`'s concern.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

FORMAT_VERSION = 1

Layout = Literal["paper", "compact"]
Normalisation = Literal["multiwoz", "lowercase"]


class ModelConfig(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    format_version: int = Field(default=FORMAT_VERSION, description="version of the folder's layout")
    name: str = Field(default="somdst", description="names the model in logs and audit trails")
    encoder: str = Field(default="minilm", description="where the encoder's first weights came from")
    layout: Layout = Field(default="compact", description="how a turn becomes tokens: as in the paper, or half as long")
    operation_set: str = Field(default="4", description="the operations to choose from: 4, 2, 6, 3-without-delete ...")
    normalisation: Normalisation = Field(default="multiwoz", description="the text rules applied to every utterance")
    max_length: int = Field(
        default=352, ge=16, description="longest input in word pieces; the oldest text is cut first"
    )
    max_value_length: int = Field(default=16, ge=1, description="most word pieces of a generated value")
    history: int = Field(default=1, ge=0, description="how many turns before the current one are read")
    scaled_logits: bool = Field(default=True, description="learned scales on the copy and vocabulary logits")
    lexicon_cutoff: float = Field(
        default=0.0, ge=0, le=1, description="how near a value must be to a known one to become it; 0 never"
    )
    temperature: float = Field(default=1.0, gt=0, description="softens the operation probabilities; fitted on dev")
    pending_threshold: float = Field(
        default=0.0, ge=0, le=1, description="writes less probable than this are held back"
    )
