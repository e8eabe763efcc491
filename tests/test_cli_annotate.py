"""`somdst annotate` as a person sees it: what it says when it is stopped, resumed or given something else."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from scripted import STOP, RuleOpener

from somdst.cli.main import main

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs `somdst annotate` in this process, with rules in place of a model: exit code and stderr."""
    stopping: list[bool] = []

    def opener(model: str, schema: str | None, threshold: float, precision: str) -> RuleOpener:
        return RuleOpener(stop="interrupt" if stopping else None, threshold=threshold)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("somdst.bulk.annotating.Pretrained", opener)
    turns = [f"hotel name place {number}" for number in range(20)]
    turns.insert(12, STOP)
    lines = [json.dumps({"id": f"d{n}", "turns": [{"user": words}]}) for n, words in enumerate(turns)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))

    def command(*arguments: object, stop: bool = False) -> tuple[int, str]:
        stopping[:] = [True] if stop else []
        monkeypatch.setattr(sys, "argv", ["somdst", "annotate", *map(str, arguments), "--workers", "1", "--batch", "2"])
        monkeypatch.setattr(sys, "stdin", io.StringIO(""))
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        assert out == ""
        return int(ended.value.code or 0), err

    return command


def test_ctrl_c_says_how_far_it_got_and_how_to_go_on(run: Run) -> None:
    code, said = run("in.jsonl", "out.jsonl", stop=True)
    assert code == 130
    assert said == (
        "somdst: stopped with 12 of 21 dialogues saved in out.jsonl.partial: give the same command again to go on from "
        "there\n"
    )
    code, said = run("in.jsonl", "out.jsonl")
    assert code == 0
    assert said.startswith(
        "somdst: going on after 12 dialogues of an earlier run\nsomdst: 21 dialogues, 21 turns: out.jsonl"
    )


def test_ctrl_c_before_anything_is_saved(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps({"id": "d", "turns": [{"user": STOP}]}))
    code, said = run("in.jsonl", "out.jsonl", stop=True)
    assert (code, said) == (130, "somdst: stopped before the first dialogues were saved: nothing was written\n")
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_another_threshold_says_that_it_starts_again(run: Run) -> None:
    run("in.jsonl", "out.jsonl", stop=True)
    code, said = run("in.jsonl", "out.jsonl", "--threshold", 0.9)
    assert code == 0
    assert said.startswith(
        "somdst: starting again: 12 dialogues of an earlier run cannot be used, because of another threshold\n"
    )


def test_a_zip_is_told_where_to_go(run: Run, tmp_path: Path) -> None:
    (tmp_path / "corpus.zip").write_bytes(b"PK\x03\x04 and more")
    code, said = run("corpus.zip", "out.jsonl")
    assert code == 2
    assert said == (
        "somdst: corpus.zip is a zip archive, and annotating reads JSON lines, one dialogue per line: write a corpus "
        "as JSON lines with `somdst data convert corpus.zip dialogues.jsonl`, then annotate those.\n"
    )


def test_a_precision_that_does_not_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps({"id": "d", "turns": [{"user": "hi"}]}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["somdst", "annotate", "in.jsonl", "out.jsonl", "--precision", "int4"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    sentence = 'There is no precision "int4"; there are int8, float32. Did you mean "int8"?'
    assert capfd.readouterr().err == f"somdst: {sentence}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]
