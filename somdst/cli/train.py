"""`somdst train`: learn a tracker from labelled dialogues."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from somdst.cli import learning, options

if TYPE_CHECKING:
    from somdst.learn.task import Task


@options.grouped
def train(
    corpus: options.CorpusArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the run. A stopped run in it is resumed.")],
    given: learning.TrainingOptions,
    schema: learning.SchemaOption = None,
    start_from: learning.FromOption = None,
    system: Annotated[
        str | None,
        typer.Option(
            "--system",
            help="Train another system of the paper's tables; `somdst systems` lists them.",
            show_default=False,
        ),
    ] = None,
    mix: learning.MixOption = None,
    skip_unknown: learning.SkipOption = False,
) -> None:
    """Train a tracker. Stop it with Ctrl-C at any time: the same command resumes it.

    `somdst train --settings` prints all other settings. --set overrides --config, which overrides the preset.

    Example: `somdst train multiwoz-2.1 runs/first --epochs 4 --set dropout=0.1`
    """
    settings = given.settings(mix=mix, system=system)
    from somdst.learn.encoders import check_encoder
    from somdst.learn.training import train as run

    if start_from is None:
        check_encoder(settings.encoder)
    task = given.task(corpus, settings, schema=schema, skip_unknown=skip_unknown)
    _say_what_is_missing(settings.system, task, settings.dev_limit)
    with learning.ProgressBars() as bars:
        result = run(task, out, start_from=start_from, settings=settings, minutes=given.minutes, progress=bars)
    if not result.finished:
        raise learning.stopped(f" at step {result.step}")
    accuracy = result.dev_joint_goal_accuracy
    measured = "" if accuracy is None else f", dev joint goal accuracy {accuracy:.2f}"
    learning.say(f"done: the model is in {out}{measured}, {result.minutes:.1f} minutes of training")
    if result.hint:
        learning.say(f"{result.hint} On the command line: --epochs, or --from default.")
    if learning.is_first_process():
        typer.echo(str(out))


def _say_what_is_missing(system: str, task: Task, dev_limit: int) -> None:
    """A system that chooses from an ontology can never say a value that training does not have."""
    from somdst.baselines.catalogue import find
    from somdst.baselines.ontology import Ontology

    if find(system).ontology and task.dev:
        missing = Ontology.collect(task.dialogues, task.schema).missing(task.first_dev(dev_limit))
        if missing.turns:
            learning.say(f"of dev, {missing}")
