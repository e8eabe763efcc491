"""`somdst demo`: a bundled dialogue, turn by turn, with its operations and the memory."""

from __future__ import annotations

from typing import Annotated

import typer

from somdst.cli import tracking


def demo(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="Which dialogue; --list names them.")
    ] = "train-and-museum",
    model: tracking.ModelOption = "default",
    threshold: tracking.ThresholdOption = None,
    list_all: Annotated[bool, typer.Option("--list", help="Name the bundled dialogues and exit.")] = False,
    as_json: tracking.JsonOption = False,
) -> None:
    """Track a bundled dialogue and show what every turn does to the memory.

    The dialogues are invented; in the longest and hardest, `weekend`, the user changes the mind, deletes, does not
    care, and goes by taxi between two places mentioned before.

    Example: `somdst demo weekend`
    """
    from somdst.corpora.examples import example, examples

    if list_all:
        _list(as_json=as_json)
        return
    chosen = example(name)
    from somdst.cli.track import show, to_json

    tracker = tracking.open_tracker(model, threshold=threshold)
    if as_json:
        tracking.print_json({"title": chosen.title, "about": chosen.about, **to_json(tracker, [chosen.dialogue])})
        return
    tracking.notice(f"{chosen.title}. {chosen.about}")
    show(tracker, [chosen.dialogue])
    others = ", ".join(other for other in examples() if other != name)
    tracking.notice(f"\nOther dialogues: {others}. Type your own: somdst track. In the browser: somdst serve.")


def _list(*, as_json: bool) -> None:
    from somdst.corpora.examples import examples

    if as_json:
        found = [{"name": name, "title": item.title, "about": item.about} for name, item in examples().items()]
        tracking.print_json({"examples": found})
        return
    for name, item in examples().items():
        typer.echo(f"{name:18} {len(item.dialogue.turns)} turns  {item.title}: {item.about}")
