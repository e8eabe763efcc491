"""`compare_systems`: every system trained under one budget on one encoder, evaluated, and timed on this machine.

Each system has a run folder of its own below `out`. What was measured is in `out/systems`, one file per system, so a
stopped comparison goes on where it was, and one that has these files needs the runs no more: systems can be trained on
different days or machines. Turns are timed one at a time, in the order of their conversations, in turn with the least
that any system does, so that times which were not measured together can be compared. How time grows with the schema
needs no training and is measured last, for all systems together. All run on torch.

Does not render; see `systems_report.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from somdst.baselines.catalogue import SYSTEMS, Listed, find
from somdst.baselines.growth import USUAL_VALUES, Point, all_sizes, measure_growth, untrained, watching_encoder
from somdst.baselines.ontology import Missing, Ontology
from somdst.baselines.system_predictor import SystemPredictor
from somdst.errors import InputError
from somdst.evaluate.comparison import interval, per_dialogue
from somdst.evaluate.efficiency import values_generated
from somdst.evaluate.metrics import Metrics, Spread
from somdst.evaluate.saved import Saved, predictions
from somdst.evaluate.speed import Latency, seconds_of
from somdst.learn import machine
from somdst.learn.encoders import check_encoder
from somdst.learn.kept import contents, keep, kept
from somdst.learn.progress import Listener, Phase, silent, within
from somdst.learn.settings import Settings
from somdst.learn.task import Source, Task, read_task
from somdst.learn.torch_predictor import TorchPredictor
from somdst.learn.training import TrainResult, fitted, train
from somdst.memory.dialogue import Dialogue, count_turns
from somdst.memory.operations import Operation
from somdst.memory.schema import Schema
from somdst.memory.state import State
from somdst.model.config import SOM_DST
from somdst.model.folder import open_predictor
from somdst.model.prediction import Predictor
from somdst.tracking.step import input_at

RESULTS = "systems"
GROWTH = "growth.json"
TIMED_DIALOGUES = 12
EVALUATED = 60
"""Dialogues of dev that are evaluated on at the end of a training: some systems take minutes for all of it."""
ONCE = 1000.0
"""Epochs between two evaluations: more than there are, so that no system has its best weights chosen on dev."""


@dataclass(frozen=True, slots=True)
class Cost:
    """One turn at a time."""

    latency: Latency
    bare: Latency
    """The same turns, measured in turn with these: SOM-DST, untrained, where no slot changes."""
    passes: float
    """Sequences that went through the encoder, per turn."""
    tokens: float
    """Their tokens, per turn."""


@dataclass(frozen=True, slots=True)
class SystemResult:
    system: str
    steps: int
    minutes: float
    dev: Metrics
    test: Metrics | None
    generated: Spread
    """Values per turn of dev."""
    missing: Missing | None
    """What of dev is not in the ontology, for systems that need one."""
    cost: Cost
    turns: tuple[int, ...]
    """Of each dialogue of dev."""
    right: tuple[int, ...]
    """How many of them have the gold state."""

    @property
    def entry(self) -> Listed:
        return find(self.system)

    def to_json(self) -> dict[str, Any]:
        row = {key: value for key, value in asdict(self).items() if key not in ("turns", "right")}
        return row | {"dev": self.dev.to_json(), "test": self.test.to_json() if self.test else None}


Growth = Mapping[str, tuple[Point, ...]]
"""How the time of each system grows with the schema."""


@dataclass(frozen=True, slots=True)
class SideBySide:
    encoder: str
    minutes: float | None
    corpus: str
    schema: Schema
    operation_weight: float
    results: tuple[SystemResult, ...]
    growth: Growth
    finished: bool
    """False if a signal stopped it; the same call goes on."""

    def difference(self, result: SystemResult) -> tuple[float, float, float] | None:
        """Joint goal accuracy on dev minus that of SOM-DST, with its 95% interval."""
        ours = next((one for one in self.results if one.system == SOM_DST), None)
        if ours is None or result is ours:
            return None
        low, high = interval(ours.right, result.right, ours.turns)
        return result.dev.joint_goal_accuracy - ours.dev.joint_goal_accuracy, low, high

    def to_json(self) -> dict[str, Any]:
        rows = [
            one.to_json()
            | {"minus_som_dst": self.difference(one), "growth": [asdict(point) for point in self.growth[one.system]]}
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
    measured on too, once, after their training. `timed` dialogues of dev are run turn by turn; `sizes` are the numbers
    of slots and values for which the growth of time is measured.
    """
    machine.prepare()
    chosen, out = settings or Settings(), Path(out)
    entries = [find(name) for name in dict.fromkeys(systems)]
    if not entries:
        raise InputError(f"Give at least one system; there are {', '.join(SYSTEMS)}.")
    check_encoder(chosen.encoder)
    task = read_task(corpus, dev, schema=schema, limit=limit)
    task.require_dev()
    name = Path(corpus).name if isinstance(corpus, (str, Path)) else "dialogues in memory"
    work = _Comparing(chosen, task, out, minutes, tuple(test or ()), timed, tuple(sizes or all_sizes()), progress)
    return SideBySide(chosen.encoder, minutes, name, task.schema, chosen.operation_weight, *work.run(entries))


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

    def run(self, entries: Sequence[Listed]) -> tuple[tuple[SystemResult, ...], Growth, bool]:
        results = []
        for entry in entries:
            result = kept(self._file(entry), SystemResult, self._key(entry))
            if result is None:
                done = train(
                    self.task,
                    self.out / entry.name,
                    settings=self._settings(entry),
                    minutes=self.minutes,
                    progress=self._listener(entry),
                )
                if not done.finished:
                    return (), {}, False
                result = self._measured(entry, done)
                keep(self._file(entry), self._key(entry), result)
            results.append(result)
        return tuple(results), self._growth(entries), True

    # Results that are kept

    def _file(self, entry: Listed) -> Path:
        return self.out / RESULTS / f"{entry.name}.json"

    def _key(self, entry: Listed) -> dict[str, Any]:
        settings = self._settings(entry).model_dump(mode="json")
        parts = {"train": self.task.dialogues, "dev": self.dev, "test": self.test}
        read = {part: contents(dialogues) for part, dialogues in parts.items()}
        same = {"minutes": self.minutes, "schema": self.task.schema.id, "read": read, "timed": self.timed}
        return {"settings": settings} | same

    # Measuring

    def _measured(self, entry: Listed, done: TrainResult) -> SystemResult:
        dev = self._runs(entry, "dev", self.dev)
        test = self._runs(entry, "test", self.test) if self.test else None
        turns = [turn for one in dev.runs for turn in one.turns]
        counts, right = per_dialogue(dev.runs)
        ontology = Ontology.collect(self.task.dialogues, self.task.schema) if entry.ontology else None
        return SystemResult(
            entry.name,
            done.step,
            done.minutes,
            dev=dev.metrics(),
            test=test.metrics() if test else None,
            generated=Spread.of([values_generated(entry.writes, turn, self.task.schema) for turn in turns]),
            missing=ontology.missing(self.dev) if ontology else None,
            cost=self._cost(entry),
            turns=counts,
            right=right,
        )

    def _settings(self, entry: Listed) -> Settings:
        evaluated = min(self.settings.dev_limit or EVALUATED, EVALUATED)
        same = {"system": entry.name, "dev_limit": evaluated, "evaluate_every": ONCE, "tell_apart": False}
        return self.settings.model_copy(update=same)

    def _listener(self, entry: Listed) -> Listener:
        return within(self.progress, entry.name)

    def _runs(self, entry: Listed, part: str, dialogues: Sequence[Dialogue]) -> Saved:
        """A system's predictions. They are kept in its folder, so that a resumed comparison has them at once."""
        phase = Phase(f"comparing on {part}", count_turns(dialogues), self._listener(entry))
        predictor = self._predictor(entry)
        predictor.precision = machine.precision_in(self.settings.precision)  # as in training: some take long for this
        return predictions(self.out / entry.name, predictor, dialogues, part=part, progress=phase.advance)

    def _predictor(self, entry: Listed) -> SystemPredictor | TorchPredictor:
        predictor = open_predictor(self.out / entry.name, engine="torch")
        assert isinstance(predictor, (SystemPredictor, TorchPredictor))
        return predictor

    def _cost(self, entry: Listed) -> Cost:
        dialogues, listener = self.dev[: self.timed], self._listener(entry)
        settings = fitted(self._settings(entry), self.task.schema)
        plain = settings.model_copy(update={"system": SOM_DST})
        bare = untrained(plain, self.task.schema, USUAL_VALUES, dialogues)
        phase = Phase("timing", count_turns(dialogues), listener)
        return time_conversations(self._predictor(entry), bare, dialogues, phase)

    def _growth(self, entries: Sequence[Listed]) -> Growth:
        """Kept only if all of these were measured together."""
        file, dialogues = self.out / RESULTS / GROWTH, self.dev[: self.timed]
        systems = [fitted(self._settings(entry), self.task.schema) for entry in entries]
        key = {
            "settings": [settings.model_dump(mode="json") for settings in systems],
            "read": contents(dialogues),
            "sizes": [list(size) for size in self.sizes],
        }
        found = kept(file, Growth, key)
        if found is None:
            phase = Phase("timing made-up schemas", len(self.sizes), self.progress, unit="schemas")
            found = measure_growth(systems, dialogues, sizes=self.sizes, progress=phase.advance)
            keep(file, key, found)
        return found


