"""Our measurements as tables, with the paper's figures beside them where they can be compared.

They can be compared where the whole test set of MultiWOZ 2.1 was measured, as in the paper. On dev, on a part, or for
other slots the paper's columns and rows are left out. Each function is named after the table that it reproduces.
"""

from __future__ import annotations

from collections.abc import Sequence

from somdst.corpora import paper_counts
from somdst.evaluate import paper_results
from somdst.evaluate.analysis import Perturbed
from somdst.evaluate.calibration import Calibration
from somdst.evaluate.efficiency import Batching, Efficiency, Regime
from somdst.evaluate.error_analysis import ErrorAnalysis, ErrorGroup
from somdst.evaluate.metrics import Metrics, Spread
from somdst.evaluate.tables import Cell, Table, counted
from somdst.memory.operations import Operation
from somdst.memory.schema import Schema

PAPER = "The paper's figures are for MultiWOZ 2.1, test set, SOM-DST with BERT-base."


def comparable(schema: Schema) -> bool:
    """Whether the slots are the paper's."""
    return set(schema) == set(Schema.multiwoz())


def measured_as_in_paper(schema: Schema, metrics: Metrics) -> bool:
    """Whether the whole of what the paper measures was measured: its slots, and every turn of its test set.

    The counts of operations between gold states are as good as a fingerprint of the test set.
    """
    test = {operation: counts[-1] for operation, counts in paper_counts.OPERATIONS.items()}
    return comparable(schema) and {str(row.operation): row.between_gold_states for row in metrics.operations} == test


def summary(metrics: Metrics, *, name: str = "this model") -> Table:
    rows: tuple[tuple[str, Cell], ...] = (
        ("joint goal accuracy", metrics.joint_goal_accuracy),
        ("  of a tracker that never writes", metrics.empty_state.joint_goal_accuracy),
        ("turns right", metrics.turns_right),
        ("  of a tracker that never writes", metrics.empty_state.turns_right),
        ("slot accuracy", metrics.slot_accuracy),
        ("slot F1", metrics.slot_f1),
        ("joint accuracy of final turns", metrics.final_turn_joint_accuracy),
        ("values generated per turn", metrics.slots_generated.mean),
        ("dialogues", metrics.dialogues),
        ("turns", metrics.turns),
    )
    return Table("summary", "Summary", ("measure", name), rows)


def joint_goal(metrics: Metrics) -> Table:
    rows: list[tuple[Cell, ...]] = [(name, *row) for name, row in paper_results.JOINT_GOAL_ACCURACY.items()]
    rows.append(("this model", None, metrics.joint_goal_accuracy))
    note = "All on the whole test set. HJST to DST-picklist know all values in advance."
    return Table("joint_goal", "Joint goal accuracy", ("model", "MultiWOZ 2.0", "MultiWOZ 2.1"), tuple(rows), note)


def domains(metrics: Metrics, *, paper: bool) -> Table:
    columns = ["domain", "turns", "joint accuracy", "slot accuracy", "own slot accuracy"]
    rows: list[tuple[Cell, ...]] = []
    for row in metrics.domains:
        beside = paper_results.DOMAINS.get(row.domain, (None, None)) if paper else ()
        ours = (row.domain, row.turns, row.joint_goal_accuracy, row.slot_accuracy, row.own_slot_accuracy)
        rows.append((*ours, *beside))
    if paper:
        columns += ["paper: joint", "paper: slot"]
    note = "Over turns whose gold state has a slot of the domain. Slot accuracy is against all slots, as in the paper."
    return Table("domains", "Accuracy by domain", tuple(columns), tuple(rows), note)


def operations(metrics: Metrics, *, paper: bool) -> Table:
    columns = ["operation", "between gold states", "to do", "predicted", "precision", "recall", "F1"]
    rows: list[tuple[Cell, ...]] = []
    for row in metrics.operations:
        ours = (str(row.operation), row.between_gold_states, row.gold, row.predicted, row.precision, row.recall, row.f1)
        rows.append((*ours, paper_results.OPERATION_F1.get(row.operation)) if paper else ours)
    if paper:
        columns.append("paper: F1")
    note = (
        "To do: against the predicted previous state, which may need correcting; precision, recall and F1 refer to it."
    )
    return Table("operations", "State operations", tuple(columns), tuple(rows), note)


