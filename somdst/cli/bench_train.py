"""`somdst bench train`: turns a second of training, ours beside a straightforward loop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from somdst.bench.train import TrainingRates


def train(
    corpus: Annotated[
        str, typer.Argument(metavar="CORPUS", help="Labelled dialogues: a file, a folder, or synthetic.")
    ],
    repeats: Annotated[int, typer.Option(min=1, help="How often each loop is measured; the median counts.")] = 3,
    steps: Annotated[int, typer.Option(min=1, help="Steps of 32 turns in each measurement.")] = 8,
    encoder: Annotated[str, typer.Option(help="A hub name, a folder, minilm or tiny.")] = "minilm",
    schema: Annotated[Path | None, typer.Option(help="Schema of the slots; default: the corpus's own.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, for programs.")] = False,
) -> None:
    """Turns a second of training: a straightforward loop, ours in the paper's layout, ours in the compact one.

    Straightforward means float32, padded to 256, dropout 0.1, slots decoded one after the other, default allocator.

    Example: `somdst bench train multiwoz-2.1/train.jsonl.xz`
    """
    from somdst.bench.train import VARIANTS, measure_training
    from somdst.cli.measuring import rates_status
    from somdst.cli.train import read_corpora, require_torch

    require_torch()
    dialogues, _, slots = read_corpora(corpus, None, schema, 0)
    with rates_status(repeats * len(VARIANTS)) as show:
        rates = measure_training(dialogues, slots, encoder=encoder, steps=steps, repeats=repeats, progress=show)
    if as_json:
        told = {"corpus": corpus, "encoder": encoder, "steps": steps, "repeats": repeats}
        typer.echo(json.dumps(told | rates.to_json()))
    else:
        _show(rates)


def _show(rates: TrainingRates) -> None:
    from somdst.cli.measuring import print_tables
    from somdst.evaluate.tables import Table

    rows = (
        ("straightforward, paper's layout", rates.median("straightforward"), 1.0),
        ("ours, paper's layout", rates.median("paper"), rates.ratio("paper", "straightforward")),
        ("ours, compact layout", rates.median("compact"), rates.ratio("compact", "straightforward")),
    )
    note = f"Medians. The compact layout is {rates.ratio('compact', 'paper'):.2f} times as fast as the paper's."
    print_tables([Table("training", "Training", ("loop", "turns/s", "times as fast"), rows, note)])
