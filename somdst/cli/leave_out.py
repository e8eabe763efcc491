"""`somdst leave-out`: train without a domain, measure on it; for each domain in turn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from somdst.cli import learning, options, output


def leave_out(
    corpus: options.CorpusArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the runs, one for each domain.")],
    domains: Annotated[str, typer.Option("--domains", help="Domains to leave out, with commas; by default each.")] = "",
    measure: Annotated[
        str | None, typer.Option("--measure", help="Dialogues to measure on; by default dev.", show_default=False)
    ] = None,
    dev: learning.DevOption = None,
    start_from: learning.FromOption = None,
    preset: learning.PresetOption = "cpu",
    config: learning.ConfigOption = None,
    assignments: learning.SetOption = None,
    epochs: learning.EpochsOption = None,
    minutes: learning.MinutesOption = None,
    seed: learning.SeedOption = None,
    encoder: learning.EncoderOption = None,
    mix: learning.MixOption = None,
    limit: learning.LimitOption = 0,
    dev_limit: learning.DevLimitOption = None,
    show_settings: learning.SettingsOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Measure what a model does with a domain that it has never seen: leave each domain out of training in turn.

    Stop it with Ctrl-C at any time: the same command goes on. --minutes is the time for each model.

    Example: `somdst leave-out multiwoz-2.1 runs/left-out --minutes 20 --mix sgd-train.zip=0.3,domains=0.3`
    """
    learning.require_torch()
    settings = learning.chosen_settings(
        preset, config, assignments, epochs=epochs, seed=seed, encoder=encoder, mix=mix, dev_limit=dev_limit
    )
    from somdst.corpora import open_corpus
    from somdst.learn.task import read_task
    from somdst.learn.zero_shot import zero_shot

    task = read_task(corpus, dev, limit=limit)
    learning.describe(task, settings)
    measured = open_corpus(measure).dialogues if measure else None
    names = [name.strip() for name in domains.split(",") if name.strip()]
    with learning.ProgressBars() as bars:
        done = zero_shot(
            task,
            out,
            measured=measured,
            domains=names,
            start_from=start_from,
            settings=settings,
            minutes=minutes,
            progress=bars,
        )
    if not done.finished:
        learning.say(f"stopped after {output.counted(len(done.results), 'domain')}; run the same command to go on")
        raise typer.Exit(130)
    if as_json:
        output.print_json(done.to_json())
    else:
        output.print_tables([done.table()])
