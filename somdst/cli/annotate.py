"""`somdst annotate`: a whole file of dialogues, on all cores or on many machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from somdst.cli import options as shared
from somdst.cli.output import Bar, counted, notice, print_json
from somdst.errors import InputError

if TYPE_CHECKING:
    from somdst.bulk.resumable import Listener, Plan, Summary


def annotate(
    source: Annotated[str, typer.Argument(metavar="IN", help="Dialogues as JSON lines; with ray also Parquet.")],
    target: Annotated[str, typer.Argument(metavar="OUT", help="File to write: the dialogues with states and changes.")],
    model: shared.ModelOption = "default",
    schema: shared.SchemaOption = None,
    threshold: Annotated[
        float,
        typer.Option(
            "--threshold", min=0, max=1, help="Hold back writes less probable than this; nobody confirms them here."
        ),
    ] = 0.0,
    precision: shared.PrecisionOption = "int8",
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Report bad lines and skip them.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT if it exists.")] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            "-j",
            min=1,
            help="Processes; by default one per four cores, with Ray one per core.",
            show_default=False,
        ),
    ] = None,
    batch: Annotated[int, typer.Option("--batch", min=1, max=1024, help="Dialogues in one run of the model.")] = 32,
    engine: Annotated[Literal["local", "ray"], typer.Option("--engine", help="This machine, or Ray Data.")] = "local",
    address: Annotated[
        str | None,
        typer.Option("--address", help="A Ray cluster, or `auto`; by default this machine.", show_default=False),
    ] = None,
    as_json: shared.JsonOption = False,
) -> None:
    """Track every dialogue of a file and write its states and changes, in the same order.

    The same command resumes a run that was stopped. Bad lines are reported before any work is done, and nothing is
    written.

    Example: `somdst annotate dialogues.jsonl annotated.jsonl --keep-going`
    """
    from somdst.bulk.annotating import Pretrained

    if address is not None and engine != "ray":
        raise InputError("--address is the address of a Ray cluster: give --engine ray too.")
    opener = Pretrained(model, str(schema) if schema else None, threshold, precision)
    options: dict[str, Any] = {"keep_going": keep_going, "force": force, "batch": batch}
    with Bar("annotating") as bar:
        run = _Run(bar)
        options["listener"] = run.listener()
        try:
            if engine == "ray":
                from somdst.bulk.on_ray import annotate_on_ray
                from somdst.model.runtime import cores

                options |= {"workers": workers or cores(), "address": address}
                summary = annotate_on_ray(source, target, opener, **options)
            else:
                from somdst.bulk.resumable import annotate_file

                summary = annotate_file(Path(source), Path(target), opener, workers=workers, **options)
        except KeyboardInterrupt:
            bar.stop()
            notice(run.stopped(target))
            raise typer.Exit(130) from None
    _report(summary, as_json=as_json)


def _report(summary: Summary, *, as_json: bool) -> None:
    if as_json:
        print_json(summary.to_json())
        return
    skipped = f", {counted(summary.skipped, 'bad line')} skipped" if summary.skipped else ""
    what = f"{counted(summary.dialogues, 'dialogue')}, {counted(summary.turns, 'turn')}{skipped}"
    notice(f"{what}: {summary.output} ({summary.turns_per_s:,.0f} turns per second)")


class _Run:
    """What a run says while it works: notices at its start, a bar, and how far it got."""

    def __init__(self, bar: Bar) -> None:
        self.bar = bar
        self.dialogues = self.saved_dialogues = 0

    def listener(self) -> Listener:
        from somdst.bulk.resumable import Listener

        return Listener(start=self.start, turns=self.bar.advance, saved=self.saved)

    def start(self, plan: Plan) -> None:
        for problem in plan.checked.bad:
            notice(f"skipped: {problem}")
        if plan.resumed_dialogues:
            notice(f"going on after {counted(plan.resumed_dialogues, 'dialogue')} of an earlier run")
        if plan.unusable_dialogues:
            notice(
                f"starting again: {counted(plan.unusable_dialogues, 'dialogue')} of an earlier run cannot be used, "
                f"because of another {' and another '.join(plan.changed)}"
            )
        self.dialogues, self.saved_dialogues = plan.checked.dialogues, plan.resumed_dialogues
        self.bar.start(plan.checked.turns or None, done=plan.resumed_turns)

    def saved(self, count: int) -> None:
        self.saved_dialogues += count

    def stopped(self, target: str) -> str:
        """What to say when the user stops the run."""
        if not self.saved_dialogues:
            return "stopped before the first dialogues were saved: nothing was written"
        return (
            f"stopped with {self.saved_dialogues:,} of {self.dialogues:,} dialogues saved in {target}.partial: "
            "give the same command again to go on from there"
        )
