"""The models of a service: the one that tracks, opened in the background, and others to replay conversations under.

A model that fails to open does not stop the service: it stays up, says so at /readyz and refuses turns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from threading import Lock

from somdst.errors import InputError, ModelError, SomdstError, did_you_mean
from somdst.service.logs import log
from somdst.tracking.tracker import Tracker

OpenTracker = Callable[[str], Tracker]
"""Opens a model by its folder or name."""


class Models:
    def __init__(self, open_tracker: OpenTracker, main: str, others: Mapping[str, str]) -> None:
        self._open, self._main, self._paths = open_tracker, main, dict(others)
        self._tracker: Tracker | None = None
        self._problem = "The model is being loaded: try again in a moment."
        self._others: dict[str, Tracker] = {}
        self._lock = Lock()

    @property
    def tracker(self) -> Tracker:
        """The tracker that serves, or a `ModelError` that says why there is none."""
        if self._tracker is None:
            raise ModelError(self._problem)
        return self._tracker

    @property
    def names(self) -> list[str]:
        """The other models, by name."""
        return sorted(self._paths)

    async def load(self) -> None:
        """Open the model in a thread."""
        try:
            self._tracker = await asyncio.to_thread(self._open, self._main)
            log("model loaded", model=self._tracker.predictor.model_id)
        except Exception as error:
            sentence = str(error) if isinstance(error, SomdstError) else f"{type(error).__name__}: {error}"
            self._problem = f"The model could not be loaded: {' '.join(sentence.split())}"
            log("model failed", level=logging.ERROR, error=error, reason=self._problem)

    def other(self, name: str) -> Tracker:
        """Another model, opened at its first use; blocks meanwhile."""
        if name not in self._paths:
            known = ", ".join(self.names) or "none: start the service with --other NAME=FOLDER"
            raise InputError(f'There is no other model "{name}"; there are {known}.{did_you_mean(name, self.names)}')
        with self._lock:
            if name not in self._others:
                self._others[name] = self._open(self._paths[name])
            return self._others[name]
