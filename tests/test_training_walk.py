"""One training example, followed from its line in a corpus to its loss: through few files, and docs/architecture.md
lists them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

pytest.importorskip("torch")

import somdst
from somdst.corpora.jsonlines import write_dialogues
from somdst.corpora.synthetic import SYNTHETIC_SCHEMA, synthetic_dialogues
from somdst.learn.settings import load_settings
from somdst.learn.start import new_model
from somdst.learn.task import read_task
from somdst.learn.trainer import Trainer
from somdst.memory.schema import Schema, Slot

PACKAGE = Path(somdst.__file__).parent
SECTION = "## The files that a training example passes through"
MOST = 18


def listed() -> list[str]:
    text = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.partition(SECTION)[2].partition("\n## ")[0]
    return re.findall(r"^\| `([^`]+\.py)` \|", section, flags=re.MULTILINE)


WITHOUT_LISTS = Schema([Slot.of(slot.domain, slot.name) for slot in SYNTHETIC_SCHEMA.slots])
"""With closed lists, `model/mentions.py` is entered too."""


@contextmanager
def following(files: list[str]) -> Iterator[None]:
    """Write down each file of the package when a function of it is first called."""

    def called(frame: FrameType, event: str, argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            name = path.relative_to(PACKAGE).as_posix()
            if name not in files:
                files.append(name)

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        yield
    finally:
        sys.setprofile(before)


def test_the_walk_is_short_and_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = tmp_path / "corpus.jsonl"
    write_dialogues(corpus, synthetic_dialogues(dialogues=6))
    settings = load_settings(
        "cpu", encoder="tiny", precision="fp32", normalisation="lowercase", perturb=1.0, wrong_states=1.0
    )
    files: list[str] = []
    with following(files):
        task = read_task(corpus, schema=WITHOUT_LISTS)
    step: Callable[..., list[float]] = Trainer._step

    def followed(*arguments: Any) -> list[float]:
        with following(files):
            return step(*arguments)

    monkeypatch.setattr(Trainer, "_step", followed)
    model, encoder = new_model(settings, task.schema, task.dialogues)
    assert Trainer(model, encoder, settings, task.dialogues, tmp_path / "run", stop_after=1).run().step == 1
    assert files == listed()
    assert len(files) <= MOST
