"""`somdst`: the list of commands, and how errors are shown.

Answers go to stdout, notices and progress to stderr. An error that somdst raises on purpose is one line on stderr
and exit code 2.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import typer

from somdst import __version__
from somdst.cli import (
    ablate,
    annotate,
    bench,
    calibrate,
    data,
    export,
    init,
    keys,
    leave_out,
    mcp_server,
    measure,
    models,
    schema_files,
    serve,
    store,
    systems,
    track,
    train,
)
from somdst.cli.output import plain
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


app.command()(track.demo)
app.command()(track.track)
app.command()(annotate.annotate)
app.command()(init.init)
app.command()(models.models)
app.add_typer(schema_files.app, name="schema")
app.add_typer(data.app, name="data")
app.command()(bench.bench)
app.command()(train.train)
app.command()(ablate.ablate)
app.command("leave-out")(leave_out.leave_out)
app.command()(systems.systems)
app.command()(systems.compare_systems)
app.command()(export.export)
app.command()(measure.evaluate)
app.command()(measure.analyze)
app.command()(calibrate.calibrate)
app.command()(measure.compare)
app.command()(measure.report)
app.command()(serve.serve)
app.command()(mcp_server.mcp)
app.add_typer(keys.app, name="keys")
app.add_typer(store.app, name="store")


_UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # typer gives it no name of its own


def main() -> None:
    _run(app)


def run_alone(command: Callable[..., None], *, arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one function as a program of its own, with the same manners: what `benchmarks/` does."""
    alone = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)
    alone.command()(command)
    _run(alone, arguments)


def _run(application: typer.Typer, arguments: Sequence[str] | None = None) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an old terminal shows ? where it lacks a character
    try:
        sys.exit(application(arguments, standalone_mode=False) or 0)
    except SomdstError as error:
        _fail(str(error))
    except _UsageError as error:
        _fail(_usage(error))
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("somdst: interrupted", err=True)
        sys.exit(130)


def _usage(error: Any) -> str:
    """What is wrong with the command line, and where help is."""
    path = error.ctx.command_path if error.ctx else "somdst"
    said = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":  # a group without a command: the message is its help
        typer.echo(said, err=True)
        sys.exit(2)
    return f"{said if said.endswith(('.', '?', '!')) else said + '.'} See `{path} --help`."


def _fail(text: str) -> NoReturn:
    typer.echo(f"somdst: {' '.join(plain(text).split())}", err=True)
    sys.exit(2)
