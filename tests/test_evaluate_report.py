"""The report: its page is whole and self-contained, its pictures show the numbers, its samples mark what is wrong."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from somdst.errors import FileError
from somdst.evaluate import svg
from somdst.evaluate.analysis import analyse, measure_perturbed
from somdst.evaluate.pictures import find_metrics, read_learning_curve, thinned
from somdst.evaluate.report import Report, write_report
from somdst.evaluate.run import DialogueRun, TurnRun, run
from somdst.evaluate.samples import choose_samples, sample_html, sample_markdown, slot_lines
from somdst.memory.dialogue import Turn
from somdst.memory.operations import Operation
from somdst.memory.state import State
from somdst.model.prediction import Evidence, Prediction, SlotPrediction

from .noisy import NoisyPredictor, dialogues

DIALOGUES = dialogues(40)
VOID = {"meta", "link", "br", "circle", "line", "polyline"}


class Balance(HTMLParser):
    """Raises where a tag closes what was not opened last."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values["id"]} if "id" in values else set()
        self.links |= {values["href"]} if "href" in values else set()
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def report() -> Report:
    noisy = NoisyPredictor(DIALOGUES, noise=0.3)
    analysis = analyse(noisy, DIALOGUES, timed_turns=5)
    curve = read_learning_curve_of([{"step": i, "loss": 3.0 / (i + 1), "dev_joint_goal_accuracy": i} for i in range(9)])
    perturbed = (measure_perturbed(Deaf(DIALOGUES), DIALOGUES, "lowercase"),)
    return Report("a <model>", "some dialogues", False, analysis, perturbed, curve)


class Deaf(NoisyPredictor):
    """Never changes anything, whatever is said."""

    def predict(self, inputs, *, operations=None):  # type: ignore[no-untyped-def]
        return [Prediction({}) for _ in inputs]


def read_learning_curve_of(entries: list[dict[str, float]]):  # type: ignore[no-untyped-def]
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.jsonl"
        path.write_text("\n".join(json.dumps(entry) for entry in entries) + '\n{"step": 9, "lo')
        assert find_metrics(folder) == path
        return read_learning_curve(path)


def test_the_page_is_whole_and_names_no_other_host(report: Report) -> None:
    for paper in (True, False):
        html = replace(report, paper=paper).to_html()
        balance = Balance()
        balance.feed(html)
        assert balance.open == []
        assert "http:" not in html and "https:" not in html and "<script" not in html
        assert {link[1:] for link in balance.links if link.startswith("#")} <= balance.ids
        assert "a &lt;model&gt;" in html
        for section in ("accuracy", "errors", "efficiency", "calibration", "training", "typing", "samples"):
            assert section in balance.ids


def test_markdown_and_json_hold_the_same_numbers(report: Report, tmp_path: Path) -> None:
    paths = write_report(report, tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["report.html", "report.md", "report.json"]
    accuracy = report.analysis.metrics.joint_goal_accuracy
    assert json.loads(paths[2].read_text())["joint_goal_accuracy"] == pytest.approx(accuracy, abs=1e-3)
    for path in paths[:2]:
        assert f"{accuracy:.2f}" in path.read_text()
    markdown = paths[1].read_text()
    assert "### Error analysis" in markdown and "## Sample dialogues" in markdown and "lowercase" in markdown
    assert all(line.count("|") >= 3 for line in markdown.splitlines() if line.startswith("|"))
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="Cannot make the folder"):
        write_report(report, tmp_path / "file")


def test_without_a_curve_and_perturbations_their_sections_are_left_out(report: Report) -> None:
    html = replace(report, curve=None, perturbed=()).to_html()
    assert 'id="training"' not in html and 'id="typing"' not in html


def test_curves_survive_a_cut_line_and_are_thinned(tmp_path: Path) -> None:
    curve = read_learning_curve_of(
        [{"step": 0, "loss": 2.0}, {"step": 10, "loss": 1.0, "dev_joint_goal_accuracy": 40.0}]
    )
    assert curve.loss == ((0.0, 2.0), (10.0, 1.0)) and curve.accuracy == ((10.0, 40.0),)
    assert find_metrics(tmp_path / "absent") is None
    many = [(float(i), 1.0) for i in range(1000)]
    assert len(thinned(many, most=100)) == 100 and thinned(many, most=100)[-1][0] == 999.0


def sample() -> DialogueRun:
    fed = State({"hotel-stars": "4"})
    slots = {
        "hotel-area": SlotPrediction(Operation.UPDATE, 0.9, "north", Evidence("user", 2, 7, "north")),
        "hotel-name": SlotPrediction(Operation.UPDATE, 0.4, "Inn"),
        "hotel-stars": SlotPrediction(Operation.DELETE, 0.8),
    }
    predicted, gold = (
        State({"hotel-area": "north", "hotel-name": "Inn"}),
        State({"hotel-area": "north", "train-day": "<x>"}),
    )
    return DialogueRun("D", (TurnRun(Turn("Hi & welcome", "A north one"), fed, Prediction(slots), predicted, gold),))


def test_samples_mark_changes_and_errors() -> None:
    (turn,) = sample().turns
    marks = {line.slot: (line.mark, line.changed) for line in slot_lines(turn)}
    assert marks == {
        "hotel-area": ("right", True),
        "hotel-name": ("extra", True),
        "hotel-stars": ("right", True),
        "train-day": ("missing", False),
    }
    html, markdown = sample_html(sample()), sample_markdown(sample())
    assert "A <mark>north</mark> one" in html and "Hi &amp; welcome" in html and "&lt;x&gt;" in html
    assert "<s>4</s>" in html and "should be empty" in html and "✗" in html
    assert "**hotel-area = north**" in markdown and "missing" in markdown


def test_samples_are_the_papers_first_then_right_and_wrong_ones() -> None:
    runs = run(NoisyPredictor(DIALOGUES, noise=0.3), DIALOGUES)
    chosen = choose_samples([*runs, replace(runs[0], id="PMUL3748")], count=3)
    right = [all(turn.correct for turn in done.turns) for done in chosen]
    assert chosen[0].id == "PMUL3748" and right[1:] == [True, False]


def test_pictures_show_what_they_are_given() -> None:
    bars = svg.bar_chart(["a", "b"], [svg.Series("x", "ours", (40.0, None))], name="n")
    assert bars.count("<rect") == 1 and "a, x: 40.00" in bars
    assert svg.heat_map(["a", "b"], [[3, 1], [0, 0]], rows="r", columns="c").count("<rect") == 4
    assert "75.0%" in svg.heat_map(["a", "b"], [[3, 1], [0, 0]], rows="r", columns="c")
    line = svg.line_chart([svg.Line("l", "ours", ((0, 1), (5, 2)))], x_name="step", left="loss")
    assert line.count("<circle") == 2
    assert svg.reliability_diagram([(0.1, 0.2, 5), (0.0, 0.0, 0)]).count("<rect") == 1
    assert "12" in svg.stacked_bars(["s"], [svg.Series("x", "bad", (5.0,)), svg.Series("y", "ours", (7.0,))], name="n")
    assert svg.ticks(3, 3) and svg.ticks(-1, 1)[0] <= -1
