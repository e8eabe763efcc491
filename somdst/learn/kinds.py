"""`Kind`: how a system is built, fed, evaluated and stored. The training loop is the same for all systems.

The class itself is SOM-DST. The other systems are in `baselines/`, a room above this one, and are found by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from somdst.learn.batches import Batches, ExampleSource
from somdst.learn.checkpoints import save_model
from somdst.learn.settings import Settings
from somdst.learn.start import new_model
from somdst.learn.torch_predictor import TorchPredictor
from somdst.memory.dialogue import Dialogue
from somdst.memory.schema import Schema
from somdst.model.config import SOM_DST
from somdst.model.encoding import Encoder
from somdst.model.prediction import Predictor
from somdst.model.values import Lexicon


class Kind:
    """SOM-DST."""

    def settings(self, settings: Settings) -> Settings:
        """The settings, with what this system needs where nobody chose something else."""
        return settings

    def new_model(self, settings: Settings, schema: Schema, dialogues: Sequence[Dialogue]) -> tuple[Any, Encoder]:
        return new_model(settings, schema, dialogues)

    def source(self, dialogues: Sequence[Dialogue], schema: Schema) -> ExampleSource | None:
        """Where examples come from, if not each turn of the dialogues is one."""
        return None

    def batches(self, source: ExampleSource, encoder: Encoder, settings: Settings, model: Any) -> Batches:
        return Batches(source, encoder, settings)

    def predictor(self, model: Any, encoder: Encoder, *, precision: str, lexicon: Lexicon) -> Predictor:
        return TorchPredictor(model, encoder, precision=precision, lexicon=lexicon)

    def choose(self, predictor: Predictor, dev: Sequence[Dialogue]) -> None:
        """What a system chooses on dev before each evaluation."""

    def save(
        self, out: Path, model: Any, encoder: Encoder, *, lexicon: Lexicon, metrics: Mapping[str, Any] | None
    ) -> None:
        save_model(out, model, encoder, lexicon=lexicon, metrics=metrics)


def kind_of(system: str) -> Kind:
    if system == SOM_DST:
        return Kind()
    kind: Kind = import_module("somdst.baselines.fitting").kind_of(system)
    return kind
