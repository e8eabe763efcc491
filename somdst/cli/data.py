"""`somdst data`: look at a corpus (`stats`), write it as JSON lines (`convert`), and look for mistakes (`check`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from somdst.errors import CorpusError

if TYPE_CHECKING:
    from somdst.cli.data_parts import Part
    from somdst.cli.data_tables import Column
    from somdst.cli.lengths import LengthCheck
    from somdst.corpora import Corpus
    from somdst.corpora.check import Source
    from somdst.memory.dialogue import Dialogue
    from somdst.memory.schema import Schema
    from somdst.model.config import ModelConfig

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help="Corpora: statistics, conversion, checks.")

CorpusArgument = Annotated[
    str, typer.Argument(metavar="CORPUS", help="A file, folder or zip; or `synthetic`, which is built in.")
]
SplitName = Literal["train", "dev", "test"]
SplitOption = Annotated[SplitName | None, typer.Option("--split", help="Only this part.")]
SchemaOption = Annotated[
    str | None, typer.Option("--schema", help="A schema file, or `multiwoz`. Not needed where the corpus tells it.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, for programs.")]


@app.command()
def stats(
    corpus: CorpusArgument, split: SplitOption = None, schema: SchemaOption = None, as_json: JsonOption = False
) -> None:
    """Count a corpus as the paper does: operations, domains, vocabulary, domain transitions.

    On MultiWOZ the paper's figure stands beside ours, and differences are marked.

    Example: `somdst data stats multiwoz-2.1/test.jsonl.xz`
    """
    from rich.console import Console

    from somdst.cli.data_parts import name_dropped, parts_of, schema_for
    from somdst.cli.data_tables import show_statistics

    parts = parts_of(corpus, split)
    corpora = [part.corpus for part in parts]
    slots = schema_for(schema, corpora)
    columns = [_column(part, slots) for part in parts]
    name_dropped(corpora)
    if as_json:
        typer.echo(json.dumps(_stats_json(corpus, parts, columns, slots), ensure_ascii=False))
        return
    console = Console(highlight=False)
    console.print(f"{corpus} ({corpora[0].format})\n", markup=False, soft_wrap=True)
    show_statistics(console, columns)


def _column(part: Part, schema: Schema) -> Column:
    from somdst.cli.data_tables import Column
    from somdst.corpora.paper_counts import compare, is_multiwoz
    from somdst.corpora.statistics import count

    counted = count(part.corpus.dialogues, schema=schema)
    figures = compare(counted, part.split) if part.split is not None and is_multiwoz(schema) else ()
    return Column(part.title, counted, figures)


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


@app.command()
def convert(
    corpus: CorpusArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A file: .jsonl, .jsonl.gz or .jsonl.xz.")],
    split: SplitOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write any corpus as JSON lines, one dialogue a line: all of it or, if something goes wrong, nothing.

    Example: `somdst data convert MULTIWOZ2.1.zip dev.jsonl --split dev`
    """
    from somdst.cli.data_parts import name_dropped, open_with_notice
    from somdst.corpora import write_dialogues

    if out.is_dir() or not out.parent.is_dir():
        raise CorpusError(f"Cannot write {out}: give a file in a folder that exists, such as corpus.jsonl.xz.")
    read = open_with_notice(corpus, split)
    name_dropped([read])
    written = write_dialogues(out, _with_progress(read))
    if as_json:
        about = {"out": str(out), "dialogues": written, "turns": read.turns, "dropped": _dropped_json(read)}
        typer.echo(json.dumps(about, ensure_ascii=False))
    else:
        typer.echo(f"{written:,} dialogues, {read.turns:,} turns: {out}")


def _with_progress(corpus: Corpus) -> Iterator[Dialogue]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from somdst.cli.data_parts import notices

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=notices) as progress:
        yield from progress.track(corpus.dialogues, description="writing dialogues")


@app.command()
def check(
    corpus: CorpusArgument,
    schema: SchemaOption = None,
    split: SplitOption = None,
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
    limit: Annotated[int, typer.Option(min=0, help="Most findings to print of each kind; 0 prints all.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Say, with file and line, what is wrong or suspicious in a corpus. Exit code 1 where training would be harmed.

    Example: `somdst data check own.jsonl --schema schema.yaml`
    """
    from rich.console import Console

    from somdst.cli.data_parts import normalisation_for
    from somdst.cli.data_tables import show_report
    from somdst.corpora.check import check as look_through
    from somdst.memory.operations import OperationSet
    from somdst.model.config import ModelConfig

    operation_set = OperationSet.named(operations)
    sources, slots = _to_check(corpus, split, schema)
    rules = normalisation or normalisation_for(slots)
    config = ModelConfig.model_validate({"normalisation": rules, "layout": layout, "max_length": max_length})
    report = look_through(
        sources,
        schema=slots,
        normalisation=config.normalisation,
        operation_set=operation_set,
        input_check=_length_check(tokenizer, slots, config),
    )
    if as_json:
        typer.echo(json.dumps({"corpus": corpus} | report.to_json(), ensure_ascii=False))
    else:
        show_report(Console(highlight=False), report, limit=limit)
    raise typer.Exit(1 if report.harmful else 0)


def _to_check(corpus: str, split: SplitName | None, schema: str | None) -> tuple[Iterator[Source], Schema]:
    from somdst.cli.data_parts import json_lines_files, parts_of, schema_to_check, sources_in, sources_of

    if files := json_lines_files(Path(corpus), split):
        return sources_of(files), schema_to_check(schema, [])
    parts = parts_of(corpus, split)
    return sources_in([(corpus, part.corpus) for part in parts]), schema_to_check(
        schema, [part.corpus for part in parts]
    )


def _length_check(tokenizer: Path | None, schema: Schema, config: ModelConfig) -> LengthCheck | None:
    from somdst.cli.data_parts import notices
    from somdst.cli.lengths import LengthCheck, find_tokenizer
    from somdst.model.encoding import Encoder

    found = find_tokenizer(tokenizer)
    if found is None:
        notices.print("Lengths are not checked: give a tokenizer.json with --tokenizer.")
        return None
    return LengthCheck(Encoder(found, schema, config))
