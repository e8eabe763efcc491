"""`somdst bench`: measure speed on this machine. One command a thing that is measured."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from somdst.cli import bench_bulk, bench_service, bench_train

if TYPE_CHECKING:
    from somdst.bench.data import Rate

app = typer.Typer(rich_markup_mode="markdown")
app.command()(bench_service.service)
app.command()(bench_train.train)
app.command()(bench_bulk.bulk)


@app.callback(invoke_without_command=True)
def turns(
    context: typer.Context,
    model: Annotated[str, typer.Option("--model", help="A model's folder, or `default`.")] = "default",
    corpus: Annotated[
        str | None, typer.Option("--corpus", help="Take the turns from here, not from the bundled examples.")
    ] = None,
    most: Annotated[int, typer.Option("--turns", min=4, help="Most turns to measure with, a round.")] = 60,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="How often each variant does them.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, for programs.")] = False,
) -> None:
    """Measure speed on this machine: without a command, milliseconds a turn in every way it can be run.

    Example: `somdst bench --corpus multiwoz-2.1/test.jsonl.xz`
    """
    if context.invoked_subcommand is None:
        from somdst.cli import bench_turns

        bench_turns.run(model, corpus, turns=most, rounds=rounds, as_json=as_json)


@app.command()
def data(
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="A file, folder or zip; or `synthetic`.")],
    repeats: Annotated[int, typer.Option(min=1, help="How often each thing is measured; the median counts.")] = 5,
    turns: Annotated[int, typer.Option(min=1, help="Most turns to encode.")] = 10_000,
    schema: Annotated[str | None, typer.Option(help="A schema file, or `multiwoz`.")] = None,
    tokenizer: Annotated[Path | None, typer.Option(help="A tokenizer.json or model folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, for programs.")] = False,
) -> None:
    """Turns a second of reading a corpus and deriving operations, and of encoding, on one core.

    Example: `somdst bench data multiwoz-2.1/train.jsonl.xz`
    """
    from somdst.cli.data_parts import notices

    with notices.status(f"measuring {repeats} times"):
        rates = _measure_data(corpus, schema, tokenizer, repeats=repeats, turns=turns)
    if as_json:
        typer.echo(json.dumps({"corpus": corpus} | {rate.name.replace(" ", "_"): rate.to_json() for rate in rates}))
    else:
        _show(rates)


def _measure_data(corpus: str, schema: str | None, tokenizer: Path | None, *, repeats: int, turns: int) -> list[Rate]:
    from somdst.bench.data import measure_encoding, measure_reading, turn_inputs
    from somdst.cli.data_parts import normalisation_for, notices, schema_for
    from somdst.cli.lengths import find_tokenizer
    from somdst.corpora import open_corpus
    from somdst.model.config import ModelConfig
    from somdst.model.encoding import Encoder

    opened = open_corpus(corpus)
    slots = schema_for(schema, [opened])
    rates = [measure_reading(lambda: open_corpus(corpus), repeats=repeats)]
    pieces = find_tokenizer(tokenizer)
    if pieces is None:
        notices.print("Encoding is not measured: give a tokenizer.json with --tokenizer.")
        return rates
    inputs = turn_inputs(opened, most=turns)
    for layout in ("compact", "paper"):
        config = ModelConfig.model_validate({"layout": layout, "normalisation": normalisation_for(slots)})
        make = partial(Encoder, pieces, slots, config)
        rates.append(measure_encoding(f"encoding {layout}", make, inputs, repeats=repeats))
    return rates


def _show(rates: list[Rate]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, caption="median of the repeats, one core", caption_justify="left")
    for title, justify in (("", "left"), ("turns", "right"), ("turns/s", "right"), ("turns/processor second", "right")):
        table.add_column(title, justify=justify)  # type: ignore[arg-type]
    for rate in rates:
        numbers = (rate.turns, rate.turns_per_second, rate.turns_per_processor_second)
        table.add_row(rate.name, *(f"{number:,.0f}" for number in numbers))
    Console(highlight=False).print(table)
