"""The report on a model: the paper's tables beside ours, pictures, sample dialogues; as one HTML page and as Markdown.

Does not measure; see `analysis.py`. Does not draw; see `pictures.py` and `svg.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from somdst.evaluate import paper_results, paper_tables, pictures
from somdst.evaluate.analysis import Analysis, Perturbed
from somdst.evaluate.error_analysis import ErrorAnalysis
from somdst.evaluate.html import Section, Tile, column, grid, page, picture
from somdst.evaluate.pictures import LearningCurve
from somdst.evaluate.samples import choose_samples, sample_html, sample_markdown
from somdst.evaluate.tables import Table, counted
from somdst.files import make_folder, write_text

_LEADS = {
    "accuracy": "A turn counts as right where all slots have their gold values, on the model's own predicted states.",
    "errors": "The truth takes the place of the fed state, of the operations or of the values, in every combination.",
    "efficiency": "Only the values of slots to update are generated; the regimes of COMER and TRADE, with the same "
    "model, generate those of all filled slots and those of all slots.",
    "training": "The learning curve of the run that made this model.",
    "calibration": "Every change has a probability. Well calibrated, of the changes with 0.8 four in five are right.",
    "typing": "The same dialogues with the user's text changed in one way at a time; labels stay as they are.",
    "samples": "Slots that this turn changed are blue; what is wrong is red, with what it should be. Slots that are "
    "NULL are left out. Underlined words are where a value was copied from.",
}


@dataclass(frozen=True, slots=True)
class Report:
    model: str
    corpus: str
    paper: bool
    """The whole test set of the paper was measured, so its figures are beside ours."""
    analysis: Analysis
    perturbed: tuple[Perturbed, ...] = ()
    curve: LearningCurve | None = None

    @property
    def title(self) -> str:
        return f"Report on {self.model}"

    @property
    def subtitle(self) -> str:
        metrics = self.analysis.metrics
        size = f"{counted(metrics.dialogues, 'dialogue')}, {counted(metrics.turns, 'turn')}"
        measured = f"Measured on {self.corpus}: {size}."
        return f"{measured} {paper_tables.PAPER}" if self.paper else measured

    def to_json(self) -> dict[str, Any]:
        perturbed = {row.kind: row.to_json() for row in self.perturbed}
        return {"model": self.model, "corpus": self.corpus} | self.analysis.to_json() | {"perturbations": perturbed}

    def to_html(self) -> str:
        return page(self.title, self.subtitle, self._tiles(), self._sections())

    def to_markdown(self) -> str:
        parts = [f"# {self.title}", self.subtitle]
        tiles = (f"{tile.name} **{tile.figure}**{f' ({tile.beside})' if tile.beside else ''}" for tile in self._tiles())
        parts.append(" · ".join(tiles))
        for title, lead, tables in self._tables():
            parts += [f"## {title}", lead, *(table.to_markdown() for table in tables)]
        parts += ["## Sample dialogues", "Changes in bold, errors marked; slots that are NULL are left out."]
        parts += [sample_markdown(run) for run in choose_samples(self.analysis.runs)]
        return "\n\n".join(part for part in parts if part) + "\n"

    def _tiles(self) -> list[Tile]:
        done, metrics = self.analysis, self.analysis.metrics
        accuracy, time = paper_results.LATENCY["SOM-DST (BERT-base)"]
        beside = {
            "joint": f"paper {accuracy:.2f}",
            "propagation": f"paper {ErrorAnalysis(paper_results.ORACLES).propagation:.2f}",
            "time": f"paper {time:.0f}, on a GPU",
        }
        note = beside if self.paper else {}
        return [
            Tile("Joint goal accuracy", f"{metrics.joint_goal_accuracy:.2f}", note.get("joint", "")),
            Tile("Slot accuracy", f"{metrics.slot_accuracy:.2f}"),
            Tile("Slot F1", f"{metrics.slot_f1:.2f}"),
            Tile("Error propagation", f"{done.errors.propagation:.2f}×", note.get("propagation", "")),
            Tile(
                "Milliseconds per turn", f"{done.efficiency.regime('ours').milliseconds.mean:.1f}", note.get("time", "")
            ),
            Tile("Calibration error", f"{done.calibration.expected_calibration_error:.2f}", "points"),
        ]

    def _tables(self) -> list[tuple[str, str, list[Table]]]:
        done, metrics, paper = self.analysis, self.analysis.metrics, self.paper
        accuracy = [paper_tables.summary(metrics), *([paper_tables.joint_goal(metrics)] if paper else [])]
        accuracy += [paper_tables.domains(metrics, paper=paper), paper_tables.by_turn(metrics)]
        errors = [paper_tables.error_analysis(done.errors, paper=paper)]
        errors += [paper_tables.error_shares(done.errors, paper=paper), paper_tables.operations(metrics, paper=paper)]
        errors += [paper_tables.confusion(metrics), paper_tables.hardest_slots(metrics, count=12)]
        costs = [paper_tables.efficiency(done.efficiency, metrics, paper=paper)]
        costs += [paper_tables.latency(done.efficiency, metrics)] if paper else []
        costs += [paper_tables.complexity(done.efficiency), paper_tables.batching(done.batching)]
        groups = [
            ("Accuracy", _LEADS["accuracy"], accuracy),
            ("Errors", _LEADS["errors"], errors),
            ("Efficiency", _LEADS["efficiency"], costs),
            ("Calibration", _LEADS["calibration"], [paper_tables.calibration(done.calibration)]),
        ]
        if self.perturbed:
            typing = [paper_tables.perturbations(metrics, self.perturbed)]
            groups.append(("How people type", _LEADS["typing"], typing))
        return groups

    def _sections(self) -> list[Section]:
        done, metrics, paper = self.analysis, self.analysis.metrics, self.paper
        tables = {table.name: table.to_html() for _, _, group in self._tables() for table in group}
        first = grid(tables["joint_goal"], tables["summary"]) if paper else tables["summary"]
        accuracy = grid(
            picture("By turn", pictures.by_turn(metrics), "Later turns depend on all the turns before them."),
            picture("By domain", pictures.by_domain(metrics, paper=paper)),
        )
        errors = grid(
            picture("Operations", pictures.confusion(metrics), "Counts, and their share of the row."),
            picture("The hardest slots", pictures.hardest_slots(metrics), "Turns in which the slot is wrong."),
        )
        efficiency = grid(tables["efficiency"], column(tables.get("latency", ""), tables["batching"]))
        reliable = picture("Reliability", pictures.reliability(done.calibration), "Paler bars: fewer changes.")
        samples = "".join(map(sample_html, choose_samples(done.runs)))
        sections = [
            Section("accuracy", "Accuracy", accuracy + first + tables["domains"], _LEADS["accuracy"]),
            Section(
                "errors",
                "Errors",
                tables["error_analysis"] + tables["error_shares"] + tables["operations"] + errors,
                _LEADS["errors"],
            ),
            Section("efficiency", "Efficiency", efficiency + tables["complexity"], _LEADS["efficiency"]),
            Section("calibration", "Calibration", grid(reliable, tables["calibration"]), _LEADS["calibration"]),
        ]
        if self.curve and (self.curve.loss or self.curve.accuracy):
            learning = picture("Learning curve", pictures.learning_curve(self.curve))
            sections.append(Section("training", "Training", learning, _LEADS["training"]))
        if self.perturbed:
            sections.append(Section("typing", "How people type", tables["perturbations"], _LEADS["typing"]))
        return [*sections, Section("samples", "Sample dialogues", samples, _LEADS["samples"])]


def write_report(report: Report, folder: Path) -> Sequence[Path]:
    """`report.html`, `report.md` and `report.json` in the folder, which is made if it does not exist."""
    files = {
        folder / "report.html": report.to_html(),
        folder / "report.md": report.to_markdown(),
        folder / "report.json": json.dumps(report.to_json(), indent=1, ensure_ascii=False) + "\n",
    }
    make_folder(folder)
    for path, text in files.items():
        write_text(path, text)
    return list(files)
