"""What one tenant may do and store: `Meter`, and `within_limits`, which stands before the routes. Off by default.

Each replica counts turns for itself, in memory. Stored conversations and bytes are counted in the database, every ten
seconds or hundred writes per tenant, plus the requests that this replica accepted since. So a tenant may pass these
limits by what it stores through other replicas in that time, by what a hundred writes store beyond the size of their
requests, and by what was under way while it was counted. Nothing that was accepted is ever
refused later: a request that comes again with its Idempotency-Key gets its answer, also over the limits.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fastapi import Request

from somdst.errors import TooMuch
from somdst.service.configuration import Limits
from somdst.service.core import Service
from somdst.service.requests import MAX_TURNS
from somdst.service.routes import key_of
from somdst.store import Usage

RECOUNT = 10.0
"""Seconds after which a tenant's storage is counted again."""
RECOUNT_WRITES = 100
"""Writes after which it is counted again: a small request can store much, such as the memory with its key."""
STORAGE_WAIT = 60
"""Seconds for Retry-After where storage is full: only erasing or expiry helps."""
STORES_NOTHING = frozenset({"/v1/track", "/v1/replays", "/v1/schemas/check"})
"""Paths that are posted to and keep nothing of it."""


@dataclass(slots=True)
class _Counted:
    at: float
    conversations: int
    stored_bytes: int
    writes: int = 0


class Meter:
    def __init__(
        self, limits: Limits, usage: Callable[[str], Awaitable[Usage]], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits, self._usage, self._clock = limits, usage, clock
        self._turns: dict[str, tuple[float, float]] = {}  # by tenant: how many may come now, and when that was so
        self._stored: dict[str, _Counted] = {}
        self._counting: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def take(self, tenant: str, turns: int) -> None:
        """Count turns. A tenant may use up a second's worth at once, and then as many as come back."""
        rate = self._limits.turns_per_second
        if rate is None:
            return
        most, now = max(1.0, rate), self._clock()
        left, since = self._turns.get(tenant, (most, now))
        left = min(most, left + (now - since) * rate)
        if left < 1:
            wait = math.ceil((1 - left) / rate)
            raise TooMuch(
                f"You have sent more than {rate:g} turns per second: try again in {wait} s.", retry_after=wait
            )
        self._turns[tenant] = left - turns, now

    async def store(self, tenant: str, *, size: int, creates: bool) -> None:
        """Count what is going to be stored."""
        if self._limits.conversations is None and self._limits.stored_bytes is None:
            return
        counted = await self._count(tenant)
        most = self._limits.conversations
        if creates and most is not None and counted.conversations >= most:
            raise _full(f"{counted.conversations} conversations", f"{most}")
        most = self._limits.stored_bytes
        if most is not None and counted.stored_bytes >= most:
            raise _full(f"{counted.stored_bytes} bytes", f"{most}")
        counted.conversations += creates
        counted.stored_bytes += size
        counted.writes += 1

    async def _count(self, tenant: str) -> _Counted:
        async with self._counting[tenant]:  # two counts at once would forget what is accepted between them
            counted = self._stored.get(tenant)
            if counted is None or self._clock() - counted.at >= RECOUNT or counted.writes >= RECOUNT_WRITES:
                usage = await self._usage(tenant)
                counted = self._stored[tenant] = _Counted(self._clock(), usage.conversations, usage.stored_bytes)
            return counted


def _full(stored: str, most: str) -> TooMuch:
    return TooMuch(
        f"You have stored {stored} and may store {most}: erase conversations first.", retry_after=STORAGE_WAIT
    )


async def within_limits(request: Request) -> None:
    """For every route: refuse with 429 what is over the tenant's limits. Reading and erasing are always allowed, and so
    is a request that was done before, which only reads its answer."""
    if request.method != "POST":
        return
    try:
        await _count(request)
    except TooMuch:
        if not await _known(request):
            raise


async def _count(request: Request) -> None:
    meter: Meter = request.app.state.meter
    tenant, path, body = str(request.state.tenant), request.url.path, await request.body()
    creates = path == "/v1/conversations"
    if not creates:
        meter.take(tenant, _turns(body) if path == "/v1/track" else 1)
    if path not in STORES_NOTHING:
        await meter.store(tenant, size=len(body), creates=creates)


async def _known(request: Request) -> bool:
    """Whether the request's key was used before. The route gives the answer, or says that the key is another's."""
    core: Service = request.app.state.service
    if (text := request.headers.get("idempotency-key")) is None:
        return False
    wanted = [(str(request.state.tenant), await key_of(request, text))]
    return (await core.read(core.store.find_keys, wanted)) != [None]


def _turns(body: bytes) -> int:
    try:
        turns = json.loads(body)["turns"]
    except (ValueError, KeyError, TypeError):
        return 1
    return len(turns) if isinstance(turns, list) and 0 < len(turns) <= MAX_TURNS else 1  # else the route refuses it
