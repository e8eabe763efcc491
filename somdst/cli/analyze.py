"""`somdst analyze`: the paper's analysis of a model, each table beside the paper's."""

from __future__ import annotations

from typing import Annotated

import typer

from somdst.cli import measuring


def analyze(
    model: measuring.ModelArgument,
    corpus: measuring.CorpusArgument,
    split: measuring.SplitOption = None,
    engine: measuring.EngineOption = "auto",
    precision: measuring.PrecisionOption = "int8",
    limit: measuring.LimitOption = None,
    batch_size: measuring.BatchOption = 256,
    timed_turns: Annotated[
        int, typer.Option("--timed-turns", min=1, help="Turns that are timed one at a time, in each regime.")
    ] = 100,
    as_json: measuring.JsonOption = False,
) -> None:
    """Analyse a model's errors and costs: all eight oracles, operations, values generated, complexity.

    Example: `somdst analyze default multiwoz-2.1/dev.jsonl.xz --limit 100`
    """
    from somdst.evaluate import paper_tables
    from somdst.evaluate.analysis import analyse, cost

    opened = measuring.open_both(model, corpus, split=split, limit=limit, engine=engine, precision=precision)
    work = cost(opened.turns, timed_turns=timed_turns)
    with measuring.turns_progress("analysing", work) as progress:
        done = analyse(
            opened.predictor, opened.dialogues, batch_size=batch_size, timed_turns=timed_turns, progress=progress
        )
    if as_json:
        measuring.print_json({"model": opened.predictor.model_id, "corpus": opened.corpus} | done.to_json())
        return
    paper = paper_tables.comparable(opened.predictor.schema)
    tables = [
        paper_tables.summary(done.metrics, name=opened.predictor.model_id),
        paper_tables.error_analysis(done.errors, paper=paper),
        paper_tables.error_shares(done.errors, paper=paper),
        paper_tables.operations(done.metrics, paper=paper),
        paper_tables.efficiency(done.efficiency, done.metrics, paper=paper),
        paper_tables.complexity(done.efficiency),
        paper_tables.batching(done.batching),
    ]
    measuring.print_tables(tables)
    if paper:
        typer.echo(paper_tables.PAPER)
