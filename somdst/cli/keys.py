"""`somdst keys`: the API keys in a key file, which a running service reads again when it changes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from somdst.cli import options

app = options.command_group("Add, list and remove the API keys of a key file.")

File = Annotated[Path, typer.Argument(metavar="FILE", help="The key file that `somdst serve --keys` reads.")]


@app.command()
def add(
    file: File,
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="Whose conversations the key opens.")],
) -> None:
    """Make a random key, add its hash to the file, and print the key. It is stored nowhere else.

    Example: `somdst keys add keys.txt acme`
    """
    from somdst.service.api_keys import add_key

    typer.echo(add_key(file, tenant))


@app.command("list")
def list_(file: File) -> None:
    """Show the tenants and the ids of their keys. An id is the start of a hash and opens nothing.

    Example: `somdst keys list keys.txt`
    """
    from somdst.service.api_keys import list_keys

    for key in list_keys(file):
        typer.echo(f"{key.id}  {key.tenant}")


@app.command()
def remove(
    file: File, id: Annotated[str, typer.Argument(metavar="ID", help="As `somdst keys list` shows it.")]
) -> None:
    """Remove a key. Requests with it are refused from then on.

    Example: `somdst keys remove keys.txt 3f2a9c01d4e5`
    """
    from somdst.service.api_keys import remove_key

    typer.echo(f"removed a key of {remove_key(file, id).tenant}")
