"""How many epochs of training fit into some minutes: the speed is measured over a few steps that are thrown away.

The answer is kept in the run's folder, so that a run that was stopped goes on with the same number of epochs.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

from accelerate import PartialState
from accelerate.utils import broadcast_object_list

from somdst.errors import InputError
from somdst.files import make_folder, reason, write_text
from somdst.learn.batches import Batches, Examples, ExampleSource
from somdst.learn.progress import Listener, Progress, TrainingRecord
from somdst.learn.settings import Settings
from somdst.learn.task import Task
from somdst.learn.trainer import Trainer
from somdst.memory.dialogue import count_turns
from somdst.model.encoding import Encoder

BUDGET = "budget.json"
PROBE_STEPS = 20
"""The first half warms up; the second half is measured."""


def within_minutes(
    minutes: float,
    settings: Settings,
    task: Task,
    out: Path,
    first_model: Callable[[], tuple[Any, Encoder]],
    progress: Listener,
    *,
    source: ExampleSource | None = None,
) -> Settings:
    """The settings with as many epochs as fit into the minutes."""
    if "epochs" in settings.model_fields_set:
        raise InputError("Give a budget either in minutes or in epochs, not in both.")
    file = out / BUDGET
    if not file.exists():
        epochs = _epochs_in(minutes, settings, task, first_model, progress, source)
        _write(file, minutes, epochs)
    before, epochs = _read(file)
    if before != minutes:
        raise InputError(f"The run in {out} was started with {before:g} minutes: give the same number to go on.")
    return settings.model_copy(update={"epochs": epochs})


def _epochs_in(
    minutes: float,
    settings: Settings,
    task: Task,
    first_model: Callable[[], tuple[Any, Encoder]],
    progress: Listener,
    source: ExampleSource | None,
) -> float:
    records: list[TrainingRecord] = []

    def report(step: Progress) -> None:
        records.extend([step.record] if step.record else [])
        progress(Progress("measuring the speed", step.done, PROBE_STEPS, "steps"))

    with tempfile.TemporaryDirectory() as folder:
        model, encoder = first_model()
        endless = settings.model_copy(update={"epochs": 1000.0, "evaluate_every": 1000.0})
        probe = Trainer(
            model,
            encoder,
            endless,
            task.dialogues,
            Path(folder),
            report=report,
            report_every=PROBE_STEPS // 2,
            stop_after=PROBE_STEPS,
            source=source,
        )
        if probe.run().step < PROBE_STEPS:  # a signal came
            raise KeyboardInterrupt
    turns = source.turns if source else count_turns(task.dialogues)
    rate = records[-1].turns_per_second if records else 0.0  # only the first process has records
    examples = source or Examples(task.dialogues, task.schema)
    rate *= _measured_length(probe.kind.batches(examples, encoder, endless, model))
    (rate,) = broadcast_object_list([rate])
    return max(round(60 * minutes * rate / turns, 3), 0.001)


def _measured_length(batches: Batches) -> float:
    """The inputs that were measured, as a multiple of the usual length. Those of a batch are alike, and few were."""
    sizes = [example.size(batches.settings.history) for example in batches.examples(0)]
    measured = [sizes[i] for batch in batches.order(0)[PROBE_STEPS // 2 : PROBE_STEPS] for i in batch]
    return fmean(measured) / fmean(sizes) if measured else 1.0


def _write(file: Path, minutes: float, epochs: float) -> None:
    state = PartialState()
    if state.is_main_process:
        make_folder(file.parent)
        write_text(file, json.dumps({"minutes": minutes, "epochs": epochs}) + "\n")
    state.wait_for_everyone()


def _read(file: Path) -> tuple[float, float]:
    try:
        budget = json.loads(file.read_text(encoding="utf-8"))
        return float(budget["minutes"]), float(budget["epochs"])
    except OSError as error:
        raise InputError(f"Cannot read {file}: {reason(error)}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file} is damaged: remove it, with the runs beside it.") from error
