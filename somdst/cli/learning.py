"""What the commands that train share: their options, the settings that these give, and how progress is shown."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from somdst.cli import output
from somdst.errors import InputError, ModelError

if TYPE_CHECKING:
    from rich.progress import TaskID

    from somdst.learn.progress import Progress, TrainingRecord
    from somdst.learn.settings import Settings
    from somdst.learn.task import Task

SchemaOption = Annotated[
    Path | None,
    typer.Option("--schema", help="Schema of the slots to learn; by default the corpus's own.", show_default=False),
]
FromOption = Annotated[
    str | None,
    typer.Option("--from", help="Continue from a trained model: a folder or `default`.", show_default=False),
]
MixOption = Annotated[
    str | None,
    typer.Option(
        "--mix", help="Other corpora to learn from, with their shares: sgd=0.3,domains=0.4.", show_default=False
    ),
]
SkipOption = Annotated[
    bool, typer.Option("--skip-unknown-slots", help="Leave out labelled slots that are not in --schema.")
]


def _print_settings(wanted: bool) -> None:
    if not wanted:
        return
    from somdst.evaluate.tables import Table
    from somdst.learn.settings import Settings, load_settings

    presets = {name: load_settings(name) for name in ("cpu", "paper")}
    rows = tuple(
        (name, *(_as_text(getattr(preset, name)) for preset in presets.values()), entry.description or "")
        for name, entry in Settings.model_fields.items()
    )
    columns = ("setting", "default (cpu)", "paper", "what it is")
    note = "Give them with --set KEY=VALUE, or in a YAML file with --config."
    output.print_tables([Table("settings", "Settings of training", columns, rows, note)])
    raise typer.Exit


def _as_text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case _:
            return str(value)


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """The options of every command that trains."""

    dev: Annotated[
        str | None,
        typer.Option("--dev", help="Dialogues to evaluate on; by default the corpus's dev part.", show_default=False),
    ] = None
    preset: Annotated[str, typer.Option("--preset", help="cpu: fast on two cores; paper: the paper's constants.")] = (
        "cpu"
    )
    config: Annotated[Path | None, typer.Option("--config", help="YAML file with settings.", show_default=False)] = None
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any other setting, such as --set dropout=0.1. Repeatable.",
            show_default=False,
        ),
    ] = None
    epochs: Annotated[
        float | None,
        typer.Option("--epochs", help="Passes over the corpus; by default the preset's.", show_default=False),
    ] = None
    minutes: Annotated[
        float | None,
        typer.Option(
            "--minutes",
            min=0.01,
            help="Train for this many minutes, instead of --epochs.",
            show_default=False,
        ),
    ] = None
    seed: Annotated[
        int | None, typer.Option("--seed", help="Fixes every random choice; by default 0.", show_default=False)
    ] = None
    encoder: Annotated[
        str | None,
        typer.Option(
            "--encoder", help="Encoder to start from: minilm, tiny, a folder or a hub name.", show_default=False
        ),
    ] = None
    limit: Annotated[int, typer.Option("--limit", min=0, help="Learn from the first dialogues only; 0 for all.")] = 0
    dev_limit: Annotated[
        int | None,
        typer.Option("--dev-limit", min=0, help="Evaluate on the first dialogues of dev only.", show_default=False),
    ] = None
    show_settings: Annotated[
        bool,
        typer.Option("--settings", is_eager=True, callback=_print_settings, help="Print all settings and exit."),
    ] = False

    def settings(self, **more: Any) -> Settings:
        """The preset, changed by the YAML file, then by --set, then by options of their own."""
        require_torch()
        from somdst.learn.settings import load_settings, parse_assignments

        changes: dict[str, Any] = dict(parse_assignments(self.assignments or ()))
        named = {"epochs": self.epochs, "seed": self.seed, "encoder": self.encoder, "dev_limit": self.dev_limit, **more}
        named = {key: value for key, value in named.items() if value is not None}
        for key in named.keys() & changes.keys():
            raise InputError(f"The setting {key} is given twice: leave out --set {key}={changes[key]}.")
        return load_settings(self.preset, file=self.config, **changes, **named)

    def task(self, corpus: str, settings: Settings, *, schema: Path | None = None, skip_unknown: bool = False) -> Task:
        """Read what is to be learned. Say what it is, and what is left out."""
        from somdst.learn.task import read_task

        task = read_task(corpus, self.dev, schema=schema, limit=self.limit, skip_unknown=skip_unknown)
        for dropped in task.dropped[:10]:
            say(f"left out: {dropped}")
        for slot, turns in task.outside.items():
            say(f'left out: the slot "{slot}", labelled in {output.counted(turns, "turn")}')
        learned = output.counted(len(task.dialogues), "dialogue")
        evaluated = len(task.first_dev(settings.dev_limit))
        say(f"{learned} to learn from, {evaluated:,} to evaluate on, {output.counted(len(task.schema), 'slot')}")
        return task


def require_torch() -> None:
    for package in ("torch", "transformers", "accelerate", "safetensors"):
        if find_spec(package) is None:
            raise ModelError(f"Training needs {package}, which is not installed: pip install 'somdst[train]'.")


def is_first_process() -> bool:
    """Whether this process is the one that speaks, of those that torchrun or accelerate started."""
    return os.environ.get("RANK", "0") == "0"


def say(text: str) -> None:
    if is_first_process():
        output.notice(text)


def stopped(how_far: str = "") -> typer.Exit:
    """What a command raises when a signal stopped its training."""
    say(f"stopped{how_far}; run the same command to go on")
    return typer.Exit(130)


class ProgressBars:
    """A bar per phase on stderr, and a line per evaluation on dev. Only a terminal shows the bars."""

    def __init__(self) -> None:
        self._bars = output.progress_bars()
        self._tasks: dict[str, TaskID] = {}
        self._turns_per_second = self._dev = ""

    def __enter__(self) -> ProgressBars:
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()

    def __call__(self, progress: Progress) -> None:
        if progress.record:
            self._show_record(progress.phase, progress.record)
        if progress.phase not in self._tasks:
            self._tasks[progress.phase] = self._bars.add_task(progress.phase, total=progress.total, rate="")
        task = self._tasks[progress.phase]
        speed = self._bars.tasks[self._bars.task_ids.index(task)].speed
        steps = progress.unit == "steps"
        rate = f"{self._turns_per_second}{self._dev}" if steps else output.rate(speed, progress.unit)
        self._bars.update(task, completed=progress.done, total=progress.total, rate=rate)
        if progress.done >= progress.total:
            self._bars.remove_task(self._tasks.pop(progress.phase))

    def _show_record(self, phase: str, record: TrainingRecord) -> None:
        self._turns_per_second = f"{record.turns_per_second:.0f} turns/s, loss {record.loss:.3f}"
        accuracy = record.dev_joint_goal_accuracy
        if accuracy is None and record.step < record.steps:
            return
        minutes, seconds = divmod(int(record.seconds_left), 60)
        line = f"{phase}, epoch {record.epoch:.2f}: loss {record.loss:.3f}, {record.turns_per_second:.0f} turns/s"
        if accuracy is not None:
            self._dev = f", dev {accuracy:.2f}"
            line += f", dev joint goal accuracy {accuracy:.2f}"
        if record.step < record.steps:
            line += f", {minutes}:{seconds:02} left"
        if self._bars.console.is_terminal:
            self._bars.console.print(line, markup=False)
        else:
            output.notice(line)
