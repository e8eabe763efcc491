"""`ablate`: the paper's ablation of operation sets. Each set is trained with the same settings, then compared on dev.

Each set and seed has a run folder below `out`, and its result a file in `out/sets`, so a stopped ablation goes on where
it was, and sets can be trained on different days or machines. Differences to the first set come with a 95% interval
(`evaluate/comparison.py`). It covers the choice of dev dialogues, and the variation between seeds only if there are
several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from somdst.errors import InputError
from somdst.evaluate.comparison import interval, per_dialogue
from somdst.evaluate.paper_results import OPERATION_SETS as PUBLISHED
from somdst.evaluate.paper_tables import PAPER, comparable
from somdst.evaluate.saved import predictions
from somdst.evaluate.tables import Cell, Table
from somdst.learn import machine
from somdst.learn.budget import within_minutes
from somdst.learn.encoders import check_encoder
from somdst.learn.kept import contents, keep, kept
from somdst.learn.mixture import read_mixture
from somdst.learn.progress import Listener, Phase, silent, within
from somdst.learn.settings import Settings
from somdst.learn.start import new_model
from somdst.learn.task import Source, Task, read_task
from somdst.learn.torch_predictor import TorchPredictor
from somdst.learn.training import fitted, train
from somdst.memory.dialogue import Dialogue, count_turns
from somdst.memory.operations import OPERATION_SETS, Operation, OperationSet
from somdst.memory.schema import Schema

RESULTS = "sets"


@dataclass(frozen=True, slots=True)
class SetResult:
    """A model trained with one operation set and one seed, measured on dev."""

    operation_set: str
    seed: int
    joint_goal_accuracy: float
    slot_accuracy: float
    f1: dict[str, float]
    """Of each operation."""
    steps: int
    minutes: float
    turns: tuple[int, ...]
    """Of each dialogue of dev."""
    right: tuple[int, ...]
    """How many of them have the gold state."""

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if key not in ("turns", "right")}


@dataclass(frozen=True, slots=True)
class Difference:
    """Joint goal accuracy of a set minus that of the first set, in points, over all seeds."""

    operation_set: str
    points: float
    low: float
    high: float
    """The 95% interval."""


@dataclass(frozen=True, slots=True)
class Ablation:
    settings: Settings
    schema: Schema
    dev_turns: int
    results: tuple[SetResult, ...]
    differences: tuple[Difference, ...]
    finished: bool
    """False if a signal stopped it; the same call goes on."""

    def to_json(self) -> dict[str, Any]:
        paper = comparable(self.schema)
        rows = [one.to_json() | ({"paper": PUBLISHED[one.operation_set]} if paper else {}) for one in self.results]
        return {
            "settings": self.settings.model_dump(mode="json", exclude={"operation_set"}),
            "dev_turns": self.dev_turns,
            "sets": rows,
            "differences": [asdict(one) for one in self.differences],
        }

    def table(self) -> Table:
        """One row per set, with means over the seeds."""
        paper = comparable(self.schema)
        names = tuple(dict.fromkeys(result.operation_set for result in self.results))
        columns = ("operations", "joint goal accuracy", *(["paper, on test"] if paper else []), f"minus {names[0]}")
        columns += ("slot accuracy", "F1 of update", "minutes")
        seeds = len(self.results) // len(names)
        trained = f"{seeds} seeds" if seeds > 1 else "One seed"
        note = (
            f"Measured on {self.dev_turns:,} turns of dev, with the 95% interval of each difference. "
            f"{trained}, {self.results[0].steps:,} steps for each set."
        )
        rows = tuple(self._row(name, paper=paper) for name in names)
        return Table("ablation", "Operation sets", columns, rows, note + (f" {PAPER}" if paper else ""))

    def _row(self, name: str, *, paper: bool) -> tuple[Cell, ...]:
        runs = [result for result in self.results if result.operation_set == name]
        differs = next((one for one in self.differences if one.operation_set == name), None)
        return (
            name,
            fmean(one.joint_goal_accuracy for one in runs),
            *([PUBLISHED[name]] if paper else []),
            f"{differs.points:+.2f} ({differs.low:+.2f} to {differs.high:+.2f})" if differs else None,
            fmean(one.slot_accuracy for one in runs),
            fmean(one.f1.get(Operation.UPDATE, 0.0) for one in runs),
            fmean(one.minutes for one in runs),
        )


def ablate(
    corpus: Source | Task,
    out: str | Path,
    *,
    dev: Source | None = None,
    schema: Schema | str | Path | None = None,
    settings: Settings | None = None,
    sets: Sequence[str] = tuple(OPERATION_SETS),
    seeds: int = 1,
    minutes: float | None = None,
    limit: int = 0,
    skip_unknown: bool = False,
    progress: Listener = silent,
) -> Ablation:
    """Train and compare one model per operation set and seed, each in a folder below `out`.

    What is read is said as in `train`; `settings.dev_limit` bounds every evaluation, the comparison included. With
    `minutes`, each model gets as many epochs as fit into that time.
    """
    machine.prepare()
    settings, out = settings or Settings(), Path(out)
    names = [OperationSet.named(name).name for name in dict.fromkeys(sets)]
    if not names:
        raise InputError(f"Give at least one operation set; there are {', '.join(OPERATION_SETS)}.")
    check_encoder(settings.encoder)
    task = read_task(corpus, dev, schema=schema, limit=limit, skip_unknown=skip_unknown)
    task.require_dev()
    settings = fitted(settings, task.schema)
    if minutes is not None:
        first_model = partial(new_model, settings, task.schema, task.dialogues)
        source = read_mixture(task, settings) if settings.mix else None
        settings = within_minutes(minutes, settings, task, out / RESULTS, first_model, progress, source=source)
    return _Ablating(settings, task, out, progress).run(names, seeds)


@dataclass(frozen=True, slots=True)
class _Ablating:
    """What all runs of an ablation share."""

    settings: Settings
    task: Task
    out: Path
    progress: Listener

    @property
    def dev(self) -> tuple[Dialogue, ...]:
        return self.task.first_dev(self.settings.dev_limit)

    def run(self, names: Sequence[str], seeds: int) -> Ablation:
        turns = count_turns(self.dev)
        results: list[SetResult] = []
        for seed in range(self.settings.seed, self.settings.seed + seeds):
            for name in names:
                result = self._result(name, seed)
                if result is None:
                    return Ablation(self.settings, self.task.schema, turns, tuple(results), (), finished=False)
                results.append(result)
        first, *others = ([one for one in results if one.operation_set == name] for name in names)  # with all seeds
        differences = tuple(_difference(first, other) for other in others)
        return Ablation(self.settings, self.task.schema, turns, tuple(results), differences, finished=True)

    def _result(self, name: str, seed: int) -> SetResult | None:
        """As it was kept, or of a model that is trained now. None if a signal stopped the training."""
        settings = self.settings.model_copy(update={"operation_set": name, "seed": seed})
        run = name if seed == self.settings.seed else f"{name}-seed-{seed}"
        file, key = self.out / RESULTS / f"{run}.json", self._key(settings)
        found: SetResult | None = kept(file, SetResult, key)
        if found is None and (found := self._measured(self.out / run, settings)):
            keep(file, key, found)
        return found

    def _key(self, settings: Settings) -> dict[str, Any]:
        read = {"train": contents(self.task.dialogues), "dev": contents(self.dev)}
        return {"settings": settings.model_dump(mode="json"), "schema": self.task.schema.id, "read": read}

    def _measured(self, out: Path, settings: Settings) -> SetResult | None:
        """Train, or go on, and run the best model on dev."""
        listener = within(self.progress, out.name)
        trained = train(self.task, out, settings=settings, progress=listener)
        if not trained.finished:
            return None
        phase = Phase("comparing on dev", count_turns(self.dev), listener)
        saved = predictions(out, TorchPredictor.open(out), self.dev, part="dev", progress=phase.advance)
        metrics, (turns, right) = saved.metrics(), per_dialogue(saved.runs)
        return SetResult(
            settings.operation_set,
            settings.seed,
            joint_goal_accuracy=metrics.joint_goal_accuracy,
            slot_accuracy=metrics.slot_accuracy,
            f1={str(row.operation): row.f1 for row in metrics.operations},
            steps=trained.step,
            minutes=trained.minutes,
            turns=turns,
            right=right,
        )


def _difference(first: Sequence[SetResult], other: Sequence[SetResult]) -> Difference:
    """The bootstrap draws dialogues, and seeds share them."""
    turns, right_first = _over_seeds(first)
    _, right_other = _over_seeds(other)
    points = 100.0 * (sum(right_other) - sum(right_first)) / sum(turns)
    return Difference(other[0].operation_set, points, *interval(right_first, right_other, turns))


def _over_seeds(results: Sequence[SetResult]) -> tuple[list[int], list[int]]:
    """The turns of each dialogue and how many of them are right, over all seeds."""
    turns = [sum(seeds) for seeds in zip(*(one.turns for one in results), strict=True)]
    return turns, [sum(seeds) for seeds in zip(*(one.right for one in results), strict=True)]
