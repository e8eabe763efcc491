"""`somdst init`: a starter project for your own conversations."""

from __future__ import annotations

import shlex
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from somdst.cli import options
from somdst.cli.output import print_json
from somdst.errors import InputError
from somdst.files import make_folder, write_text

FILES = ("README.md", "schema.yaml", "train.jsonl", "dev.jsonl")


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to create.")],
    as_json: options.JsonOption = False,
) -> None:
    """Make a starter project for your own conversations: a schema, example dialogues, and a README with what to do.

    Existing files are never replaced.

    Example: `somdst init pizza`
    """
    there = [name for name in FILES if (folder / name).exists()]
    if there or (folder.exists() and not folder.is_dir()):
        what = f"has a {there[0]} already" if there else "is a file"
        raise InputError(f"{folder} {what}: name another folder.")
    starter = resources.files("somdst") / "cli" / "starter"
    make_folder(folder)
    for name in FILES:
        write_text(folder / name, (starter / name).read_text(encoding="utf-8"))
    if as_json:
        print_json({"folder": str(folder), "files": list(FILES)})
        return
    commands = [
        line for line in (folder / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("somdst ")
    ]
    typer.echo(f"{folder} is ready. Next:\n")
    typer.echo("\n".join(f"  {line}" for line in [f"cd {shlex.quote(str(folder))}", *commands]))
