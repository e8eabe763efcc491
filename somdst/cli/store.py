"""`somdst store`: look after stored conversations without a service: check, export, erase, expire."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from somdst.cli import options
from somdst.cli.output import Bar, counted, print_json
from somdst.errors import InputError, StoreError

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode="markdown", help="Look after stored conversations: check, export, erase."
)

Database = Annotated[
    str,
    typer.Option(envvar="SOMDST_DATABASE", help="SQLite file, or a URL such as postgresql://user@host/name."),
]
Tenant = Annotated[str | None, typer.Option(help="Only this tenant's conversations.")]


@app.command()
def verify(database: Database = "somdst.sqlite", as_json: options.JsonOption = False) -> None:
    """Replay every log and compare it with its snapshot; exit code 1 if one disagrees.

    Example: `somdst store verify --database somdst.sqlite`
    """
    from somdst.store import Store, verify

    store = Store(_existing(database))
    with Bar("replaying", unit="conversations") as bar:
        results = list(bar.over(verify(store)))
    damages = [result for result in results if result is not None]
    if as_json:
        found = [{"conversation": damage.conversation, "problem": damage.problem} for damage in damages]
        print_json({"conversations": len(results), "damaged": found})
    else:
        for damage in damages:
            typer.echo(f"{damage.conversation}: {damage.problem}")
        typer.echo(f"{counted(len(results), 'conversation')}, {len(damages)} damaged")
    if damages:
        raise typer.Exit(1)


@app.command()
def export(
    output: Annotated[Path, typer.Argument(metavar="OUT", help="File to write, JSON lines; may end in .gz or .xz.")],
    database: Database = "somdst.sqlite",
    tenant: Tenant = None,
    every: Annotated[bool, typer.Option(help="All conversations, not only those that a person corrected.")] = False,
) -> None:
    """Write corrected conversations as dialogues to train on.

    Example: `somdst store export corrections.jsonl`, then `somdst train --help`.
    """
    from somdst.corpora.jsonlines import write_dialogues
    from somdst.store import Store
    from somdst.store import export as dialogues

    store = Store(_existing(database))
    with Bar("exporting", unit="conversations") as bar:
        count = write_dialogues(output, bar.over(dialogues(store, tenant=tenant, every=every)))
    typer.echo(f"{counted(count, 'dialogue')} in {output}")


@app.command()
def erase(
    database: Database = "somdst.sqlite",
    tenant: Annotated[str, typer.Option(help="The tenant; `local` if the service has no keys.")] = "local",
    conversation: Annotated[str | None, typer.Option(help="Erase this conversation.")] = None,
    subject: Annotated[str | None, typer.Option(help="Erase all conversations of this subject.")] = None,
) -> None:
    """Erase a conversation, or all of one subject, for good, log included.

    Example: `somdst store erase --subject customer-17`
    """
    from somdst.store import Store

    if (conversation is None) == (subject is None):
        raise InputError("Say either --conversation ID or --subject NAME.")
    store = Store(_existing(database))
    count = 1
    if subject is not None:
        count = store.erase_subject(tenant, subject)
    else:
        store.erase(tenant, str(conversation))
    typer.echo(f"{counted(count, 'conversation')} erased")


@app.command()
def expire(
    database: Database = "somdst.sqlite",
    older_than_days: Annotated[
        float | None, typer.Option(min=0, help="Also erase what has not been used for this many days.")
    ] = None,
) -> None:
    """Erase conversations whose time has come. A running service does this every minute.

    Example: `somdst store expire --older-than-days 90`
    """
    from somdst.store import Store

    age = None if older_than_days is None else timedelta(days=older_than_days)
    typer.echo(f"{counted(Store(_existing(database)).expire(unused_for=age), 'conversation')} erased")


def _existing(database: str) -> str:
    """A misspelt path must not become an empty database."""
    path = database.removeprefix("sqlite:///")
    if "://" not in path and not Path(path).expanduser().is_file():
        raise StoreError(f"There is no database {path}: give the file that `somdst serve` was started with.")
    return database
