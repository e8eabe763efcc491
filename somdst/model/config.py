"""`ModelConfig`: everything about a trained model that is needed to use it, besides its schema and its weights.

It is `config.json` in a model's folder. Does not say how a model is trained; see `learn/settings.py`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from somdst.memory.schema import TextRules

FORMAT_VERSION = 2

Layout = Literal["paper", "compact"]
SlotNames = Literal["none", "others", "all"]
SOM_DST = "som-dst"


class Design(BaseModel):
    """What is chosen before a model is trained, and stays with it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(default="somdst", description="Name of the model in logs and audit trails.")
    system: str = Field(
        default=SOM_DST, description="Which system it is: som-dst, or another one that `somdst systems` lists."
    )
    encoder: str = Field(default="minilm", description="Encoder to start from: a hub name, a folder, minilm or tiny.")
    layout: Layout = Field(
        default="compact",
        description="How the memory becomes tokens: compact (one token per slot, any schema) or paper (names as text).",
    )
    slot_names: SlotNames = Field(
        default="none",
        description="Slots' names in the input, up to 120 pieces: none, all, or others (schemas other than its own).",
    )
    operation_set: str = Field(
        default="4",
        coerce_numbers_to_str=True,
        description="Operations: 4, 2, 3-without-delete, 3-without-dontcare, 6.",
    )
    normalisation: TextRules = Field(
        default="lowercase", description="Text rules where the schema names none: lowercase, everyday or multiwoz."
    )
    max_length: int = Field(
        default=352, ge=16, description="Longest input in word pieces; the oldest text is cut first."
    )
    max_value_length: int = Field(default=16, ge=2, description="Most word pieces of a value, its end included.")
    history: int = Field(default=1, ge=0, le=16, description="Turns before the current one that are read.")
    scaled_logits: bool = Field(
        default=True, description="Learned scales on copy and vocabulary logits, gate towards copying."
    )
    lexicon_cutoff: float = Field(
        default=0.0, ge=0, le=1, description="How near a value must be to a known one to become it; 0 never."
    )
    tell_apart: bool = Field(
        default=False,
        description="Slots that are `different` in the schema get other values; the same words fill one slot.",
    )


class ModelConfig(Design):
    format_version: int = Field(default=FORMAT_VERSION, description="Version of the folder's layout.")
    temperature: float = Field(default=1.0, gt=0, description="Softens the probability of a change; fitted on dev.")
    pending_threshold: float = Field(
        default=0.0, ge=0, le=1, description="Writes less probable than this are held back."
    )

    @property
    def fixed_schema(self) -> bool:
        """Whether the model tracks only the slots it was trained with: the paper's layout, and models of format 1."""
        return self.layout == "paper" or self.format_version < 2
