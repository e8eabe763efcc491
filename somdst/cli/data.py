"""`somdst data`: count a corpus (`stats`), write it as JSON lines (`convert`), and look for mistakes (`check`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from somdst.cli import options
from somdst.cli.output import Bar, answers, counted, notice, print_json, print_tables, working
from somdst.errors import CorpusError

if TYPE_CHECKING:
    from somdst.corpora import Corpus
    from somdst.corpora.findings import Findings
    from somdst.corpora.lengths import LengthCheck
    from somdst.corpora.opening import Part
    from somdst.corpora.paper_counts import Figure
    from somdst.corpora.statistics import Statistics
    from somdst.evaluate.tables import Cell, Table
    from somdst.memory.schema import Schema
    from somdst.model.config import ModelConfig

app = options.command_group("Corpora: statistics, conversion, checks.")

SchemaOption = Annotated[
    str | None, typer.Option("--schema", help="A schema file, or `multiwoz`. Not needed if the corpus has its own.")
]


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


@app.command()
def stats(
    corpus: options.CorpusArgument,
    split: options.SplitOption = None,
    schema: SchemaOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Count a corpus as the paper does: operations, domains, vocabulary, domain transitions.

    On MultiWOZ the paper's figures are shown beside ours, with differences marked.

    Example: `somdst data stats multiwoz-2.1/test.jsonl.xz`
    """
    from somdst.corpora.opening import open_parts, schema_for

    with working(f"reading {corpus}"):
        parts = open_parts(corpus, split=split)
    corpora = [part.corpus for part in parts]
    slots = schema_for(corpora, given=schema)
    columns = [_column(part, slots) for part in parts]
    _name_dropped(corpora)
    if as_json:
        print_json(_stats_json(corpus, parts, columns, slots))
        return
    typer.echo(f"{corpus} ({corpora[0].format})\n")
    print_tables(_small_tables(columns), side_by_side=True)
    print_tables(_long_tables(columns), side_by_side=True)
    for column in columns:
        if column.figures:
            typer.echo(_verdict(column))


def _column(part: Part, schema: Schema) -> Column:
    from somdst.corpora.multiwoz import is_multiwoz
    from somdst.corpora.paper_counts import compare
    from somdst.corpora.statistics import count

    counts = count(part.corpus.dialogues, schema=schema)
    figures = compare(counts, part.split) if part.split is not None and is_multiwoz(schema) else ()
    return Column(part.title, counts, figures)


def _name_dropped(corpora: Sequence[Corpus], *, most: int = 5) -> None:
    """Count every dialogue that was left out, and name the first few with the reason."""
    dropped = [one for corpus in corpora for one in corpus.dropped]
    for one in dropped[:most]:
        notice(f"left out: {one}")
    if len(dropped) > most:
        notice(f"left out: {counted(len(dropped) - most, 'more dialogue')} (--json names all)")


def _stats_json(name: str, parts: list[Part], columns: list[Column], schema: Schema) -> dict[str, Any]:
    """The whole corpus at the top level; each split, and what the paper says of it, below `splits`."""
    from somdst.corpora.statistics import count

    whole = columns[0].counted
    if len(parts) > 1:
        whole = count([dialogue for part in parts for dialogue in part.corpus.dialogues], schema=schema)
    dropped = [one for part in parts for one in _dropped_json(part.corpus)]
    about = {"corpus": name, "format": parts[0].corpus.format, **whole.to_json(), "dropped": dropped}
    return about | {"splits": {column.title: column.counted.to_json() | _paper_json(column) for column in columns}}


def _paper_json(column: Column) -> dict[str, Any]:
    if not column.figures:
        return {"paper": None}
    different = [figure.to_json() for figure in column.figures if not figure.same]
    return {"paper": {"compared": len(column.figures), "different": different}}


def _dropped_json(corpus: Corpus) -> list[dict[str, str]]:
    return [{"id": one.id, "where": one.where, "reason": one.reason} for one in corpus.dropped]


# The tables of `stats`

Row = tuple[str, str, Sequence["Cell"]]
"""What a row is called, its key among the paper's figures, and one count per column."""


