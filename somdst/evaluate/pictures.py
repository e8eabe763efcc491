"""Measurements as pictures: which series go into which of `svg.py`'s charts."""

from __future__ import annotations

from somdst.evaluate import paper_results as published
from somdst.evaluate import svg
from somdst.evaluate.calibration import Calibration
from somdst.evaluate.learning_curve import LearningCurve
from somdst.evaluate.metrics import Metrics


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
        theirs = tuple(published.DOMAINS[row.domain][0] for row in rows)
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
