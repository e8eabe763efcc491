"""`somdst evaluate`, `analyze`, `compare` and `report`: how good a model is, why, and beside another one."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from somdst.cli import options
from somdst.cli.output import Bar, counted, notice, print_json, print_tables
from somdst.errors import InputError

if TYPE_CHECKING:
    from somdst.corpora.perturbation import Perturbation
    from somdst.evaluate.analysis import Analysis, Perturbed
    from somdst.evaluate.comparison import Comparison, TurnPair
    from somdst.evaluate.frames import FrameMetrics
    from somdst.evaluate.metrics import Metrics
    from somdst.evaluate.run import DialogueRun, Oracles
    from somdst.evaluate.saved import Saved
    from somdst.evaluate.trial import Trial

TimedOption = Annotated[int, typer.Option("--timed-turns", min=1, help="Turns to time, one at a time, in each regime.")]
SavedArgument = Annotated[Path, typer.Argument(help="Predictions written by `somdst evaluate --save`.")]


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """The options of every command that measures a model on a corpus."""

    split: options.SplitOption = None
    engine: options.EngineOption = "auto"
    precision: options.PrecisionOption = "int8"
    limit: options.LimitOption = None
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Dialogues that run side by side.")] = 256
    as_json: options.JsonOption = False

    def open(self, model: str, corpus: str, *, schema: Path | None = None) -> Trial:
        """Model and corpus, with a notice on what is measured and what is not counted."""
        from somdst.evaluate.trial import open_trial

        how: dict[str, Any] = {"split": self.split, "limit": self.limit, "schema": schema}
        opened = open_trial(model, corpus, engine=self.engine, precision=self.precision, **how)
        if opened.dev_by_default:
            notice("measuring on dev; --split train or --split test for another part")
        if opened.outside:
            named = [f"{slot} ({counted(turns, 'turn')})" for slot, turns in opened.outside.items()]
            more = " ..." if len(named) > 5 else ""
            notice(f"not counted, because it is not tracked: {', '.join(named[:5])}{more}")
        return opened


@options.grouped
def evaluate(
    model: options.ModelArgument,
    corpus: options.CorpusArgument,
    given: TrialOptions,
    schema: options.SchemaOption = None,
    oracle: Annotated[
        str, typer.Option("--oracle", help="Use gold labels for: state, operations, values (comma-separated).")
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
    seed: Annotated[int, typer.Option("--seed", help="Seed of the perturbations.")] = 0,
    threshold: Annotated[
        float,
        typer.Option(
            "--threshold",
            min=0,
            max=1,
            help="Hold back writes less probable than this, as `somdst track` does; nobody confirms them.",
        ),
    ] = 0.0,
    seen: Annotated[
        str | None,
        typer.Option(
            "--seen",
            metavar="CORPUS",
            help="The training corpus: its services are counted separately from new ones.",
            show_default=False,
        ),
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", help="Write the predictions to this file.", show_default=False)
    ] = None,
) -> None:
    """Measure a model: joint goal accuracy and everything else that the paper counts.

    Each dialogue runs on its own predicted states, with its own schema if the corpus has one per dialogue.

    Example: `somdst evaluate default multiwoz-2.1/dev.jsonl.xz --limit 100`,
    `somdst evaluate default sgd-dev.zip --seen sgd-train.zip`
    """
    from somdst.corpora.perturbation import parse_perturbations
    from somdst.evaluate.calibration import calibrate, scored_changes
    from somdst.evaluate.frames import measure_frames, totals
    from somdst.evaluate.metrics import measure
    from somdst.evaluate.run import parse_oracles, run

    oracles, kinds = parse_oracles(oracle), parse_perturbations(perturb)
    if save is not None and not save.resolve().parent.is_dir():
        raise InputError(f"There is no folder {save.parent} to save {save.name} in: make it first.")
    services = _services(seen) if seen else None
    trial = given.open(model, corpus, schema=schema)
    predictor, slots = trial.predictor, trial.schema
    how: dict[str, Any] = {"schema": slots, "oracle": oracles, "threshold": threshold, "batch_size": given.batch_size}
    start = time.perf_counter()
    with Bar("as typed" if kinds else "evaluating", trial.turns) as bar:
        runs = run(predictor, trial.dialogues, **how, progress=bar.advance)
    seconds = time.perf_counter() - start
    metrics = measure(runs, schema=slots, operation_set=predictor.operation_set)
    if save is not None:
        _save(save, trial, runs, oracles, threshold)
    perturbed = _perturbed(trial, kinds, seed=seed, **how)
    frames = measure_frames(runs, seen=services)
    if not given.as_json:
        _print_metrics(trial, metrics, perturbed, frames, as_published=not oracles and not threshold)
        typer.echo(f"{counted(metrics.turns, 'turn')} in {seconds:.1f} s: {metrics.turns / seconds:.0f} per second")
        return
    data: dict[str, Any] = {"model": predictor.model_id, "corpus": trial.corpus, "oracle": sorted(oracles)}
    data |= {"threshold": threshold, "seconds": round(seconds, 3)}
    data |= {"turns_per_second": round(metrics.turns / seconds, 2)}
    data |= {"calibration": calibrate(scored_changes(runs)).to_json()}
    if frames:
        data["frames"] = {row.service: row.to_json() for row in (*totals(frames), *frames)}
    if kinds:
        data["perturbations"] = {row.kind: row.to_json() for row in perturbed}
    print_json(metrics.to_json() | data)


def _services(corpus: str) -> set[str]:
    """The services of a corpus, or of its train part."""
    from somdst.corpora.opening import open_part

    read = open_part(corpus, "train")
    schemas = [read.schema, *(dialogue.schema for dialogue in read.dialogues)]
    return {domain for schema in schemas if schema for domain in schema.domains}


def _perturbed(trial: Trial, kinds: Iterable[Perturbation], **how: Any) -> list[Perturbed]:
    """Each perturbation with a progress bar of its own."""
    from somdst.evaluate.analysis import measure_perturbed

    measured = []
    for kind in kinds:
        with Bar(kind, trial.turns) as bar:
            measured.append(measure_perturbed(trial.predictor, trial.dialogues, kind, **how, progress=bar.advance))
    return measured


def _save(path: Path, trial: Trial, runs: list[DialogueRun], oracles: Oracles, threshold: float) -> None:
    from somdst.evaluate.saved import Saved, save

    predictor = trial.predictor
    saved = Saved(
        model=predictor.model_id,
        corpus=trial.corpus,
        schema=trial.schema,
        operation_set=predictor.operation_set,
        runs=tuple(runs),
        oracle=tuple(sorted(oracles)),
        threshold=threshold,
    )
    save(path, saved)
    notice(f"saved the predictions of {counted(len(runs), 'dialogue')} in {path}")


def _print_metrics(
    trial: Trial,
    metrics: Metrics,
    perturbed: list[Perturbed],
    frames: Sequence[FrameMetrics],
    *,
    as_published: bool,
) -> None:
    from somdst.evaluate import frames as services
    from somdst.evaluate import paper_tables

    paper = as_published and paper_tables.measured_as_in_paper(trial.schema, metrics)
    tables = [
        paper_tables.summary(metrics, name=trial.predictor.model_id),
        services.table(frames) if frames else paper_tables.domains(metrics, paper=paper),
        paper_tables.operations(metrics, paper=paper),
        paper_tables.hardest_slots(metrics, count=5),
    ]
    print_tables([*tables, *([paper_tables.perturbations(metrics, perturbed)] if perturbed else [])])


@options.grouped
def analyze(
    model: options.ModelArgument,
    corpus: options.CorpusArgument,
    given: TrialOptions,
    schema: options.SchemaOption = None,
    timed_turns: TimedOption = 100,
) -> None:
    """Analyse a model's errors and costs: all combinations of oracles, operations, values generated, complexity.

    Example: `somdst analyze default multiwoz-2.1/dev.jsonl.xz --limit 100`
    """
    from somdst.evaluate import paper_tables

    trial = given.open(model, corpus, schema=schema)
    done = _analyse(trial, batch_size=given.batch_size, timed_turns=timed_turns)
    if given.as_json:
        print_json({"model": trial.predictor.model_id, "corpus": trial.corpus} | done.to_json())
        return
    paper = paper_tables.measured_as_in_paper(trial.schema, done.metrics)
    tables = [
        paper_tables.summary(done.metrics, name=trial.predictor.model_id),
        paper_tables.error_analysis(done.errors, paper=paper),
        paper_tables.error_shares(done.errors, paper=paper),
        paper_tables.operations(done.metrics, paper=paper),
        paper_tables.efficiency(done.efficiency, done.metrics, paper=paper),
        paper_tables.complexity(done.efficiency),
        paper_tables.batching(done.batching),
    ]
    print_tables(tables)
    if paper:
        typer.echo(paper_tables.PAPER)


def _analyse(trial: Trial, *, batch_size: int, timed_turns: int) -> Analysis:
    from somdst.evaluate.analysis import analyse, cost

    with Bar("analysing", cost(trial.turns, timed_turns=timed_turns)) as bar:
        return analyse(
            trial.predictor,
            trial.dialogues,
            schema=trial.schema,
            batch_size=batch_size,
            timed_turns=timed_turns,
            progress=bar.advance,
        )


@options.grouped
def report(
    model: options.ModelArgument,
    corpus: options.CorpusArgument,
    out: Annotated[Path, typer.Option("--out", help="Folder to write to; created if it does not exist.")],
    given: TrialOptions,
    schema: options.SchemaOption = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", help="Folder of the training run, for the learning curve.", show_default=False),
    ] = None,
    perturb: Annotated[bool, typer.Option(help="Also measure text as people type it: seven more runs.")] = True,
    timed_turns: TimedOption = 100,
) -> None:
    """Write a self-contained HTML page, Markdown and JSON about a model: tables, pictures, sample dialogues.

    Example: `somdst report default multiwoz-2.1/dev.jsonl.xz --out report --limit 100`
    """
    from somdst.corpora.perturbation import PERTURBATIONS
    from somdst.evaluate.paper_tables import measured_as_in_paper
    from somdst.evaluate.pictures import find_metrics, read_learning_curve
    from somdst.evaluate.report import Report, write_report
    from somdst.files import make_folder

    make_folder(out)  # before hours of work
    if (curve := find_metrics(run or model)) is None and run is not None:
        raise InputError(f"There is no learning curve in {run}: give the folder that `somdst train` wrote.")
    trial = given.open(model, corpus, schema=schema)
    analysis = _analyse(trial, batch_size=given.batch_size, timed_turns=timed_turns)
    written = Report(
        model=trial.predictor.model_id,
        corpus=trial.corpus,
        paper=measured_as_in_paper(trial.schema, analysis.metrics),
        analysis=analysis,
        perturbed=tuple(
            _perturbed(trial, PERTURBATIONS if perturb else (), schema=trial.schema, batch_size=given.batch_size)
        ),
        curve=read_learning_curve(curve) if curve else None,
    )
    paths = write_report(written, out)
    if given.as_json:
        print_json(written.to_json() | {"files": [str(path) for path in paths]})
        return
    for path in paths:
        typer.echo(path)


def compare(
    a: SavedArgument,
    b: SavedArgument,
    show: Annotated[int, typer.Option("--show", min=0, help="How many better and worse turns to show.")] = 5,
    samples: Annotated[int, typer.Option("--samples", min=100, help="Samples of the bootstrap.")] = 10_000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the bootstrap.")] = 0,
    as_json: options.JsonOption = False,
) -> None:
    """Compare two saved predictions of the same corpus: is B better than A, where, and is that more than chance?

    Example: `somdst compare before.jsonl after.jsonl --show 10`
    """
    from somdst.evaluate.comparison import compare as compare_runs
    from somdst.evaluate.saved import load

    one, two = load(a), load(b)
    compared = compare_runs(one.runs, two.runs, samples=samples, seed=seed)
    for path, saved in ((a, one), (b, two)):
        if left_out := len(saved.runs) - compared.dialogues:
            notice(f"left out, because only {path} has them: {counted(left_out, 'dialogue')}")
    if as_json:
        print_json({"model_a": one.name, "model_b": two.name} | compared.to_json())
        return
    _print_comparison(one, two, compared, show)


def _print_comparison(one: Saved, two: Saved, compared: Comparison, show: int) -> None:
    from somdst.evaluate.tables import Table

    rows = (
        (f"A: {one.name}", compared.a),
        (f"B: {two.name}", compared.b),
        ("B - A", compared.difference),
        ("95% interval, from", compared.low),
        ("95% interval, to", compared.high),
        ("turns better in B", len(compared.better)),
        ("turns worse in B", len(compared.worse)),
    )
    measured = f"{counted(compared.turns, 'turn')} of {counted(compared.dialogues, 'dialogue')}"
    note = f"{measured}; paired bootstrap over dialogues."
    print_tables([Table("comparison", "Joint goal accuracy", ("", "points or turns"), rows, note)])
    verdict = f"clearly {'better' if compared.low > 0 else 'worse'}" if compared.clear else "no clear difference"
    typer.echo(f"B against A: {verdict}")
    for title, pairs in (("Better in B", compared.better), ("Worse in B", compared.worse)):
        if pairs and show:
            typer.echo(f"\n{title}, {min(show, len(pairs))} of {counted(len(pairs), 'turn')}")
            for pair in pairs[:show]:
                _print_pair(pair)


def _print_pair(pair: TurnPair) -> None:
    wrong, gold = pair.wrong.predicted, pair.a.gold
    typer.echo(f"  {pair.dialogue}, turn {pair.number}: {pair.a.turn.user}")
    for slot in sorted(wrong.differing(gold)):
        typer.echo(f"    {slot}: {wrong.get(slot, 'nothing')} instead of {gold.get(slot, 'nothing')}")
