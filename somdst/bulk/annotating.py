"""Annotating dialogues in one process, many side by side.

Does not start processes (`local.py`) or use other machines (`on_ray.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from somdst.corpora.jsonlines import dialogue_to_json
from somdst.errors import CorpusError, InputError, no_such
from somdst.memory.dialogue import Dialogue
from somdst.tracking.log import EMPTY, Result
from somdst.tracking.redaction import Redaction
from somdst.tracking.step import check_turn, rolling_batches
from somdst.tracking.tracker import Tracker

BATCH = 32
"""Dialogues in one run of the model."""


class Opener(Protocol):
    """Opens the same tracker in any process on any machine, so it must be picklable."""

    @property
    def identity(self) -> Mapping[str, str]:
        """Everything that decides the annotations, by name. Work is resumed only if all of it is the same."""
        ...

    def __call__(self, *, threads: int | None = None) -> Tracker: ...


@dataclass(frozen=True, slots=True)
class Pretrained:
    """Opens a model by its folder or its name."""

    model: str = "default"
    schema: str | None = None
    threshold: float | None = None
    precision: str = "int8"

    @property
    def identity(self) -> Mapping[str, str]:
        from somdst.model.folder import PRECISIONS, ModelFolder

        if self.precision not in PRECISIONS:
            raise InputError(no_such("precision", self.precision, PRECISIONS))
        folder = ModelFolder.open(self.model).path
        files = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(folder.iterdir())]
        try:
            schema = Path(self.schema).read_text(encoding="utf-8") if self.schema else None
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"Cannot read the schema {self.schema}: {error}.") from error
        return {
            "model": json.dumps([str(folder.resolve()), files]),
            "schema": json.dumps(schema),
            "threshold": json.dumps(self.threshold),
            "precision": self.precision,
        }

    def __call__(self, *, threads: int | None = None) -> Tracker:
        return Tracker.from_pretrained(
            self.model, schema=self.schema, threshold=self.threshold, precision=self.precision, threads=threads
        )


@dataclass(frozen=True, slots=True)
class Annotated:
    """A dialogue with what the tracker made of each turn."""

    dialogue: Dialogue
    results: tuple[Result, ...]

    def to_json(self, *, redact: bool = True) -> dict[str, Any]:
        """The project's JSON line, with the predicted state in place of the label, and what each turn did. With
        `redact`, private values are hidden (`tracking/redaction.py`)."""
        turns, tracked = self.dialogue.turns, [result.tracked for result in self.results]
        spoken = [result.entry for result in self.results]
        redaction = Redaction.of(spoken, labels=[turn.state for turn in turns])
        if redact and redaction:
            said = redaction.turns(spoken)
            turns = tuple(
                replace(turn, user=new.user, system=new.system, spellings=None)
                for turn, new in zip(turns, said, strict=True)
            )
            tracked = redaction.tracked(spoken, tracked)
        data = dialogue_to_json(replace(self.dialogue, turns=turns))
        data["turns"] = [
            {**said, **result.to_json(), "domain": said["domain"] or result.domain}
            for said, result in zip(data["turns"], tracked, strict=True)
        ]
        return data

    def to_line(self) -> str:
        return json.dumps(self.to_json(), ensure_ascii=False)


def check_dialogue(dialogue: Dialogue, *, where: str) -> None:
    """Refuse a dialogue with a turn that the tracker would refuse."""
    for number, turn in enumerate(dialogue.turns, start=1):
        try:
            check_turn(turn)
        except InputError as error:
            raise CorpusError(f"{where} (dialogue {dialogue.id}), turn {number}: {error}") from None


def annotate(
    tracker: Tracker,
    dialogues: Sequence[Dialogue],
    *,
    batch: int = BATCH,
    progress: Callable[[int], None] = lambda turns: None,
) -> list[Annotated]:
    """Track every dialogue from its start, under its own schema as `Tracker.for_dialogue` says. `progress` gets the
    number of turns of every batch."""
    trackers = [tracker.for_dialogue(dialogue) for dialogue in dialogues]
    results: list[list[Result]] = [[] for _ in dialogues]
    for places in rolling_batches([len(dialogue.turns) for dialogue in dialogues], batch=batch):
        steps = [
            (results[place][-1].snapshot if turn else EMPTY, dialogues[place].turns[turn]) for place, turn in places
        ]
        done = tracker.step_many(steps, under=[trackers[place] for place, _ in places])
        for (place, _), result in zip(places, done, strict=True):
            results[place].append(result)
        progress(len(steps))
    return [
        Annotated(replace(dialogue, schema=None if own is tracker else own.schema), tuple(done))
        for dialogue, own, done in zip(dialogues, trackers, results, strict=True)
    ]
