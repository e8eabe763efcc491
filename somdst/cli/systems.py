"""`somdst systems` and `somdst compare-systems`: the other systems of the paper's tables, listed and side by side."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from somdst.cli import learning, options, output


def systems(as_json: options.JsonOption = False) -> None:
    """List the systems that `somdst train --system` trains: what they read, how they decide, what was published.

    Example: `somdst systems`
    """
    from somdst.baselines.catalogue import SYSTEMS, listing

    if not as_json:
        output.print_tables([listing()])
        return
    rows = []
    for entry in SYSTEMS.values():
        row = {key: value for key, value in asdict(entry).items() if key != "home"}
        best, worst = entry.complexity
        rows.append(row | {"best": best, "worst": worst, "published": list(entry.published)})
    output.print_json({"systems": rows})


def compare_systems(
    corpus: options.CorpusArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the runs, one for each system.")],
    names: Annotated[
        str | None, typer.Option("--systems", help="Only these systems, with commas.", show_default=False)
    ] = None,
    test: Annotated[bool, typer.Option("--test", help="Also measure the corpus's test part, at the end.")] = False,
    timed: Annotated[
        int, typer.Option("--timed-dialogues", min=1, help="Dialogues of dev that are timed turn by turn.")
    ] = 12,
    dev: learning.DevOption = None,
    schema: learning.SchemaOption = None,
    preset: learning.PresetOption = "cpu",
    config: learning.ConfigOption = None,
    assignments: learning.SetOption = None,
    epochs: learning.EpochsOption = None,
    minutes: learning.MinutesOption = None,
    seed: learning.SeedOption = None,
    encoder: learning.EncoderOption = None,
    limit: learning.LimitOption = 0,
    dev_limit: learning.DevLimitOption = None,
    show_settings: learning.SettingsOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Train every system under one budget on one encoder, and compare accuracy, values per turn, time and its growth.

    Writes systems.md, systems.html, systems.svg and systems.json into OUT. Stop it with Ctrl-C at any time: the same
    command goes on. --minutes is the time for each system.

    Example: `somdst compare-systems multiwoz-2.1 runs/systems --minutes 20`
    """
    learning.require_torch()
    settings = learning.chosen_settings(
        preset, config, assignments, epochs=epochs, seed=seed, encoder=encoder, dev_limit=dev_limit
    )
    from somdst.baselines.catalogue import SYSTEMS
    from somdst.baselines.side_by_side import compare_systems as run
    from somdst.baselines.side_by_side import test_part
    from somdst.baselines.systems_report import tables, write

    chosen = [name.strip() for name in names.split(",") if name.strip()] if names is not None else list(SYSTEMS)
    with learning.ProgressBars() as bars:
        done = run(
            corpus,
            out,
            dev=dev,
            schema=schema,
            settings=settings,
            systems=chosen,
            minutes=minutes,
            limit=limit,
            test=test_part(corpus) if test else None,
            timed=timed,
            progress=bars,
        )
    if not done.finished:
        learning.say("stopped; run the same command to go on")
        raise typer.Exit(130)
    for path in write(done, out):
        learning.say(f"wrote {path}")
    if as_json:
        output.print_json(done.to_json())
    else:
        output.print_tables(tables(done))
