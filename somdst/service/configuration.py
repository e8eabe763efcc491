"""What an operator decides: `Settings`, with defaults for one small machine, and `Keys`, the API keys of the tenants.

A key file has one `tenant:key` per line; `#` starts a comment. Several keys may name one tenant, so that a key can be
replaced without a pause. The environment variable SOMDST_API_KEYS holds the same, separated by commas. Keys are kept as
digests and compared in constant time.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from somdst.errors import InputError

LOCAL = "local"
"""The tenant of every request if there are no keys."""
VARIABLE = "SOMDST_API_KEYS"
SHORTEST = 16
"""Fewest characters of a key. Sixteen random ones cannot be guessed."""


class Keys:
    """The keys of all tenants."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._tenants = [(_digest(key), tenant) for tenant, key in pairs]
        if not self._tenants:
            raise InputError("There is no API key: write at least one as `tenant:key`.")

    def tenant(self, key: str) -> str | None:
        """The tenant of this key. All keys are compared even after a match, so that timing reveals nothing."""
        digest, found = _digest(key), None
        for known, tenant in self._tenants:
            if hmac.compare_digest(known, digest):
                found = tenant
        return found

    def __len__(self) -> int:
        return len(self._tenants)

    def __repr__(self) -> str:
        return f"Keys({len(self)} keys of {len({tenant for _, tenant in self._tenants})} tenants)"


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

    max_batch: int = 32
    """Turns that go through the model together; 1 turns micro-batching off."""
    batch_wait: float = 0.002
    """Longest time in seconds that a batch waits for turns that are on their way. A lone turn does not wait."""
    max_turns: int = 128
    """Turns and edits that may be under way; above it the answer is 503."""
    max_requests: int = 1024
    """Requests of any kind that may be under way; above it the answer is 503."""
    turn_timeout: float = 30.0
    """Seconds after which a turn or an edit that is still waiting is given up."""
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


def load_keys(path: str | Path | None, environment: Mapping[str, str]) -> Keys | None:
    """The keys of a file, else of the environment; None if there are none."""
    if path is not None:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"Cannot read the API keys in {path}: {error}.") from error
        lines = [(f"line {number} of {path}", line) for number, line in enumerate(text.splitlines(), 1)]
    elif environment.get(VARIABLE):
        lines = [(f"entry {n} of {VARIABLE}", part) for n, part in enumerate(environment[VARIABLE].split(","), 1)]
    else:
        return None
    return Keys(_pair(line, where) for where, text in lines if (line := re.split(r"(?:^|\s)#", text)[0].strip()))


def _pair(line: str, where: str) -> tuple[str, str]:
    # The line itself stays out of the message: it may be a key.
    tenant, colon, key = (part.strip() for part in line.partition(":"))
    if not colon or not re.fullmatch(r"[\w.-]{1,100}", tenant, re.ASCII):
        raise InputError(f"Expected `tenant:key` in {where}, the tenant made of letters, digits, `_`, `.` and `-`.")
    if len(key) < SHORTEST or not key.isascii() or not key.isprintable() or " " in key:
        raise InputError(f"The key in {where} must be at least {SHORTEST} printable ASCII characters, without a space.")
    return tenant, key


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
