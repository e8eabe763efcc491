"""`somdst mcp`: the tracker as tools for a language model, over stdio or HTTP."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Annotated

import typer

from somdst.cli import options
from somdst.cli.output import notice
from somdst.cli.serve import ListeningOptions
from somdst.errors import StoreError

if TYPE_CHECKING:
    from somdst.store import Store


@options.grouped
def mcp(
    given: ListeningOptions,
    http: Annotated[bool, typer.Option("--http", help="Serve over streamable HTTP, not over stdio.")] = False,
    model: options.ModelOption = "default",
    schema: options.SchemaOption = None,
    threshold: options.ThresholdOption = None,
    threads: options.ThreadsOption = None,
    database: Annotated[
        str | None,
        typer.Option(
            envvar="SOMDST_DATABASE",
            help="Where conversations are kept, as in `somdst serve`; by default only until the server stops.",
            show_default=False,
        ),
    ] = None,
    retention_days: options.RetentionOption = None,
) -> None:
    """Offer the tracker to a language model as MCP tools: track_turn, get_state, correct, undo, explain, what_to_ask.

    A client such as a desktop assistant starts it and talks to it over stdin and stdout. With --http it listens at
    /mcp; --host, --port, --keys and --insecure are for that. It can share its database with `somdst serve`, whose page
    then shows the conversations; give both the same --retention-days.

    Example: `somdst mcp --http --port 8000`
    """
    from somdst.integrations.mcp import build_server, serve_http
    from somdst.service.configuration import Settings
    from somdst.store import Store
    from somdst.tracking.tracker import Tracker

    with ExitStack() as stack:
        if database is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="somdst-mcp-", dir=memory_folder()))
            database = f"{folder}/conversations.sqlite"
        store = stack.enter_context(closing(Store(database, retention=options.days(retention_days))))
        tracker = Tracker.from_pretrained(model, schema=schema, threshold=threshold, threads=threads)
        server = build_server(tracker, store)
        if retention_days is not None:
            threading.Thread(target=_expire_forever, args=[store], daemon=True).start()
        _clean_up_when_killed(stack)
        if not http:
            server.run("stdio")
            return
        settings = Settings(database=database, model=model, keys=given.api_keys(), any_host=given.insecure)
        listener, url = given.bind(settings.keys)
        notice(f"{url}/mcp (Ctrl-C stops it)")
        serve_http(server, settings, listener=listener)


def memory_folder() -> str | None:
    """A folder in memory, where the machine has one: what is not kept need not wait for the disk."""
    in_memory = os.environ.get("TMPDIR") or "/dev/shm"
    return in_memory if os.access(in_memory, os.W_OK) else None


def _expire_forever(store: Store) -> None:
    from somdst.service.housekeeping import EXPIRY_INTERVAL

    while True:
        try:
            store.expire()
        except StoreError as error:
            notice(f"expired conversations were not erased: {error}")
        time.sleep(EXPIRY_INTERVAL)


def _clean_up_when_killed(stack: ExitStack) -> None:
    """On SIGTERM and Ctrl-C, clean up and leave at once: over stdio, a thread that waits for input would never end.
    Over HTTP, uvicorn finishes what was accepted first and then sends itself the same signal again."""

    def leave(number: int, _frame: object) -> None:
        stack.close()
        os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
