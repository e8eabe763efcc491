"""`somdst ablate`: train one model for each operation set of the paper's ablation, all alike, and compare them on dev.

Each set has a run folder of its own, so a stopped ablation goes on where it was. What a run is, `train.py` says.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from somdst.cli import options as shared
from somdst.cli import train as training
from somdst.cli.output import print_json, print_tables
from somdst.errors import InputError
from somdst.memory.operations import OPERATION_SETS, Operation

if TYPE_CHECKING:
    from somdst.evaluate.tables import Table
    from somdst.learn.settings import Settings
    from somdst.learn.training import Progress
    from somdst.memory.dialogue import Dialogue
    from somdst.memory.schema import Schema

BUDGET = "budget.json"
PROBE_STEPS = 40


@dataclass(frozen=True, slots=True)
class Result:
    """One operation set: how well the model that learned with it does on dev."""

    operation_set: str
    joint_goal_accuracy: float
    slot_accuracy: float
    f1: dict[str, float]
    steps: int
    minutes: float


@dataclass(frozen=True, slots=True)
class Task:
    """What all sets share."""

    settings: Settings
    dialogues: tuple[Dialogue, ...]
    dev: tuple[Dialogue, ...]
    schema: Schema


def ablate(
    corpus: training.CorpusArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the runs, one for each operation set.")],
    dev: Annotated[str | None, typer.Option("--dev", help="Dialogues to compare on.", show_default=False)] = None,
    schema: training.SchemaOption = None,
    preset: training.PresetOption = "cpu",
    config: training.ConfigOption = None,
    limit: training.LimitOption = 0,
    sets: Annotated[str, typer.Option("--sets", help="Operation sets to compare.")] = ",".join(OPERATION_SETS),
    minutes: Annotated[
        float | None,
        typer.Option(
            "--minutes",
            min=0.01,
            help="Minutes of training for each set, instead of --epochs; the speed is measured first.",
            show_default=False,
        ),
    ] = None,
    as_json: shared.JsonOption = False,
    **options: Any,
) -> None:
    """Compare the operation sets of the paper's ablation: the same settings, seed and number of steps for each.

    Stop it with Ctrl-C at any time: the same command goes on.

    Example: `somdst ablate multiwoz-2.1 runs/ablation --minutes 60`
    """
    training.require_torch()
    from somdst.learn import machine
    from somdst.learn.settings import load_settings

    given = {key: value for key, value in options.items() if value is not None}
    if minutes is not None and "epochs" in given:
        raise InputError("A budget is given as --minutes or as --epochs, not as both.")
    chosen = _chosen_sets(sets)
    settings = load_settings(preset, file=config, **given)
    machine.prepare()
    dialogues, dev_dialogues, found = training.read_corpora(corpus, dev, schema, limit)
    if not dev_dialogues:
        raise InputError(
            "The sets are compared on dev: give a corpus that has a dev part, or other dialogues with --dev."
        )
    task = Task(training.with_text_rules(settings, found), dialogues, dev_dialogues, found)
    task = _within_budget(task, out, minutes)
    results = [_run(task, name, out / name) for name in chosen]
    if as_json:
        print_json(_to_json(results, task))
    else:
        print_tables([table(results, task.schema)])


def _chosen_sets(text: str) -> list[str]:
    from somdst.memory.operations import OperationSet

    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(f"Give at least one operation set, such as --sets 4,2; there are {', '.join(OPERATION_SETS)}.")
    return [OperationSet.named(name).name for name in dict.fromkeys(names)]


def _within_budget(task: Task, out: Path, minutes: float | None) -> Task:
    """The task with as many epochs as fit into the minutes. They are written down: a resumed ablation has the same."""
    if minutes is None:
        return task
    file = out / BUDGET
    try:
        budget = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
        if budget is None:
            budget = {"minutes": minutes, "epochs": _epochs_in(task, minutes)}
            out.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(budget) + "\n", encoding="utf-8")
        before, epochs = float(budget["minutes"]), float(budget["epochs"])
    except OSError as error:
        raise InputError(f"Cannot write {file}: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file} is damaged: remove it, with the folders of the runs beside it.") from error
    if before != minutes:
        raise InputError(f"The ablation in {out} was started with {before:g} minutes: go on with the same.")
    return Task(task.settings.model_copy(update={"epochs": epochs}), task.dialogues, task.dev, task.schema)


def _epochs_in(task: Task, minutes: float) -> float:
    """Measured by training a few steps that are then forgotten."""
    from somdst.learn.start import new_model
    from somdst.learn.training import Trainer

    reports: list[Progress] = []
    training.note(f"measuring the speed of training over {PROBE_STEPS} steps")
    with tempfile.TemporaryDirectory() as folder:
        model, encoder = new_model(task.settings, task.schema, task.dialogues)
        probe = Trainer(
            model,
            encoder,
            task.settings.model_copy(update={"epochs": 1000.0, "evaluate_every": 1000.0}),
            task.dialogues,
            Path(folder),
            report=reports.append,
            report_every=PROBE_STEPS // 2,  # the first half warms up
            stop_after=PROBE_STEPS,
        )
        if probe.run().step < PROBE_STEPS:
            raise KeyboardInterrupt
    turns = sum(len(dialogue.turns) for dialogue in task.dialogues)
    epochs = round(60 * minutes * reports[-1].turns_per_second / turns, 3)
    training.note(f"{reports[-1].turns_per_second:.0f} turns a second: {epochs:g} epochs in {minutes:g} minutes")
    return max(epochs, 0.001)


def _run(task: Task, name: str, out: Path) -> Result:
    """Train with one set, or go on, and measure its best model on the whole of dev."""
    from somdst.evaluate.metrics import measure
    from somdst.evaluate.run import run
    from somdst.learn.start import new_model
    from somdst.learn.torch_predictor import TorchPredictor
    from somdst.learn.training import Trainer

    settings = task.settings.model_copy(update={"operation_set": name})
    model, encoder = new_model(settings, task.schema, task.dialogues)
    line = training.ProgressLine()
    training.note(f"operation set {name}, {settings.epochs:g} epochs")
    evaluate = training.evaluator(task.dev, settings)
    outcome = Trainer(model, encoder, settings, task.dialogues, out, evaluate=evaluate, report=line.show).run()
    line.end()
    if not outcome.finished:
        training.note(f"stopped at step {outcome.step} of the set {name}; run the same command to go on")
        raise typer.Exit(130)
    predictor = TorchPredictor.open(out)
    metrics = measure(run(predictor, task.dev), schema=task.schema, operation_set=predictor.operation_set)
    f1 = {str(row.operation): row.f1 for row in metrics.operations}
    return Result(name, metrics.joint_goal_accuracy, metrics.slot_accuracy, f1, outcome.step, outcome.seconds / 60)


def table(results: list[Result], schema: Schema) -> Table:
    """The paper's table of operation sets, with its figures beside ours where the slots are the same."""
    from somdst.evaluate.paper_results import OPERATION_SETS as PUBLISHED
    from somdst.evaluate.paper_tables import PAPER, comparable
    from somdst.evaluate.tables import Cell, Table

    paper = comparable(schema)
    columns = ["operations", "joint goal accuracy", *(["paper"] if paper else []), "slot accuracy", "F1 of update"]
    columns += ["steps", "minutes"]
    rows: list[tuple[Cell, ...]] = [
        (
            result.operation_set,
            result.joint_goal_accuracy,
            *([PUBLISHED[result.operation_set]] if paper else []),
            result.slot_accuracy,
            result.f1.get(Operation.UPDATE),
            result.steps,
            result.minutes,
        )
        for result in results
    ]
    note = "Measured on dev, one seed, the same steps for each set." + (f" {PAPER}" if paper else "")
    return Table("ablation", "Operation sets", tuple(columns), tuple(rows), note)


def _to_json(results: list[Result], task: Task) -> dict[str, Any]:
    from somdst.evaluate.paper_results import OPERATION_SETS as PUBLISHED
    from somdst.evaluate.paper_tables import comparable

    paper = comparable(task.schema)
    rows = [asdict(one) | ({"paper": PUBLISHED[one.operation_set]} if paper else {}) for one in results]
    return {"settings": task.settings.model_dump(mode="json", exclude={"operation_set"}), "sets": rows}
