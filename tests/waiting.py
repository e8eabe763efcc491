"""Waiting for something that another thread or process does. The limit only ends a test that would hang for ever."""

from __future__ import annotations

import time
from collections.abc import Callable

LIMIT = 300.0
"""Seconds, far more than anything takes on a busy machine."""


def until(condition: Callable[[], object], *, what: str = "what was waited for") -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.01)
