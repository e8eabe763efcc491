"""`somdst bench`: how fast a model is on this machine. Larger benchmarks are in `benchmarks/`, beside the package."""

from __future__ import annotations

from typing import Annotated

import typer

from somdst.cli import options
from somdst.cli.output import print_json, print_tables, working


def bench(
    model: options.ModelOption = "default",
    corpus: Annotated[
        str | None,
        typer.Option("--corpus", help="Take turns from here, not from the bundled examples.", show_default=False),
    ] = None,
    turns: Annotated[int, typer.Option("--turns", min=4, help="Maximum turns per round.")] = 60,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="How often to repeat the measurement.")] = 5,
    precision: options.PrecisionOption = "int8",
    threads: options.ThreadsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Measure a model's speed on this machine: milliseconds per turn, turns per second in batches, cold start, memory.

    Example: `somdst bench --corpus multiwoz-2.1/test.jsonl.xz`
    """
    from somdst.corpora import open_corpus
    from somdst.corpora.examples import examples
    from somdst.evaluate.speed import BATCH, measure_speed
    from somdst.evaluate.tables import Table
    from somdst.model.folder import ModelFolder

    dialogues = open_corpus(corpus).dialogues if corpus else [item.dialogue for item in examples().values()]
    predictor = ModelFolder.open(model).predictor(precision=precision, threads=threads)
    with working("measuring"):
        speed = measure_speed(model, predictor, dialogues, turns=turns, rounds=rounds)
    if as_json:
        print_json({"corpus": corpus or "bundled examples"} | speed.to_json())
        return
    rows = (
        ("one turn, median", f"{speed.turn.p50:.1f} ms"),
        ("one turn, 95th percentile", f"{speed.turn.p95:.1f} ms"),
        (f"in batches of {BATCH}", f"{speed.batch_turns_per_s:.0f} turns per second"),
        ("cold start, import to first answer", f"{speed.cold_start_s:.2f} s"),
        ("peak memory of a new process", f"{speed.peak_mb:.0f} MB"),
    )
    print_tables([Table("bench", speed.model, ("", "measured"), rows)])
