"""`somdst ablate`: train one model per operation set of the paper's ablation, all alike, and compare them on dev."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from somdst.cli import learning, options, output
from somdst.memory.operations import OPERATION_SETS


@options.grouped
def ablate(
    corpus: options.CorpusArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the runs, one for each set and seed.")],
    given: learning.TrainingOptions,
    sets: Annotated[str, typer.Option("--sets", help="Comma-separated operation sets.")] = ",".join(OPERATION_SETS),
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Models per set, each with another seed.")] = 1,
    schema: learning.SchemaOption = None,
    skip_unknown: learning.SkipOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Compare the operation sets of the paper's ablation, each trained with the same settings and number of steps.

    Stop it with Ctrl-C at any time: the same command resumes it. --minutes is the time for each model.

    Example: `somdst ablate multiwoz-2.1 runs/ablation --minutes 60`
    """
    settings = given.settings()
    from somdst.learn.ablation import ablate as run
    from somdst.learn.encoders import check_encoder

    check_encoder(settings.encoder)
    task = given.task(corpus, settings, schema=schema, skip_unknown=skip_unknown)
    names = options.listed(sets)
    with learning.ProgressBars() as bars:
        ablation = run(task, out, settings=settings, sets=names, seeds=seeds, minutes=given.minutes, progress=bars)
    if not ablation.finished:
        raise learning.stopped(f" after {output.counted(len(ablation.results), 'run')}")
    if as_json:
        output.print_json(ablation.to_json())
    else:
        output.print_tables([ablation.table()])
