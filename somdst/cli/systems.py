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


@options.grouped
def compare_systems(
    corpus: options.CorpusArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the runs, one for each system.")],
    given: learning.TrainingOptions,
    names: Annotated[
        str | None, typer.Option("--systems", help="Only these systems, comma-separated.", show_default=False)
    ] = None,
    test: Annotated[bool, typer.Option("--test", help="Also measure the corpus's test part.")] = False,
    timed: Annotated[int, typer.Option("--timed-dialogues", min=1, help="Dialogues of dev to time turn by turn.")] = 12,
    schema: learning.SchemaOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Train every system under one budget on one encoder, and compare accuracy, values per turn, time and its growth.

    Writes systems.md, systems.html, systems.svg and systems.json into OUT. Stop it with Ctrl-C at any time: the same
    command resumes it. --minutes is the time for each system.

    Example: `somdst compare-systems multiwoz-2.1 runs/systems --minutes 20`
    """
    settings = given.settings()
    from somdst.baselines.catalogue import SYSTEMS
    from somdst.baselines.side_by_side import compare_systems as run
    from somdst.baselines.systems_report import tables, write
    from somdst.corpora import open_corpus

    with learning.ProgressBars() as bars:
        done = run(
            corpus,
            out,
            dev=given.dev,
            schema=schema,
            settings=settings,
            systems=list(SYSTEMS) if names is None else options.listed(names),
            minutes=given.minutes,
            limit=given.limit,
            test=open_corpus(corpus, split="test").dialogues if test else None,
            timed=timed,
            progress=bars,
        )
    if not done.finished:
        raise learning.stopped()
    for path in write(done, out):
        learning.say(f"wrote {path}")
    if as_json:
        output.print_json(done.to_json())
    else:
        output.print_tables(tables(done))