def confusion(metrics: Metrics) -> Table:
    names = [str(row.operation) for row in metrics.operations]
    rows: list[tuple[Cell, ...]] = [(n, *counts) for n, counts in zip(names, metrics.confusion, strict=True)]
    return Table("confusion", "Operations: to do (rows) and predicted (columns)", ("to do", *names), tuple(rows))


def error_analysis(analysis: ErrorAnalysis, *, paper: bool) -> Table:
    columns = ["previous state", "gold operations", "gold values", "joint accuracy", "relative error rate"]
    theirs = ErrorAnalysis(paper_results.ORACLES)
    rows: list[tuple[Cell, ...]] = []
    for gold_state in (False, True):
        ours, beside = analysis.group(gold_state=gold_state), theirs.group(gold_state=gold_state)
        for part in ("none", "values", "operations", "operations_values"):
            what = ("gold" if gold_state else "predicted", "operations" in part, "values" in part)
            figures = (*_error(ours, part), *_error(beside, part)) if paper else _error(ours, part)
            rows.append((*what, *figures))
    if paper:
        columns += ["paper: joint", "paper: relative"]
    note = "Relative error rate: in percent of the error without gold operations and values."
    return Table("error_analysis", "Error analysis", tuple(columns), tuple(rows), note)


def _error(group: ErrorGroup, part: str) -> tuple[float, float]:
    accuracy: float = getattr(group, part)
    return accuracy, group.relative_error(accuracy)


def error_shares(analysis: ErrorAnalysis, *, paper: bool) -> Table:
    theirs = ErrorAnalysis(paper_results.ORACLES)
    columns = ["share of the error", "predicted states", "gold states"]
    figures = [_shares(analysis, gold_state=False), _shares(analysis, gold_state=True)]
    if paper:
        columns += ["paper: predicted", "paper: gold"]
        figures += [_shares(theirs, gold_state=False), _shares(theirs, gold_state=True)]
    names = ("operations, at least", "operations, at most", "values, at least", "values, at most", "both")
    rows: list[tuple[Cell, ...]] = [(name, *(column[i] for column in figures)) for i, name in enumerate(names)]
    growth = f"Feeding predicted states makes the error {analysis.propagation:.2f} times as large"
    note = f"{growth} (paper: {theirs.propagation:.2f})." if paper else f"{growth}."
    return Table("error_shares", "Where the error comes from", tuple(columns), tuple(rows), note)


def _shares(analysis: ErrorAnalysis, *, gold_state: bool) -> tuple[float, ...]:
    shares = analysis.group(gold_state=gold_state).shares()
    return (shares.operations_least, shares.operations_most, shares.values_least, shares.values_most, shares.both)


_REGIME_NAMES = {
    "ours": "this model",
    "every-non-null": "this model, every non-NULL slot (as COMER)",
    "every": "this model, every slot (as TRADE)",
}


def efficiency(measured: Efficiency, metrics: Metrics, *, paper: bool) -> Table:
    columns = ("values generated per turn", "least", "mean", "most", "ms per turn")
    rows: list[tuple[Cell, ...]] = [
        ("this model", *_spread(metrics.slots_generated), measured.regime("ours").milliseconds.mean),
        ("this model, by gold operations", *_spread(measured.to_generate), None),
        *((_REGIME_NAMES[r.name], *_spread(r.generated), r.milliseconds.mean) for r in measured.regimes[1:]),
        ("every non-NULL slot, by gold states", *_spread(measured.filled), None),
    ]
    if paper:
        rows += [(f"paper: {name}", *counts, None) for name, counts in paper_results.SLOTS_GENERATED.items()]
    timed = counted(measured.regime("ours").turns, "turn")
    note = f"Times: mean of {timed}, one at a time, tokenisation included. The paper counts gold operations."
    return Table("efficiency", "Values generated per turn", columns, tuple(rows), note)


