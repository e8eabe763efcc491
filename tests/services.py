"""The service with a predictor of rules in a process of its own, for tests that talk to it, kill it or drown it."""

from __future__ import annotations

from processes import SCRIPTED, Service


class Server(Service):
    """`options` are those of `serve_scripted.py`."""

    def __init__(self, database: str, *options: str, environment: dict[str, str] | None = None) -> None:
        super().__init__(SCRIPTED, database, *options, environment=environment)
