"""How a system is built, trained by the loop of `learn/`, stored and loaded.

A system's folder is a model's folder like any other, with `ontology.json` beside it; `config.json` says which system
it is. Examples are those of SOM-DST: the same turns, the same wrong memories for the systems that read the memory,
words dropped and typed differently at the same rates.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from somdst.baselines.catalogue import Listed, find
from somdst.baselines.ontology import FILE, Ontology
from somdst.baselines.system import Batch, Recurrent, Shown, System
from somdst.baselines.system_predictor import SystemPredictor
from somdst.learn.batches import Batches, Example, ExampleSource, examples_of
from somdst.learn.checkpoints import empty_encoder, fill, read_weights, save_model
from somdst.learn.kinds import Kind
from somdst.learn.noise import ValuePool, drop_words
from somdst.learn.settings import Settings
from somdst.learn.start import new_encoder
from somdst.memory.dialogue import Dialogue
from somdst.memory.schema import Schema
from somdst.memory.state import State
from somdst.model.encoding import Encoder
from somdst.model.folder import ModelFolder
from somdst.model.prediction import Predictor
from somdst.model.values import Lexicon
from somdst.tracking.records import WINDOW

NEEDS: dict[str, dict[str, int]] = {
    "history": {"history": WINDOW, "max_length": 512},
    "turns": {"history": WINDOW, "batch_size": 4},  # whole dialogues, of about eight turns each
    "turn with state": {"history": 0},
    "slots with history": {"history": WINDOW, "max_length": 512},
}
"""Settings that follow from how the encoder is fed, where nobody chose something else."""


def kind_of(name: str) -> Kind:
    return SystemKind(find(name))


class SystemKind(Kind):
    """Any system of the catalogue but SOM-DST."""

    def __init__(self, entry: Listed) -> None:
        self.entry = entry
        self.made: type[System] = entry.load()

    def settings(self, settings: Settings) -> Settings:
        needs = {"name": self.entry.name, **NEEDS[self.entry.feeding]}
        return settings.model_copy(update={k: v for k, v in needs.items() if k not in settings.model_fields_set})

    def new_model(self, settings: Settings, schema: Schema, dialogues: Sequence[Dialogue]) -> tuple[System, Encoder]:
        network, encoder = new_encoder(settings, schema, dialogues)
        with torch.no_grad():
            for token in (encoder.slot, encoder.null, encoder.eos):
                network.get_input_embeddings().weight[token].normal_(std=0.02)
        ontology = Ontology.collect(dialogues, schema)
        system = self.made(self.entry, network, encoder, ontology, dropout=settings.dropout)
        system.start()
        return system, encoder

    def source(self, dialogues: Sequence[Dialogue], schema: Schema) -> ExampleSource | None:
        return WholeDialogues(dialogues, schema) if issubclass(self.made, Recurrent) else None

    def batches(self, source: ExampleSource, encoder: Encoder, settings: Settings, model: Any) -> Batches:
        return SystemBatches(source, encoder, settings, model)

    def predictor(self, model: Any, encoder: Encoder, *, precision: str, lexicon: Lexicon) -> Predictor:
        return SystemPredictor(model, precision=precision, lexicon=lexicon)

    def choose(self, predictor: Predictor, dev: Sequence[Dialogue]) -> None:
        assert isinstance(predictor, SystemPredictor)
        predictor.system.choose(predictor, dev)

    def save(
        self, out: Path, model: Any, encoder: Encoder, *, lexicon: Lexicon, metrics: Mapping[str, Any] | None
    ) -> None:
        save_model(out, model, encoder, lexicon=lexicon, metrics=metrics, more={FILE: model.ontology.to_json()})


def load_system(folder: ModelFolder) -> System:
    entry, encoder, network = find(folder.config.system), folder.encoder(), empty_encoder(folder)
    system: System = entry.load()(entry, network, encoder, Ontology.load(folder.path, folder.schema), dropout=0.0)
    fill(system, read_weights(folder), folder)
    return system.eval()


class WholeDialogues:
    """One example per dialogue, for recurrent systems: its last turn, or the last of as many turns as are read."""

    def __init__(self, dialogues: Sequence[Dialogue], schema: Schema) -> None:
        pool = ValuePool.collect(dialogues, schema)
        examples = (list(examples_of(dialogue, schema, pool))[: WINDOW + 1] for dialogue in dialogues)
        self._examples = [some[-1] for some in examples if some]

    def examples(self, epoch: int) -> Sequence[Example]:
        return self._examples

    @property
    def turns(self) -> int:
        return len(self._examples)


class SystemBatches(Batches):
    """The batches of a run, as the system reads them."""

    def __init__(self, source: ExampleSource, encoder: Encoder, settings: Settings, system: System) -> None:
        super().__init__(source, encoder, settings)
        self.system = system

    def tensors(self, indices: Sequence[int], epoch: int) -> Batch:  # type: ignore[override]
        return self.system.batch([self._shown(index, epoch) for index in indices])

    def _shown(self, index: int, epoch: int) -> Shown:
        example, settings = self.examples(epoch)[index], self.settings
        rng = random.Random(f"example {settings.seed} {epoch} {index}")
        fed = self._fed_state(example, rng) if self.system.entry.feeding == "turn with state" else example.before
        goal = self._goal(example, fed)
        encodings = self.system.read(self._input(example, fed, rng))
        goals = self._goals(example, len(encodings))
        if settings.word_dropout:
            rules = self.encoder.table().rules
            spared = {
                piece
                for state in (goals if settings.spare_values else ())
                for value in state.values()
                for piece in self.encoder.encode_value(value, rules)
            }
            drop: dict[str, Any] = {"rate": settings.word_dropout, "unk": self.encoder.unk, "rng": rng}
            encodings = [drop_words(encoding, spared=spared, **drop) for encoding in encodings]
        return Shown(encodings, fed, goal, [*goals[:-1], goal])

    def _goals(self, example: Example, turns: int) -> list[State]:
        states = example.dialogue.states()[example.number + 1 - turns : example.number + 1]
        return [state.within(example.schema) for state in states]
