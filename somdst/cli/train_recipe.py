"""`somdst train --preset shipped`: the runs of `learn/recipe.py` one after the other, each in a folder of its own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from somdst.cli.train import first_process, note, train_once

if TYPE_CHECKING:
    from somdst.cli.train import Task


def train_recipe(task: Task, out: Path, *, config: Path | None, given: dict[str, Any], command: str) -> Path:
    """The folder of the last run. Runs that are finished are not run again, so a stopped recipe goes on."""
    from somdst.learn.recipe import RUNS
    from somdst.learn.settings import load_settings

    before: Path | None = None
    for number, run in enumerate(RUNS, start=1):
        note(f"run {number} of {len(RUNS)}: {run}")
        settings = load_settings("cpu", run=run.settings, file=config, **given)
        if run.learns_from_mistakes and before is not None:
            mistakes = out / f"own-{before.name}.jsonl"
            _collect_mistakes(before, task, mistakes)
            settings = settings.model_copy(update={"own_states": mistakes})
        train_once(task, out / run.name, settings, start_from=before)
        before = out / run.name
    model = out / RUNS[-1].name
    if first_process():
        _describe(model, command)
    return model


def _collect_mistakes(model: Path, task: Task, path: Path) -> None:
    """The memories that the model has on the training dialogues, through its int8 runtime. One process does it."""
    if not first_process():
        while not path.exists():
            time.sleep(1)
        return
    if path.exists():
        return
    from somdst.cli.output import Bar
    from somdst.evaluate.run import run
    from somdst.evaluate.saved import Saved, save
    from somdst.learn.export import export
    from somdst.model.folder import ModelFolder
    from somdst.model.runtime import Runtime

    export(ModelFolder.open(model), ("int8",))
    runtime = Runtime.open(model)
    with Bar("its own mistakes", sum(len(dialogue.turns) for dialogue in task.dialogues)) as bar:
        runs = run(runtime, task.dialogues, batch_size=256, progress=bar.advance)
    save(path, Saved(runtime.model_id, "train", runtime.schema, runtime.operation_set, tuple(runs)))


def _describe(model: Path, command: str) -> None:
    """How the model was made, for its card."""
    from somdst.files import write_text
    from somdst.learn.recipe import RUNS

    lines = [
        f"    {command}",
        "",
        f"That is {len(RUNS)} runs of the preset `cpu`, each from the one before:",
        "",
        *(f"{number}. `{run.name}`: {run}" for number, run in enumerate(RUNS, start=1)),
    ]
    write_text(model / "recipe.md", "\n".join(lines) + "\n")
