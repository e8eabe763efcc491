"""`somdst train`: learn a tracker from labelled dialogues. Every field of `learn/settings.py` is an option here."""

from __future__ import annotations

import inspect
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args, get_origin

import typer

from somdst.errors import CorpusError, InputError, ModelError, did_you_mean

if TYPE_CHECKING:
    from somdst.learn.settings import Settings
    from somdst.learn.training import Progress
    from somdst.memory.dialogue import Dialogue
    from somdst.memory.schema import Schema
    from somdst.memory.state import State
    from somdst.model.prediction import Predictor


CorpusArgument = Annotated[
    str, typer.Argument(metavar="CORPUS", help="Labelled dialogues: a file, a folder, or synthetic.")
]
SchemaOption = Annotated[
    Path | None, typer.Option("--schema", help="Schema of the slots; default: the corpus's own.", show_default=False)
]
PresetOption = Annotated[str, typer.Option("--preset", help="cpu: fast on two cores; paper: the paper's constants.")]
ConfigOption = Annotated[Path | None, typer.Option("--config", help="YAML file with settings.", show_default=False)]
LimitOption = Annotated[int, typer.Option("--limit", min=0, help="Only the first dialogues; 0 takes all.")]


def train(
    corpus: CorpusArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The run's folder. A run that was stopped goes on there.")],
    dev: Annotated[
        str | None, typer.Option("--dev", help="Dialogues to choose the best model by.", show_default=False)
    ] = None,
    schema: SchemaOption = None,
    start_from: Annotated[
        str | None,
        typer.Option("--from", help="Go on from a trained model: a folder, or default.", show_default=False),
    ] = None,
    preset: Annotated[
        str,
        typer.Option(
            "--preset",
            help="cpu: fast on two cores; shipped: cpu in several runs, as the shipped tracker was made; paper: the "
            "paper's constants.",
        ),
    ] = "cpu",
    config: ConfigOption = None,
    limit: LimitOption = 0,
    skip_unknown: Annotated[
        bool, typer.Option("--skip-unknown-slots", help="Leave out slots that are not in --schema.")
    ] = False,
    **options: Any,
) -> None:
    """Train a tracker. Stop it with Ctrl-C at any time: the same command goes on from its last checkpoint.

    Options that are not given come from --config, then from the preset.

    Example: `somdst train multiwoz-2.1 runs/first --preset cpu --epochs 4`
    """
    require_torch()
    from somdst.learn import machine, recipe
    from somdst.learn.settings import PRESETS, load_settings

    given = {key: value for key, value in options.items() if value is not None}
    staged = preset == recipe.NAME
    if not staged and preset not in PRESETS:
        known = (*PRESETS, recipe.NAME)
        raise InputError(f'There is no preset "{preset}"; there are {", ".join(known)}.{did_you_mean(preset, known)}')
    checked = load_settings("cpu" if staged else preset, file=config, **given)  # what is wrong is said at once
    if staged and start_from:
        raise InputError(f"The preset {recipe.NAME} starts from an encoder: leave --from out, or take the preset cpu.")
    if staged and checked.own_states:
        raise InputError(f"The preset {recipe.NAME} collects the model's mistakes itself: leave --own-states out.")
    machine.prepare()
    dialogues, dev_dialogues, found = read_corpora(corpus, dev, schema, limit, skip_unknown=skip_unknown)
    note(f"{len(dialogues):,} dialogues to learn from, {len(dev_dialogues):,} to choose by, {len(found)} slots")
    task = Task(dialogues, dev_dialogues, found)
    if staged:
        from somdst.cli.train_recipe import train_recipe

        out = train_recipe(task, out, config=config, given=given, command=f"somdst {shlex.join(sys.argv[1:])}")
    else:
        train_once(task, out, checked, start_from=start_from)
    if first_process():
        typer.echo(str(out))


class Task(NamedTuple):
    """What there is to learn."""

    dialogues: tuple[Dialogue, ...]
    dev: tuple[Dialogue, ...]
    schema: Schema


def train_once(task: Task, out: Path, settings: Settings, *, start_from: str | Path | None) -> None:
    """One run, in a folder of its own; where it was stopped before its end the program ends too."""
    from somdst.learn.training import Trainer

    settings = with_text_rules(settings, task.schema, start_from)
    model, encoder = _model(settings, task, start_from)
    line = ProgressLine()
    trainer = Trainer(
        model,
        encoder,
        settings,
        task.dialogues,
        out,
        evaluate=evaluator(task.dev, settings) if task.dev else None,
        report=line.show,
        own_states=_own_states(settings.own_states),
    )
    outcome = trainer.run()
    line.end()
    if not outcome.finished:
        note(f"stopped at step {outcome.step}; run the same command to go on")
        raise typer.Exit(130)
    accuracy = f", dev joint goal accuracy {outcome.best:.2f}" if outcome.best >= 0 else ""
    note(f"done: the model is in {out}{accuracy}, {outcome.seconds / 60:.1f} minutes of training")


def note(text: str) -> None:
    if first_process():
        typer.echo(text, err=True)


def first_process() -> bool:
    return os.environ.get("RANK", "0") == "0"  # as torchrun and accelerate count them


def require_torch() -> None:
    from importlib.util import find_spec

    for package in ("torch", "transformers", "accelerate", "safetensors"):
        if find_spec(package) is None:
            raise ModelError(f"Training needs {package}, which is not installed: pip install 'somdst[train]'.")


