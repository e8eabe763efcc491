#!/usr/bin/env python
"""Turns per second of training, ours beside a straightforward loop: `python benchmarks/train.py CORPUS`.

The straightforward loop is what one writes first: float32, every input padded to 256, dropout 0.1 everywhere, all
weights trained, slots decoded one after the other and token by token, the C library's default allocator. Ours is the
`cpu` preset, in the paper's layout and in the compact one, reading as many turns as the paper does. Each measurement is
a process of its own, because memory settings stay with a process. The three alternate, so that whatever else the
machine does disturbs all of them alike, and the median of the repeats counts.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from somdst.cli import options
from somdst.cli.main import run_alone
from somdst.cli.output import print_json, print_tables, working
from somdst.corpora import open_corpus
from somdst.corpora.jsonlines import read_dialogues, write_dialogues
from somdst.corpora.opening import schema_for
from somdst.errors import InputError, ModelError
from somdst.evaluate.tables import Table
from somdst.memory.dialogue import Dialogue, count_turns
from somdst.memory.schema import Schema

if TYPE_CHECKING:
    from somdst.learn.tensors import Batch

Variant = Literal["straightforward", "paper", "compact"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)
BATCH = 32
WARM_UP = 8
"""Steps before the clock starts: ours meets many lengths, and keeps the memory that each of them took."""


def main(
    corpus: options.CorpusArgument,
    repeats: Annotated[int, typer.Option(min=1, help="How often each loop is measured; the median counts.")] = 3,
    steps: Annotated[int, typer.Option(min=1, help=f"Steps of {BATCH} turns in each measurement.")] = 8,
    encoder: Annotated[str, typer.Option(help="A hub name, a folder, minilm or tiny.")] = "minilm",
    schema: Annotated[Path | None, typer.Option(help="Schema of the slots; default: the corpus's own.")] = None,
    as_json: options.JsonOption = False,
) -> None:
    opened = open_corpus(corpus)
    slots = schema_for([opened], given=schema)
    with working("measuring") as show:
        rates = measure_training(
            opened.dialogues,
            slots,
            encoder=encoder,
            steps=steps,
            repeats=repeats,
            progress=lambda variant, rate: show(f"{variant}: {rate:.1f} turns per second"),
        )
    if as_json:
        print_json({"corpus": corpus, "encoder": encoder, "steps": steps, "repeats": repeats} | rates.to_json())
        return
    rows = (
        ("straightforward, paper's layout", rates.median("straightforward"), 1.0),
        ("ours, paper's layout", rates.median("paper"), rates.ratio("paper", "straightforward")),
        ("ours, compact layout", rates.median("compact"), rates.ratio("compact", "straightforward")),
    )
    note = f"Medians. The compact layout is {rates.ratio('compact', 'paper'):.2f} times as fast as the paper's."
    print_tables([Table("training", "Training", ("loop", "turns per second", "times as fast"), rows, note)])


@dataclass(frozen=True, slots=True)
class Job:
    """What one process measures. The folder holds the dialogues and the schema."""

    variant: Variant
    folder: str
    encoder: str
    steps: int
    seed: int


@dataclass(frozen=True, slots=True)
class TrainingRates:
    """Turns per second of each variant, one figure per repeat."""

    rates: dict[Variant, tuple[float, ...]]

    def median(self, variant: Variant) -> float:
        return median(self.rates[variant])

    def ratio(self, fast: Variant, slow: Variant) -> float:
        return self.median(fast) / self.median(slow)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            variant: {"turns_per_second": round(self.median(variant), 2), "repeats": [round(r, 2) for r in rates]}
            for variant, rates in self.rates.items()
        }
        return found | {
            "paper_over_straightforward": round(self.ratio("paper", "straightforward"), 2),
            "compact_over_paper": round(self.ratio("compact", "paper"), 2),
        }


def measure_training(
    dialogues: Sequence[Dialogue],
    schema: Schema,
    *,
    encoder: str,
    steps: int,
    repeats: int,
    progress: Callable[[Variant, float], None] = lambda variant, rate: None,
) -> TrainingRates:
    """Measure all variants. `progress` is called after each measurement."""
    rates: dict[Variant, list[float]] = {variant: [] for variant in VARIANTS}
    with tempfile.TemporaryDirectory() as folder:
        write_dialogues(Path(folder) / "train.jsonl", sample(dialogues, turns=4 * (WARM_UP + steps) * BATCH))
        schema.save(Path(folder) / "schema.json")
        for repeat in range(repeats):
            for variant in VARIANTS:
                rate = _in_a_process(Job(variant, folder, encoder, steps, repeat))
                rates[variant].append(rate)
                progress(variant, rate)
    return TrainingRates({variant: tuple(found) for variant, found in rates.items()})


def sample(dialogues: Sequence[Dialogue], *, turns: int) -> list[Dialogue]:
    """Random dialogues with at least this many turns, or all of them."""
    chosen: list[Dialogue] = []
    for dialogue in random.Random(0).sample(dialogues, len(dialogues)):
        if turns <= 0:
            break
        chosen.append(dialogue)
        turns -= len(dialogue.turns)
    return chosen


def _in_a_process(job: Job) -> float:
    allocators = ("LD_PRELOAD", "MALLOC_", "GLIBC_TUNABLES")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(allocators)}
    command = [sys.executable, __file__, "--job", json.dumps(asdict(job))]
    done = subprocess.run(command, env=plain, capture_output=True, text=True, check=False)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ModelError(f"Measuring {job.variant} failed: {why}")
    return float(done.stdout.split()[-1])


# In the process.


def run_job(job: Job) -> float:
    """Turns per second."""
    dialogues = list(read_dialogues(Path(job.folder) / "train.jsonl"))
    if count_turns(dialogues) < BATCH:
        raise InputError(f"The corpus has less than {BATCH} turns, one batch: give a larger one.")
    schema = Schema.load(Path(job.folder) / "schema.json")
    return (_straightforward if job.variant == "straightforward" else _ours)(job, dialogues, schema)


class _Clock:
    """Turns per second after the warm-up."""

    def __init__(self) -> None:
        self.marks: list[tuple[float, int]] = []

    def mark(self, turns: int) -> None:
        self.marks.append((time.perf_counter(), turns))

    @property
    def rate(self) -> float:
        (start, before), (end, after) = self.marks[WARM_UP - 1], self.marks[-1]
        return (after - before) / (end - start)


def _ours(job: Job, dialogues: list[Dialogue], schema: Schema) -> float:
    """The training loop itself, with everything that it does between two checkpoints."""
    from somdst.learn import machine

    machine.prepare()
    from somdst.learn.settings import load_settings
    from somdst.learn.start import new_model
    from somdst.learn.trainer import Trainer

    settings = load_settings(
        "cpu",
        encoder=job.encoder,
        layout=job.variant,
        history=1,  # the paper's input, which the straightforward loop reads
        batch_size=BATCH,
        seed=job.seed,
        epochs=1000.0,
        evaluate_every=1000.0,
    )
    model, encoder = new_model(settings, schema, dialogues)
    clock = _Clock()
    with tempfile.TemporaryDirectory() as out:
        trainer = Trainer(
            model, encoder, settings, dialogues, Path(out), report_every=1, stop_after=WARM_UP + job.steps
        )
        trainer.report = lambda progress: clock.mark(trainer.position.turns) if progress.record else None
        trainer.run()
    return clock.rate


def _straightforward(job: Job, dialogues: list[Dialogue], schema: Schema) -> float:
    import torch

    from somdst.learn.batches import Batches, Examples
    from somdst.learn.naive import slot_by_slot_loss
    from somdst.learn.optimisation import CLIP
    from somdst.learn.settings import load_settings
    from somdst.learn.start import new_model

    settings = load_settings("paper", encoder=job.encoder, batch_size=BATCH, seed=job.seed)
    model, encoder = new_model(settings, schema, dialogues)
    batches = Batches(Examples(dialogues, schema), encoder, settings)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.encoder_learning_rate)
    rng, clock, turns = random.Random(job.seed), _Clock(), 0
    model.train()
    for _ in range(WARM_UP + job.steps):
        chosen = rng.sample(range(batches.source.turns), BATCH)
        batch = padded(batches.tensors(chosen, 0), length=settings.max_length, pad=encoder.pad)
        torch.autograd.backward(slot_by_slot_loss(model, batch).total)
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        turns += len(chosen)
        clock.mark(turns)
    return clock.rate


def padded(batch: Batch, *, length: int, pad: int) -> Batch:
    """The batch with every input padded to one length."""
    import torch.nn.functional as F

    by = length - batch.ids.shape[1]
    return batch._replace(
        ids=F.pad(batch.ids, (0, by), value=pad),
        segments=F.pad(batch.segments, (0, by)),
        mask=F.pad(batch.mask, (0, by)),
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        run_alone(lambda: print(run_job(Job(**json.loads(sys.argv[2])))), arguments=[])
    run_alone(main)
