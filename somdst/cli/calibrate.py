"""`somdst calibrate`: make a model's probabilities mean what they say, and choose which writes it holds back."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from somdst.cli import learning, options, output
from somdst.cli.measure import TrialOptions

if TYPE_CHECKING:
    from somdst.evaluate.tables import Table
    from somdst.learn.calibrating import Calibrated


@options.grouped
def calibrate(
    model: options.ModelArgument,
    corpora: Annotated[
        list[str],
        typer.Argument(
            metavar="CORPUS...",
            help="Labelled dialogues that the model was not trained on; several are pooled.",
        ),
    ],
    given: TrialOptions,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be written.")] = False,
) -> None:
    """Fit the temperature of the probabilities of changes, choose the threshold of pending writes, and write both
    into the model's config.json. Held back are the writes that are more likely wrong than right.

    Use dialogues that the model was not trained on, and another part to measure it with afterwards.

    Example: `somdst calibrate runs/first multiwoz-2.1/dev.jsonl.xz`, or
    `somdst calibrate runs/any multiwoz-2.1/dev.jsonl.xz sgd-dev.zip domains --limit 300`
    """
    from somdst.learn.calibrating import calibrate as run

    trials = [given.open(model, corpus) for corpus in corpora]
    with learning.ProgressBars() as bars:
        done = run(model, trials, batch_size=given.batch_size, dry_run=dry_run, progress=bars)
    if given.as_json:
        chosen = {"temperature": done.after.temperature, "pending_threshold": done.after.pending_threshold}
        before = {"temperature": done.before.temperature, "pending_threshold": done.before.pending_threshold}
        written = str(done.file) if done.file else None
        on = [asdict(corpus) for corpus in done.corpora]
        measured = {"calibration": done.measured.to_json(), "corpora": on}
        output.print_json(chosen | {"before": before, "written": written} | measured)
        return
    output.print_tables([_table(done), *([_by_corpus(done)] if len(trials) > 1 else [])])
    output.notice(f"wrote {done.file}" if done.file else "nothing was written, because of --dry-run")


def _table(done: Calibrated) -> Table:
    from somdst.evaluate.tables import Table

    measured = done.measured
    rows = (
        ("temperature", f"{done.before.temperature:.4f}", f"{done.after.temperature:.4f}"),
        ("pending threshold", f"{done.before.pending_threshold:.4f}", f"{done.after.pending_threshold:.4f}"),
        ("expected calibration error, points", measured.expected_calibration_error, measured.error_with_temperature),
    )
    held = measured.threshold
    note = (
        f"{measured.changes:,} changes, {measured.accuracy:.2f}% of them right. Afterwards {held.held_back:,} of them "
        f"are held back, of which {held.wrong:,} are wrong."
    )
    return Table("calibration", "Calibration", ("", "before", "after"), rows, note)


def _by_corpus(done: Calibrated) -> Table:
    from somdst.evaluate.tables import Table

    rows = tuple(
        (one.corpus, one.changes, one.accuracy, one.expected_calibration_error, one.held_back, one.wrong)
        for one in done.corpora
    )
    columns = ("corpus", "changes", "right, percent", "calibration error, points", "held back", "of them wrong")
    return Table("by_corpus", "Afterwards, by corpus", columns, rows)
