"""`somdst store`: look after stored conversations without a service: check, copy, export, erase, expire."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from somdst.cli import options
from somdst.cli.output import Bar, counted, notice, print_json, working
from somdst.errors import InputError, StoreError

if TYPE_CHECKING:
    from somdst.store import Damage, Store

app = options.command_group("Maintain stored conversations: check, copy, export, erase.")

Tenant = Annotated[str | None, typer.Option(help="Only this tenant's conversations.")]


@app.command()
def verify(database: options.DatabaseOption = "somdst.sqlite", as_json: options.JsonOption = False) -> None:
    """Replay every log and compare it with its snapshot; exit code 1 if one disagrees.

    Example: `somdst store verify --database somdst.sqlite`
    """
    checked, damages = _verified(database)
    if as_json:
        found = [{"conversation": damage.conversation, "problem": damage.problem} for damage in damages]
        print_json({"conversations": checked, "damaged": found})
    else:
        for damage in damages:
            typer.echo(f"{damage.conversation}: {damage.problem}")
        typer.echo(f"{counted(checked, 'conversation')}, {len(damages)} damaged")
    if damages:
        raise typer.Exit(1)


def _verified(database: str) -> tuple[int, list[Damage]]:
    """How many conversations there are, and the damaged ones."""
    from somdst.store import verify

    with _opened(database, upgrade=False) as store, Bar("replaying", unit="conversations") as bar:
        results = list(bar.over(verify(store)))
    return len(results), [result for result in results if result is not None]


@app.command()
def backup(
    output: Annotated[Path, typer.Argument(metavar="OUT", help="SQLite file to make.")],
    database: options.DatabaseOption = "somdst.sqlite",
) -> None:
    """Copy the database, SQLite or PostgreSQL, into a new SQLite file, while the service goes on writing.

    The copy is the database at one moment. It is checked as by `verify`.

    Example: `somdst store backup monday.sqlite --database postgresql://user@host/name`
    """
    _copied(_existing(database), str(output))


@app.command()
def restore(
    copy: Annotated[Path, typer.Argument(metavar="COPY", help="SQLite file that `backup` made.")],
    database: options.DatabaseOption = "somdst.sqlite",
) -> None:
    """Copy a backup into a new SQLite file, or an empty PostgreSQL database.

    Example: `somdst store restore monday.sqlite --database postgresql://user@host/new`
    """
    _copied(_existing(str(copy)), database)


@app.command()
def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="SQLite file or PostgreSQL URL.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="A new SQLite file, or an empty PostgreSQL database.")],
) -> None:
    """Copy all conversations of one database into another, for instance to move from SQLite to PostgreSQL.

    Stop the service first, so that nothing is written to the old one afterwards.

    Example: `somdst store copy somdst.sqlite postgresql://user@host/name`
    """
    _copied(_existing(source), target)


def _copied(source: str, target: str) -> None:
    from somdst.store import copy

    with working("copying"):
        copied = copy(source, target)
    said = f"{counted(copied.conversations, 'conversation')} in {options.without_password(target)}"
    if not copied.up_to_date:
        typer.echo(f"{said}, not checked: their tables are of an older somdst, see `somdst store upgrade`")
        return
    _, damages = _verified(target)
    typer.echo(f"{said}, {len(damages)} damaged")
    if damages:
        notice("`somdst store verify` says what is wrong with them; they were copied as they are")
        raise typer.Exit(1)


@app.command()
def upgrade(database: options.DatabaseOption = "somdst.sqlite") -> None:
    """Bring the tables of an older somdst up to date. A service does this when it starts.

    Example: `somdst store backup old.sqlite && somdst store upgrade`
    """
    with _opened(database) as store:
        store.ping()
    typer.echo(f"{options.without_password(database)} is up to date")


@app.command()
def export(
    output: Annotated[Path, typer.Argument(metavar="OUT", help="File to write, JSON lines; may end in .gz or .xz.")],
    database: options.DatabaseOption = "somdst.sqlite",
    tenant: Tenant = None,
    every: Annotated[bool, typer.Option(help="All conversations, not only those that a person corrected.")] = False,
    schema: Annotated[
        Path | None,
        typer.Option(help="Also hide the slots that this schema redacts, in conversations from before it did."),
    ] = None,
) -> None:
    """Write corrected conversations as dialogues to train on. Values of slots with `redact` are hidden.

    Damaged conversations are left out and named; the exit code is 1 then.

    Example: `somdst store export corrections.jsonl`, then `somdst train --help`.
    """
    from somdst.corpora.jsonlines import write_dialogues
    from somdst.files import base_name
    from somdst.memory.schema import Schema
    from somdst.store import export as dialogues

    if not base_name(output).endswith(".jsonl"):
        raise InputError(f"{output} does not end in .jsonl, .jsonl.gz or .jsonl.xz, and only JSON lines are written.")
    redacted = Schema.load(schema).redacted if schema else ()
    damages: list[Damage] = []
    with _opened(database, upgrade=False) as store, Bar("exporting", unit="conversations") as bar:
        found = dialogues(store, tenant=tenant, every=every, redacted=redacted, damaged=damages.append)
        count = write_dialogues(output, bar.over(found))
    typer.echo(f"{counted(count, 'dialogue')} in {output}")
    for damage in damages:
        notice(f"left out, because it is damaged: {damage.conversation}, see `somdst store verify`")
    if damages:
        raise typer.Exit(1)


@app.command()
def erase(
    database: options.DatabaseOption = "somdst.sqlite",
    tenant: Annotated[str, typer.Option(help="The tenant; `local` if the service has no keys.")] = "local",
    conversation: Annotated[str | None, typer.Option(help="Erase this conversation.")] = None,
    subject: Annotated[str | None, typer.Option(help="Erase all conversations of this subject.")] = None,
) -> None:
    """Erase a conversation, or all of one subject, for good, log included.

    Example: `somdst store erase --subject customer-17`
    """
    if (conversation is None) == (subject is None):
        raise InputError("Give either --conversation ID or --subject NAME.")
    count = 1
    with _opened(database) as store:
        if subject is not None:
            count = store.erase_subject(tenant, subject)
        else:
            store.erase(tenant, str(conversation))
    typer.echo(f"{counted(count, 'conversation')} erased")


@app.command()
def expire(
    database: options.DatabaseOption = "somdst.sqlite",
    older_than_days: Annotated[
        float | None,
        typer.Option(
            min=0, max=options.MOST_DAYS, help="Also erase conversations that have not changed for this many days."
        ),
    ] = None,
) -> None:
    """Erase expired conversations. A running service does this every minute.

    Example: `somdst store expire --older-than-days 90`
    """
    with _opened(database) as store:
        erased = store.expire(unused_for=options.days(older_than_days))
    typer.echo(f"{counted(erased, 'conversation')} erased")


@app.command()
def actions(database: options.DatabaseOption = "somdst.sqlite", as_json: options.JsonOption = False) -> None:
    """List erasures and added or removed API keys, oldest first.

    Example: `somdst store actions --json`
    """
    from dataclasses import asdict
    from datetime import UTC, datetime

    from somdst.store import read_actions

    with _opened(database, upgrade=False) as store:
        done = list(read_actions(store.database))
    if as_json:
        print_json({"actions": [asdict(action) for action in done]})
        return
    for action in done:
        at = datetime.fromtimestamp(action.at, UTC).isoformat(timespec="seconds")
        typer.echo(f"{at}  {action.tenant or 'all tenants'}  {action.action}  {action.detail}")


def _opened(database: str, *, upgrade: bool = True) -> closing[Store]:
    from somdst.store import Store

    return closing(Store(_existing(database), upgrade=upgrade))


def _existing(database: str) -> str:
    """A misspelt path must not become an empty database."""
    from somdst.store.database import sqlite_file

    path = sqlite_file(database)
    if path and not path.is_file():
        raise StoreError(f"There is no database {path}: give the file that `somdst serve` was started with.")
    return database
