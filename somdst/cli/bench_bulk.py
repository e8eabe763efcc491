"""`somdst bench bulk`: many dialogues together against one turn at a time."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def bulk(
    corpus: Annotated[
        str, typer.Argument(metavar="CORPUS", help="Labelled dialogues: a file, a folder, or synthetic.")
    ],
    model: Annotated[str, typer.Option(help="A model's folder, or `default`.")] = "default",
    limit: Annotated[int, typer.Option(min=1, help="Only the first dialogues, this many.")] = 150,
    repeats: Annotated[int, typer.Option(min=1, help="How often each way is measured; the median counts.")] = 3,
    with_torch: Annotated[
        bool, typer.Option("--torch", help="Also the same weights in torch, one turn at a time.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, for programs.")] = False,
) -> None:
    """Turns a second of evaluation and of annotating, against one turn at a time, on all cores.

    Example: `somdst bench bulk multiwoz-2.1/test.jsonl.xz`
    """
    from somdst.bench.bulk import WAYS, measure_bulk
    from somdst.bulk.annotating import Pretrained
    from somdst.cli.measuring import print_tables, rates_status
    from somdst.corpora import open_corpus
    from somdst.evaluate.tables import Table
    from somdst.model.folder import ModelFolder

    dialogues = open_corpus(corpus).dialogues[:limit]
    torch = ModelFolder.open(model).predictor(engine="torch") if with_torch else None
    with rates_status(repeats * (len(WAYS) - (torch is None))) as show:
        rates = measure_bulk(Pretrained(model), dialogues, repeats=repeats, torch=torch, progress=show)
    alone = rates["one_at_a_time"]
    if as_json:
        told = {"corpus": corpus, "model": model, "turns": sum(len(dialogue.turns) for dialogue in dialogues)}
        found = {way: {"turns_per_s": round(rate, 1), "times": round(rate / alone, 2)} for way, rate in rates.items()}
        typer.echo(json.dumps({**told, **found}))
        return
    rows = tuple((way.replace("_", " "), rate, rate / alone) for way, rate in rates.items())
    print_tables([Table("bulk", "Many dialogues", ("way", "turns/s", "times as fast"), rows, "Medians, all cores.")])
