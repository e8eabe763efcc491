"""`somdst`: the list of commands, and what happens with an error.

Answers go to stdout, notices and progress to stderr. An error that somdst raises on purpose is one line on stderr
and exit code 2.
"""

from __future__ import annotations

import sys

import typer

from somdst import __version__
from somdst.cli import (
    ablate,
    analyze,
    annotate,
    bench,
    calibrate,
    compare,
    data,
    demo,
    evaluate,
    export,
    init,
    models,
    report,
    serve,
    store,
    track,
    train,
)
from somdst.errors import SomdstError

app = typer.Typer(
    name="somdst",
    help="Track what a user wants over a conversation, by selectively overwriting a memory of slots.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def root(version: bool = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True)) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


app.command()(demo.demo)
app.command()(track.track)
app.command()(annotate.annotate)
app.command()(init.init)
app.command()(models.models)
app.add_typer(data.app, name="data")
app.add_typer(bench.app, name="bench")
app.command()(train.with_settings(train.train))
app.command()(train.with_settings(ablate.ablate, without=("operation_set", "own_states", "own_rate")))
app.command()(export.export)
app.command()(evaluate.evaluate)
app.command()(analyze.analyze)
app.command()(calibrate.calibrate)
app.command()(compare.compare)
app.command()(report.report)
app.command()(serve.serve)
app.add_typer(store.app, name="store")


def main() -> None:
    try:
        app()
    except SomdstError as error:
        typer.echo(f"somdst: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("somdst: interrupted", err=True)
        sys.exit(130)
