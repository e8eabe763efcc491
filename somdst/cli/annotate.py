"""`somdst annotate`: a whole file of dialogues, on all cores or on many machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from somdst.cli import options as shared
from somdst.cli.output import counted, notice, print_json
from somdst.errors import InputError

if TYPE_CHECKING:
    from somdst.bulk.resumable import Listener, Plan, Summary


def annotate(
    source: Annotated[str, typer.Argument(metavar="IN", help="Dialogues as JSON lines; for ray also Parquet.")],
    target: Annotated[str, typer.Argument(metavar="OUT", help="Where they go, with states and changes.")],
    model: shared.ModelOption = "default",
    schema: shared.SchemaOption = None,
    threshold: Annotated[
        float,
        typer.Option(
            "--threshold", min=0, max=1, help="Hold back writes less probable than this; nobody confirms them here."
        ),
    ] = 0.0,
    precision: shared.PrecisionOption = "int8",
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Name bad lines and skip them.")] = False,
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
        typer.Option("--address", help="Of a Ray cluster, or `auto`; by default this machine.", show_default=False),
    ] = None,
    as_json: shared.JsonOption = False,
) -> None:
    """Track every dialogue of a file and write its states and changes, in the same order.

    A run that was stopped goes on where it was when the same command is given again. A bad line is reported before any
    work is done, and nothing is written.

    Example: `somdst annotate dialogues.jsonl annotated.jsonl --keep-going`
    """
    from somdst.bulk.annotating import Pretrained

    if address is not None and engine != "ray":
        raise InputError("--address is the address of a Ray cluster: give --engine ray too.")
    opener = Pretrained(model, str(schema) if schema else None, threshold, precision)
    options: dict[str, Any] = {"keep_going": keep_going, "force": force, "batch": batch}
    with _Bar() as bar:
        options["listener"] = bar.listener()
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
            bar.close()
            notice(bar.stopped(target))
            raise typer.Exit(130) from None
    _report(summary, as_json=as_json)


def _report(summary: Summary, *, as_json: bool) -> None:
    if as_json:
        print_json(summary.to_json())
        return
    skipped = f", {counted(summary.skipped, 'bad line')} skipped" if summary.skipped else ""
    what = f"{counted(summary.dialogues, 'dialogue')}, {counted(summary.turns, 'turn')}{skipped}"
    notice(f"{what}: {summary.output} ({summary.turns_per_s:,.0f} turns per second)")


class _Bar:
    """A progress bar on stderr that counts turns, with their rate and the time left."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.progress = Progress(
            TextColumn("annotating"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("turns  {task.fields[rate]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True, highlight=False),
            transient=True,
        )
        self.task = self.progress.add_task("annotating", total=None, rate="", visible=False)
        self.began = 0.0
        self.turns_done = self.dialogues = self.saved_dialogues = 0

    def __enter__(self) -> _Bar:
        return self  # it is drawn when the work starts: an error before that is one line and nothing else

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        if self.progress.live.is_started:
            self.progress.stop()

    def listener(self) -> Listener:
        from somdst.bulk.resumable import Listener

        return Listener(start=self.start, turns=self.turns, saved=self.saved)

    def start(self, plan: Plan) -> None:
        from time import perf_counter

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
        self.began = perf_counter()
        if self.progress.console.is_terminal:
            self.progress.start()
        self.progress.update(self.task, total=plan.checked.turns or None, completed=plan.resumed_turns, visible=True)

    def turns(self, count: int) -> None:
        from time import perf_counter

        self.turns_done += count
        rate = self.turns_done / max(perf_counter() - self.began, 1e-6)
        self.progress.update(self.task, advance=count, rate=f"{rate:,.0f} turns/s")

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
