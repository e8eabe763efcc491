"""The starter project's commands, run as its README says: its own domains, learned from the shipped tracker."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")


def somdst(*words: str, folder: Path, text: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-m", "somdst", *words], cwd=folder, input=text, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_twenty_dialogues_are_enough_to_follow_new_ones(tmp_path: Path) -> None:
    somdst("init", "pizza", folder=tmp_path)
    project = tmp_path / "pizza"
    lines = (project / "README.md").read_text().splitlines()
    at_once, check, train, track = (shlex.split(line)[1:] for line in lines if line.startswith("somdst "))
    told = somdst(*at_once, "--threshold", "0", "--json", folder=project, text="Two large mushroom pizzas, please.\n")
    assert json.loads(told)["dialogues"][0]["turns"][0]["state"]["pizza-size"] == "large", "before any training"
    somdst(*check, folder=project)
    train[train.index("--epochs") + 1] = "16"  # fewer than the README's, to save time
    somdst(*train, "--set", "evaluate_every=16", "--set", "precision=fp32", folder=project)
    measured = json.loads(somdst("evaluate", "model", "dev.jsonl", "--json", folder=project))
    assert measured["joint_goal_accuracy"] >= 33, "without the shipped tracker to go on from it is 0"
    told = somdst(*track, "--json", folder=project, text="Two large mushroom pizzas, please.\n")
    state = json.loads(told)["dialogues"][0]["turns"][0]["state"]
    assert state["pizza-size"] == "large" and state["pizza-topping"] == "mushroom"
