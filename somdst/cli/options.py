"""The options and arguments that several commands share, each defined once, with its help.

Options that always come together are the fields of a dataclass, which a command takes as its parameter `given`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model folder, or `default` for the built-in model.")
]
ModelOption = Annotated[str, typer.Option("--model", "-m", help="A model folder, or `default` for the built-in model.")]
CorpusArgument = Annotated[
    str,
    typer.Argument(
        metavar="CORPUS", help="Labelled dialogues: a file, folder or zip, or the built-in `synthetic` or `domains`."
    ),
]
SplitOption = Annotated[
    Literal["train", "dev", "test"] | None, typer.Option("--split", help="Use only this part.", show_default=False)
]
LimitOption = Annotated[
    int | None, typer.Option("--limit", min=1, help="Use only the first dialogues.", show_default=False)
]
SchemaOption = Annotated[
    Path | None,
    typer.Option("--schema", help="The slots to track: your own schema (YAML or JSON).", show_default=False),
]
ThresholdOption = Annotated[
    float | None,
    typer.Option(
        "--threshold",
        min=0,
        max=1,
        help="Hold back writes less probable than this; by default the model's own threshold.",
        show_default=False,
    ),
]
EngineOption = Annotated[str, typer.Option("--engine", help="onnx, torch, or auto: onnx if exported, else torch.")]
PrecisionOption = Annotated[str, typer.Option("--precision", help="Precision of the onnx engine: int8 or float32.")]
MOST_DAYS = 36_500
RetentionOption = Annotated[
    float | None,
    typer.Option(min=0.001, max=MOST_DAYS, help="Erase conversations this many days after their last change."),
]
DatabaseOption = Annotated[
    str,
    typer.Option(envvar="SOMDST_DATABASE", help="SQLite file, or a URL such as postgresql://user@host/name."),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option("--threads", min=1, help="Threads of the model; by default one per core.", show_default=False),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, for programs.")]


def days(number: float | None) -> timedelta | None:
    """An option in days."""
    return None if number is None else timedelta(days=number)


def command_group(help: str) -> typer.Typer:
    return typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help=help)


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer wants it: after its own options, one for each field of `given`."""
    own = dict(signature(command, eval_str=True).parameters)
    group = own.pop("given").annotation
    fields = signature(group, eval_str=True).parameters

    def run(**arguments: Any) -> None:
        command(given=group(**{name: arguments.pop(name) for name in fields}), **arguments)

    spread = [*own.values(), *fields.values()]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {field.name: field.annotation for field in spread}
    run.__signature__ = signature(run).replace(  # type: ignore[attr-defined]
        parameters=[field.replace(kind=Parameter.KEYWORD_ONLY) for field in spread]
    )
    return run


def listed(text: str) -> list[str]:
    """The names in an option that takes several, with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


def without_password(database: str) -> str:
    """A database as it may be shown."""
    if "://" not in database:
        return database
    from sqlalchemy.engine import make_url

    return make_url(database).render_as_string(hide_password=True)
