"""`train`: learn a tracker from labelled dialogues, from a corpus to a model's folder.

    somdst train CORPUS OUT                                  one process
    torchrun --nproc-per-node 2 -m somdst train CORPUS OUT   several processes, which share every batch

The loop itself is in `trainer.py`. A run that was stopped goes on when `train` is called again with the same arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from somdst.corpora.opening import normalisation_for
from somdst.errors import InputError
from somdst.evaluate.metrics import joint_goal_accuracy
from somdst.evaluate.run import run
from somdst.evaluate.saved import load
from somdst.learn import machine
from somdst.learn.batches import OwnStates
from somdst.learn.budget import within_minutes
from somdst.learn.encoders import check_encoder
from somdst.learn.kinds import kind_of
from somdst.learn.mixture import read_mixture
from somdst.learn.progress import Listener, Phase, silent
from somdst.learn.settings import Settings
from somdst.learn.start import SHARED, from_model
from somdst.learn.task import Source, Task, read_task
from somdst.learn.trainer import Trainer
from somdst.memory.dialogue import Dialogue, count_turns
from somdst.memory.schema import Schema
from somdst.model.config import SOM_DST
from somdst.model.encoding import Encoder
from somdst.model.folder import ModelFolder
from somdst.model.prediction import Predictor

GOING_ON = {"encoder_learning_rate": 5e-5, "decoder_learning_rate": 3e-4, "keep_start": 0.5}
"""Settings of a run that goes on from a model: small steps, and half of the old weights in the result. With larger
steps and new weights alone, a few dialogues make a model forget much else (docs/experiments.md)."""


@dataclass(frozen=True, slots=True)
class TrainResult:
    model: Path
    """The model's folder, with the best weights so far."""
    finished: bool
    """False if a signal stopped the run; the same call goes on."""
    step: int
    minutes: float
    """Minutes of training, evaluations on dev included."""
    dev_joint_goal_accuracy: float | None
    """The best accuracy on dev, in percent. None without dev."""
    empty_state_accuracy: float | None
    """The accuracy on dev of a tracker that never writes anything."""

    @property
    def hint(self) -> str | None:
        """What to do if the model has learned nothing useful."""
        accuracy, empty = self.dev_joint_goal_accuracy, self.empty_state_accuracy
        if not self.finished or accuracy is None or empty is None or accuracy > empty:
            return None
        return (
            f"The model is not better than a tracker that never writes anything, which has {empty:.2f} on dev: train "
            "for more epochs, with more dialogues, or start from a trained model."
        )


def train(
    corpus: Source | Task,
    out: str | Path,
    *,
    dev: Source | None = None,
    schema: Schema | str | Path | None = None,
    start_from: str | Path | None = None,
    settings: Settings | None = None,
    minutes: float | None = None,
    limit: int = 0,
    skip_unknown: bool = False,
    progress: Listener = silent,
) -> TrainResult:
    """Train a tracker in the folder `out`, or go on with the run that is there.

    `dev`, `schema`, `limit` and `skip_unknown` say what to read, as in `read_task`; a `Task` is used as it is.
    `start_from` is a trained model to go on from. With `minutes`, the speed is measured first and the run gets as many
    epochs as fit into that time. SIGINT and SIGTERM stop the run after the step it is in, with a checkpoint.
    """
    machine.prepare()
    chosen, out = settings or Settings(), Path(out)
    kind = kind_of(chosen.system)
    start = ModelFolder.open(start_from) if start_from else None
    if start is not None and chosen.system != SOM_DST:
        raise InputError(f"A {chosen.system} starts from a pretrained encoder: leave out the model to go on from.")
    if start is None:
        if chosen.keep_start:
            raise InputError("keep_start needs a model to go on from: give one, or leave it out.")
        check_encoder(chosen.encoder)
    task = read_task(corpus, dev, schema=schema, limit=limit, skip_unknown=skip_unknown)
    fit = kind.settings(fitted(chosen, task.schema, start))

    if fit.mix and (fit.system != SOM_DST or fit.layout == "paper"):
        raise InputError("mix needs a model that reads schemas: SOM-DST in the compact layout.")

    def first_model() -> tuple[Any, Encoder]:
        return from_model(start, fit, task.schema) if start else kind.new_model(fit, task.schema, task.dialogues)

    own_states = _own_states(fit.own_states)
    source = read_mixture(task, fit, own_states) if fit.mix else kind.source(task.dialogues, task.schema)
    if minutes is not None:
        fit = within_minutes(minutes, fit, task, out, first_model, progress, source=source)
    model, encoder = first_model()
    dev_dialogues = task.first_dev(fit.dev_limit)
    trainer = Trainer(
        model,
        encoder,
        fit,
        task.dialogues,
        out,
        evaluate=evaluator(dev_dialogues, progress, kind.choose) if dev_dialogues else None,
        report=progress,
        own_states=own_states,
        source=source,
    )
    outcome = trainer.run()
    machine.release_memory()
    return TrainResult(
        model=out,
        finished=outcome.finished,
        step=outcome.step,
        minutes=outcome.seconds / 60,
        dev_joint_goal_accuracy=outcome.best if outcome.best >= 0 else None,
        empty_state_accuracy=empty_state_accuracy(dev_dialogues, task.schema),
    )


def fitted(settings: Settings, schema: Schema, start: ModelFolder | None = None) -> Settings:
    """The settings, with what nobody chose taken from the schema and from the model to go on from.

    Text rules are those of that model if it knows the same slots, the preset's for MultiWOZ, and lowercase for any
    other schema, because MultiWOZ's rules would take the hyphens out of other people's values.
    """
    chosen = settings.model_fields_set
    found: dict[str, object] = {}
    if start is not None:
        found = {name: getattr(start.config, name) for name in SHARED if name not in chosen}
        found |= {name: value for name, value in GOING_ON.items() if name not in chosen}
        if "slot_names" not in chosen:  # it knows its own slots by heart, and no others
            names = start.config.slot_names
            found["slot_names"] = "all" if names == "others" and start.schema != schema else names
    if "normalisation" not in chosen:
        if start is not None and start.schema == schema:
            found["normalisation"] = start.config.normalisation
        elif settings.mix and schema.text_rules:  # these are for schemas that name none, such as those of the mixture
            found["normalisation"] = "lowercase"
        else:
            found["normalisation"] = normalisation_for(schema, of_multiwoz=settings.normalisation)
    return settings.model_copy(update=found)


def evaluator(
    dialogues: Sequence[Dialogue],
    progress: Listener,
    choose: Callable[[Predictor, Sequence[Dialogue]], None],
) -> Callable[[Predictor], float]:
    """A function that measures the joint goal accuracy of a predictor on these dialogues, in percent.
    Before that, `choose` lets a system choose what it needs to on dev."""
    turns = count_turns(dialogues)

    def evaluate(predictor: Predictor) -> float:
        choose(predictor, dialogues)
        phase = Phase("evaluating on dev", turns, progress)
        return joint_goal_accuracy(run(predictor, dialogues, batch_size=64, progress=phase.advance))

    return evaluate


def _own_states(path: Path | None) -> OwnStates | None:
    if path is None:
        return None
    return {(run.id, number): turn.fed for run in load(path).runs for number, turn in enumerate(run.turns)}


def empty_state_accuracy(dialogues: Sequence[Dialogue], schema: Schema) -> float | None:
    states = [state.within(dialogue.schema or schema) for dialogue in dialogues for state in dialogue.states()]
    return 100.0 * sum(not state for state in states) / len(states) if states else None
