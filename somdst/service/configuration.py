"""What an operator decides: `Settings`, with defaults for one small machine. API keys are in `api_keys.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from somdst.service.api_keys import Keys

LOCAL = "local"
"""The tenant of every request if there are no keys."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one tenant may do and store; None is no limit. All tenants have the same."""

    turns_per_second: float | None = None
    """Turns and edits, counted by each replica for itself."""
    conversations: int | None = None
    """Stored conversations."""
    stored_bytes: int | None = None
    """Characters of stored conversations, of the answers kept with their keys, and of schemas."""

    def __bool__(self) -> bool:
        return self != Limits()


@dataclass(frozen=True, slots=True)
class Settings:
    database: str = "somdst.sqlite"
    """A path for SQLite, or a PostgreSQL URL."""
    model: str = "default"
    other_models: Mapping[str, str] = field(default_factory=dict)
    """Name to model folder: the models that stored conversations can be replayed under."""
    keys: Keys | None = None
    """None: every request belongs to the tenant `local`, and the service should listen on loopback only."""
    retention: timedelta | None = None
    """Conversations are erased this long after their last change."""
    log_utterances: bool = False
    limits: Limits = field(default_factory=Limits)
    """For each tenant; above them the answer is 429."""

    max_batch: int = 32
    """Turns that go through the model together; 1 turns micro-batching off."""
    batch_wait: float = 0.002
    """Longest time in seconds that a batch waits for turns that are on their way. A lone turn does not wait."""
    max_turns: int = 128
    """Turns and edits that may be under way; above it the answer is 503."""
    max_requests: int = 1024
    """Requests of any kind that may be under way; above it the answer is 503."""
    turn_timeout: float = 30.0
    """Seconds after which a request that has not begun, whatever it waits for, is given up."""
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
    """Accept any Host and Origin header even without keys: for a proxy that checks them itself."""