def latency(measured: Efficiency, metrics: Metrics) -> Table:
    ours = ("this model", metrics.joint_goal_accuracy, measured.regime("ours").milliseconds.mean)
    every = ("this model, every slot (as TRADE)", None, measured.regime("every").milliseconds.mean)
    rows: list[tuple[Cell, ...]] = [*((n, *row) for n, row in paper_results.LATENCY.items()), ours, every]
    note = "Published: Tesla V100, without tokenisation. This model: this machine's CPU, with tokenisation."
    return Table("latency", "Latency", ("model", "joint accuracy", "ms per turn"), tuple(rows), note)


def complexity(measured: Efficiency) -> Table:
    """The paper's inference-time-complexity table; its bounds as counts for these slots and values."""
    J, M = measured.slots, measured.values_per_slot
    counts = {"1": 1, "J": J, "JM": round(J * M)}
    rows: list[tuple[Cell, ...]] = []
    for name, (best, worst) in paper_results.COMPLEXITY.items():
        rows.append((name, f"Ω({best})", f"O({worst})", counts[best], counts[worst], *[None] * 5))
    for regime in measured.regimes:
        best, worst = ("J", "J") if regime.name == "every" else ("1", "J")
        bounds = (f"Ω({best})", f"O({worst})", counts[best], counts[worst])
        rows.append((_REGIME_NAMES[regime.name], *bounds, *_spread(regime.generated), *_times(regime)))
    columns = ["model", "best", "worst", "best, J and M given", "worst, J and M given"]
    columns += ["generated: least", "mean", "most", "ms: least", "ms: most"]
    note = f"J = {J} slots with M = {M:.1f} values each in the labels of these turns; the rest as measured."
    return Table("complexity", "Inference time complexity", tuple(columns), tuple(rows), note)


def _spread(spread: Spread) -> tuple[int, float, int]:
    return spread.least, spread.mean, spread.most


def _times(regime: Regime) -> tuple[float, float]:
    return regime.milliseconds.least, regime.milliseconds.most


def batching(measured: Batching) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = (
        ("turn by turn", measured.one_by_one),
        (f"in batches of {measured.batch_size}", measured.batched),
        ("times faster", measured.times_faster),
    )
    note = f"{measured.turns:,} turns in batches; {measured.turns_one_by_one:,} of them, evenly spread, turn by turn."
    return Table("batching", "Evaluation in batches", ("", "turns per second"), rows, note)


def by_turn(metrics: Metrics) -> Table:
    rows = tuple((str(row.number), row.turns, row.joint_goal_accuracy) for row in metrics.by_turn)
    return Table("by_turn", "Joint accuracy by turn", ("turn", "turns", "joint accuracy"), rows)


def hardest_slots(metrics: Metrics, *, count: int = 10) -> Table:
    rows = tuple((r.slot, r.wrong, r.missing, r.extra, r.different, r.accuracy) for r in metrics.slots[:count])
    columns = ("slot", "wrong in turns", "missing", "too much", "another value", "accuracy where filled")
    return Table("hardest_slots", "The hardest slots", columns, rows)


def perturbations(baseline: Metrics, perturbed: Sequence[Perturbed]) -> Table:
    rows: list[tuple[Cell, ...]] = [("as typed", 0, baseline.joint_goal_accuracy, 0.0, _update_f1(baseline))]
    for row in perturbed:
        accuracy = row.metrics.joint_goal_accuracy
        cost = accuracy - baseline.joint_goal_accuracy
        rows.append((row.kind, row.turns_changed, accuracy, cost, _update_f1(row.metrics)))
    columns = ("kind", "turns changed", "joint accuracy", "difference", "update F1")
    return Table("perturbations", "How people type", columns, tuple(rows))


def _update_f1(metrics: Metrics) -> float:
    return metrics.operation(Operation.UPDATE).f1


def calibration(measured: Calibration) -> Table:
    held = measured.threshold
    rows: tuple[tuple[Cell, ...], ...] = (
        ("changes", measured.changes),
        ("right, percent", measured.accuracy),
        ("expected calibration error, points", measured.expected_calibration_error),
        ("temperature that would fit best", measured.temperature),
        ("calibration error with it, points", measured.error_with_temperature),
        ("threshold that decides most writes rightly", held.value),
        ("writes below it", held.held_back),
        ("of those wrong", held.wrong),
    )
    return Table("calibration", "Calibration of changes", ("measure", "this model"), rows)