def read_corpora(
    corpus: str, dev: str | None, schema: Path | None, limit: int, *, skip_unknown: bool = False
) -> tuple[tuple[Dialogue, ...], tuple[Dialogue, ...], Schema]:
    from somdst.corpora import open_corpus
    from somdst.corpora.opening import schema_for

    opened = open_corpus(corpus, split="train" if _has_parts(corpus) else None)
    looked_at = dev or (corpus if _has_parts(corpus) else None)
    chosen = open_corpus(looked_at, split="dev" if _has_parts(looked_at) else None).dialogues if looked_at else ()
    for dropped in opened.dropped[:10]:
        note(f"left out: {dropped}")
    found = schema_for([opened], given=schema)
    dialogues = opened.dialogues[: limit or None]
    for dialogue in (*dialogues, *chosen):
        if not dialogue.labelled:
            raise InputError(
                f"The dialogue {dialogue.id} has turns without a state: training needs a state at every turn."
            )
    _check_slots(dialogues, found, skip_unknown=skip_unknown or schema is None)
    return dialogues, chosen, found


def _has_parts(corpus: str) -> bool:
    """Whether a corpus is a whole one, with train, dev and test in it."""
    return Path(corpus).is_dir() or corpus.endswith(".zip") or corpus.startswith("synthetic")


def _check_slots(dialogues: tuple[Dialogue, ...], schema: Schema, *, skip_unknown: bool) -> None:
    """Where somebody wrote a schema, a slot outside it may be misspelled, and would never be learned: say so, unless
    such slots are to be left out. MultiWOZ itself labels hospitals, which the paper's thirty slots leave out."""
    from somdst.corpora.corpus import check_fit, outside_schema

    check_fit(dialogues, schema)
    for slot, turns in outside_schema(dialogues, schema).items():
        if not skip_unknown:
            raise CorpusError(
                f'The corpus labels the slot "{slot}" in {turns:,} turns, and it is not in the schema.'
                f"{did_you_mean(slot, schema)} Correct either of them, or leave such slots out with "
                "--skip-unknown-slots."
            )
        note(f'left out: the slot "{slot}", labelled in {turns:,} turns')


def with_text_rules(settings: Settings, schema: Schema, start_from: str | Path | None = None) -> Settings:
    """Unless they were chosen, the text rules are those of the model to go on from where it knows the same slots, the
    preset's for MultiWOZ, and lowercase for all else: others would take the hyphens out of other people's values."""
    from somdst.corpora.opening import normalisation_for
    from somdst.model.folder import ModelFolder

    if settings.is_chosen("normalisation"):
        return settings
    start = ModelFolder.open(start_from) if start_from else None
    if start and start.schema == schema:
        rules = start.config.normalisation
    else:
        rules = normalisation_for(schema, of_multiwoz=settings.normalisation)
    return settings.model_copy(update={"normalisation": rules})


def _model(settings: Settings, task: Task, start_from: str | Path | None) -> Any:
    from somdst.learn.start import from_model, new_model
    from somdst.model.folder import ModelFolder

    if start_from:
        return from_model(ModelFolder.open(start_from), settings, task.schema)
    return new_model(settings, task.schema, task.dialogues)


def evaluator(dialogues: tuple[Dialogue, ...], settings: Settings) -> Callable[[Predictor], float]:
    from somdst.evaluate.metrics import joint_goal_accuracy
    from somdst.evaluate.run import run

    some = dialogues[: settings.dev_limit or None]
    return lambda predictor: joint_goal_accuracy(run(predictor, some, batch_size=64))


def _own_states(path: Path | None) -> dict[tuple[str, int], State] | None:
    """The memory before each turn, as an earlier model had it."""
    if path is None:
        return None
    from somdst.evaluate.saved import load

    return {(run.id, number): turn.fed for run in load(path).runs for number, turn in enumerate(run.turns)}


class ProgressLine:
    """One line that renews itself in a terminal; in a log, a line a look."""

    def show(self, progress: Progress) -> None:
        left = int(progress.seconds_left)
        text = (
            f"step {progress.step}/{progress.steps}  epoch {progress.epoch:.2f}  loss {progress.loss:.3f} "
            f"(operations {progress.loss_operations:.4f}, domain {progress.loss_domain:.3f}, "
            f"values {progress.loss_values:.3f})  {progress.turns_per_second:.0f} turns/s  "
            f"{left // 3600}:{left // 60 % 60:02}:{left % 60:02} left"
        )
        look = progress.dev_joint_goal_accuracy
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[2K" + text)
            sys.stderr.flush()
            if look is not None:
                sys.stderr.write(f"\r\x1b[2Kepoch {progress.epoch:.2f}: dev joint goal accuracy {look:.2f}\n")
        elif look is not None or progress.step % 100 == 0:
            note(text + (f"  dev joint goal accuracy {look:.2f}" if look is not None else ""))

    def end(self) -> None:
        if sys.stderr.isatty():
            sys.stderr.write("\n")


def with_settings(command: Callable[..., None], *, without: tuple[str, ...] = ()) -> Callable[..., None]:
    """The command with an option for every field of `Settings`; None means that it was not given."""
    from somdst.learn.settings import Settings

    signature = inspect.signature(command, eval_str=True)
    own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    added = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                _option_type(entry.annotation) | None,
                typer.Option(
                    *_flags(name, entry.annotation),
                    help=entry.description,
                    show_default=False,
                    rich_help_panel="Settings",
                ),
            ],
        )
        for name, entry in Settings.model_fields.items()
        if name not in without
    ]
    command.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in (*own, *added)} | {"return": None}
    return command


def _flags(name: str, annotation: Any) -> tuple[str, ...]:
    flag = name.replace("_", "-")
    return (f"--{flag}/--no-{flag}",) if annotation is bool else (f"--{flag}",)


def _option_type(annotation: Any) -> Any:
    if get_origin(annotation) is Literal:
        return str
    return next((kind for kind in get_args(annotation) if kind is not type(None)), annotation)