def time_conversations(predictor: Predictor, bare: Predictor, dialogues: Sequence[Dialogue], phase: Phase) -> Cost:
    """Each conversation turn by turn, on gold memories: with the system, then with a model that changes nothing."""
    own: list[float] = []
    least: list[float] = []
    sequences = tokens = 0
    for number, dialogue in enumerate([*dialogues[:1], *dialogues]):  # the first one warms up, and does not count
        if isinstance(predictor, SystemPredictor):
            predictor.forget()
        with watching_encoder(predictor) as use:
            times = [_timed(predictor, dialogue, t) for t in range(len(dialogue.turns))]
        others = [_timed(bare, dialogue, t, {}) for t in range(len(dialogue.turns))]
        if number:
            own, least = own + times, least + others
            sequences, tokens = sequences + use.sequences, tokens + use.tokens
            phase.advance(len(times))
    return Cost(Latency.of(own), Latency.of(least), sequences / len(own), tokens / len(own))


def _timed(predictor: Predictor, dialogue: Dialogue, turn: int, forced: Mapping[str, Operation] | None = None) -> float:
    states = [State(), *dialogue.states()]
    known = states[turn].within(predictor.schema)
    return seconds_of(predictor, input_at(dialogue.turns[: turn + 1], known, history=predictor.history), forced)
