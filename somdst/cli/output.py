"""Everything that a command prints: one JSON object or tables on stdout, notices and progress on stderr.

Commands use nothing else, so that all of them look alike. How a conversation looks is in `rendering.py`.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from somdst.evaluate.tables import Table, shown
from somdst.evaluate.tables import counted as counted  # every command takes it from here

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table as RichTable

Item = TypeVar("Item")
PIPE_WIDTH = 160
"""Columns of a table that is written to a file or a pipe, so that wide tables stay whole."""


def notice(text: str) -> None:
    typer.echo(f"somdst: {plain(text)}", err=True)


def print_json(data: dict[str, Any]) -> None:
    line = json.dumps(data, ensure_ascii=False, allow_nan=False)
    try:
        line.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:  # another encoding, or half a character: JSON's own escapes say the same
        line = json.dumps(data, allow_nan=False)
    typer.echo(line)


def plain(text: str) -> str:
    """Text without control characters, which could move the cursor or change colours."""
    return "".join(
        "�" if unicodedata.category(letter) in ("Cc", "Cs") and letter != "\n" else letter for letter in text
    )


# Tables


def print_tables(tables: Iterable[Table], *, side_by_side: bool = False) -> None:
    """Print tables below each other, or beside each other where they fit."""
    from rich.columns import Columns

    console = answers()
    drawn = [(_draw(table), table.note) for table in tables]
    if side_by_side:
        console.print(Columns([table for table, _ in drawn], padding=(0, 4)))
        return
    for table, note in drawn:
        console.print(table)
        if note:
            console.print(f"{note}\n", style="dim", markup=False, soft_wrap=True)


def answers() -> Console:
    """stdout, with as much colour as it can show."""
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPE_WIDTH)


def _draw(table: Table) -> RichTable:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(title=table.title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    drawn.min_width = len(table.title)  # so that the title stays on one line
    for i, column in enumerate(table.columns):
        drawn.add_column(Text(column), justify="right" if table.numeric(i) else "left")
    for row in table.rows:
        drawn.add_row(*(Text(shown(cell)) for cell in row), style="bold" if row[0] == "this model" else None)
    return drawn


# Progress


def progress_bars() -> Progress:
    """Bars on stderr, each with its rate and the time left. Only a terminal shows them."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, highlight=False)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[rate]}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def rate(speed: float | None, unit: str) -> str:
    return f"{speed:,.0f} {unit}/s" if speed else ""


class Bar:
    """A progress bar that is shown once work starts."""

    def __init__(self, what: str, total: int | None = None, *, unit: str = "turns") -> None:
        self._unit = unit
        self._progress = progress_bars()
        self._task = self._progress.add_task(what, total=total, rate="", start=False)

    def __enter__(self) -> Bar:
        return self  # an error before the work starts is one line and nothing else

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Take the bar off the screen."""
        self._progress.stop()

    def start(self, total: int | None = None, *, done: int = 0) -> None:
        """Show the bar. `done` is what an earlier run did already."""
        self._progress.start()
        self._progress.start_task(self._task)
        if total is not None or done:
            self._progress.update(self._task, total=total, completed=done)

    def advance(self, count: int = 1) -> None:
        if not self._progress.live.is_started:
            self.start()
        self._progress.update(self._task, advance=count)
        self._progress.update(self._task, rate=rate(self._progress.tasks[0].speed, self._unit))

    def over(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items, each counted when the next one is asked for."""
        for item in items:
            yield item
            self.advance()


@contextmanager
def working(text: str) -> Iterator[Callable[[str], None]]:
    """A spinner on stderr for work of unknown length; call what it gives to change the text."""
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True, highlight=False).status(escape(text)) as status:
        yield lambda said: status.update(escape(said))
