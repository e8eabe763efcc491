"""What the measuring commands share: their options, opening model and corpus, a progress bar, tables, JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from somdst.cli import tracking
from somdst.errors import CorpusError, InputError
from somdst.memory.dialogue import Dialogue
from somdst.model.prediction import Predictor

if TYPE_CHECKING:
    from somdst.corpora import Corpus, Split
    from somdst.corpora.perturbation import Kind
    from somdst.evaluate.perturbed import Perturbed
    from somdst.evaluate.run import Oracles
    from somdst.evaluate.tables import Table

ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model's folder, or `default` for the one that is built in.")
]
CorpusArgument = Annotated[str, typer.Argument(metavar="CORPUS", help="A file, folder or zip with labelled dialogues.")]
SplitOption = Annotated[
    str | None, typer.Option("--split", help="Only this part: train, dev or test.", show_default=False)
]
LimitOption = Annotated[
    int | None, typer.Option("--limit", min=1, help="Only the first dialogues, this many.", show_default=False)
]
EngineOption = Annotated[str, typer.Option("--engine", help="onnx, torch, or auto: onnx if exported, else torch.")]
PrecisionOption = Annotated[str, typer.Option("--precision", help="Of the onnx engine: int8 or float32.")]
BatchOption = Annotated[int, typer.Option("--batch-size", min=1, help="Dialogues that run side by side.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, for programs.")]


@contextmanager
def rates_status(total: int) -> Iterator[Callable[[str, float], None]]:
    """A line on stderr that counts measurements; call what it gives with the name and the turns a second of each."""
    from somdst.cli.data_parts import notices

    done = 0
    with notices.status("measuring") as status:

        def show(name: str, rate: float) -> None:
            nonlocal done
            done += 1
            status.update(f"measured {done} of {total}: {name.replace('_', ' ')} {rate:.1f} turns/s")

        yield show


@dataclass(frozen=True, slots=True)
class Opened:
    """A model, and the dialogues to measure it with."""

    predictor: Predictor
    corpus: str
    dialogues: tuple[Dialogue, ...]

    @property
    def turns(self) -> int:
        return sum(len(dialogue.turns) for dialogue in self.dialogues)


def open_both(model: str, corpus: str, *, split: str | None, limit: int | None, engine: str, precision: str) -> Opened:
    """The corpus first, because it is read faster; slots that the model does not track are named on stderr."""
    from somdst.corpora.corpus import check_fit, outside_schema
    from somdst.model import folder

    read, name = _open_part(corpus, split)
    dialogues = read.dialogues[:limit]
    predictor = folder.open_predictor(model, engine=engine, precision=precision)
    check_fit(dialogues, predictor.schema)
    if outside := outside_schema(dialogues, predictor.schema):
        named = ", ".join(f"{slot} ({turns} turns)" for slot, turns in list(outside.items())[:5])
        notice(f"not counted, because the model does not track it: {named}{' ...' if len(outside) > 5 else ''}")
    return Opened(predictor, name, dialogues)


def _open_part(corpus: str, split: str | None) -> tuple[Corpus, str]:
    """The corpus and its name. Of one with parts, dev is measured where nothing else is asked for: never what a model
    was trained on."""
    from somdst.corpora import open_corpus

    if split not in (None, "train", "dev", "test"):
        raise InputError(f'There is no split "{split}"; there are train, dev, test.')
    if split is None and (Path(corpus).is_dir() or corpus.endswith(".zip")):
        with suppress(CorpusError):  # it has no dev: then all that there is
            read = open_corpus(corpus, split="dev")
            notice("measuring on dev; --split train or --split test for another part")
            return read, f"{read.name} (dev)"
    read = open_corpus(corpus, split=cast("Split | None", split))
    return read, f"{read.name} ({split})" if split else read.name


def measure_kinds(
    opened: Opened,
    kinds: Iterable[Kind],
    *,
    seed: int,
    batch_size: int,
    oracles: Oracles = frozenset(),
    threshold: float = 0.0,
) -> list[Perturbed]:
    """Each perturbation with a progress bar of its own."""
    from somdst.evaluate.perturbed import measure_perturbed

    measured = []
    for kind in kinds:
        with turns_progress(kind, opened.turns) as progress:
            measured.append(
                measure_perturbed(
                    opened.predictor,
                    opened.dialogues,
                    kind,
                    seed=seed,
                    oracle=oracles,
                    threshold=threshold,
                    batch_size=batch_size,
                    progress=progress,
                )
            )
    return measured


def notice(text: str) -> None:
    typer.echo(f"somdst: {text}", err=True)


print_json = tracking.print_json


def print_tables(tables: Iterable[Table]) -> None:
    """On stdout, with as much colour as it can show."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as RichTable

    from somdst.evaluate.tables import shown

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=160)  # into a file or a pipe: wide tables stay whole
    for table in tables:
        rich = RichTable(title=table.title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
        for i, column in enumerate(table.columns):
            rich.add_column(column, justify="right" if table.numeric(i) else "left")
        for row in table.rows:
            style = "bold" if row[0] == "this model" else None
            rich.add_row(*(shown(cell) for cell in row), style=style)
        console.print(rich)
        if table.note:
            console.print(f"{table.note}\n", style="dim", markup=False, soft_wrap=True)


@contextmanager
def turns_progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr with rate and time left, where stderr is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(what, total=total, rate="")

        def advance(turns: int) -> None:
            bar.update(task, advance=turns)
            speed = bar.tasks[task].speed
            bar.update(task, rate=f"{speed:.0f} turns/s" if speed else "")

        yield advance
