"""Measurements as pictures: which series go into which of `svg.py`'s charts.

The learning curve comes from `metrics.jsonl`, which training writes into a run's folder, one JSON object per line. A
line that is cut short, because training is writing it, is left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from somdst.evaluate import paper_results, svg
from somdst.evaluate.calibration import Calibration
from somdst.evaluate.metrics import Metrics

METRICS = "metrics.jsonl"
Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class LearningCurve:
    """Points (step, value)."""

    loss: Points
    accuracy: Points
    """Joint goal accuracy on dev."""


def find_metrics(model: str | Path) -> Path | None:
    """`metrics.jsonl` in the model's folder; None if training did not write one."""
    path = Path(model) / METRICS
    return path if path.is_file() else None


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records of a run; none if training has not written any yet."""
    records: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            records.append(record)
    return records


def read_learning_curve(path: Path) -> LearningCurve:
    losses: list[tuple[float, float]] = []
    accuracies: list[tuple[float, float]] = []
    for entry in read_metrics(path):
        if isinstance(entry.get("step"), (int, float)):
            for key, points in (("loss", losses), ("dev_joint_goal_accuracy", accuracies)):
                if isinstance(entry.get(key), (int, float)):
                    points.append((float(entry["step"]), float(entry[key])))
    return LearningCurve(thinned(losses), thinned(accuracies))


def thinned(points: Sequence[tuple[float, float]], *, most: int = 120) -> Points:
    """At most this many points, each the mean of those it replaces."""
    size = -(-len(points) // most) or 1
    groups = [points[i : i + size] for i in range(0, len(points), size)]
    return tuple((group[-1][0], sum(value for _, value in group) / len(group)) for group in groups)


def learning_curve(curve: LearningCurve) -> str:
    lines = [
        svg.Line("joint goal accuracy on dev", "ours", curve.accuracy, right=True),
        svg.Line("training loss", "paper", curve.loss),
    ]
    drawn = [line for line in lines if line.points]
    chart = svg.line_chart(drawn, x_name="training step", left="training loss", right="dev joint goal accuracy")
    return chart + svg.legend(drawn)


def by_turn(metrics: Metrics, *, most: int = 14) -> str:
    rows = metrics.by_turn[:most]
    series = svg.Series("joint goal accuracy", "ours", tuple(row.joint_goal_accuracy for row in rows))
    return svg.bar_chart(
        [str(row.number) for row in rows], [series], name="joint goal accuracy by turn of the dialogue"
    )


def by_domain(metrics: Metrics, *, paper: bool) -> str:
    rows = metrics.domains
    series = [svg.Series("this model", "ours", tuple(row.joint_goal_accuracy for row in rows))]
    if paper:
        theirs = tuple(paper_results.DOMAINS[row.domain][0] for row in rows)
        series.append(svg.Series("paper (test set)", "paper", theirs))
    chart = svg.bar_chart([row.domain for row in rows], series, name="joint accuracy of the domain's slots")
    return chart + (svg.legend(series) if paper else "")


def confusion(metrics: Metrics) -> str:
    names = [str(row.operation) for row in metrics.operations]
    return svg.heat_map(names, metrics.confusion, rows="to do", columns="predicted")


def hardest_slots(metrics: Metrics, *, count: int = 12) -> str:
    rows = [row for row in metrics.slots[:count] if row.wrong]
    series = [
        svg.Series("missing", "paper", tuple(float(row.missing) for row in rows)),
        svg.Series("too much", "warn", tuple(float(row.extra) for row in rows)),
        svg.Series("another value", "bad", tuple(float(row.different) for row in rows)),
    ]
    return svg.stacked_bars([row.slot for row in rows], series, name="turns in which a slot is wrong") + svg.legend(
        series
    )


def reliability(measured: Calibration) -> str:
    return svg.reliability_diagram([(row.probability, row.accuracy, row.count) for row in measured.bins])
