"""`somdst track`: a conversation in the terminal, or dialogues from a file; `somdst demo`: a bundled dialogue."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from somdst.cli import options
from somdst.cli.output import answers, notice, plain, print_json

if TYPE_CHECKING:
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
    model: options.ModelOption = "default",
    schema: options.SchemaOption = None,
    threshold: options.ThresholdOption = None,
    precision: options.PrecisionOption = "int8",
    threads: options.ThreadsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Track a conversation: type what the user says, and see the memory change beside it.

    With a file, its dialogues are tracked and shown, or printed as JSON: JSON lines, one JSON dialogue, or plain text
    with a line for each thing the user said. While typing, /help lists the commands.

    Example: `echo "A cheap hotel in the north, please" | somdst track - --json`
    """
    from somdst.tracking.tracker import Tracker

    if as_json and file is None:
        file = "-"
    dialogues = read_input(file) if file is not None else None
    tracker = Tracker.from_pretrained(model, schema=schema, threshold=threshold, precision=precision, threads=threads)
    if dialogues is None:
        from somdst.cli.terminal import talk

        talk(tracker)
    elif as_json:
        print_json(_to_json(tracker, dialogues))
    else:
        _show(tracker, dialogues)


def demo(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="Which dialogue; --list names them.")
    ] = "train-and-museum",
    model: options.ModelOption = "default",
    threshold: options.ThresholdOption = None,
    list_all: Annotated[bool, typer.Option("--list", help="List the bundled dialogues and exit.")] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Track a bundled dialogue and show what every turn does to the memory.

    The dialogues are invented. In the longest and hardest, `weekend`, the user changes their mind, takes something
    back, has no preference, and goes by taxi between two places mentioned before.

    Example: `somdst demo weekend`
    """
    from somdst.corpora.examples import example, examples
    from somdst.tracking.tracker import Tracker

    if list_all:
        _list_examples(as_json=as_json)
        return
    chosen = example(name)
    tracker = Tracker.from_pretrained(model, threshold=threshold)
    if as_json:
        print_json({"title": chosen.title, "about": chosen.about, **_to_json(tracker, [chosen.dialogue])})
        return
    notice(f"{chosen.title}. {chosen.about}")
    _show(tracker, [chosen.dialogue])
    others = ", ".join(other for other in examples() if other != name)
    notice(f"other dialogues: {others}. Type your own: somdst track. In the browser: somdst serve.")


def read_input(path: str) -> list[Dialogue]:
    """Dialogues from a file, or from standard input where `path` is "-"; every turn is one that can be tracked."""
    from somdst.bulk.annotating import check_dialogue
    from somdst.corpora.transcripts import parse_transcripts, read_transcripts

    if path == "-":
        said = sys.stdin.buffer.read().decode("utf-8", "replace") if hasattr(sys.stdin, "buffer") else sys.stdin.read()
        dialogues, where = parse_transcripts(said, where="standard input"), "standard input"
    else:
        dialogues, where = read_transcripts(Path(path)), path
    for dialogue in dialogues:
        check_dialogue(dialogue, where=where)
    return dialogues


def _to_json(tracker: Tracker, dialogues: list[Dialogue]) -> dict[str, Any]:
    from somdst.bulk.annotating import annotate

    done = [item.to_json(redact=False) for item in annotate(tracker, dialogues)]
    return {"model": tracker.predictor.model_id, "dialogues": done}


def _show(tracker: Tracker, dialogues: list[Dialogue]) -> None:
    """Every turn with what it did and the memory after it."""
    from somdst.cli import rendering

    console = answers()
    for dialogue in dialogues:
        own = tracker.for_dialogue(dialogue)
        conversation = own.start()
        console.rule(plain(dialogue.id), style="dim")
        for number, turn in enumerate(dialogue.turns, start=1):
            result = conversation.update(user=turn.user, system=turn.system)
            view = rendering.turn_view(
                turn, result.entry, result.snapshot, own.schema, number=number, width=console.width
            )
            console.print(view)
    console.print(rendering.LEGEND)


def _list_examples(*, as_json: bool) -> None:
    from somdst.corpora.examples import examples

    if as_json:
        found = [{"name": name, "title": item.title, "about": item.about} for name, item in examples().items()]
        print_json({"examples": found})
        return
    for name, item in examples().items():
        typer.echo(f"{name:18} {len(item.dialogue.turns)} turns  {item.title}: {item.about}")
