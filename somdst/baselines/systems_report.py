"""Systems side by side as tables, a picture and one HTML page: the paper's tables 1, 2, 6, 7 and 11, measured.

Published figures stand beside ours only for the paper's slots. They are of other encoders, other budgets and the test
set, and every table says so: a row is a system's decoding on our encoder, not the system.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from somdst.baselines.catalogue import SYSTEMS
from somdst.baselines.growth import SLOTS, USUAL_SLOTS, USUAL_VALUES, VALUES, Point
from somdst.baselines.side_by_side import SideBySide, SystemResult
from somdst.evaluate import paper_results, svg
from somdst.evaluate.html import Section, Tile, page, picture
from somdst.evaluate.paper_tables import comparable
from somdst.evaluate.tables import Cell, Table
from somdst.files import write_text
from somdst.model.config import SOM_DST

COLOURS = {SOM_DST: "ours", "trade": "bad", "comer": "warn", "nadst": "good", "sumbt": "paper", "ds-dst": "ink"}
"""Of the systems that are drawn as lines: one of each kind of growth."""
_STYLE = (
    "<style>:root{--ink:#16202c;--soft:#5b6776;--grid:#e6eaf0;--ours:#2563eb;--paper:#a3aebd}"
    "text{fill:#5b6776;font:12px system-ui,sans-serif}</style>"
)


def label(result: SystemResult) -> str:
    title = result.entry.title
    return title if result.entry.name == SOM_DST else f"{title}'s decoding"


def tables(done: SideBySide) -> list[Table]:
    return [accuracy(done), domains(done), generated(done), latency(done), complexity(done)]


def budget(done: SideBySide) -> str:
    time = f"{done.minutes:g} minutes of training each" if done.minutes is not None else "the same number of epochs"
    return f"All on the encoder {done.encoder}, {time}, on {done.corpus}."


def ranked(done: SideBySide) -> list[SystemResult]:
    return sorted(done.results, key=lambda one: -one.dev.joint_goal_accuracy)


def accuracy(done: SideBySide) -> Table:
    """Table 1."""
    paper, tested = comparable(done.schema), any(one.test for one in done.results)
    rows: list[tuple[Cell, ...]] = []
    for one in ranked(done):
        difference = done.difference(one)
        apart = difference and "{:+.2f} ({:+.2f} to {:+.2f})".format(*difference)
        missed = 100 * one.missing.turns / one.missing.all_turns if one.missing else None
        rows.append(
            (
                *(label(one), one.dev.joint_goal_accuracy, apart),
                *([one.test.joint_goal_accuracy if one.test else None] if tested else []),
                *([one.entry.published[1]] if paper else []),
                *(one.dev.slot_accuracy, one.dev.slot_f1, missed, one.steps, one.minutes),
            )
        )
    columns = ["system", "joint accuracy, dev", "minus SOM-DST (95%)", *(["joint accuracy, test"] if tested else [])]
    columns += [*(["published, 2.1 test"] if paper else []), "slot accuracy", "slot F1"]
    columns += ["turns outside the ontology, %", "steps", "minutes"]
    measured = done.results[0].dev
    note = (
        f"{budget(done)} Measured on {measured.turns:,} turns of dev, where a tracker that never writes has "
        f"{measured.empty_state.joint_goal_accuracy:.2f}."
    ) + (" Published figures have other encoders and training, and are on test." if paper else "")
    return Table("accuracy", "Joint goal accuracy", tuple(columns), tuple(rows), note)


def domains(done: SideBySide) -> Table:
    """Table 2."""
    names = [row.domain for row in done.results[0].dev.domains]
    rows = []
    for one in ranked(done):
        found = {row.domain: row.joint_goal_accuracy for row in one.dev.domains}
        rows.append((label(one), *(found.get(name) for name in names)))
    note = "Over the turns whose state has a slot of the domain, looking only at these slots. On dev."
    return Table("domains", "Joint accuracy by domain", ("system", *names), tuple(rows), note)


def generated(done: SideBySide) -> Table:
    """Table 6."""
    paper = comparable(done.schema)
    rows: list[tuple[Cell, ...]] = []
    for one in ranked(done):
        published = paper_results.SLOTS_GENERATED.get(one.entry.title)
        spread = one.generated.least, one.generated.mean, one.generated.most
        rows.append((label(one), *spread, *([published[1] if published else None] if paper else [])))
    columns = ("system", "least", "mean", "most", *(["published mean, test"] if paper else []))
    note = (
        f"Values that are produced per turn, of {len(done.schema)} slots: of all slots, of those that are filled, or "
    )
    return Table("generated", "Values per turn", columns, tuple(rows), note + "of those that change.")


def latency(done: SideBySide) -> Table:
    """Table 7."""
    paper = comparable(done.schema)
    published = {name.removesuffix(" (BERT-base)"): time for name, (_, time) in paper_results.LATENCY.items()}
    rows: list[tuple[Cell, ...]] = []
    for one in sorted(done.results, key=_times_bare):
        cost = one.cost
        own = (label(one), cost.latency.p50, cost.latency.p95, _times_bare(one), cost.passes, cost.tokens)
        rows.append((*own, *([published.get(one.entry.title)] if paper else [])))
    columns = ["system", "ms, median", "ms, p95", "times the least", "encoder passes", "tokens read"]
    least = [one.cost.bare.p50 for one in done.results]
    note = (
        f"One turn at a time, on torch, {done.results[0].cost.latency.turns:,} turns of dev, tokenisation included. "
        "The least is a turn of SOM-DST in which no slot changes, measured in turn with each system: its median was "
        f"{min(least):.1f} to {max(least):.1f} ms."
    )
    if paper:
        columns.append("published ms, on a GPU")
        note += " Published: on a Tesla V100, without tokenisation."
    return Table("latency", "Time per turn", tuple(columns), tuple(rows), note)


def _times_bare(result: SystemResult) -> float:
    return result.cost.latency.p50 / result.cost.bare.p50


def complexity(done: SideBySide) -> Table:
    """Table 11, with what it predicts measured beside it."""
    by_slots, by_values = _sizes(done)
    rows: list[tuple[Cell, ...]] = []
    for one in done.results:
        points = {(point.slots, point.values): point for point in done.growth[one.system]}
        along = [points[J, USUAL_VALUES] for J in by_slots]
        wide = [points[USUAL_SLOTS, M] for M in by_values]
        best, worst = one.entry.complexity
        own: list[Cell] = [label(one), f"Ω({best})", f"O({worst})", *(point.decoding for point in along)]
        own += [_times(along, case) for case in ("decoding", "worst", "best")]
        own += [*(point.decoding for point in wide), _times(wide, "decoding")]
        rows.append(tuple(own))
    columns = ["system", "best", "worst", *(f"ms, J = {J}" for J in by_slots), "times slower", "the whole turn"]
    columns += ["with nothing to change", *(f"ms, M = {M}" for M in by_values), "times slower"]
    note = (
        "J slots with M values each; the paper's bounds, and the median time of decoding in turns in which every slot "
        f"gets a value. J grows with M = {USUAL_VALUES}, M with J = {USUAL_SLOTS}. Decoding is everything but the "
        "encoder's pass over the text. Times slower: the largest against the smallest; the same of whole turns, and "
        "of whole turns in which nothing changes. Untrained systems on the same encoder, measured in turn. DS-DST "
        "chooses from lists of up to twelve values, and takes spans beyond that."
    )
    return Table("complexity", "Growth with slots and values", tuple(columns), tuple(rows), note)


def _sizes(done: SideBySide) -> tuple[list[int], list[int]]:
    sizes = [(point.slots, point.values) for point in done.growth[done.results[0].system]]
    return [J for J in SLOTS if (J, USUAL_VALUES) in sizes], [M for M in VALUES if (USUAL_SLOTS, M) in sizes]


def _times(points: Sequence[Point], case: str) -> float | None:
    if not points:
        return None
    first, last = getattr(points[0], case), getattr(points[-1], case)
    return float(last / first) if first else None


# Pictures.


def accuracy_picture(done: SideBySide) -> str:
    results = ranked(done)
    series = [svg.Series("here, on dev", "ours", tuple(one.dev.joint_goal_accuracy for one in results))]
    if comparable(done.schema):
        theirs = tuple(one.entry.published[1] for one in results)
        series.append(svg.Series("published, 2.1 test", "paper", theirs))
    width = max(500, 90 * len(results))
    chart = svg.bar_chart([one.entry.title for one in results], series, name="joint goal accuracy", width=width)
    return chart + (svg.legend(series) if len(series) > 1 else "")


def growth_picture(done: SideBySide) -> str:
    by_slots, _ = _sizes(done)
    lines = []
    for one in done.results:
        if one.entry.name in COLOURS:
            points = {p.slots: p.decoding for p in done.growth[one.system] if p.values == USUAL_VALUES}
            line = tuple((float(J), points[J]) for J in by_slots)
            lines.append(svg.Line(one.entry.title, COLOURS[one.entry.name], line))
    if not lines or not by_slots:
        return ""
    return svg.line_chart(lines, x_name="slots", left="milliseconds of decoding, every slot changes") + svg.legend(
        lines
    )


def to_html(done: SideBySide) -> str:
    best = ranked(done)[0]
    fastest = min(done.results, key=_times_bare)
    tiles = [
        Tile("Best on dev", f"{best.dev.joint_goal_accuracy:.2f}", label(best)),
        Tile("Fastest turn", f"{fastest.cost.latency.p50:.1f} ms", label(fastest)),
        Tile("Systems", str(len(done.results))),
    ]
    first, by_domain, values, times, growth = (table.to_html() for table in tables(done))
    drawn = growth_picture(done)
    sections = [
        Section("accuracy", "Accuracy", picture("Joint goal accuracy", accuracy_picture(done)) + first + by_domain),
        Section("cost", "Cost of a turn", times + values),
        Section("growth", "Growth", (picture("Decoding by number of slots", drawn) if drawn else "") + growth),
    ]
    return page(
        "Systems side by side", f"{budget(done)} Each row is a system's decoding, not the system.", tiles, sections
    )


def to_markdown(done: SideBySide) -> str:
    intro = (
        f"{budget(done)} Each row is a system's decoding on this encoder with this budget: what is as published and "
        "what is not is said at the top of its file in `somdst/baselines/`. All share the training loop: the loss of a "
        f"gate, or of SOM-DST's operations, counts {done.operation_weight:g} times; systems that read the memory learn "
        "from wrong memories too; generated values near a value of the training dialogues become it. The number of "
        "steps is what fits into the time at the speed of the first steps; `minutes` is what they took, with an "
        "evaluation at the end. Accuracy is measured in the precision of the training, time in float32. Written by "
        "`somdst compare-systems`."
    )
    measured = {one.system for one in done.results}
    others = [entry.title for name, entry in SYSTEMS.items() if name not in measured]
    parts = ["# Systems side by side", intro, *([f"Not compared here: {', '.join(others)}."] if others else [])]
    parts.append("![Joint goal accuracy of each system](systems.svg)")
    if comparable(done.schema):
        parts.append("Blue: here, on dev. Grey: published, on the test set of MultiWOZ 2.1.")
    parts += [table.to_markdown() for table in tables(done)]
    return "\n\n".join(parts) + "\n"


def to_svg(done: SideBySide) -> str:
    """The picture of accuracies as a file of its own."""
    drawn = accuracy_picture(done).partition("<p ")[0]
    head, _, rest = drawn.partition(">")
    return (
        f"{head.replace('<svg', '<svg xmlns=' + chr(34) + 'http://www.w3.org/2000/svg' + chr(34), 1)}>{_STYLE}{rest}\n"
    )


def write(done: SideBySide, out: Path) -> list[Path]:
    files = {
        out / "systems.md": to_markdown(done),
        out / "systems.html": to_html(done),
        out / "systems.svg": to_svg(done),
        out / "systems.json": json.dumps(done.to_json(), indent=1) + "\n",
    }
    for path, text in files.items():
        write_text(path, text)
    return list(files)
