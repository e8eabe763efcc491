"""What training wrote down of itself: `metrics.jsonl` in a run's folder, read for the report's learning curve.

One JSON object a line; a line that is cut short (training may be writing it right now) is left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class LearningCurve:
    """Points (step, value)."""

    loss: Points
    accuracy: Points
    """Joint goal accuracy on dev."""


def find_metrics(model: str | Path) -> Path | None:
    """`metrics.jsonl` in the model's folder, where it is a run's."""
    path = Path(model) / "metrics.jsonl"
    return path if path.is_file() else None


def read_learning_curve(path: Path) -> LearningCurve:
    losses: list[tuple[float, float]] = []
    accuracies: list[tuple[float, float]] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and isinstance(entry.get("step"), (int, float)):
            for key, points in (("loss", losses), ("dev_joint_goal_accuracy", accuracies)):
                if isinstance(entry.get(key), (int, float)):
                    points.append((float(entry["step"]), float(entry[key])))
    return LearningCurve(thinned(losses), thinned(accuracies))


def thinned(points: Sequence[tuple[float, float]], *, most: int = 120) -> Points:
    """At most this many points, each the mean of those it stands for."""
    size = -(-len(points) // most) or 1
    groups = [points[i : i + size] for i in range(0, len(points), size)]
    return tuple((group[-1][0], sum(value for _, value in group) / len(group)) for group in groups)