def _table(name: str, title: str, columns: Sequence[Column], rows: Sequence[Row], *, first: str = "") -> Table:
    """Our counts; where the paper has this table, its figure beside each, with = or ≠."""
    from somdst.evaluate.tables import Table

    titles = [first]
    for column in columns:
        titles += [column.title, "paper"] if column.covers(name) else [column.title]
    cells = [(label, *_beside(columns, name, key, counts)) for label, key, counts in rows]
    return Table(name, title, tuple(titles), tuple(cells))


def _beside(columns: Sequence[Column], name: str, key: str, counts: Sequence[Cell]) -> Iterator[Cell]:
    from somdst.evaluate.tables import shown

    for column, number in zip(columns, counts, strict=True):
        yield number
        if column.covers(name):
            figure = column.paper(name, key)
            yield f"{shown(figure.paper)} {'=' if figure.same else '≠'}" if figure else ""


def _small_tables(columns: Sequence[Column]) -> list[Table]:
    counts = [column.counted for column in columns]
    sizes = [(name, name, [getattr(one, name) for one in counts]) for name in ("dialogues", "turns", "slots")]
    names = ("carryover", "update", "dontcare", "delete")
    operations = [(name, name, [one.operations[name] for one in counts]) for name in names]
    named = (("fewest in a turn", "min"), ("mean", "mean"), ("most in a turn", "max"))
    generated = [(words, key, [getattr(one.generated, key) for one in counts]) for words, key in named]
    return [
        _table("size", "Size", columns, sizes),
        _table("operations", "Operations", columns, operations, first="operation"),
        _table("generated", "Values generated", columns, generated),
        *_domain_tables(columns),
        _complicated(columns),
    ]


def _domain_tables(columns: Sequence[Column]) -> Iterator[Table]:
    by = "goal" if all(column.counted.counted_by == "goal" for column in columns) else "turns"
    for what, title in (("dialogues", f"Dialogues per domain (by {by})"), ("turns", "Turns per domain")):
        rows = [
            (row.domain, row.domain, [getattr(column.counted.domains[i], what) for column in columns])
            for i, row in enumerate(columns[0].counted.domains)
        ]
        yield _table(what, title, columns, rows, first="domain")


def _long_tables(columns: Sequence[Column]) -> list[Table]:
    slots = columns[0].counted.vocabulary
    words = [(slot, slot, [column.counted.vocabulary[slot] for column in columns]) for slot in slots]
    vocabulary = _table("vocabulary", "Slot value vocabulary (distinct words)", columns, words, first="slot")
    return [vocabulary, *(_transitions(column) for column in columns if column.counted.transitions)]


def _transitions(column: Column) -> Table:
    rows: list[Row] = [
        (" > ".join(row.domains), " ".join(row.domains), [row.dialogues]) for row in column.counted.transitions
    ]
    return _table("transitions", f"Domain transitions, {column.title}", [column], rows, first="domains in order")


def _complicated(columns: Sequence[Column]) -> Table:
    counts = [column.counted for column in columns]
    rows: list[Row] = [("dialogues", "dialogues", [one.complicated for one in counts])]
    for row in counts[0].domains:
        ending = [one.complicated_ending(row.domain) for one in counts]
        rows.append((f"ending in {row.domain}", f"ending in {row.domain}", ending))
    return _table("three_or_more_domains", "Three or more domains", columns, rows)


def _verdict(column: Column) -> str:
    different = sum(not figure.same for figure in column.figures)
    compared = f"{column.title}: {len(column.figures)} figures compared with the paper"
    return f"{compared}, all the same." if not different else f"{compared}, {different} differ (marked ≠)."


