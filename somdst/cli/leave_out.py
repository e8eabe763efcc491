"""`somdst leave-out`: train without a domain, measure on it; for each domain in turn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from somdst.cli import learning, options, output


@options.grouped
def leave_out(
    corpus: options.CorpusArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the runs, one for each domain.")],
    given: learning.TrainingOptions,
    domains: Annotated[str, typer.Option("--domains", help="Comma-separated domains; by default each.")] = "",
    measure: Annotated[
        str | None, typer.Option("--measure", help="Dialogues to measure on; by default dev.", show_default=False)
    ] = None,
    start_from: learning.FromOption = None,
    mix: learning.MixOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Measure accuracy on unseen domains: leave each domain out of training in turn, then measure on it.

    Stop it with Ctrl-C at any time: the same command resumes it. --minutes is the time for each model.

    Example: `somdst leave-out multiwoz-2.1 runs/left-out --minutes 20 --mix sgd-train.zip=0.3,domains=0.3`
    """
    settings = given.settings(mix=mix)
    from somdst.corpora import open_corpus
    from somdst.learn.zero_shot import zero_shot

    task = given.task(corpus, settings)
    measured = open_corpus(measure).dialogues if measure else None
    with learning.ProgressBars() as bars:
        done = zero_shot(
            task,
            out,
            measured=measured,
            domains=options.listed(domains),
            start_from=start_from,
            settings=settings,
            minutes=given.minutes,
            progress=bars,
        )
    if not done.finished:
        raise learning.stopped(f" after {output.counted(len(done.results), 'domain')}")
    if as_json:
        output.print_json(done.to_json())
    else:
        output.print_tables([done.table()])
