"""The recipe of the shipped tracker runs from beginning to end; with a tiny encoder, so it learns little."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from somdst.corpora.jsonlines import write_dialogues
from somdst.corpora.synthetic import synthetic_dialogues
from somdst.evaluate.saved import load
from somdst.folder import ModelFolder
from somdst.learn.checkpoints import load_checkpoint

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="the recipe is a shell script")
def test_four_runs_and_the_models_own_mistakes(tmp_path: Path) -> None:
    train, dev, out = tmp_path / "train.jsonl", tmp_path / "dev.jsonl", tmp_path / "out"
    write_dialogues(train, synthetic_dialogues(dialogues=8, seed=1))
    write_dialogues(dev, synthetic_dialogues(dialogues=2, seed=2))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [ROOT / "scripts" / "recipe", train, dev, out, "--encoder", "tiny", "--precision", "fp32"]
    done = subprocess.run(command, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    dialogues = {dialogue.id for dialogue in synthetic_dialogues(dialogues=8, seed=1)}
    for run, before in (("three", "two"), ("four", "three")):
        own, saved = out / f"own-{before}.jsonl", load_checkpoint(out / run)
        assert {found.id for found in load(own).runs} == dialogues
        assert saved is not None and saved["settings"]["own_states"] == str(own)
    assert "--encoder tiny" in (out / "four" / "recipe.md").read_text()
    runs = ("one", "two", "three", "four")
    assert [ModelFolder.open(out / name).config.history for name in runs] == [1, 5, 5, 5]