@app.command()
def convert(
    corpus: options.CorpusArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A file: .jsonl, .jsonl.gz or .jsonl.xz.")],
    split: options.SplitOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Write any corpus as JSON lines, one dialogue per line. If anything fails, nothing is written.

    Example: `somdst data convert MULTIWOZ2.1.zip dev.jsonl --split dev`
    """
    from somdst.corpora import open_corpus, write_dialogues
    from somdst.files import base_name

    if not base_name(out).endswith(".jsonl"):
        raise CorpusError(f"{out} does not end in .jsonl, .jsonl.gz or .jsonl.xz, and only JSON lines are written.")
    if out.is_dir() or not out.parent.is_dir():
        raise CorpusError(f"Cannot write {out}: give a file in a folder that exists, such as corpus.jsonl.xz.")
    with working(f"reading {corpus}"):
        read = open_corpus(corpus, split=split)
    _name_dropped([read])
    with Bar("writing", len(read.dialogues), unit="dialogues") as bar:
        written = write_dialogues(out, bar.over(read.dialogues))
    if as_json:
        print_json({"out": str(out), "dialogues": written, "turns": read.turns, "dropped": _dropped_json(read)})
    else:
        typer.echo(f"{counted(written, 'dialogue')}, {counted(read.turns, 'turn')}: {out}")


@app.command()
def check(
    corpus: options.CorpusArgument,
    schema: SchemaOption = None,
    split: options.SplitOption = None,
    normalisation: Annotated[
        Literal["everyday", "lowercase", "multiwoz"] | None,
        typer.Option(
            help="Text rules of the model to train; by default everyday for MultiWOZ's slots, else lowercase."
        ),
    ] = None,
    operations: Annotated[str, typer.Option(help="Operation set of the model to train.")] = "4",
    tokenizer: Annotated[
        Path | None, typer.Option(help="A tokenizer.json or model folder, to find inputs that will be truncated.")
    ] = None,
    layout: Annotated[Literal["compact", "paper"], typer.Option(help="How the model reads the state.")] = "compact",
    max_length: Annotated[int, typer.Option(min=16, help="Longest input of the model, in word pieces.")] = 352,
    limit: Annotated[int, typer.Option(min=0, help="Maximum findings to print per kind; 0 prints all.")] = 10,
    as_json: options.JsonOption = False,
) -> None:
    """List what is wrong or suspicious in a corpus, with file and line. Exit code 1 if training would be harmed.

    Example: `somdst data check own.jsonl --schema schema.yaml`
    """
    from somdst.corpora.check import check as find
    from somdst.corpora.check import open_to_check
    from somdst.corpora.opening import normalisation_for
    from somdst.memory.operations import OperationSet
    from somdst.model.config import ModelConfig

    operation_set = OperationSet.named(operations)
    sources, slots = open_to_check(corpus, split=split, schema=schema)
    rules = normalisation or normalisation_for(slots)
    config = ModelConfig.model_validate({"normalisation": rules, "layout": layout, "max_length": max_length})
    lengths = _length_check(tokenizer, slots, config)
    with Bar("checking", unit="dialogues") as bar:
        found = find(
            bar.over(sources),
            schema=slots,
            normalisation=config.normalisation,
            operation_set=operation_set,
            input_check=lengths,
        )
    if as_json:
        print_json({"corpus": corpus} | found.to_json())
    else:
        _print_findings(found, limit=limit)
    raise typer.Exit(1 if found.harmful else 0)


def _length_check(tokenizer: Path | None, schema: Schema, config: ModelConfig) -> LengthCheck | None:
    from somdst.corpora.lengths import LengthCheck, find_tokenizer
    from somdst.model.encoding import Encoder

    found = find_tokenizer(tokenizer)
    if found is None:
        notice("lengths are not checked: give a tokenizer.json with --tokenizer")
        return None
    return LengthCheck(Encoder(found, schema, config))


def _print_findings(found: Findings, *, limit: int) -> None:
    """Findings by kind, at most `limit` of each (0: all), then the summary."""
    from rich.text import Text

    from somdst.corpora.findings import Severity
    from somdst.evaluate.tables import Table

    console = answers()
    for kind, number in found.counts.items():
        colour = "red" if kind.severity is Severity.HARM else "yellow"
        console.print(f"[bold {colour}]{kind.severity}[/] [bold]{kind.words}[/] ({number:,})")
        findings = [finding for finding in found.findings if finding.kind is kind]
        for finding in findings[:limit] if limit else findings:
            console.print(Text(f"  {finding.place}: {finding.message}"), soft_wrap=True)
        if limit and number > limit:
            console.print(f"  [dim]... and {number - limit:,} more: --limit 0 shows all[/]")
        console.print()
    size = f"{counted(found.dialogues, 'dialogue')}, {counted(found.turns, 'turn')}"
    rows = tuple((str(kind.severity), kind.words, number) for kind, number in found.counts.items())
    if rows:
        print_tables([Table("findings", size, ("severity", "what", "findings"), rows)])
    else:
        console.print(size)
    harm = found.number(Severity.HARM)
    said = f"[bold red]Training would be harmed[/] ({counted(harm, 'finding')})."
    console.print(said if harm else "[green]Nothing here would harm training.[/]")
