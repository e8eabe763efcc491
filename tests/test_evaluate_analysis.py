"""The paper's arithmetic on the paper's numbers, and each analysis on a predictor that errs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from somdst.corpora import open_corpus, paper_counts
from somdst.errors import CorpusError
from somdst.evaluate import efficiency, paper_results, paper_tables
from somdst.evaluate.analysis import analyse, cost
from somdst.evaluate.comparison import compare
from somdst.evaluate.efficiency import measure_batching, measure_efficiency
from somdst.evaluate.error_analysis import ErrorAnalysis
from somdst.evaluate.metrics import Spread, measure
from somdst.evaluate.run import run
from somdst.evaluate.saved import Saved, load, predictions, save
from somdst.evaluate.tables import Table, shown
from somdst.memory.operations import FOUR
from somdst.memory.schema import Schema
from somdst.memory.state import State
from somdst.model.prediction import Prediction, TurnInput

from .noisy import SCHEMA, NoisyPredictor, dialogues

DIALOGUES = dialogues(40)


def test_the_papers_shares_follow_from_its_accuracies() -> None:
    theirs = ErrorAnalysis(paper_results.ORACLES)
    group = theirs.group(gold_state=False)
    shares = group.shares()
    assert round(group.relative_error(group.values), 2) == 92.85
    assert round(group.relative_error(group.operations), 2) == 21.60
    assert (round(shares.operations_least, 2), round(shares.values_least, 2)) == (78.40, 7.15)
    assert round(shares.both, 2) == 14.45
    assert round(theirs.propagation, 2) == 2.47
    gold = theirs.group(gold_state=True).shares()
    assert (round(gold.operations_least, 2), round(gold.values_most, 2)) == (80.37, 19.63)


def test_a_perfect_model_has_no_error_to_share() -> None:
    done = analyse(NoisyPredictor(DIALOGUES), DIALOGUES, timed_turns=5)
    assert done.errors.propagation == 1.0
    assert done.errors.group(gold_state=False).shares().both == 0.0


def test_an_analysis_holds_everything_and_reports_its_progress() -> None:
    noisy = NoisyPredictor(DIALOGUES, noise=0.3)
    steps: list[int] = []
    done = analyse(noisy, DIALOGUES, timed_turns=12, progress=steps.append)
    turns = sum(len(dialogue.turns) for dialogue in DIALOGUES)
    assert sum(steps) == cost(turns, timed_turns=12)
    assert done.errors.accuracy[frozenset()] == done.metrics.joint_goal_accuracy
    assert done.errors.propagation > 1.0
    assert done.batching.turns == turns and 0 < done.batching.turns_one_by_one < turns
    assert done.batching.times_faster > 0
    data = done.to_json()
    assert data["error_analysis"]["joint_goal_accuracy"]["operations,values"] == 100.0
    assert {"efficiency", "batching", "calibration", "joint_goal_accuracy"} <= set(data)


def test_regimes_are_run_for_real() -> None:
    noisy = NoisyPredictor(DIALOGUES)
    runs = run(noisy, DIALOGUES)
    noisy.generated = 0
    measured = measure_efficiency(noisy, runs, to_generate=Spread(0, 1.0, 1), turns=10_000)
    ours, filled, every = measured.regimes
    turns = sum(len(done.turns) for done in runs)
    assert every.turns == turns and every.generated == Spread(4, 4.0, 4)
    assert filled.generated == measured.filled == Spread.of([len(t.predicted) for done in runs for t in done.turns])
    assert ours.generated.mean < filled.generated.mean < every.generated.mean
    warm_up = 3
    generated = sum(regime.generated.mean * turns for regime in measured.regimes)
    assert generated <= noisy.generated <= generated + warm_up


def test_the_papers_figures_stand_beside_ours_only_on_its_whole_test_set() -> None:
    slots, metrics = Schema.multiwoz(), analyse(NoisyPredictor(DIALOGUES), DIALOGUES, timed_turns=1).metrics
    assert paper_tables.comparable(slots) and not paper_tables.comparable(SCHEMA)
    assert not paper_tables.measured_as_in_paper(slots, metrics), "these are forty dialogues of something else"
    counts = {operation: row[-1] for operation, row in paper_counts.OPERATIONS.items()}
    rows = tuple(replace(row, between_gold_states=counts[row.operation]) for row in metrics.operations)
    whole = replace(metrics, operations=rows)
    assert paper_tables.measured_as_in_paper(slots, whole)
    assert not paper_tables.measured_as_in_paper(SCHEMA, whole)


@pytest.mark.data
def test_the_test_set_is_known_by_its_operations(data: Path) -> None:
    dialogues = open_corpus(data / "multiwoz-2.1" / "test.jsonl.xz").dialogues
    slots, nothing = Schema.multiwoz(), NoisyPredictor([], schema=Schema.multiwoz())
    nothing.predict = lambda inputs, **_: [Prediction({}) for _ in inputs]  # type: ignore[method-assign]
    for some, expected in ((dialogues, True), (dialogues[:5], False)):
        metrics = measure(run(nothing, some), schema=slots, operation_set=nothing.operation_set)
        assert paper_tables.measured_as_in_paper(slots, metrics) is expected


def test_tables_with_and_without_the_paper() -> None:
    done = analyse(NoisyPredictor(DIALOGUES, noise=0.3), DIALOGUES, timed_turns=5)
    for paper in (True, False):
        errors = paper_tables.error_analysis(done.errors, paper=paper)
        assert len(errors.rows) == 8 and len(errors.columns) == (7 if paper else 5)
        assert ("2.47" in paper_tables.error_shares(done.errors, paper=paper).note) is paper
    complexity = paper_tables.complexity(done.efficiency)
    (every,) = [row for row in complexity.rows if row[0] == "this model, every slot (as TRADE)"]
    assert every[1:8] == ("Ω(J)", "O(J)", 4, 4, 4, 4.0, 4)
    assert paper_tables.joint_goal(done.metrics).rows[-1][2] == done.metrics.joint_goal_accuracy
    assert len(paper_tables.efficiency(done.efficiency, done.metrics, paper=True).rows) == 9


def test_a_table_renders_everywhere() -> None:
    table = Table("t", "A <b>", ("name", "count"), (("this model | x", 1234), ("<i>", None)), "note & so on")
    assert table.to_markdown().splitlines()[2:5] == [
        "| name | count |",
        "| :-- | --: |",
        "| this model \\| x | 1,234 |",
    ]
    html = table.to_html()
    assert "&lt;i&gt;" in html and "note &amp; so on" in html and "ours" not in html
    assert '<tr class="ours">' in Table("t", "T", ("a",), (("this model",),)).to_html()
    assert shown(2.0) == "2.00"


def test_saved_predictions_come_back_as_they_were(tmp_path: Path) -> None:
    noisy = NoisyPredictor(DIALOGUES, noise=0.3)
    saved = Saved("noisy", "some", SCHEMA, FOUR, tuple(run(noisy, DIALOGUES)))
    save(tmp_path / "p.jsonl.gz", saved)
    loaded = load(tmp_path / "p.jsonl.gz")
    assert loaded.schema == SCHEMA and loaded.model == "noisy"
    assert loaded.runs == saved.runs
    measured = [measure(runs, schema=SCHEMA, operation_set=FOUR) for runs in (saved.runs, loaded.runs)]
    assert measured[0] == measured[1]


def test_kept_predictions_are_of_the_same_texts_labels_and_schemas(tmp_path: Path) -> None:
    own = [replace(dialogue, schema=SCHEMA) for dialogue in DIALOGUES[:2]] + list(DIALOGUES[2:4])
    tracker = NoisyPredictor(DIALOGUES, noise=0.3)
    tracker.fixed_schema = False
    first = predictions(tmp_path, tracker, own, part="dev")
    again = load(tmp_path / "dev.predictions.jsonl")
    assert [one.schema for one in again.runs] == [SCHEMA, SCHEMA, None, None] == [one.schema for one in first.runs]
    calls: list[int] = []
    predictions(tmp_path, tracker, own, part="dev", progress=calls.append)
    assert not calls, "nothing is predicted again"
    turns = own[0].turns
    mended = replace(own[0], turns=(replace(turns[0], state=State()), *turns[1:]))
    corrected = predictions(tmp_path, tracker, [mended, *own[1:]], part="dev", progress=calls.append)
    assert calls and corrected.runs[0].turns[0].gold == State()


def test_an_analysis_times_the_slots_that_it_measures() -> None:
    few = Schema([SCHEMA.slots[0], SCHEMA.slots[1]])
    seen: list[Schema | None] = []

    class Watched(NoisyPredictor):
        fixed_schema = False

        def predict(self, inputs: Sequence[TurnInput], **options: Any) -> list[Prediction]:
            seen.extend(item.schema for item in inputs)
            return super().predict(inputs, **options)

    done = analyse(Watched(DIALOGUES), DIALOGUES, schema=few, timed_turns=5)
    assert seen and all(schema == few for schema in seen)
    assert done.efficiency.regime("every").generated.most == 2


def test_what_is_no_saved_prediction_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": "D1", "turns": []}\n')
    with pytest.raises(CorpusError, match="somdst evaluate --save"):
        load(path)
    save(path, Saved("noisy", "some", SCHEMA, FOUR, tuple(run(NoisyPredictor(DIALOGUES), DIALOGUES[:2]))))
    path.write_text(path.read_text().replace('"fed"', '"feed"'))
    with pytest.raises(CorpusError, match="damaged"):
        load(path)
    with pytest.raises(CorpusError, match="Cannot read"):
        load(tmp_path / "absent.jsonl")


def test_a_comparison_counts_better_and_worse_turns() -> None:
    perfect = run(NoisyPredictor(DIALOGUES), DIALOGUES)
    noisy = run(NoisyPredictor(DIALOGUES, noise=0.4), DIALOGUES)
    compared = compare(noisy, perfect, samples=500)
    wrong = sum(not turn.correct for done in noisy for turn in done.turns)
    assert len(compared.better) == wrong and not compared.worse
    assert compared.b == 100.0 and compared.low <= compared.difference <= compared.high
    assert compared.clear and compared.low > 0
    back = compare(perfect, noisy, samples=500)
    assert back.difference == -compared.difference and len(back.worse) == wrong and back.high < 0
    same = compare(noisy, noisy, samples=500)
    assert (same.low, same.high, same.clear) == (0.0, 0.0, False)
    assert compare(noisy, perfect, samples=500, seed=0) == compared


def test_different_dialogues_are_not_compared() -> None:
    runs = run(NoisyPredictor(DIALOGUES), DIALOGUES)
    with pytest.raises(CorpusError, match="no dialogue in common"):
        compare(runs[:2], runs[2:])
    others = dialogues(40, seed=1)
    with pytest.raises(CorpusError, match="other labels"):
        compare(runs, run(NoisyPredictor(others), others))
    assert compare(runs[:5], runs, samples=200).dialogues == 5


def test_batches_pay_off_where_a_call_costs_more_than_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    some = dialogues(60)
    noisy = NoisyPredictor(some)
    clock = SimpleNamespace(perf_counter=lambda: float(len(noisy.batches)))  # each call takes a second
    monkeypatch.setattr(efficiency, "time", clock)
    measured = measure_batching(noisy, some, batch_size=64, turns=40)
    assert 20 <= measured.turns_one_by_one <= 80 and measured.one_by_one == 1.0
    longest = max(len(dialogue.turns) for dialogue in some)
    assert measured.times_faster == measured.turns / longest, "all dialogues fit into one batch"
