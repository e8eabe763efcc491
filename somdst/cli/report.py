"""`somdst report`: one page on a model, with the paper's tables beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from somdst.cli import measuring


def report(
    model: measuring.ModelArgument,
    corpus: measuring.CorpusArgument,
    out: Annotated[Path, typer.Option("--out", help="The folder to write to; made where it is not there.")],
    split: measuring.SplitOption = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", help="The training run's folder, for the learning curve.", show_default=False),
    ] = None,
    perturb: Annotated[bool, typer.Option(help="Also measure text as people type it: seven more runs.")] = True,
    engine: measuring.EngineOption = "auto",
    precision: measuring.PrecisionOption = "int8",
    limit: measuring.LimitOption = None,
    batch_size: measuring.BatchOption = 256,
    timed_turns: Annotated[int, typer.Option("--timed-turns", min=1, help="Turns that are timed one at a time.")] = 100,
    as_json: measuring.JsonOption = False,
) -> None:
    """Write a self-contained HTML page, Markdown and JSON about a model: tables, pictures, sample dialogues.

    Example: `somdst report default multiwoz-2.1/dev.jsonl.xz --out report --limit 100`
    """
    from somdst.corpora.perturbation import KINDS
    from somdst.evaluate.analysis import analyse, cost
    from somdst.evaluate.learning_curve import find_metrics, read_learning_curve
    from somdst.evaluate.paper_tables import comparable
    from somdst.evaluate.report import Report, write_report

    opened = measuring.open_both(model, corpus, split=split, limit=limit, engine=engine, precision=precision)
    predictor = opened.predictor
    with measuring.turns_progress("analysing", cost(opened.turns, timed_turns=timed_turns)) as progress:
        analysis = analyse(
            predictor, opened.dialogues, batch_size=batch_size, timed_turns=timed_turns, progress=progress
        )
    kinds = KINDS if perturb else ()
    curve = find_metrics(run or model)
    written = Report(
        model=predictor.model_id,
        corpus=opened.corpus,
        paper=comparable(predictor.schema),
        analysis=analysis,
        perturbed=tuple(measuring.measure_kinds(opened, kinds, seed=0, batch_size=batch_size)),
        curve=read_learning_curve(curve) if curve else None,
    )
    paths = write_report(written, out)
    if as_json:
        measuring.print_json(written.to_json() | {"files": [str(path) for path in paths]})
        return
    for path in paths:
        typer.echo(path)
