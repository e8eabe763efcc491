"""How a model is trained: every choice, with the sentence that is also the command line's help.

Presets: `paper` has the constants of the paper (section 4.2), `cpu` is made for two cores; docs/experiments.md says
what each choice is worth. The shipped model took several runs of `cpu`: `recipe.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, PrivateAttr, ValidationError

from somdst.errors import InputError, StateError, did_you_mean
from somdst.memory.operations import OperationSet
from somdst.model.config import Design, ModelConfig

Precision = Literal["auto", "bf16", "fp32"]


class Settings(Design):
    """A model's design, which goes into its config.json, and how it is trained."""

    # The loop.
    epochs: float = Field(
        default=6.0, gt=0, description="Passes over the corpus; the learning rate falls to zero over them."
    )
    batch_size: int = Field(default=32, ge=1, description="Turns in an optimiser step, over all processes.")
    accumulation: int = Field(default=1, ge=1, description="Parts a batch is computed in, to save memory.")
    encoder_learning_rate: float = Field(
        default=3e-4, gt=0, description="Peak learning rate of the encoder and its heads."
    )
    decoder_learning_rate: float = Field(
        default=2e-3, gt=0, description="Peak learning rate of the slot value generator."
    )
    warmup: float = Field(default=0.05, ge=0, lt=1, description="Share of the steps in which the learning rate rises.")
    weight_decay: float = Field(default=0.01, ge=0, description="Decay of the encoder's matrices.")
    clip: float = Field(default=1.0, ge=0, description="Largest norm of the gradient; 0 does not clip.")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="Dropout in the encoder and before the classifiers.")
    attention_dropout: float = Field(
        default=0.0, ge=0, lt=1, description="Dropout on attention weights; slow on a CPU."
    )
    word_dropout: float = Field(default=0.1, ge=0, lt=1, description="Share of dialogue pieces replaced by [UNK].")
    spare_values: bool = Field(default=True, description="Never drop a word of a value that is to be written.")
    shuffle_slots: float = Field(default=0.5, ge=0, le=1, description="Share of the examples whose slots are shuffled.")
    teacher_forcing: float = Field(
        default=1.0, ge=0, le=1, description="Share of the batches fed the gold value tokens."
    )
    operation_weight: float = Field(default=1.0, gt=0, description="Weight of the operation loss in the joint loss.")
    freeze_embeddings: bool = Field(default=True, description="Keep the word embeddings as they are.")
    average: float = Field(
        default=0.999, ge=0, lt=1, description="Decay of the weights' running average; 0 takes the last."
    )
    precision: Precision = Field(
        default="auto", description="bf16, fp32, or auto: bf16 where the processor computes in it."
    )
    seed: int = Field(default=0, description="Fixes the order of the batches and every random choice.")

    # Wrong previous states: what the paper's training never shows.
    wrong_states: float = Field(
        default=0.3, ge=0, le=1, description="Share of the examples fed a made-up wrong memory."
    )
    wrong_drop: float = Field(
        default=0.1, ge=0, le=1, description="In those: chance of each filled slot to be emptied."
    )
    wrong_replace: float = Field(
        default=0.1, ge=0, le=1, description="In those: chance of each filled slot to be replaced."
    )
    wrong_add: float = Field(default=0.2, ge=0, le=1, description="In those: chance that a wrong slot is filled.")
    own_states: Path | None = Field(
        default=None, description="Predictions of an earlier model on the corpus, to be fed too."
    )
    own_rate: float = Field(default=0.5, ge=0, le=1, description="Share of the examples fed the memory in own_states.")
    perturb: float = Field(
        default=0.0, ge=0, le=1, description="Share of the examples whose user turn is typed differently."
    )

    # Looking after the run.
    evaluate_every: float = Field(default=0.5, gt=0, description="Epochs between two looks at dev.")
    dev_limit: int = Field(default=0, ge=0, description="Dialogues of dev to look at; 0 takes all.")
    patience: int = Field(
        default=0, ge=0, description="Looks without a better dev accuracy before stopping; 0 never stops."
    )
    checkpoint_minutes: float = Field(default=10.0, gt=0, le=10, description="Minutes between two checkpoints.")

    _chosen: frozenset[str] = PrivateAttr(default=frozenset())

    def is_chosen(self, name: str) -> bool:
        """Whether somebody gave this setting, in a file or as an option: then no preset or default stands for it."""
        return name in self._chosen

    def model(self) -> ModelConfig:
        return ModelConfig.model_validate({key: getattr(self, key) for key in Design.model_fields})


PRESETS: dict[str, dict[str, Any]] = {
    "cpu": {
        "history": 5,
        "operation_weight": 10.0,
        "perturb": 0.1,
        "lexicon_cutoff": 0.75,
        "tell_apart": True,
        "normalisation": "everyday",
    },
    "paper": {
        "encoder": "bert-base-uncased",
        "layout": "paper",
        "max_length": 256,
        "max_value_length": 9,
        "scaled_logits": False,
        "epochs": 30.0,
        "encoder_learning_rate": 4e-5,
        "decoder_learning_rate": 1e-4,
        "warmup": 0.1,
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "spare_values": False,
        "teacher_forcing": 0.5,
        "freeze_embeddings": False,
        "average": 0.0,
        "precision": "fp32",
        "wrong_states": 0.0,
        "perturb": 0.0,
        "evaluate_every": 1.0,
    },
}


def load_settings(
    preset: str, *, run: Mapping[str, Any] | None = None, file: Path | None = None, **overrides: Any
) -> Settings:
    """A preset, changed by what one of several runs does differently, by a YAML file, and by single options."""
    if preset not in PRESETS:
        raise InputError(
            f'There is no preset "{preset}"; there are {", ".join(PRESETS)}.{did_you_mean(preset, PRESETS)}'
        )
    chosen = {**(_read(file) if file else {}), **overrides}
    values = {**PRESETS[preset], **(run or {}), **chosen}
    for key in values:
        if key not in Settings.model_fields:
            raise InputError(f'There is no setting "{key}".{did_you_mean(key, Settings.model_fields)}')
    try:
        settings = Settings.model_validate(values)
        OperationSet.named(settings.operation_set)
        settings._chosen = frozenset(chosen)
        return settings
    except StateError as error:
        raise InputError(str(error)) from error
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"The setting {'.'.join(map(str, first['loc']))} is wrong: {first['msg']}.") from error


def _read(file: Path) -> dict[str, Any]:
    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"Cannot read the settings {file}: {' '.join(str(error).split())}.") from error
    if not isinstance(data, dict):
        raise InputError(f"The settings {file} must be a mapping such as `epochs: 4`.")
    return {str(key): value for key, value in data.items()}
