"""`somdst track`: a conversation in the terminal with its memory beside it, or dialogues from a file for scripts."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from somdst.cli import tracking

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from somdst.cli.session import Session
    from somdst.memory.dialogue import Dialogue
    from somdst.tracking.tracker import Tracker


def track(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]",
            help="Dialogues to track, `-` for standard input. Without it you type.",
            show_default=False,
        ),
    ] = None,
    model: tracking.ModelOption = "default",
    schema: tracking.SchemaOption = None,
    threshold: tracking.ThresholdOption = None,
    precision: tracking.PrecisionOption = "int8",
    threads: tracking.ThreadsOption = None,
    as_json: tracking.JsonOption = False,
) -> None:
    """Track a conversation: type what the user says, and see the memory change beside it.

    With a file, its dialogues are tracked and shown, or printed as JSON: JSON lines, one JSON dialogue, or plain text
    with a line for each thing the user said. While typing, /help lists the commands.

    Example: `echo "A cheap hotel in the north, please" | somdst track - --json`
    """
    if as_json and file is None:
        file = "-"
    dialogues = tracking.read_input(file) if file is not None else None
    tracker = tracking.open_tracker(model, schema=schema, threshold=threshold, precision=precision, threads=threads)
    if dialogues is None:
        _talk(tracker)
    elif as_json:
        tracking.print_json(to_json(tracker, dialogues))
    else:
        show(tracker, dialogues)


def to_json(tracker: Tracker, dialogues: list[Dialogue]) -> dict[str, object]:
    from somdst.bulk.annotating import annotate

    done = [item.to_json() for item in annotate(tracker, dialogues)]
    return {"model": tracker.predictor.model_id, "dialogues": done}


def show(tracker: Tracker, dialogues: list[Dialogue]) -> None:
    """Every turn with what it did and the memory after it."""
    from rich.console import Console

    from somdst.cli import rendering

    console = Console(highlight=False)
    for dialogue in dialogues:
        conversation = tracker.start()
        console.rule(rendering.plain(dialogue.id), style="dim")
        for number, turn in enumerate(dialogue.turns, start=1):
            result = conversation.update(user=turn.user, system=turn.system)
            view = rendering.turn_view(
                turn, result.entry, result.snapshot, tracker.schema, number=number, width=console.width
            )
            console.print(view)
    console.print(rendering.LEGEND)


def _talk(tracker: Tracker) -> None:
    from rich.console import Console

    from somdst.cli.session import Session, run

    console = Console(highlight=False)
    session = Session(tracker)
    run(session, console, _reader(session, console))


def _reader(session: Session, console: Console) -> Callable[[], str]:
    if not sys.stdin.isatty():
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(encoding="utf-8", errors="replace")
        return input
    try:
        import readline
    except ImportError:  # there is none on Windows; typing works without
        pass
    else:
        readline.set_completer_delims("")
        readline.set_completer(_Completer(session))
        readline.parse_and_bind("tab: complete")
    return lambda: console.input("[bold]user ▸[/bold] ")


class _Completer:
    """Completes commands and the slots after them."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def __call__(self, text: str, state: int) -> str | None:
        found = self.complete(text)
        return found[state] if state < len(found) else None

    def complete(self, text: str) -> list[str]:
        from somdst.cli.session import COMMANDS

        if not text.startswith("/"):
            return []
        name, space, rest = text.partition(" ")
        if not space:
            return [f"/{command} " for command in COMMANDS if f"/{command}".startswith(name)]
        slots = self.session.tracker.schema if "SLOT" in COMMANDS.get(name[1:], COMMANDS["quit"]).usage else ()
        return [f"{name} {slot} " for slot in slots if slot.startswith(rest)]
