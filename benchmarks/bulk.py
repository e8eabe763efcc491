#!/usr/bin/env python
"""Many dialogues together against one turn at a time, evaluated and annotated: `python benchmarks/bulk.py CORPUS`.

All ways do the same work, the same dialogues on their own predicted states, and alternate, so that whatever else the
machine does disturbs all of them alike. The model is opened before the clock starts; the processes that annotate start
within the measured time, as they do for users. The same weights in torch, turn by turn, are how a training script
without a runtime would evaluate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Annotated, Literal, get_args

import typer

from somdst.bulk.annotating import Opener, Pretrained
from somdst.bulk.local import annotate_all
from somdst.cli import options
from somdst.cli.main import run_alone
from somdst.cli.output import print_json, print_tables, working
from somdst.corpora import open_corpus
from somdst.evaluate.run import run
from somdst.evaluate.tables import Table
from somdst.memory.dialogue import Dialogue, count_turns
from somdst.model.folder import ModelFolder
from somdst.model.prediction import Predictor
from somdst.tracking.conversation import Conversation
from somdst.tracking.tracker import Tracker

Way = Literal["one_at_a_time", "evaluate", "annotate", "torch_one_at_a_time"]
WAYS: tuple[Way, ...] = get_args(Way)


def main(
    corpus: options.CorpusArgument,
    model: options.ModelOption = "default",
    limit: Annotated[int, typer.Option(min=1, help="Only this many dialogues, the first ones.")] = 150,
    repeats: Annotated[int, typer.Option(min=1, help="How often each way is measured; the median counts.")] = 3,
    with_torch: Annotated[bool, typer.Option("--torch", help="Also the same weights in torch, turn by turn.")] = False,
    as_json: options.JsonOption = False,
) -> None:
    dialogues = open_corpus(corpus).dialogues[:limit]
    torch = ModelFolder.open(model).predictor(engine="torch") if with_torch else None
    with working("measuring") as show:
        rates = measure_bulk(
            Pretrained(model),
            dialogues,
            repeats=repeats,
            torch=torch,
            progress=lambda way, rate: show(f"{way.replace('_', ' ')}: {rate:.1f} turns per second"),
        )
    alone = rates["one_at_a_time"]
    if as_json:
        about = {"corpus": corpus, "model": model, "turns": count_turns(dialogues)}
        found = {way: {"turns_per_s": round(rate, 1), "times": round(rate / alone, 2)} for way, rate in rates.items()}
        print_json(about | found)
        return
    rows = tuple((way.replace("_", " "), rate, rate / alone) for way, rate in rates.items())
    columns = ("way", "turns per second", "times as fast")
    print_tables([Table("bulk", "Many dialogues", columns, rows, "Medians, all cores.")])


def measure_bulk(
    opener: Opener,
    dialogues: Sequence[Dialogue],
    *,
    repeats: int,
    torch: Predictor | None = None,
    progress: Callable[[Way, float], None] = lambda way, rate: None,
) -> dict[Way, float]:
    """Turns per second, the median of the repeats. `progress` is called after each measurement."""
    tracker = opener()
    ways: dict[Way, Callable[[], object]] = {
        "one_at_a_time": lambda: _one_at_a_time(tracker, dialogues),
        "evaluate": lambda: run(tracker.predictor, dialogues),
        "annotate": lambda: list(annotate_all(opener, dialogues)),
    }
    if torch is not None:
        ways["torch_one_at_a_time"] = lambda: run(torch, dialogues, batch_size=1)
    turns = count_turns(dialogues)
    rates: dict[Way, list[float]] = {way: [] for way in ways}
    _one_at_a_time(tracker, dialogues[:2])  # warm up
    for _ in range(repeats):
        for way, work in ways.items():
            start = time.perf_counter()
            work()
            rates[way].append(turns / (time.perf_counter() - start))
            progress(way, rates[way][-1])
    return {way: median(found) for way, found in rates.items()}


def _one_at_a_time(tracker: Tracker, dialogues: Sequence[Dialogue]) -> None:
    for dialogue in dialogues:
        conversation: Conversation = tracker.start()
        for turn in dialogue.turns:
            conversation.update(user=turn.user, system=turn.system)


if __name__ == "__main__":
    run_alone(main)
