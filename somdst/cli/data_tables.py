"""How `somdst data` looks: tables of statistics, the paper's figures beside ours, and findings of a check.

Only presentation: everything here takes finished results and prints them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.columns import Columns
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from somdst.corpora.findings import Report, Severity
from somdst.corpora.paper_counts import Figure
from somdst.corpora.statistics import Statistics

MARKS = {True: "[green]=[/]", False: "[bold red]≠[/]"}


@dataclass(frozen=True, slots=True)
class Column:
    """One split: our counts and, on MultiWOZ, the paper's figures."""

    title: str
    counted: Statistics
    figures: tuple[Figure, ...] = ()

    def paper(self, table: str, row: str) -> Figure | None:
        return next((figure for figure in self.figures if (figure.table, figure.row) == (table, row)), None)

    def covers(self, table: str) -> bool:
        return any(figure.table == table for figure in self.figures)


def show_statistics(console: Console, columns: Sequence[Column]) -> None:
    small = [_sizes(columns), _operations(columns), _generated(columns), *_domains(columns)]
    long = [_vocabulary(columns), *(_transitions(column) for column in columns if column.counted.transitions)]
    console.print(Columns(small, padding=(0, 4)))
    console.print(Columns(long, padding=(0, 4)))
    for column in columns:
        if column.figures:
            console.print(_verdict(column))


def _table(title: str, columns: Sequence[Column], *, row: str, compared: str = "") -> Table:
    table = _plain(title)
    table.add_column(row, min_width=len(title) - 12)  # so that the title stays on one line
    for column in columns:
        table.add_column(column.title, justify="right")
        if column.covers(compared):
            table.add_column("paper", justify="right", style="dim")
    return table


def _plain(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)


def _cells(columns: Sequence[Column], compared: str, row: str, numbers: Iterable[float]) -> list[str]:
    cells: list[str] = []
    for column, number in zip(columns, numbers, strict=True):
        cells.append(_number(number))
        if column.covers(compared):
            figure = column.paper(compared, row)
            cells.append(f"{_number(figure.paper)} {MARKS[figure.same]}" if figure else "")
    return cells


def _number(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.2f}"


def _sizes(columns: Sequence[Column]) -> Table:
    table = _table("Size", columns, row="")
    for name in ("dialogues", "turns", "slots"):
        table.add_row(name, *_cells(columns, "", name, [getattr(column.counted, name) for column in columns]))
    return table


def _operations(columns: Sequence[Column]) -> Table:
    table = _table("Operations", columns, row="operation", compared="operations")
    for name in ("carryover", "update", "dontcare", "delete"):
        counts = [column.counted.operations[name] for column in columns]
        table.add_row(name, *_cells(columns, "operations", name, counts))
    return table


def _generated(columns: Sequence[Column]) -> Table:
    table = _table("Values generated", columns, row="", compared="generated")
    for name, words in (("min", "fewest in a turn"), ("mean", "mean"), ("max", "most in a turn")):
        numbers = [getattr(column.counted.generated, name) for column in columns]
        table.add_row(words, *_cells(columns, "generated", name, numbers))
    return table


def _domains(columns: Sequence[Column]) -> Iterable[Table]:
    by = "goal" if all(column.counted.counted_by == "goal" for column in columns) else "turns"
    for what, title in (("dialogues", f"Dialogues a domain (by {by})"), ("turns", "Turns a domain")):
        table = _table(title, columns, row="domain", compared=what)
        for i, row in enumerate(columns[0].counted.domains):
            counts = [getattr(column.counted.domains[i], what) for column in columns]
            table.add_row(row.domain, *_cells(columns, what, row.domain, counts))
        yield table


def _vocabulary(columns: Sequence[Column]) -> Table:
    table = _table("Slot value vocabulary (distinct words)", columns, row="slot", compared="vocabulary")
    for slot in columns[0].counted.vocabulary:
        counts = [column.counted.vocabulary[slot] for column in columns]
        table.add_row(escape(slot), *_cells(columns, "vocabulary", slot, counts))
    return table


def _transitions(column: Column) -> Table:
    counted = column.counted
    table = _table(f"Domain transitions, {column.title}", [column], row="domains in order", compared="transitions")
    for row in counted.transitions:
        name = " ".join(row.domains)
        table.add_row(escape(" > ".join(row.domains)), *_cells([column], "transitions", name, [row.dialogues]))
    table.add_section()
    for row_name, number in (
        ("three or more domains", counted.complicated),
        ("of those, ending in taxi", counted.complicated_ending("taxi")),
    ):
        if "taxi" in row_name and not any(row.domain == "taxi" for row in counted.domains):
            continue
        figure = column.paper("three_or_more_domains", "ending in taxi" if "taxi" in row_name else "dialogues")
        beside = [f"{_number(figure.paper)} {MARKS[figure.same]}"] if figure else []
        table.add_row(row_name, _number(number), *beside)
    return table


def _verdict(column: Column) -> str:
    different = [figure for figure in column.figures if not figure.same]
    compared = f"{column.title}: {len(column.figures)} figures compared with the paper"
    if not different:
        return f"{compared}, [green]all the same[/]."
    return f"{compared}, [bold red]{len(different)} differ[/] (marked ≠)."


def show_report(console: Console, report: Report, *, limit: int) -> None:
    """Findings by kind, at most `limit` of each (0: all), then the summary."""
    for kind, number in report.counts.items():
        colour = "red" if kind.severity is Severity.HARM else "yellow"
        console.print(f"[bold {colour}]{kind.severity}[/] [bold]{kind.words}[/] ({number:,})")
        findings = [finding for finding in report.findings if finding.kind is kind]
        for finding in findings[:limit] if limit else findings:
            console.print(Text(f"  {finding.place}: {finding.message}"), soft_wrap=True, highlight=False)
        if limit and number > limit:
            console.print(f"  [dim]... and {number - limit:,} more: --limit 0 shows all[/]")
        console.print()
    console.print(_summary(report) if report.findings else f"{report.dialogues:,} dialogues, {report.turns:,} turns")
    if report.harmful:
        console.print(f"[bold red]Training would be harmed[/] ({report.number(Severity.HARM):,} findings).")
    else:
        console.print("[green]Nothing here would harm training.[/]")


def _summary(report: Report) -> Table:
    title = f"{report.dialogues:,} dialogues, {report.turns:,} turns"
    table = _plain(title)
    table.add_column("severity")
    table.add_column("what")
    table.add_column("findings", justify="right")
    for kind, number in report.counts.items():
        table.add_row(str(kind.severity), kind.words, f"{number:,}")
    return table
