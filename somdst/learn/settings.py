"""`Settings`: every choice of a training run, each with the sentence that `somdst train --settings` prints.

The defaults, which are also the preset `cpu`, are made for two CPU cores. The preset `paper` has the constants of the
paper (section 4.2). docs/experiments.md says what was compared, and why choices that made no difference are constants
and not settings.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationError

from somdst.errors import InputError, StateError, did_you_mean, no_such
from somdst.memory.operations import OperationSet
from somdst.memory.schema import TextRules
from somdst.model.config import Design, ModelConfig
from somdst.tracking.records import WINDOW

Precision = Literal["auto", "bf16", "fp32"]


class Settings(Design):
    """A model's design, which goes into its config.json, and how the model is trained."""

    # What a new model is designed like; `Design` has the defaults of folders that do not say it.
    history: int = Field(
        default=5, ge=0, le=WINDOW, description=f"Turns before the current one that are read; at most {WINDOW}."
    )
    normalisation: TextRules = Field(
        default="everyday",
        description="Text rules if the schema names none: lowercase, everyday or multiwoz. Chosen by the slots.",
    )
    lexicon_cutoff: float = Field(
        default=0.75, ge=0, le=1, description="How near a value must be to a known one to become it; 0 never."
    )
    tell_apart: bool = Field(
        default=True,
        description="Slots that are `different` in the schema get other values; the same words fill one slot.",
    )

    # The loop.
    epochs: float = Field(
        default=6.0, gt=0, description="Passes over the corpus; the learning rate falls to zero over them."
    )
    batch_size: int = Field(default=32, ge=1, description="Turns in an optimiser step, over all processes.")
    accumulation: int = Field(default=1, ge=1, description="Parts that a batch is computed in, to save memory.")
    encoder_learning_rate: float = Field(
        default=3e-4, gt=0, description="Peak learning rate of the encoder and its heads."
    )
    decoder_learning_rate: float = Field(
        default=2e-3, gt=0, description="Peak learning rate of the slot value generator."
    )
    warmup: float = Field(default=0.05, ge=0, lt=1, description="Share of the steps in which the learning rate rises.")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="Dropout in the encoder and before the classifiers.")
    attention_dropout: float = Field(
        default=0.0, ge=0, lt=1, description="Dropout on attention weights; slow on a CPU."
    )
    word_dropout: float = Field(default=0.1, ge=0, lt=1, description="Share of word pieces replaced by [UNK].")
    spare_values: bool = Field(default=True, description="Never drop a word of a value that is to be written.")
    shuffle_slots: float = Field(default=0.5, ge=0, le=1, description="Share of the examples whose slots are shuffled.")
    teacher_forcing: float = Field(
        default=1.0, ge=0, le=1, description="Share of the batches in which the generator is fed the gold value."
    )
    operation_weight: float = Field(default=10.0, gt=0, description="Weight of the operation loss in the joint loss.")
    freeze_embeddings: bool = Field(default=True, description="Keep the word embeddings as they are.")
    average: float = Field(
        default=0.999, ge=0, lt=1, description="Decay of the running average of the weights; 0 takes the last weights."
    )
    keep_start: float = Field(
        default=0.0, ge=0, lt=1, description="Share of the old weights in the result, if it goes on from a model."
    )
    precision: Precision = Field(
        default="auto", description="bf16, fp32, or auto: bf16 if the processor has instructions for it."
    )
    seed: int = Field(default=0, description="Fixes the order of the batches and every random choice.")

    # Wrong memories and other texts, which the paper's training never shows.
    wrong_states: float = Field(
        default=0.3, ge=0, le=1, description="Share of the examples fed a made-up wrong memory."
    )
    own_states: Path | None = Field(
        default=None,
        description="Predictions of an earlier model on the corpus (`somdst evaluate --save`), fed as memories too.",
    )
    own_rate: float = Field(
        default=0.5, ge=0, le=1, description="Share of the examples fed the memory in own_states, if it is given."
    )
    perturb: float = Field(
        default=0.1, ge=0, le=1, description="Share of the examples whose user turn is typed differently."
    )

    # Other corpora to learn from besides.
    mix: str = Field(
        default="",
        description="Other corpora and their shares of the turns: sgd.zip=0.3,domains=0.4; the rest is the corpus.",
    )
    mix_turns: int = Field(
        default=0, ge=0, description="Turns per epoch with mix; 0 takes as many as the corpus itself has."
    )
    paraphrases: Path | None = Field(
        default=None, description="With mix: SGD-X, other names and descriptions for the services of SGD."
    )

    # Evaluations and checkpoints.
    evaluate_every: float = Field(default=0.5, gt=0, description="Epochs between two evaluations on dev.")
    dev_limit: int = Field(default=0, ge=0, description="Evaluate on this many dialogues of dev; 0 takes all.")
    patience: int = Field(
        default=0, ge=0, description="Stop after this many evaluations without improvement; 0 never stops early."
    )
    checkpoint_minutes: float = Field(default=10.0, gt=0, le=10, description="Minutes between two checkpoints.")

    def model(self) -> ModelConfig:
        """The part that goes into the model's config.json."""
        return ModelConfig.model_validate({key: getattr(self, key) for key in Design.model_fields})


PRESETS: dict[str, dict[str, Any]] = {
    "cpu": {},
    "paper": {
        "encoder": "bert-base-uncased",
        "layout": "paper",
        "history": 1,
        "normalisation": "multiwoz",
        "lexicon_cutoff": 0.0,
        "tell_apart": False,
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
        "operation_weight": 1.0,
        "freeze_embeddings": False,
        "average": 0.0,
        "precision": "fp32",
        "wrong_states": 0.0,
        "perturb": 0.0,
        "evaluate_every": 1.0,
    },
}


def load_settings(preset: str = "cpu", *, file: Path | None = None, **changes: Any) -> Settings:
    """A preset, changed by a YAML file and then by single settings. Errors are sentences.

    >>> load_settings("paper", epochs=4).epochs
    4.0
    """
    if preset not in PRESETS:
        raise InputError(no_such("preset", preset, PRESETS))
    chosen = {**(_read(file) if file else {}), **changes}
    values = {**PRESETS[preset], **chosen}
    for key in values:
        if key not in Settings.model_fields:
            raise InputError(f'There is no setting "{key}".{did_you_mean(key, Settings.model_fields)}')
    try:
        settings = Settings.model_validate(values)
        OperationSet.named(settings.operation_set)
    except StateError as error:
        raise InputError(str(error)) from error
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"The setting {'.'.join(map(str, first['loc']))} is wrong: {first['msg']}.") from error
    settings.model_fields_set.intersection_update(chosen)  # the values of a preset are nobody's own choice
    return settings


def parse_assignments(texts: Iterable[str]) -> dict[str, str]:
    """Settings given as text.

    >>> parse_assignments(["dropout=0.1", "layout=paper"])
    {'dropout': '0.1', 'layout': 'paper'}
    """
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        key = key.replace("-", "_")
        if not equals or not key:
            raise InputError(f'Give a setting as key=value, such as dropout=0.1, and not as "{text}".')
        if key in found:
            raise InputError(f"The setting {key} is given twice.")
        found[key] = value
    return found


def _read(file: Path) -> dict[str, Any]:
    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"Cannot read the settings {file}: {' '.join(str(error).split())}.") from error
    if not isinstance(data, dict):
        raise InputError(f"The settings {file} must be a mapping such as `epochs: 4`.")
    return {str(key): value for key, value in data.items()}
