"""A real Chromium in front of the real service, which runs in a thread with a predictor that needs no weights."""

from __future__ import annotations

import shutil
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import httpx
import pytest
from playwright.sync_api import Browser, sync_playwright
from scripted import GoldPredictor, RulePredictor
from waiting import until

from somdst.corpora.examples import examples
from somdst.memory.schema import Schema
from somdst.model.prediction import Prediction, SlotPrediction, TurnInput
from somdst.service.app import create_app
from somdst.service.configuration import Settings
from somdst.service.server import bind, server
from somdst.tracking.tracker import Tracker

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Rehearsed(RulePredictor):
    """Knows the bundled examples by heart, and reads "hotel area north" out of anything else.

    It is surer of some values than of others, and so unsure of when a taxi should arrive that it asks.
    """

    def __init__(self) -> None:
        super().__init__(model_id="rehearsed")
        self.gold = GoldPredictor(Schema.multiwoz(), [example.dialogue for example in examples().values()])

    def _read(self, item: TurnInput) -> Prediction:
        if (item.turn.system, item.turn.user) not in self.gold.gold:
            return super()._read(item)
        said = self.gold.script(item).slots
        return Prediction({slot: replace(one, probability=_sureness(slot, one)) for slot, one in said.items()})


def _sureness(slot: str, said: SlotPrediction) -> float:
    return 0.41 if slot == "taxi-arriveby" else 0.99 - 0.01 * (zlib.crc32(f"{slot} {said.value}".encode()) % 16)


@contextmanager
def served(settings: Settings, tracker: Tracker | None = None) -> Iterator[str]:
    """The address of a service with this tracker, by default the rehearsed one."""
    chosen = tracker or Tracker(Rehearsed(), threshold=0.5)
    app = create_app(settings, lambda name: chosen)
    with bind("127.0.0.1", 0, keys=False, insecure=False) as listener:
        running = server(app, settings, log_level="WARNING")
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        until(lambda: _ready(url), what="the start of the service")
        try:
            yield url
        finally:
            running.should_exit = True
            thread.join()


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=60).status_code == 200
    except httpx.HTTPError:
        return False


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; the test is skipped where there is none."""
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine: run scripts/system-packages, or install Debian's chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()
