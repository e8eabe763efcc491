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
from scripted import AnyRules, GoldPredictor
from waiting import until

from somdst.corpora.examples import examples
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.schema import Schema
from somdst.memory.state import State
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


ORDER = Dialogue(
    "pizza",
    (
        Turn(
            "",
            "A large pizza with ham and a thin crust, to 12 Mill Road please.",
            State(
                {
                    "order-address": "12 mill road",
                    "order-way": "delivery",
                    "pizza-crust": "thin",
                    "pizza-size": "large",
                    "pizza-topping": "ham",
                }
            ),
        ),
        Turn(
            "It can be there at 19:00. How would you like to pay?",
            "By card. Make it medium, though.",
            State(
                {
                    "order-address": "12 mill road",
                    "order-payment": "card",
                    "order-time": "19:00",
                    "order-way": "delivery",
                    "pizza-crust": "thin",
                    "pizza-size": "medium",
                    "pizza-topping": "ham",
                }
            ),
        ),
    ),
)
"""What is said to the pizza assistant of the page in the screenshots."""


class Rehearsed(AnyRules):
    """Knows the bundled examples by heart, and reads "hotel area north" out of anything else.

    It is surer of some values than of others, and so unsure of when a taxi should arrive that it asks.
    """

    def __init__(self) -> None:
        super().__init__(model_id="rehearsed")
        known = [ORDER, *(example.dialogue for example in examples().values())]
        self.gold = GoldPredictor(Schema.multiwoz(), known)

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
