"""`somdst serve`: the HTTP service and its page."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from somdst.cli import options
from somdst.cli.output import counted, notice
from somdst.errors import InputError

if TYPE_CHECKING:
    from socket import socket

    from somdst.service.api_keys import Keys
    from somdst.service.configuration import Settings
    from somdst.tracking.tracker import Tracker


@dataclass(frozen=True, slots=True)
class ListeningOptions:
    """The options of every command that listens on a port."""

    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000
    keys: Annotated[
        Path | None,
        typer.Option(help="Key file, see `somdst keys`; it is read again when it changes. Or set SOMDST_API_KEYS."),
    ] = None
    insecure: Annotated[bool, typer.Option(help="Listen beyond loopback without API keys.")] = False

    def api_keys(self) -> Keys | None:
        from somdst.service.api_keys import load_keys

        return load_keys(self.keys, os.environ)

    def bind(self, keys: Keys | None) -> tuple[socket, str]:
        """A socket that listens, and its URL."""
        from somdst.service.server import bind

        listener = bind(self.host, self.port, keys=keys is not None, insecure=self.insecure)
        host, port = listener.getsockname()[:2]
        return listener, f"http://{f'[{host}]' if ':' in host else host}:{port}"


@options.grouped
def serve(
    given: ListeningOptions,
    model: options.ModelOption = "default",
    database: options.DatabaseOption = "somdst.sqlite",
    schema: options.SchemaOption = None,
    threshold: options.ThresholdOption = None,
    other: Annotated[
        list[str] | None, typer.Option(help="NAME=FOLDER of a model to replay stored conversations under.")
    ] = None,
    retention_days: options.RetentionOption = None,
    max_batch: Annotated[int, typer.Option(min=1, max=256, help="Turns in one batch; 1 turns batching off.")] = 32,
    max_turns: Annotated[int, typer.Option(min=1, help="Turns and edits in progress; 503 above it.")] = 128,
    turns_per_second: Annotated[
        float | None, typer.Option(min=0.01, help="Turns and edits per second and tenant; 429 above it.")
    ] = None,
    max_conversations: Annotated[
        int | None, typer.Option(min=1, help="Stored conversations per tenant; 429 above it.")
    ] = None,
    max_bytes: Annotated[
        int | None, typer.Option(min=1, help="Stored characters per tenant, about as many bytes; 429 above it.")
    ] = None,
    threads: options.ThreadsOption = None,
    log_utterances: Annotated[bool, typer.Option(help="Write what was said into the log.")] = False,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        typer.Option(case_sensitive=False, help="warning logs no line per request."),
    ] = "info",
    openapi: Annotated[bool, typer.Option("--openapi", help="Print the OpenAPI file and exit.")] = False,
) -> None:
    """Serve conversations over HTTP, with a page to watch the memory.

    Example: `somdst serve --port 8000`, then open http://127.0.0.1:8000.
    """
    from somdst.service.app import create_app, describe
    from somdst.service.configuration import Limits, Settings
    from somdst.service.server import serve as run

    if openapi:
        typer.echo(openapi_text(describe()), nl=False)
        return
    settings = Settings(
        database=database,
        model=model,
        other_models=dict(_named(entry) for entry in other or ()),
        keys=given.api_keys(),
        retention=options.days(retention_days),
        max_batch=max_batch,
        max_turns=max_turns,
        limits=Limits(turns_per_second, max_conversations, max_bytes),
        log_utterances=log_utterances,
        any_host=given.insecure,
    )

    def open_tracker(path_or_name: str) -> Tracker:
        from somdst.tracking.tracker import Tracker

        return Tracker.from_pretrained(path_or_name, schema=schema, threshold=threshold, threads=threads)

    listener, url = given.bind(settings.keys)
    application = create_app(settings, open_tracker)
    _announce(settings, url, insecure=given.insecure)
    run(application, settings, sockets=[listener], log_level=log_level.upper())


def openapi_text(description: object) -> str:
    """The text of docs/openapi.json."""
    import json

    return json.dumps(description, indent=2, ensure_ascii=False) + "\n"


def _named(entry: str) -> tuple[str, str]:
    name, equals, folder = entry.partition("=")
    if not equals or not name or not folder:
        raise InputError(f'Another model is given as NAME=FOLDER, not as "{entry}".')
    return name, folder


def _announce(settings: Settings, url: str, *, insecure: bool) -> None:
    notice(f"{url} (Ctrl-C stops it), conversations in {options.without_password(settings.database)}")
    if settings.keys is not None:
        notice(f"{counted(len(settings.keys), 'API key')}; each tenant sees its own conversations only")
    elif insecure:
        notice("no API keys: anybody who reaches this address can read and write everything")
    else:
        notice("no API keys: it listens on loopback only (see --keys)")
