"""Who waits for whom, and until when: `Batcher` gathers what arrives together and works on it at once, `Threads` runs
single calls, `Locks` lets one in at a time.

While one batch is worked on, the next one gathers by itself, so batches grow with the load and a lone caller does not
wait. Callers take turns: a batch takes one item per caller, then a second one per caller, and so on, so that a caller
with much work does not hold up one with little. How much may wait in all is decided in `core.py`.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Generic, TypeVar

from somdst.errors import Overloaded

In = TypeVar("In")
Out = TypeVar("Out")

DEADLINE: ContextVar[float | None] = ContextVar("deadline", default=None)
"""Until when the request that is being handled may wait (the loop's time), whatever it waits for."""


@dataclass(slots=True)
class _Job(Generic[In, Out]):
    item: In
    future: asyncio.Future[Out]
    timer: asyncio.TimerHandle | None


class Batcher(Generic[In, Out]):
    """Calls `work` with many items, in a thread of its own; it returns a result or an exception for each."""

    def __init__(
        self,
        work: Callable[[Sequence[In]], Sequence[Out | Exception]],
        *,
        name: str,
        max_batch: int,
        wait: float = 0.0,
        crowd: Callable[[], int] = lambda: 0,
        seen: Callable[[int], object] = lambda size: None,
    ) -> None:
        """`crowd` says how many items are on their way: a batch waits for them, at most `wait` seconds. `seen` gets
        the size of every batch."""
        self._work, self._max, self._wait, self._crowd, self._seen = work, max_batch, wait, crowd, seen
        self._jobs: OrderedDict[Hashable, deque[_Job[In, Out]]] = OrderedDict()  # by caller, the next one first
        self._waiting = 0
        self._filled, self._gathered = asyncio.Event(), asyncio.Event()
        self._closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._loop_task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return self._waiting

    async def submit(self, item: In, *, caller: Hashable = None, deadline: float | None = None) -> Out:
        """The result for one item. An item that has not been started at its deadline (the loop's time) is given up."""
        loop = asyncio.get_running_loop()
        if self._loop_task is None:
            self._loop_task = loop.create_task(self._run())
        future: asyncio.Future[Out] = loop.create_future()
        timer = None if deadline is None else loop.call_at(deadline, _give_up, future)
        self._jobs.setdefault(caller, deque()).append(_Job(item, future, timer))
        self._waiting += 1
        self._filled.set()
        if self._complete():
            self._gathered.set()
        return await future

    async def close(self) -> None:
        """Finish what is waiting, then stop."""
        self._closed = True
        self._filled.set()
        if self._loop_task is not None:
            await self._loop_task
        await asyncio.to_thread(self._thread.shutdown, wait=True)

    def _complete(self) -> bool:
        return self._waiting >= min(self._max, self._crowd())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting or not self._closed:
            await self._filled.wait()
            await self._gather()
            if batch := self._take():
                self._seen(len(batch))
                results = await loop.run_in_executor(self._thread, self._safely, [job.item for job in batch])
                for job, result in zip(batch, results, strict=True):
                    _settle(job.future, result)

    async def _gather(self) -> None:
        if self._wait and not self._complete() and not self._closed:
            self._gathered.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._wait):
                    await self._gathered.wait()

    def _take(self) -> list[_Job[In, Out]]:
        batch: list[_Job[In, Out]] = []
        while self._jobs and len(batch) < self._max:
            caller, jobs = self._jobs.popitem(last=False)
            job = jobs.popleft()
            if jobs:
                self._jobs[caller] = jobs  # behind all other callers
            self._waiting -= 1
            if job.timer is not None:
                job.timer.cancel()
            if not job.future.done():  # not given up, and the caller is still there
                batch.append(job)
        if not self._waiting and not self._closed:
            self._filled.clear()
        return batch

    def _safely(self, items: list[In]) -> Sequence[Out | Exception]:
        try:
            return self._work(items)
        except Exception as error:
            return [error] * len(items)


class Threads:
    """A few threads, for calls that are not batched. A call that has not begun at its deadline never begins."""

    def __init__(self, count: int, *, name: str) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._waited_for = 0

    def __len__(self) -> int:
        return self._waited_for

    async def run(self, work: Callable[[], Out], *, deadline: float, finish: bool) -> Out:
        """What `work` returns. If it has begun at the deadline, it is waited for where it must `finish`, so that the
        answer says what was done; otherwise it is left alone."""
        call = self._pool.submit(work)
        self._waited_for += 1
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.shield(asyncio.wrap_future(call))
        except TimeoutError:
            if call.cancel() or not finish:
                raise Overloaded("The service was too busy to answer in time: try again.") from None
            return await asyncio.wrap_future(call)
        finally:
            self._waited_for -= 1
            call.cancel()  # what nobody waits for any more does not begin

    async def close(self) -> None:
        """Finish what is waiting, then stop."""
        await asyncio.to_thread(self._pool.shutdown, wait=True)


def _give_up(future: asyncio.Future[Out]) -> None:
    _settle(future, Overloaded("The service was too busy to start this request in time: try again."))


def _settle(future: asyncio.Future[Out], result: Out | Exception) -> None:
    if future.done():  # the caller is gone
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


class Locks:
    """One lock per name, made when it is needed and dropped when nobody waits for it any more."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, tuple[asyncio.Lock, int]] = {}

    def __len__(self) -> int:
        return len(self._locks)

    @asynccontextmanager
    async def hold(self, name: Hashable, *, deadline: float) -> AsyncIterator[None]:
        """Wait for the others that asked for this name before, at most until the deadline (the loop's time)."""
        lock, users = self._locks.get(name, (asyncio.Lock(), 0))
        self._locks[name] = lock, users + 1
        try:
            await _acquire(lock, deadline)
            try:
                yield
            finally:
                lock.release()
        finally:
            lock, users = self._locks.pop(name)
            if users > 1:
                self._locks[name] = lock, users - 1


async def _acquire(lock: asyncio.Lock, deadline: float) -> None:
    try:
        async with asyncio.timeout_at(deadline):
            await lock.acquire()
    except TimeoutError:
        raise Overloaded("The writes before this one took too long: try again.") from None
