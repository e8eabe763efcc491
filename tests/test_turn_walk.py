"""The way of a turn over HTTP: the list of files in docs/architecture.md is what one traced request really runs."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import httpx
from browser import served
from waiting import LIMIT

import somdst
from somdst import Tracker
from somdst.service.configuration import Settings

PACKAGE = Path(somdst.__file__).parent
ARCHITECTURE = PACKAGE.parent / "docs" / "architecture.md"
MOST = 20
"""Files. A newcomer should be able to read all of them."""
BACKGROUND = "service/housekeeping.py"
"""Runs now and then by itself, and may do so while a turn is traced."""


class Trace:
    """Notes the files of the package whose functions are called, in every thread that starts while it is watching."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.on = False

    @contextmanager
    def watching_new_threads(self) -> Iterator[None]:
        threading.setprofile(self._note)
        try:
            yield
        finally:
            threading.setprofile(None)  # type: ignore[arg-type]

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        path = frame.f_code.co_filename
        if self.on and event == "call" and path.startswith(str(PACKAGE)):
            name = Path(path).relative_to(PACKAGE).as_posix()
            if name not in (*self.files, BACKGROUND):
                self.files.append(name)


def test_the_files_that_a_turn_passes_through(tmp_path: Path) -> None:
    trace = Trace()
    tracker = Tracker.from_pretrained()
    settings = Settings(database=str(tmp_path / "conversations.sqlite"))
    with (
        trace.watching_new_threads(),
        served(settings, tracker) as url,
        httpx.Client(base_url=url, timeout=LIMIT) as web,
    ):
        path = f"/v1/conversations/{web.post('/v1/conversations').json()['id']}/turns"
        web.post(path, json={"user": "I want italian food in the centre."}).raise_for_status()
        trace.on = True
        turn = {"system": "For how many people?", "user": "For 2 people at 18:30 on friday."}
        answer = web.post(path, json=turn, headers={"idempotency-key": "turn-2"})
        trace.on = False
    said = answer.json()
    assert said["entry"]["changes"] and not said["pending"], "the model wrote something, and has nothing to ask"
    section = ARCHITECTURE.read_text(encoding="utf-8").partition("## The files that a turn passes through")[2]
    listed = re.findall(r"^\| `([\w/]+\.py)` \|", section.partition("\n## ")[0], re.MULTILINE)
    assert sorted(listed) == sorted(trace.files), f"in the order of their first call: {', '.join(trace.files)}"
    assert len(listed) <= MOST
