#!/usr/bin/env python
"""One turn at a time in every way it is compared with, and what a model costs besides: `python benchmarks/turns.py`.

int8 and float32 on ONNX Runtime, the same weights in torch, all slots generated at every turn (as TRADE does), and a
model of BERT-base's size run as the authors' released code runs it. All variants do the same turns, tokenisation and
decoding included, and alternate. Without torch only the first and the fourth are measured.
"""

from __future__ import annotations

import tempfile
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import somdst
from somdst.cli import options
from somdst.cli.main import run_alone
from somdst.cli.output import notice, print_json, print_tables, working
from somdst.corpora import open_corpus
from somdst.corpora.examples import examples
from somdst.evaluate.speed import (
    Variant,
    batch_throughput,
    cold_start,
    measure_latencies,
    predicting,
    work_of,
)
from somdst.evaluate.tables import Table
from somdst.memory.operations import Operation
from somdst.model.folder import ModelFolder
from somdst.model.prediction import Predictor
from somdst.model.runtime import Runtime

RELEASED, EVERY = "released way, BERT-base", "every slot, as TRADE"
FEW = {RELEASED: 10, EVERY: 40}
"""Slow variants do only this many turns per round."""


def main(
    model: options.ModelOption = "default",
    corpus: Annotated[str | None, typer.Option(help="Take the turns from here, not from the bundled examples.")] = None,
    turns: Annotated[int, typer.Option(min=4, help="Most turns per round.")] = 60,
    rounds: Annotated[int, typer.Option(min=1, help="How often each variant does them.")] = 5,
    as_json: options.JsonOption = False,
) -> None:
    dialogues = open_corpus(corpus).dialogues if corpus else [item.dialogue for item in examples().values()]
    work = work_of(dialogues, most=turns)
    int8 = Runtime.open(model, threads=2)
    variants: dict[str, Variant] = {"int8": predicting(int8), EVERY: every_slot(int8)}
    with tempfile.TemporaryDirectory(prefix="somdst-bench-") as folder, working("measuring") as show:
        if find_spec("torch") is None:
            notice("torch is not installed, so float32, torch and the released way are not measured")
        else:
            variants |= torch_variants(model, Path(folder))
        done: list[None] = []

        def progress() -> None:
            done.append(None)
            show(f"measuring, {len(done)} of {rounds * len(variants)}")

        latencies = measure_latencies(variants, work, rounds=rounds, few=FEW, progress=progress)
        show("throughput, cold start, memory")
        batched = batch_throughput(int8, [one.input for one in work])
        seconds, megabytes = cold_start(model)
    on_disk = installed()
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
        print_json(result)
        return
    fastest = latencies["int8"].p50
    rows = tuple((name, one.p50, one.p95, one.p50 / fastest) for name, one in latencies.items())
    columns = ("one turn at a time, two threads", "ms per turn", "95th percentile", "times int8")
    rest = tuple((name.replace("_", " "), value) for name, value in result.items() if isinstance(value, float))
    print_tables([Table("turns", "One turn", columns, rows), Table("rest", "Besides", ("", "measured"), rest)])


def every_slot(predictor: Predictor) -> Variant:
    """All slots are generated at every turn, as in TRADE."""
    operations = [dict.fromkeys(map(str, predictor.schema), Operation.UPDATE)]
    return lambda work: predictor.predict([work.input], operations=operations)


def torch_variants(model: str, folder: Path) -> dict[str, Variant]:
    """What needs torch: the same model on it, its float32 graphs (made here), and the released way."""
    from somdst.learn import machine

    machine.prepare()
    import torch
    from released import ReleasedWay

    from somdst.learn.exporting import export
    from somdst.learn.torch_predictor import TorchPredictor

    torch.set_num_threads(2)
    opened = ModelFolder.open(model)
    if not (opened.path / "encoder.float32.onnx").exists():
        opened = ModelFolder.open(export(model, folder / "model", precisions=("float32",)).folder)
    released = ReleasedWay(opened.encoder())
    return {
        "float32": predicting(Runtime(opened, precision="float32", threads=2)),
        "torch": predicting(TorchPredictor.open(model)),
        RELEASED: lambda work: released.run(work.input, work.updates),
    }


class Installed(NamedTuple):
    """Megabytes on disk."""

    files: float
    """The package, its model and everything that it needs to run, without extras."""
    bytecode: float
    """Caches beside them. pip writes them in advance for everything, Python otherwise for what is used."""


def installed(name: str = "somdst") -> Installed:
    package = Path(somdst.__file__).parent  # counted here, because an editable install lists none of its files
    files = [file for file in package.rglob("*") if file.is_file()]
    seen, waiting = {canonicalize_name(name)}, [name]
    while waiting:
        for needed in metadata.requires(waiting.pop()) or ():
            requirement = Requirement(needed)
            if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
                continue
            if (key := canonicalize_name(requirement.name)) not in seen:
                seen.add(key)
                waiting.append(requirement.name)
                files += [Path(str(file.locate())) for file in metadata.files(requirement.name) or ()]
    sizes = {file: file.stat().st_size for file in files if file.is_file()}
    caches = sum(size for file, size in sizes.items() if file.suffix == ".pyc")
    return Installed((sum(sizes.values()) - caches) / 1e6, caches / 1e6)


if __name__ == "__main__":
    run_alone(main)
