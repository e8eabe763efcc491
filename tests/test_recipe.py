"""The recipe of the shipped tracker runs from beginning to end; with a tiny encoder, so it learns little."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")

from somdst.cli.main import app
from somdst.corpora.jsonlines import write_dialogues
from somdst.corpora.synthetic import synthetic_dialogues
from somdst.evaluate.saved import load
from somdst.learn.checkpoints import load_checkpoint
from somdst.learn.recipe import RUNS
from somdst.model.folder import ModelFolder


@pytest.mark.slow
def test_every_run_and_the_models_own_mistakes(tmp_path: Path) -> None:
    train, dev, out = tmp_path / "train.jsonl", tmp_path / "dev.jsonl", tmp_path / "out"
    write_dialogues(train, synthetic_dialogues(dialogues=8, seed=1))
    write_dialogues(dev, synthetic_dialogues(dialogues=2, seed=2))
    command = [sys.executable, "-m", "somdst", "train", train, out, "--dev", dev, "--preset", "shipped"]
    command += ["--encoder", "tiny", "--precision", "fp32"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    last = Path(done.stdout.strip())
    assert last == out / RUNS[-1].name
    dialogues = {dialogue.id for dialogue in synthetic_dialogues(dialogues=8, seed=1)}
    for before, run in pairwise(RUNS):
        own, saved = out / f"own-{before.name}.jsonl", load_checkpoint(out / run.name)
        assert saved is not None
        assert saved["settings"]["own_states"] == (str(own) if run.learns_from_mistakes else None)
        if run.learns_from_mistakes:
            assert {found.id for found in load(own).runs} == dialogues
    assert "--preset shipped --encoder tiny" in (last / "recipe.md").read_text()
    assert [ModelFolder.open(out / run.name).config.history for run in RUNS] == [1, 5, 5, 5]

    again = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert again.returncode == 0 and Path(again.stdout.strip()) == last, "what is finished is not run again"


@pytest.mark.parametrize("options", [("--own-states", "own.jsonl"), ("--from", "default")])
def test_what_the_recipe_decides_itself_is_refused(tmp_path: Path, options: tuple[str, str]) -> None:
    result = CliRunner().invoke(app, ["train", "synthetic", str(tmp_path / "out"), "--preset", "shipped", *options])
    assert result.exit_code != 0 and f"leave {options[0]} out" in str(result.exception)
