"""`somdst schema`: schemas from other formats (`convert`), and what makes one hard to track (`check`)."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from somdst.cli import options
from somdst.cli.output import answers, counted, notice, print_json
from somdst.errors import SchemaError

if TYPE_CHECKING:
    from somdst.memory.schema import Schema

app = options.command_group("Schemas: conversion, checks.")

SourceArgument = Annotated[
    str,
    typer.Argument(
        metavar="SCHEMA",
        help="A file (a schema of somdst, JSON Schema or tool definitions, as YAML or JSON), `module:Class` for a "
        "pydantic model, or `multiwoz`.",
    ),
]
DomainOption = Annotated[
    str | None,
    typer.Option("--domain", help="Domain of the properties that are not in an object; by default the title."),
]
SkipOption = Annotated[
    list[str] | None,
    typer.Option("--skip", metavar="PROPERTY", help="Leave out a property, such as `toppings` or `hotel.rooms`."),
]


@app.command()
def convert(
    source: SourceArgument,
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT", help="What to write: `.yaml` or `.json` for somdst, `.schema.json` for JSON Schema."
        ),
    ],
    domain: DomainOption = None,
    skip: SkipOption = None,
) -> None:
    """Convert a schema: from JSON Schema, tool definitions or a pydantic model, and back to JSON Schema.

    A property is a slot; a property that is an object, or a tool, is a domain. OpenAI's, Anthropic's and MCP's tool
    definitions are read, one or a list.

    Example: `somdst schema convert tools.json schema.yaml`

    Example: `somdst schema convert my_app.models:Booking schema.yaml --skip toppings`

    Example: `somdst schema convert schema.yaml booking.schema.json`
    """
    if out.suffix not in (".yaml", ".yml", ".json"):
        raise SchemaError(f"{out} must end in .yaml or .json, or in .schema.json for JSON Schema.")
    schema = _open(source, domain, skip)
    schema.save(out)
    notice(f"{out}: {counted(len(schema), 'slot')} in {counted(len(schema.domains), 'domain')}")


@app.command()
def check(
    source: SourceArgument,
    domain: DomainOption = None,
    skip: SkipOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """List what makes a schema hard to track; exit code 1 if anything does.

    Slots without a description or with a long one, slots that a tracker could confuse, closed lists with nearly equal
    values or very many of them, and more slots than fit into the input.

    Example: `somdst schema check schema.yaml`

    Example: `somdst schema check my_app.models:Booking --json`
    """
    from somdst.model.schema_check import check_schema

    schema = _open(source, domain, skip)
    remarks = check_schema(schema)
    if as_json:
        print_json({"schema": source, "slots": len(schema), "remarks": [remark.to_json() for remark in remarks]})
    else:
        from rich.text import Text

        for remark in remarks:
            answers().print(Text.assemble((remark.kind, "bold yellow"), f"  {remark.message}"), soft_wrap=True)
        size = f"{counted(len(schema), 'slot')} in {counted(len(schema.domains), 'domain')}"
        typer.echo(f"{size}: {counted(len(remarks), 'remark')}" if remarks else f"{size}: nothing to improve")
    raise typer.Exit(1 if remarks else 0)


def _open(source: str, domain: str | None, skip: list[str] | None) -> Schema:
    from somdst.memory.schema import Schema

    if source == "multiwoz":
        return Schema.multiwoz()
    module, colon, name = source.partition(":")
    if not colon or Path(source).exists():
        return Schema.load(source, domain=domain, skip=skip or ())
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
    try:
        model = getattr(importlib.import_module(module), name)
    except Exception as error:  # the module is the user's, and may raise anything
        raise SchemaError(f"Cannot import {source}: {type(error).__name__}: {error}.") from error
    return Schema.from_pydantic(model, domain=domain, skip=skip or ())
