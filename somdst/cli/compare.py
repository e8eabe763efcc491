"""`somdst compare`: which turns one model gets right and the other does not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from somdst.cli import measuring

if TYPE_CHECKING:
    from somdst.evaluate.comparison import Comparison, TurnPair
    from somdst.evaluate.saved import Saved

FileArgument = Annotated[Path, typer.Argument(help="Predictions that `somdst evaluate --save` wrote.")]


def compare(
    a: FileArgument,
    b: FileArgument,
    show: Annotated[int, typer.Option("--show", min=0, help="Turns to show that got better, and worse.")] = 5,
    samples: Annotated[int, typer.Option("--samples", min=100, help="Of the bootstrap.")] = 10_000,
    seed: Annotated[int, typer.Option("--seed", help="Of the bootstrap.")] = 0,
    as_json: measuring.JsonOption = False,
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
            measuring.notice(f"left out, because only {path} has them: {left_out:,} dialogues")
    if as_json:
        measuring.print_json({"model_a": one.name, "model_b": two.name} | compared.to_json())
        return
    _print(one, two, compared, show)


def _print(one: Saved, two: Saved, compared: Comparison, show: int) -> None:
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
    note = f"{compared.turns:,} turns of {compared.dialogues:,} dialogues; paired bootstrap over dialogues."
    measuring.print_tables([Table("comparison", "Joint goal accuracy", ("", "points or turns"), rows, note)])
    verdict = f"clearly {'better' if compared.low > 0 else 'worse'}" if compared.clear else "no clear difference"
    typer.echo(f"B against A: {verdict}")
    for title, pairs in (("Better in B", compared.better), ("Worse in B", compared.worse)):
        if pairs and show:
            typer.echo(f"\n{title}, {min(show, len(pairs))} of {len(pairs):,} turns")
            for pair in pairs[:show]:
                _print_pair(pair)


def _print_pair(pair: TurnPair) -> None:
    wrong, gold = pair.wrong.predicted, pair.a.gold
    typer.echo(f"  {pair.dialogue}, turn {pair.number}: {pair.a.turn.user}")
    for slot in sorted({slot for slot, _ in wrong.items() ^ gold.items()}):
        typer.echo(f"    {slot}: {wrong.get(slot, 'nothing')} instead of {gold.get(slot, 'nothing')}")
