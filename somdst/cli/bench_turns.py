"""`somdst bench` itself: one turn at a time, in every way it is compared with."""

from __future__ import annotations

import json
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from somdst.bench.turns import Latency, Work

SLOW = {"released way, BERT-base": 10, "every slot, as TRADE": 40}
"""Variants that do only so many turns a round."""


def run(model: str, corpus: str | None, *, turns: int, rounds: int, as_json: bool) -> None:
    from rich.console import Console

    from somdst.bench import footprint
    from somdst.bench.turns import every_slot, measure, predicting, torch_variants
    from somdst.model.runtime import Runtime

    notices = Console(stderr=True)
    work = _work(corpus, turns)
    int8 = Runtime.open(model, threads=2)
    variants = {"int8": predicting(int8), "every slot, as TRADE": every_slot(int8)}
    with tempfile.TemporaryDirectory(prefix="somdst-bench-") as folder, notices.status("measuring") as status:
        if find_spec("torch") is not None:
            from somdst.learn import machine

            machine.prepare()
            import torch

            torch.set_num_threads(2)
            variants |= torch_variants(model, Path(folder))
        else:
            notices.print("torch is not installed, so float32, torch and the released way are not measured.")
        done: list[None] = []

        def progress() -> None:
            done.append(None)
            status.update(f"measuring, {len(done)} of {rounds * len(variants)}")

        latencies = measure(variants, work, rounds=rounds, few=SLOW, progress=progress)
    with notices.status("throughput, cold start, memory"):
        batched = footprint.batch_throughput(int8, [one.input for one in work])
        seconds, megabytes = footprint.cold_start(model)
    on_disk = footprint.installed()
    result: dict[str, Any] = {
        "model": int8.model_id,
        "corpus": corpus or "bundled examples",
        "turn_ms": {name: latency.to_json() for name, latency in latencies.items()},
        "batch_turns_per_s": round(batched, 1),
        "one_at_a_time_turns_per_s": round(1000 / latencies["int8"].p50, 1),
        "cold_start_s": round(seconds, 3),
        "peak_mb": round(megabytes, 1),
        "installed_mb": round(on_disk.files, 1),
        "bytecode_mb": round(on_disk.bytecode, 1),
    }
    if as_json:
        typer.echo(json.dumps(result))
    else:
        _show(latencies, result)


def _work(corpus: str | None, turns: int) -> list[Work]:
    from somdst.bench.turns import work_of

    if corpus is None:
        from somdst.corpora.examples import examples

        return work_of([example.dialogue for example in examples().values()], most=turns)
    from somdst.corpora import open_corpus

    return work_of(open_corpus(corpus).dialogues, most=turns)


def _show(latencies: dict[str, Latency], result: dict[str, Any]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, caption="one turn at a time, two threads", caption_justify="left")
    for title in ("", "ms a turn", "95th percentile", "times int8"):
        table.add_column(title, justify="left" if not title else "right")
    fastest = latencies["int8"].p50
    for name, latency in latencies.items():
        table.add_row(name, f"{latency.p50:.1f}", f"{latency.p95:.1f}", f"{latency.p50 / fastest:.1f}")
    console.print(table)
    console.print(
        f"batches of 32: {result['batch_turns_per_s']:.0f} turns a second, one at a time "
        f"{result['one_at_a_time_turns_per_s']:.0f}\n"
        f"cold start, import to first answer: {result['cold_start_s']:.2f} s, "
        f"at most {result['peak_mb']:.0f} MB of memory\n"
        f"installed with everything it needs: {result['installed_mb']:.0f} MB, and "
        f"{result['bytecode_mb']:.0f} MB of bytecode caches"
    )
