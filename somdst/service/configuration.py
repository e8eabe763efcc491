"""`Settings`: everything about a service that can be set, with the defaults that suit one small machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from somdst.service.api_keys import Keys


@dataclass(frozen=True, slots=True)
class Settings:
    database: str = "somdst.sqlite"
    """A path for SQLite, or a PostgreSQL URL."""
    model: str = "default"
    other_models: Mapping[str, str] = field(default_factory=dict)
    """Name to model folder: what stored conversations can be replayed under."""
    keys: Keys | None = None
    """None: everybody is the one tenant `local`, and the service should listen on loopback only."""
    retention: timedelta | None = None
    """Conversations are erased this long after their last change."""
    log_utterances: bool = False

    max_batch: int = 32
    """Turns that go through the model together; 1 turns micro-batching off."""
    batch_wait: float = 0.002
    """Seconds that a batch waits for turns that are on their way; nobody waits where nobody else is there."""
    max_turns: int = 128
    """Turns that may be under way; over it the answer is 503."""
    max_requests: int = 1024
    """Requests of any kind that may be under way; over it the answer is 503."""
    turn_timeout: float = 30.0
    """Seconds after which a turn that has not been started is given up."""
    body_timeout: float = 10.0
    """Seconds in which the whole body of a request must arrive."""
    header_timeout: float = 10.0
    """Seconds in which the head of a request must arrive."""
    shutdown_timeout: float = 30.0
    """Seconds that a stopping service gives the turns it has accepted."""
    max_body: int = 256 * 1024
    max_depth: int = 32
    """How deep JSON may be nested."""
    any_host: bool = False
    """Accept any Host header even without keys; for tests and for a proxy that checks it."""
