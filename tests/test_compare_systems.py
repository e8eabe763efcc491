"""Systems side by side: trained under one budget, measured, timed, resumable; tables, picture and page."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch")

from small_systems import DIALOGUES, settings  # noqa: E402

from somdst.baselines.catalogue import SYSTEMS  # noqa: E402
from somdst.baselines.growth import (  # noqa: E402
    Point,
    made_schema,
    measure_growth,
    read_before,
    untrained,
    watching_encoder,
)
from somdst.baselines.side_by_side import GROWTH, RESULTS, SideBySide, compare_systems  # noqa: E402
from somdst.baselines.system_predictor import SystemPredictor  # noqa: E402
from somdst.baselines.systems_report import complexity, tables, to_html, to_svg, write  # noqa: E402
from somdst.cli.main import app  # noqa: E402
from somdst.errors import InputError  # noqa: E402
from somdst.learn import Progress  # noqa: E402
from somdst.learn.checkpoints import CHECKPOINT  # noqa: E402
from somdst.memory.state import State  # noqa: E402
from somdst.tracking.step import input_at  # noqa: E402

CHOSEN = ["som-dst", "trade", "sumbt", "comer"]
SIZES = [(5, 20), (10, 20), (10, 100)]
TINY = settings("som-dst", epochs=1.0)


def compared(out: Path, heard: list[Progress] | None = None, **options: Any) -> SideBySide:
    listener = (heard if heard is not None else []).append
    given = {"settings": TINY, "systems": CHOSEN, "timed": 2, "sizes": SIZES, "progress": listener} | options
    return compare_systems(DIALOGUES[:5], out, dev=DIALOGUES[5:], test=DIALOGUES[:2], **given)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[SideBySide, Path, list[Progress]]:
    out = tmp_path_factory.mktemp("systems")
    heard: list[Progress] = []
    return compared(out, heard), out, heard


def test_each_is_trained_measured_and_timed(done: tuple[SideBySide, Path, list[Progress]]) -> None:
    found, _, heard = done
    assert found.finished and [one.entry.name for one in found.results] == CHOSEN
    by_name = {one.entry.name: one for one in found.results}
    assert by_name["trade"].generated.least == by_name["trade"].generated.most == len(found.schema), "every slot"
    assert by_name["sumbt"].missing is not None and by_name["trade"].missing is None
    assert found.difference(by_name["som-dst"]) is None
    apart, low, high = found.difference(by_name["trade"]) or (0.0, 1.0, 0.0)
    assert low <= apart <= high
    for one in found.results:
        assert one.dev.turns == 9 and one.test is not None and one.test.turns == 6
        for latency in (one.cost.latency, one.cost.bare):
            assert latency.turns == 6 and 0 < latency.p50 <= latency.p95
        assert sum(one.turns) == 9 and sum(one.right) == round(0.09 * one.dev.joint_goal_accuracy)
        assert one.cost.passes == 1.0, "one sequence per turn, also for a recurrent system"
        assert [(point.slots, point.values) for point in found.growth[one.system]] == SIZES
    assert by_name["sumbt"].cost.tokens < by_name["trade"].cost.tokens, "only the new turn is read"
    ends = {progress.phase: (progress.done, progress.total) for progress in heard}
    phases = {"trade: training", "comer: comparing on test", "sumbt: timing", "timing made-up schemas"}
    assert phases <= set(ends)
    assert all(a == b for a, b in ends.values()), "every phase is told to its end"


def test_a_stopped_comparison_goes_on(done: tuple[SideBySide, Path, list[Progress]]) -> None:
    found, out, _ = done
    kept = [out / RESULTS / f"{name}.json" for name in CHOSEN] + [out / RESULTS / GROWTH]
    kept += [out / name / CHECKPOINT for name in CHOSEN]
    before = {file: file.stat().st_mtime_ns for file in kept}
    again = compared(out)
    assert before == {file: file.stat().st_mtime_ns for file in kept}, "nothing is done twice"
    assert again.to_json() == found.to_json()


def test_results_alone_are_enough(done: tuple[SideBySide, Path, list[Progress]], tmp_path: Path) -> None:
    """Systems can be trained on different machines: their results are put into one folder."""
    found, out, _ = done
    shutil.copytree(out / RESULTS, tmp_path / RESULTS)
    assert compared(tmp_path).to_json() == found.to_json()
    assert not (tmp_path / "trade").exists()
    (tmp_path / RESULTS / "trade.json").write_text('{"key": {}}')
    with pytest.raises(InputError, match=r"trade\.json is damaged"):
        compared(tmp_path)


def test_results_of_other_settings_do_not_count(done: tuple[SideBySide, Path, list[Progress]], tmp_path: Path) -> None:
    _, out, _ = done
    shutil.copytree(out / RESULTS, tmp_path / RESULTS)
    before = (tmp_path / RESULTS / "sumbt.json").read_text()
    again = compared(tmp_path, systems=["sumbt"], settings=TINY.model_copy(update={"seed": 1}))
    assert again.finished and (tmp_path / "sumbt").exists()
    assert (tmp_path / RESULTS / "sumbt.json").read_text() != before
    growth = json.loads((tmp_path / RESULTS / GROWTH).read_text())
    assert set(growth["result"]) == {"sumbt"}, "measured again, because other systems are compared"


def test_tables_picture_and_page(done: tuple[SideBySide, Path, list[Progress]], tmp_path: Path) -> None:
    found, _, _ = done
    assert [table.name for table in tables(found)] == ["accuracy", "domains", "generated", "latency", "complexity"]
    names = {"SOM-DST", "TRADE's decoding", "SUMBT's decoding", "COMER's decoding"}
    for table in tables(found):
        assert {row[0] for row in table.rows} == names, "never the system itself"
        assert all(len(row) == len(table.columns) for row in table.rows)
        assert not any("published" in column for column in table.columns), "these are not the paper's slots"
    page = to_html(found)
    assert page.startswith("<!doctype html>") and page.count("<svg") == 2 and "http" not in page
    assert to_svg(found).startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    files = write(found, tmp_path)
    assert [file.name for file in files] == ["systems.md", "systems.html", "systems.svg", "systems.json"]
    text = files[0].read_text()
    assert "### Joint goal accuracy" in text and "Not compared here: NADST, ML-BST, DST Reader" in text
    assert "](systems.svg)" in text and json.loads(files[3].read_text())["systems"]


def test_growth_is_a_ratio_of_the_largest_to_the_smallest(done: tuple[SideBySide, Path, list[Progress]]) -> None:
    from dataclasses import replace

    found, _, _ = done
    points = (Point(5, 20, 2.0, 10.0, 4.0), Point(10, 20, 3.0, 20.0, 12.0), Point(10, 100, 4.0, 60.0, 50.0))
    row = complexity(replace(found, growth=dict.fromkeys(found.growth, points))).rows[1]
    assert row[1:] == ("Ω(J)", "O(J)", 4.0, 12.0, 3.0, 2.0, 1.5, 50.0, 1.0)


@pytest.mark.parametrize("name", ["som-dst", "trade", "sumbt", "nadst"])
def test_growth_does_the_work_that_it_names(name: str) -> None:
    """A made-up schema of J slots with M values; what is timed decides on all of them."""
    schema = made_schema(7)
    assert len(schema) == 7 and len(schema.domains) == 2
    predictor = untrained(settings(name), schema, 9, DIALOGUES[:2])
    assert len(predictor.schema) == 7
    if isinstance(predictor, SystemPredictor):
        assert all(len(values) == 9 for values in predictor.system.ontology.values.values())
    heard: list[int] = []
    found = measure_growth([settings(name)], DIALOGUES[:1], turns=2, sizes=[(7, 9)], progress=heard.append)
    (point,) = found[name]
    assert (point.slots, point.values, heard) == (7, 9, [1])
    assert point.best > 0 and 0 < point.decoding < point.worst, "the encoder's pass is part of the whole turn"


@pytest.mark.parametrize("name", ["trade", "sumbt", "hjst"])
def test_growth_times_the_reading_of_one_turn(name: str) -> None:
    """In either case: what a recurrent system keeps of a turn must not make the second case look fast."""
    predictor = untrained(settings(name), made_schema(3), 4, DIALOGUES[:1])
    turns = DIALOGUES[0].turns
    input = input_at(turns, State(), history=predictor.history)
    assert len(turns) > 2
    for _ in range(2):
        read_before(predictor, input)
        with watching_encoder(predictor) as use:
            predictor.predict([input])
        assert use.sequences == 1 and use.tokens > 1 and use.seconds > 0


def test_wrong_calls(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Give at least one system"):
        compared(tmp_path, systems=[])
    with pytest.raises(InputError, match='There is no system "tradd"'):
        compared(tmp_path, systems=["tradd"])
    with pytest.raises(InputError, match="Models are compared on dev"):
        compare_systems(DIALOGUES[:2], tmp_path, settings=TINY)


def test_on_the_command_line(tmp_path: Path) -> None:
    options = ["--systems", "fjst", "--encoder", "tiny", "--epochs", "0.5", "--timed-dialogues", "1", "--limit", "2"]
    options += ["--set", "precision=fp32", "--set", "max_value_length=4", "--json"]
    done = CliRunner().invoke(app, ["compare-systems", "synthetic:5", str(tmp_path), *options])
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)["systems"]
    assert row["system"] == "fjst" and (tmp_path / "systems.html").is_file() and "fjst" in SYSTEMS
