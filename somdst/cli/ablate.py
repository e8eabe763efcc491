"""`somdst ablate`: train one model per operation set of the paper's ablation, all alike, and compare them on dev."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from somdst.cli import learning, options, output
from somdst.memory.operations import OPERATION_SETS


def ablate(
    corpus: options.CorpusArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the runs, one for each set and seed.")],
    sets: Annotated[str, typer.Option("--sets", help="Operation sets to compare.")] = ",".join(OPERATION_SETS),
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Models per set, each with another seed.")] = 1,
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
    skip_unknown: learning.SkipOption = False,
    show_settings: learning.SettingsOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Compare the operation sets of the paper's ablation: the same settings and number of steps for each set.

    Stop it with Ctrl-C at any time: the same command goes on. --minutes is the time for each model.

    Example: `somdst ablate multiwoz-2.1 runs/ablation --minutes 60`
    """
    learning.require_torch()
    settings = learning.chosen_settings(
        preset, config, assignments, epochs=epochs, seed=seed, encoder=encoder, dev_limit=dev_limit
    )
    from somdst.learn.ablation import ablate as run
    from somdst.learn.encoders import check_encoder
    from somdst.learn.task import read_task

    names = [name.strip() for name in sets.split(",") if name.strip()]
    check_encoder(settings.encoder)
    task = read_task(corpus, dev, schema=schema, limit=limit, skip_unknown=skip_unknown)
    learning.describe(task, settings)
    with learning.ProgressBars() as bars:
        ablation = run(task, out, settings=settings, sets=names, seeds=seeds, minutes=minutes, progress=bars)
    if not ablation.finished:
        learning.say(f"stopped after {output.counted(len(ablation.results), 'run')}; run the same command to go on")
        raise typer.Exit(130)
    if as_json:
        output.print_json(ablation.to_json())
    else:
        output.print_tables([ablation.table()])
