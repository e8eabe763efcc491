"""`somdst evaluate`: how good a model is on a corpus, with oracles and on text as people type it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from somdst.cli import measuring
from somdst.cli.measuring import Opened

if TYPE_CHECKING:
    from somdst.corpora.perturbation import Kind
    from somdst.evaluate.metrics import Metrics
    from somdst.evaluate.perturbed import Perturbed
    from somdst.evaluate.run import DialogueRun, Oracles


def evaluate(
    model: measuring.ModelArgument,
    corpus: measuring.CorpusArgument,
    split: measuring.SplitOption = None,
    oracle: Annotated[
        str, typer.Option("--oracle", help="Put the truth in place of: state, operations, values; with commas.")
    ] = "",
    perturb: Annotated[
        str | None,
        typer.Option(
            "--perturb",
            help="Also measure text as people type it: lowercase, typos, chat, times, numbers, change-of-mind, "
            "vowels, or all.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the perturbations.")] = 0,
    threshold: Annotated[
        float,
        typer.Option(
            "--threshold",
            min=0,
            max=1,
            help="Do not make writes less probable than this, as a tracker does that holds them back.",
        ),
    ] = 0.0,
    engine: measuring.EngineOption = "auto",
    precision: measuring.PrecisionOption = "int8",
    limit: measuring.LimitOption = None,
    batch_size: measuring.BatchOption = 256,
    save: Annotated[
        Path | None, typer.Option("--save", help="Write the predictions to this file.", show_default=False)
    ] = None,
    as_json: measuring.JsonOption = False,
) -> None:
    """Measure a model: joint goal accuracy and everything else that the paper counts.

    Dialogues run side by side, each on its own predicted states.

    Example: `somdst evaluate default multiwoz-2.1/dev.jsonl.xz --limit 100`
    """
    from somdst.evaluate.calibration import calibrate, scored_changes
    from somdst.evaluate.run import parse_oracles

    oracles, kinds = parse_oracles(oracle), _kinds(perturb)
    opened = measuring.open_both(model, corpus, split=split, limit=limit, engine=engine, precision=precision)
    start = time.perf_counter()
    what = "as typed" if kinds else "evaluating"
    metrics, runs = _measure(opened, oracles, threshold=threshold, batch_size=batch_size, what=what)
    seconds = time.perf_counter() - start
    if save is not None:
        _save(save, opened, runs, oracles, threshold)
    perturbed = measuring.measure_kinds(
        opened, kinds, seed=seed, oracles=oracles, threshold=threshold, batch_size=batch_size
    )
    calibration = calibrate(scored_changes(runs))
    if as_json:
        rest: dict[str, Any] = {"model": opened.predictor.model_id, "corpus": opened.corpus, "oracle": sorted(oracles)}
        rest |= {"threshold": threshold}
        rest |= {"seconds": round(seconds, 3), "turns_per_second": round(metrics.turns / seconds, 2)}
        rest |= {"calibration": calibration.to_json()}
        if kinds:
            rest["perturbations"] = {row.kind: row.to_json() for row in perturbed}
        measuring.print_json(metrics.to_json() | rest)
        return
    _print(opened, metrics, perturbed)
    typer.echo(f"{metrics.turns:,} turns in {seconds:.1f} s: {metrics.turns / seconds:.0f} turns a second")


def _kinds(perturb: str | None) -> tuple[Kind, ...]:
    from somdst.corpora.perturbation import KINDS, check_kind

    return () if perturb is None else KINDS if perturb == "all" else (check_kind(perturb),)


def _measure(
    opened: Opened, oracles: Oracles, *, threshold: float, batch_size: int, what: str
) -> tuple[Metrics, list[DialogueRun]]:
    from somdst.evaluate.metrics import measure
    from somdst.evaluate.run import run

    predictor = opened.predictor
    with measuring.turns_progress(what, opened.turns) as progress:
        runs = run(
            predictor,
            opened.dialogues,
            oracle=oracles,
            threshold=threshold,
            batch_size=batch_size,
            progress=progress,
        )
    return measure(runs, schema=predictor.schema, operation_set=predictor.operation_set), runs


def _save(path: Path, opened: Opened, runs: list[DialogueRun], oracles: Oracles, threshold: float) -> None:
    from somdst.evaluate.saved import Saved, save

    predictor = opened.predictor
    saved = Saved(
        model=predictor.model_id,
        corpus=opened.corpus,
        schema=predictor.schema,
        operation_set=predictor.operation_set,
        runs=tuple(runs),
        oracle=tuple(sorted(oracles)),
        threshold=threshold,
    )
    save(path, saved)
    measuring.notice(f"saved the predictions of {len(runs):,} dialogues in {path}")


def _print(opened: Opened, metrics: Metrics, perturbed: list[Perturbed]) -> None:
    from somdst.evaluate import paper_tables

    paper = paper_tables.comparable(opened.predictor.schema)
    tables = [
        paper_tables.summary(metrics, name=opened.predictor.model_id),
        paper_tables.domains(metrics, paper=paper),
        paper_tables.operations(metrics, paper=paper),
        paper_tables.hardest_slots(metrics, count=5),
    ]
    if perturbed:
        tables.append(paper_tables.perturbations(metrics, perturbed))
    measuring.print_tables(tables)
