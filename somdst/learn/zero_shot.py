"""`zero_shot`: leave one domain out, as the literature does it. A model learns from the dialogues that are not about a
domain, and is measured on those that are: it tracks all slots, and those of that domain alone are counted.

What a dialogue is about is said by its turns' domains and by its labels. The best model of a run is chosen on dev
dialogues about other domains: nothing that the corpus has about the domain is seen before it is measured. A model to go
on from, and other corpora that are learned from besides, may have similar domains; the table then says so. Each domain
has a run folder of its own, so a stopped command goes on where it was. A tracker that never writes is measured beside
each model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from somdst.errors import InputError, did_you_mean
from somdst.evaluate.metrics import measure
from somdst.evaluate.paper_tables import comparable
from somdst.evaluate.run import DialogueRun
from somdst.evaluate.saved import predictions
from somdst.evaluate.tables import Table
from somdst.learn.progress import Listener, Phase, silent, within
from somdst.learn.settings import Settings
from somdst.learn.task import Source, Task, read_task
from somdst.learn.torch_predictor import TorchPredictor
from somdst.learn.training import train
from somdst.memory.dialogue import Dialogue, count_turns
from somdst.memory.schema import Schema

PUBLISHED_MEAN = 35.20
"""T5DST (Lin et al., NAACL 2021) with slot descriptions: the mean over five domains, on the test set of MultiWOZ."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A model that was trained without one domain, measured on it."""

    domain: str
    dialogues: int
    """To learn from."""
    turns: int
    """To measure."""
    joint_goal_accuracy: float
    empty_state: float
    """Joint goal accuracy of a tracker that never writes."""
    slot_f1: float


@dataclass(frozen=True, slots=True)
class ZeroShot:
    schema: Schema
    results: tuple[LeftOut, ...]
    finished: bool
    """False if a signal stopped it; the same call goes on."""
    helped: bool = False
    """Whether more than the corpus was learned from."""

    @property
    def mean(self) -> float:
        return fmean(result.joint_goal_accuracy for result in self.results)

    def to_json(self) -> dict[str, Any]:
        return {"domains": [asdict(result) for result in self.results], "mean": round(self.mean, 4)}

    def table(self) -> Table:
        rows: list[tuple[str | int | float | None, ...]] = [
            (one.domain, one.dialogues, one.turns, one.joint_goal_accuracy, one.empty_state, one.slot_f1)
            for one in self.results
        ]
        rows.append(("mean", None, None, self.mean, fmean(one.empty_state for one in self.results), None))
        columns = ("left out", "dialogues to learn from", "turns measured", "joint accuracy", "empty state", "slot F1")
        note = "All slots are tracked, those of the domain are counted, at each turn of the dialogues about it."
        if self.helped:
            note += " Other corpora, or an earlier model, were learned from too; they may have similar domains."
        if comparable(self.schema):
            note += f" Published, on test: T5DST {PUBLISHED_MEAN:.1f} on average."
        return Table("zero_shot", "One domain left out", columns, tuple(rows), note)


def is_about(dialogue: Dialogue, domain: str) -> bool:
    return any(
        turn.domain == domain or any(slot.startswith(f"{domain}-") for slot in turn.state or ())
        for turn in dialogue.turns
    )


def without(task: Task, domain: str) -> Task:
    """What is left of a task without a domain: other dialogues, other slots."""
    rest = [slot for slot in task.schema.slots if slot.domain != domain]
    if len(rest) in (0, len(task.schema)):
        problem = "is the only one" if not rest else "is none of its domains"
        hint = did_you_mean(domain, task.schema.domains) if rest else ""
        raise InputError(f'"{domain}" cannot be left out of the schema: it {problem}.{hint}')
    kept = {str(slot) for slot in rest}
    different = [pair for pair in task.schema.different if kept.issuperset(pair)]
    return replace(
        task,
        dialogues=tuple(dialogue for dialogue in task.dialogues if not is_about(dialogue, domain)),
        dev=tuple(dialogue for dialogue in task.dev if not is_about(dialogue, domain)),
        schema=Schema(rest, different=different, text_rules=task.schema.text_rules),
    )


def only(schema: Schema, domain: str) -> Schema:
    return Schema([slot for slot in schema.slots if slot.domain == domain], text_rules=schema.text_rules)


def zero_shot(
    corpus: Source | Task,
    out: str | Path,
    *,
    dev: Source | None = None,
    measured: Sequence[Dialogue] | None = None,
    domains: Sequence[str] = (),
    start_from: str | Path | None = None,
    settings: Settings | None = None,
    minutes: float | None = None,
    progress: Listener = silent,
) -> ZeroShot:
    """Train one model per domain without that domain, each in a folder below `out`, and measure it on the domain.

    What is read is said as in `train`. `measured` are the dialogues to measure on, by default dev.
    """
    task = read_task(corpus, dev)
    on, results = task.dev if measured is None else measured, list[LeftOut]()
    tasks = {domain: without(task, domain) for domain in domains or task.schema.domains}
    helped = start_from is not None or bool(settings and settings.mix)
    if not on:
        raise InputError("There is nothing to measure on: give a corpus with a dev part, or other dialogues as dev.")
    for domain, rest in tasks.items():
        listener = within(progress, f"without {domain}")
        folder = Path(out) / f"without-{domain}"
        trained = train(rest, folder, start_from=start_from, settings=settings, minutes=minutes, progress=listener)
        if not trained.finished:
            return ZeroShot(task.schema, tuple(results), finished=False, helped=helped)
        about = [dialogue for dialogue in on if is_about(dialogue, domain)]
        predictor, phase = TorchPredictor.open(folder), Phase("measuring", count_turns(about), listener)
        saved = predictions(folder, predictor, about, part="left-out", schema=task.schema, progress=phase.advance)
        slots = only(task.schema, domain)
        runs = [within_slots(run, slots) for run in saved.runs]
        metrics = measure(runs, schema=slots, operation_set=predictor.operation_set)
        empty = metrics.empty_state.joint_goal_accuracy
        figures = (metrics.turns, metrics.joint_goal_accuracy, empty, metrics.slot_f1)
        results.append(LeftOut(domain, len(rest.dialogues), *figures))
    return ZeroShot(task.schema, tuple(results), finished=True, helped=helped)


def within_slots(run: DialogueRun, slots: Schema) -> DialogueRun:
    """What a run did about these slots."""
    turns = (
        replace(
            turn,
            fed=turn.fed.within(slots),
            prediction=replace(
                turn.prediction, slots={slot: said for slot, said in turn.prediction.slots.items() if slot in slots}
            ),
            predicted=turn.predicted.within(slots),
            gold=turn.gold.within(slots),
        )
        for turn in run.turns
    )
    return DialogueRun(run.id, tuple(turns), slots)
