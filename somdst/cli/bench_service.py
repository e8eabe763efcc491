"""`somdst bench service`: what a service does on this machine, with and without micro-batching, and when drowned."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from somdst.bench.service import Report


def service(
    model: Annotated[str, typer.Option(help="Model folder or name.")] = "default",
    seconds: Annotated[float, typer.Option(min=0.5, help="Length of each of the five measurements.")] = 15.0,
    conversations: Annotated[int, typer.Option(min=1, max=500, help="Conversations at once.")] = 32,
    max_batch: Annotated[int, typer.Option(min=2, max=256, help="Turns in one batch.")] = 32,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of the model.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, for programs.")] = False,
) -> None:
    """Turns a second and latencies of a service under load from a second process, with and without micro-batching.

    Example: `somdst bench service --seconds 15 --conversations 32`
    """
    from rich.console import Console

    from somdst.bench.service import measure, serve_command

    notices = Console(stderr=True)
    with notices.status("starting") as status:
        report = measure(
            serve_command(model=model, threads=threads),
            seconds=seconds,
            conversations=conversations,
            max_batch=max_batch,
            notice=lambda text: status.update(f"measuring {text}"),
        )
    if as_json:
        typer.echo(json.dumps(report.to_json()))
    else:
        _show(report)


def _show(report: Report) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    caption = f"{report.conversations} conversations at once; latencies at 70% of each one's own turns/s"
    table = Table(box=SIMPLE_HEAD, pad_edge=False, caption=caption, caption_justify="left")
    table.add_column("")
    for title in ("turns/s", "p50 ms", "p95 ms", "p99 ms", "turns a batch", "errors"):
        table.add_column(title, justify="right")
    for name, speed in (("one by one", report.unbatched), ("micro-batches", report.batched)):
        errors = sum(count for status, count in speed.statuses.items() if status != "200")
        numbers = (speed.turns_per_s, speed.p50_ms, speed.p95_ms, speed.p99_ms, speed.mean_batch)
        table.add_row(name, *(f"{number:,.1f}" for number in numbers), str(errors))
    console = Console(highlight=False)
    console.print(table)
    overload = report.overload
    told = ", ".join(f"{count} with {status}" for status, count in overload.statuses.items())
    console.print(f"Micro-batches do {report.speedup:g} times the turns.")
    console.print(f"At {overload.offered_per_s:,.0f} turns/s, twice that: {told}.")
    if overload.memory_mb_before is not None:
        console.print(f"Memory went from {overload.memory_mb_before:,.0f} to {overload.memory_mb_most:,.0f} MB.")
    back = "not within 10 s" if overload.recovery_s is None else f"after {overload.recovery_s:g} s"
    console.print(f"Back to its usual latency {back}.")
