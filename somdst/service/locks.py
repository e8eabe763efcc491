"""One lock a conversation, made when it is needed and dropped when nobody wants it any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from somdst.errors import Overloaded


class Locks:
    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    def __len__(self) -> int:
        return len(self._locks)

    @asynccontextmanager
    async def hold(self, name: str, *, deadline: float | None = None) -> AsyncIterator[None]:
        """Wait for the others that hold this name, in the order of asking, at most until the deadline."""
        lock, waiting = self._locks.get(name, (asyncio.Lock(), 0))
        self._locks[name] = lock, waiting + 1
        try:
            async with lock:
                if deadline is not None and asyncio.get_running_loop().time() > deadline:
                    raise Overloaded("The turns before this one took too long: try again.")
                yield
        finally:
            lock, waiting = self._locks[name]
            if waiting == 1:
                del self._locks[name]
            else:
                self._locks[name] = lock, waiting - 1
