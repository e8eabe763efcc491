"""`compare_systems`: every system trained under one budget on one encoder, evaluated, and timed on this machine.

Each system has a run folder of its own below `out`, with its predictions and its measurements beside it, so a stopped
comparison goes on where it was. Turns are timed one at a time, in the order of their conversations and alternating
between the systems, so that whatever else the machine does disturbs all alike. All run on torch.

Does not render; see `systems_report.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from somdst.baselines.catalogue import SYSTEMS, Entry, find
from somdst.baselines.growth import Point, all_sizes, measure_growth
from somdst.baselines.ontology import Missing, Ontology
from somdst.baselines.system_predictor import SystemPredictor
from somdst.errors import InputError
from somdst.evaluate.comparison import compare
from somdst.evaluate.efficiency import values_generated
from somdst.evaluate.metrics import Metrics, Spread
from somdst.evaluate.saved import Saved, predictions
from somdst.evaluate.speed import Latency, seconds_of
from somdst.files import write_text
from somdst.learn import machine
from somdst.learn.encoders import check_encoder
from somdst.learn.progress import Listener, Phase, silent, within
from somdst.learn.settings import Settings
from somdst.learn.task import Source, Task, read_task
from somdst.learn.torch_predictor import TorchPredictor
from somdst.learn.training import fitted, train
from somdst.memory.dialogue import Dialogue, count_turns
from somdst.memory.schema import Schema
from somdst.memory.state import State
from somdst.model.config import SOM_DST
from somdst.model.folder import open_predictor
from somdst.model.prediction import Predictor
from somdst.tracking.step import input_at

MEASURED = "measured.json"
TIMED_DIALOGUES = 12
EVALUATED = 60
"""Dialogues of dev that are evaluated on at the end of a training: some systems take minutes for all of it."""
ONCE = 1000.0
"""Epochs between two evaluations: more than there are, so that no system has its best weights chosen on dev."""


@dataclass(frozen=True, slots=True)
class Cost:
    """One turn at a time."""

    latency: Latency
    passes: float
    """Sequences that went through the encoder, per turn."""
    tokens: float
    """Their tokens, per turn."""
    growth: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class SystemResult:
    entry: Entry
    steps: int
    minutes: float
    dev: Metrics
    test: Metrics | None
    generated: Spread
    """Values per turn of dev."""
    interval: tuple[float, float, float] | None
    """Joint goal accuracy on dev minus that of SOM-DST, with its 95% interval."""
    missing: Missing | None
    """What of dev is not in the ontology, for systems that need one."""
    cost: Cost


@dataclass(frozen=True, slots=True)
class SideBySide:
    encoder: str
    minutes: float | None
    corpus: str
    schema: Schema
    results: tuple[SystemResult, ...]
    finished: bool
    """False if a signal stopped it; the same call goes on."""

    def to_json(self) -> dict[str, Any]:
        rows = [
            asdict(one)
            | {"entry": one.entry.name, "dev": one.dev.to_json(), "test": one.test.to_json() if one.test else None}
            for one in self.results
        ]
        return {"encoder": self.encoder, "minutes": self.minutes, "corpus": self.corpus, "systems": rows}


def compare_systems(
    corpus: Source | Task,
    out: str | Path,
    *,
    dev: Source | None = None,
    schema: Schema | str | Path | None = None,
    settings: Settings | None = None,
    systems: Sequence[str] = tuple(SYSTEMS),
    minutes: float | None = None,
    limit: int = 0,
    test: Sequence[Dialogue] | None = None,
    timed: int = TIMED_DIALOGUES,
    sizes: Sequence[tuple[int, int]] | None = None,
    progress: Listener = silent,
) -> SideBySide:
    """Train and measure each system in a folder below `out`.

    What is read is said as in `train`. `minutes` is the time for each system. `test` are dialogues that all are
    measured on once more at the end. `timed` dialogues of dev are run turn by turn; `sizes` are the numbers of slots
    and values for which the growth of time is measured.
    """
    machine.prepare()
    chosen, out = settings or Settings(), Path(out)
    entries = [find(name) for name in dict.fromkeys(systems)]
    if not entries:
        raise InputError(f"Give at least one system; there are {', '.join(SYSTEMS)}.")
    check_encoder(chosen.encoder)
    task = read_task(corpus, dev, schema=schema, limit=limit)
    task.require_dev()
    name = str(corpus) if isinstance(corpus, (str, Path)) else "dialogues in memory"
    work = _Comparing(chosen, task, out, minutes, tuple(test or ()), timed, tuple(sizes or all_sizes()), progress)
    return SideBySide(chosen.encoder, minutes, name, task.schema, *work.run(entries))


@dataclass(frozen=True, slots=True)
class _Comparing:
    settings: Settings
    task: Task
    out: Path
    minutes: float | None
    test: tuple[Dialogue, ...]
    timed: int
    sizes: tuple[tuple[int, int], ...]
    progress: Listener

    @property
    def dev(self) -> tuple[Dialogue, ...]:
        return self.task.first_dev(self.settings.dev_limit)

    def run(self, entries: Sequence[Entry]) -> tuple[tuple[SystemResult, ...], bool]:
        trained: dict[str, tuple[int, float]] = {}
        dev: dict[str, Saved] = {}
        for entry in entries:
            done = train(
                self.task,
                self.out / entry.name,
                settings=self._settings(entry),
                minutes=self.minutes,
                progress=self._listener(entry),
            )
            if not done.finished:
                return (), False
            trained[entry.name] = done.step, done.minutes
            dev[entry.name] = self._runs(entry, "dev", self.dev)
        test = {entry.name: self._runs(entry, "test", self.test) if self.test else None for entry in entries}
        costs = self._costs(entries)
        ontology = Ontology.collect(self.task.dialogues, self.task.schema)
        results = []
        for entry in entries:
            runs, tested = dev[entry.name], test[entry.name]
            turns = [turn for one in runs.runs for turn in one.turns]
            written = [values_generated(entry.writes, turn, self.task.schema) for turn in turns]
            results.append(
                SystemResult(
                    entry,
                    *trained[entry.name],
                    dev=runs.metrics(),
                    test=tested.metrics() if tested else None,
                    generated=Spread.of(written),
                    interval=_interval(dev, entry),
                    missing=ontology.missing(self.dev) if entry.ontology else None,
                    cost=costs[entry.name],
                )
            )
        return tuple(results), True

    def _settings(self, entry: Entry) -> Settings:
        evaluated = min(self.settings.dev_limit or EVALUATED, EVALUATED)
        same = {"system": entry.name, "dev_limit": evaluated, "evaluate_every": ONCE, "tell_apart": False}
        chosen = self.settings.model_copy(update=same)
        if self.minutes is not None:
            chosen.model_fields_set.discard("epochs")
        return chosen

    def _listener(self, entry: Entry) -> Listener:
        return within(self.progress, entry.name)

    def _runs(self, entry: Entry, part: str, dialogues: Sequence[Dialogue]) -> Saved:
        """A system's predictions. They are kept in its folder, so that a resumed comparison has them at once."""
        phase = Phase(f"comparing on {part}", count_turns(dialogues), self._listener(entry))
        folder = self.out / entry.name
        return predictions(folder, self._predictor(entry), dialogues, part=part, progress=phase.advance)

    def _predictor(self, entry: Entry) -> Predictor:
        return open_predictor(self.out / entry.name, engine="torch")

    def _costs(self, entries: Sequence[Entry]) -> dict[str, Cost]:
        """What turns cost, measured once: the file beside the runs keeps it as long as the models are the same."""
        predictors = {entry.name: self._predictor(entry) for entry in entries}
        key = {name: one.model_id for name, one in predictors.items()}
        key |= {"timed": str(self.timed), "sizes": str(list(self.sizes))}
        file = self.out / MEASURED
        if file.exists():
            kept = json.loads(file.read_text(encoding="utf-8"))
            if kept["key"] == key:
                return {name: _cost(entry) for name, entry in kept["costs"].items()}
        dialogues = self.dev[: self.timed]
        turns = count_turns(dialogues) * len(entries)
        online = time_conversations(predictors, dialogues, Phase("timing", turns, self.progress))
        phase = Phase("timing made-up schemas", len(self.sizes) * len(entries), self.progress, unit="schemas")
        costs = {}
        for entry in entries:
            settings = fitted(self._settings(entry), self.task.schema)
            points = measure_growth(settings, dialogues, sizes=self.sizes, progress=phase.advance)
            costs[entry.name] = replace(online[entry.name], growth=tuple(points))
        text = json.dumps({"key": key, "costs": {name: asdict(one) for name, one in costs.items()}}, indent=1)
        write_text(file, text + "\n")
        return costs


