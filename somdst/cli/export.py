"""`somdst export`: a trained model as ONNX, checked against torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from somdst.cli import learning, options, output


def export(
    model: options.ModelArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Write a complete model folder here, instead of into MODEL.",
            show_default=False,
        ),
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(
            "--check", metavar="CORPUS", help="Labelled dialogues on which to compare with torch.", show_default=False
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Dialogues to compare on.")] = 200,
    float32: Annotated[bool, typer.Option("--float32/--no-float32", help="Also write the float32 graphs.")] = True,
    as_json: options.JsonOption = False,
) -> None:
    """Write a trained model as ONNX, so that it runs without torch, in int8 and float32.

    With --check the results are compared with torch's, and nothing is written if int8 costs more than half a point of
    joint goal accuracy. The built-in model `default` is never written to: it needs --out.

    Example: `somdst export runs/first --check multiwoz-2.1/dev.jsonl.xz`
    """
    learning.require_torch()
    from somdst.learn.exporting import export as run

    precisions = ("int8", "float32") if float32 else ("int8",)
    with learning.ProgressBars() as bars:
        done = run(model, out, precisions=precisions, check=check, limit=limit, progress=bars)
    if as_json:
        sizes = {file.name: file.stat().st_size for file in done.files}
        alike = {precision: result.to_json() for precision, result in done.agreement.items()}
        output.print_json({"model": str(done.folder), "files": sizes, "agreement": alike})
        return
    for file in done.files:
        typer.echo(f"{file}  {file.stat().st_size / 1e6:.1f} MB")
    for precision, result in done.agreement.items():
        typer.echo(
            f"{precision} against torch on {result.turns:,} turns: operations {result.operations:.3f}% alike, "
            f"values {result.values:.2f}% alike, joint goal accuracy {result.joint_goal_accuracy:.2f} -> "
            f"{result.other_joint_goal_accuracy:.2f} ({result.change:+.2f})"
        )
