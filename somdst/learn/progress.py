"""How a long call says how far it is: `Progress`, and the records that a training run keeps about itself.

Every call of this room takes a function that hears `Progress`; what is shown of it is up to the caller.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class TrainingRecord:
    """One line of a run's metrics.jsonl. Losses are means since the record before."""

    step: int
    steps: int
    epoch: float
    loss: float
    loss_operations: float
    loss_domain: float
    loss_values: float
    turns_per_second: float
    seconds_left: float
    dev_joint_goal_accuracy: float | None = None
    """In percent, where dev was evaluated at this step."""


@dataclass(frozen=True, slots=True)
class Progress:
    """`done` of `total` steps or turns of a phase such as "training" are done."""

    phase: str
    done: int
    total: int
    unit: str
    record: TrainingRecord | None = None
    """What training measured; only at some of its steps."""


Listener = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """The listener where nobody listens."""


def within(listener: Listener, name: str) -> Listener:
    """A listener for one of several runs: phases have its name before theirs."""
    return lambda progress: listener(replace(progress, phase=f"{name}: {progress.phase}"))


@dataclass(slots=True)
class Phase:
    """Counts what is done of one phase, and tells the listener."""

    name: str
    total: int
    listener: Listener
    unit: str = "turns"
    done: int = 0

    def advance(self, count: int) -> None:
        self.done += count
        self.listener(Progress(self.name, self.done, self.total, self.unit))


@dataclass(slots=True)
class Position:
    """Where a run is. It is stored in the checkpoint beside the weights."""

    step: int = 0
    best: float = -1.0
    best_step: int = 0
    evaluations_without_improvement: int = 0
    turns: int = 0
    seconds: float = 0.0
    """Of training so far, evaluations on dev included."""


@dataclass(slots=True)
class Meter:
    """Losses and turns since the last record. `losses` holds the sums: total, operations, domain, values."""

    losses: list[float] = field(default_factory=lambda: [0.0] * 4)
    steps: int = 0
    turns: int = 0
    started: float = field(default_factory=time.monotonic)

    def add(self, losses: list[float], turns: int) -> None:
        self.losses = [total + loss for total, loss in zip(self.losses, losses, strict=True)]
        self.steps, self.turns = self.steps + 1, self.turns + turns

    @property
    def rate(self) -> float:
        """Turns per second."""
        return self.turns / max(time.monotonic() - self.started, 1e-9)