def _cost(kept: dict[str, Any]) -> Cost:
    points = tuple(Point(**point) for point in kept["growth"])
    return Cost(Latency(**kept["latency"]), kept["passes"], kept["tokens"], points)


def _interval(dev: dict[str, Saved], entry: Entry) -> tuple[float, float, float] | None:
    if entry.name == SOM_DST or SOM_DST not in dev:
        return None
    compared = compare(dev[SOM_DST].runs, dev[entry.name].runs)
    return compared.difference, compared.low, compared.high


def time_conversations(
    predictors: dict[str, Predictor], dialogues: Sequence[Dialogue], phase: Phase
) -> dict[str, Cost]:
    """Each conversation turn by turn, on gold memories, one system after the other."""
    seconds: dict[str, list[float]] = {name: [] for name in predictors}
    counted = {name: [0, 0] for name in predictors}
    for number, dialogue in enumerate([*dialogues[:1], *dialogues]):  # the first one warms up, and does not count
        for name, predictor in predictors.items():
            if isinstance(predictor, SystemPredictor):
                predictor.forget()
            with counting(predictor) as count:
                times = [_timed(predictor, dialogue, t) for t in range(len(dialogue.turns))]
            if number:
                seconds[name] += times
                counted[name] = [a + b for a, b in zip(counted[name], count, strict=True)]
                phase.advance(len(times))
    return {
        name: Cost(Latency.of(own), counted[name][0] / len(own), counted[name][1] / len(own), ())
        for name, own in seconds.items()
    }


@contextmanager
def counting(predictor: Predictor) -> Iterator[list[int]]:
    """Counts the sequences and tokens that go through the encoder."""
    count = [0, 0]
    assert isinstance(predictor, (SystemPredictor, TorchPredictor))
    model: Any = predictor.system if isinstance(predictor, SystemPredictor) else predictor.model

    def note(module: Any, args: Any, kwargs: Any) -> None:
        rows, length = kwargs["inputs_embeds"].shape[:2]
        count[0] += rows
        count[1] += rows * length

    handle = model.text_encoder.encoder.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield count
    finally:
        handle.remove()


def _timed(predictor: Predictor, dialogue: Dialogue, turn: int) -> float:
    states = [State(), *dialogue.states()]
    known = states[turn].within(predictor.schema)
    return seconds_of(predictor, input_at(dialogue.turns[: turn + 1], known, history=predictor.history))
