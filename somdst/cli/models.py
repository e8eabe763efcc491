"""`somdst models`: the models that are here, with their size and how good they are."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from somdst.cli import options
from somdst.cli.output import notice, print_json, print_tables


def models(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FOLDER]...",
            help="Folders to search; by default the current one.",
            show_default=False,
        ),
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """List models: the built-in one, and those in the folders, at most two levels deep.

    Accuracy is in percent, on the dev part of the model's own corpus, from its metrics.json.

    Example: `somdst models runs`
    """
    from somdst.evaluate.tables import Table
    from somdst.model.listing import find_models

    found, damaged = find_models(folders or [Path()])
    for error in damaged:
        notice(f"skipped: {error}")
    if as_json:
        print_json({"models": [asdict(row) for row in found]})
        return
    if not found:
        notice("No model was found: train one with `somdst train`, or name the folder to look in.")
        return
    columns = ("model", "slots", "MB", "dev accuracy", "runs on", "folder")
    rows = tuple(
        (row.name, row.slots, f"{row.megabytes:.1f}", row.dev_joint_goal_accuracy, ", ".join(row.engines), row.path)
        for row in found
    )
    print_tables([Table("models", "Models", columns, rows)])
