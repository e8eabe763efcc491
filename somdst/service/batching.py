"""Micro-batching: `Batcher` gathers what comes in at the same time and works on it at once, in a thread of its own.

While one batch is worked on, the next gathers by itself, so that batches grow with the load and a lone caller waits
for nobody. How much may be waiting in all is not decided here: see `Service._accept`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from somdst.errors import Overloaded

In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(slots=True)
class _Job(Generic[In, Out]):
    item: In
    future: asyncio.Future[Out]
    deadline: float | None


class Batcher(Generic[In, Out]):
    """Calls `work` with many items; it gives a result or an exception for each."""

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
        """`crowd` tells how many items are on their way: a batch waits `wait` seconds only for those. `seen` is told
        the size of every batch."""
        self._work, self._max, self._wait, self._crowd, self._seen = work, max_batch, wait, crowd, seen
        self._jobs: deque[_Job[In, Out]] = deque()
        self._filled = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._loop_task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._jobs)

    async def submit(self, item: In, *, deadline: float | None = None) -> Out:
        """The result for one item. One that has not been started at its deadline (the loop's time) is given up."""
        loop = asyncio.get_running_loop()
        if self._loop_task is None:
            self._loop_task = loop.create_task(self._run())
        job: _Job[In, Out] = _Job(item, loop.create_future(), deadline)
        self._jobs.append(job)
        self._filled.set()
        return await job.future

    async def close(self) -> None:
        """Finish what is waiting, then stop."""
        while self._jobs:
            await asyncio.sleep(0.01)
        if self._loop_task is not None:
            self._loop_task.cancel()
        await asyncio.to_thread(self._thread.shutdown, wait=True)

    async def _run(self) -> None:
        while True:
            await self._filled.wait()
            if self._wait and len(self._jobs) < min(self._max, self._crowd()):
                await asyncio.sleep(self._wait)
            batch = self._take()
            if batch:
                self._seen(len(batch))
                loop = asyncio.get_running_loop()
                results = await loop.run_in_executor(self._thread, self._safely, [job.item for job in batch])
                for job, result in zip(batch, results, strict=True):
                    _settle(job.future, result)

    def _take(self) -> list[_Job[In, Out]]:
        batch: list[_Job[In, Out]] = []
        now = asyncio.get_running_loop().time()
        while self._jobs and len(batch) < self._max:
            job = self._jobs.popleft()
            if job.deadline is not None and now > job.deadline:
                _settle(job.future, Overloaded("The service was too busy to start this turn in time: try again."))
            elif not job.future.cancelled():
                batch.append(job)
        if not self._jobs:
            self._filled.clear()
        return batch

    def _safely(self, items: list[In]) -> Sequence[Out | Exception]:
        try:
            return self._work(items)
        except Exception as error:
            return [error] * len(items)


def _settle(future: asyncio.Future[Out], result: Out | Exception) -> None:
    if future.done():  # the one who asked is gone
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
