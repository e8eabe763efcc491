"""What a service does by itself: `Housekeeping` erases what has expired, and notes keys that come and go.

Every set of keys that was in force is noted, in its order, also if the database was away meanwhile. A key that was
added to the file and removed again between two looks at it was never in force, and leaves no note.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from somdst.errors import StoreError
from somdst.service.api_keys import ApiKey, Keys
from somdst.service.monitoring import log
from somdst.store import Store, record_keys

EXPIRY_INTERVAL = 60.0
KEYS_INTERVAL = 5.0
"""Seconds between two looks at the key file. A request with a key looks as well."""


class Housekeeping:
    def __init__(self, store: Store, keys: Keys | None) -> None:
        self._store, self._keys = store, keys
        self._unnoted: deque[tuple[float, Sequence[ApiKey]]] = deque()  # when they came into force, and all of them
        self._read = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks.append(asyncio.create_task(self._expire_forever()))
        if self._keys is not None:
            self._keys.on_change = self._remember
            self._remember(self._keys.known)
            self._tasks.append(asyncio.create_task(self._watch(self._keys)))

    async def stop(self) -> None:
        """Note what is left to note."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._note()

    async def _expire_forever(self) -> None:
        while True:
            try:
                if deleted := await asyncio.to_thread(self._store.expire):
                    log("expired", conversations=deleted)
            except Exception as error:  # whatever it is, the next round tries again
                reason = str(error) if isinstance(error, StoreError) else type(error).__name__
                log("expiry failed", level=logging.ERROR, reason=reason)
            await asyncio.sleep(EXPIRY_INTERVAL)

    def _remember(self, known: Sequence[ApiKey]) -> None:
        self._unnoted.append((self._store.clock(), known))
        self._read.set()

    async def _watch(self, keys: Keys) -> None:
        while True:
            self._read.clear()
            keys.refresh()
            await self._note()
            with suppress(TimeoutError):
                async with asyncio.timeout(KEYS_INTERVAL):
                    await self._read.wait()

    async def _note(self) -> None:
        while self._unnoted:
            at, known = self._unnoted[0]
            try:
                ids = {key.id: key.tenant for key in known}
                await asyncio.to_thread(record_keys, self._store.database, ids, at)
            except StoreError as error:  # tried again at the next look
                log("keys not noted", level=logging.ERROR, reason=str(error))
                return
            self._unnoted.popleft()
