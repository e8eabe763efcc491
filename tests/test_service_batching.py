"""Batchers and locks on their own: batches grow with the load, callers take turns, nothing waits for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest
from scripted import RulePredictor

from somdst.errors import InputError, Overloaded
from somdst.memory.dialogue import Turn
from somdst.service.batching import Batcher, Locks
from somdst.tracking.log import EMPTY, Result
from somdst.tracking.step import step_each
from somdst.tracking.tracker import Tracker


class Doubler:
    """Doubles numbers and remembers its batches. With a closed gate it waits. It fails on a batch with 13."""

    def __init__(self, *, closed: bool = False) -> None:
        self.batches: list[list[int]] = []
        self.started = threading.Semaphore(0)
        self.gate = threading.Event()
        if not closed:
            self.gate.set()

    def __call__(self, items: Sequence[int]) -> list[int | Exception]:
        self.batches.append(list(items))
        self.started.release()
        self.gate.wait()
        if 13 in items:
            raise ValueError("13")
        return [2 * item for item in items]


def test_what_arrives_together_is_done_together() -> None:
    async def main() -> None:
        work = Doubler()
        batcher: Batcher[int, int] = Batcher(work, name="t", max_batch=8)
        assert await asyncio.gather(*(batcher.submit(n) for n in range(20, 40))) == [2 * n for n in range(20, 40)]
        assert [len(batch) for batch in work.batches] == [8, 8, 4]
        await batcher.close()

    asyncio.run(main())


def test_a_lone_item_does_not_wait() -> None:
    async def main() -> None:
        batcher: Batcher[int, int] = Batcher(Doubler(), name="t", max_batch=8, wait=1e9, crowd=lambda: 1)
        assert await batcher.submit(1) == 2
        await batcher.close()

    asyncio.run(main())


def test_a_batch_waits_for_items_on_their_way() -> None:
    async def main() -> None:
        work = Doubler()
        batcher: Batcher[int, int] = Batcher(work, name="t", max_batch=8, wait=1e9, crowd=lambda: 2)
        first = asyncio.create_task(batcher.submit(1))
        for _ in range(10):
            await asyncio.sleep(0)  # the batcher has seen the first one, and waits
        assert work.batches == []
        assert await asyncio.gather(first, batcher.submit(2)) == [2, 4]
        assert work.batches == [[1, 2]]
        await batcher.close()

    asyncio.run(main())


def test_a_batch_does_not_wait_for_ever() -> None:
    async def main() -> None:
        work = Doubler()
        batcher: Batcher[int, int] = Batcher(work, name="t", max_batch=8, wait=1e-3, crowd=lambda: 2)
        assert await batcher.submit(1) == 2
        await batcher.close()

    asyncio.run(main())


def test_callers_take_turns() -> None:
    async def main() -> None:
        work = Doubler(closed=True)
        batcher: Batcher[int, int] = Batcher(work, name="t", max_batch=2)
        first = asyncio.create_task(batcher.submit(0, caller="much"))
        await asyncio.to_thread(work.started.acquire)  # the thread is at work: everything else queues
        much = [asyncio.create_task(batcher.submit(n, caller="much")) for n in range(1, 8)]
        little = [asyncio.create_task(batcher.submit(n, caller="little")) for n in (100, 101)]
        while len(batcher) < 9:
            await asyncio.sleep(0)
        work.gate.set()
        await asyncio.gather(first, *much, *little)
        assert work.batches == [[0], [1, 100], [2, 101], [3, 4], [5, 6], [7]]
        await batcher.close()

    asyncio.run(main())


def test_work_that_raises_is_told_to_everybody() -> None:
    async def main() -> list[int | BaseException]:
        batcher: Batcher[int, int] = Batcher(Doubler(), name="t", max_batch=8)
        results = await asyncio.gather(*(batcher.submit(n) for n in (12, 13)), return_exceptions=True)
        assert await batcher.submit(14) == 28  # and it goes on
        await batcher.close()
        return results

    assert [type(result) for result in asyncio.run(main())] == [ValueError, ValueError]


def test_one_bad_turn_spoils_no_other() -> None:
    turns = [Turn("", words) for words in ("hotel area north", "", "hotel area south", "x" * 30_000, "hotel area east")]
    tracker = Tracker(RulePredictor())
    results = step_each(tracker.predictor, [(EMPTY, turn) for turn in turns], [tracker.rules] * len(turns))
    assert [type(result) for result in results] == [Result, InputError, Result, InputError, Result]


def test_a_deadline_is_kept_while_the_work_is_stuck() -> None:
    async def main() -> None:
        work = Doubler(closed=True)
        batcher: Batcher[int, int] = Batcher(work, name="t", max_batch=1)
        first = asyncio.create_task(batcher.submit(1, deadline=asyncio.get_running_loop().time() + 1e9))
        await asyncio.to_thread(work.started.acquire)
        left = asyncio.create_task(batcher.submit(3))
        await asyncio.sleep(0)
        left.cancel()
        with pytest.raises(Overloaded, match="too busy"):
            await batcher.submit(2, deadline=asyncio.get_running_loop().time())
        work.gate.set()
        assert await first == 2
        await batcher.close()
        assert work.batches == [[1]]

    asyncio.run(main())


def test_closing_finishes_what_is_waiting() -> None:
    async def main() -> None:
        work = Doubler(closed=True)
        batcher: Batcher[int, int] = Batcher(work, name="t", max_batch=1)
        jobs = [asyncio.create_task(batcher.submit(n)) for n in range(3)]
        await asyncio.to_thread(work.started.acquire)
        closing = asyncio.create_task(batcher.close())
        await asyncio.sleep(0)
        work.gate.set()
        await closing
        assert [job.result() for job in jobs] == [0, 2, 4]
        await Batcher(work, name="unused", max_batch=1).close()

    asyncio.run(main())


LATE = 1e9


def test_locks_keep_order_and_go_away() -> None:
    async def main() -> None:
        locks = Locks()
        order: list[int] = []

        async def enter(number: int) -> None:
            async with locks.hold("a", deadline=LATE):
                await asyncio.sleep(0)
                order.append(number)

        await asyncio.gather(*(enter(number) for number in range(5)))
        assert order == list(range(5))
        assert len(locks) == 0
        async with locks.hold("a", deadline=LATE), locks.hold("b", deadline=LATE):
            assert len(locks) == 2
        assert len(locks) == 0

    asyncio.run(main())


def test_a_lock_keeps_its_deadline() -> None:
    async def main() -> None:
        locks = Locks()
        async with locks.hold("a", deadline=LATE):
            with pytest.raises(Overloaded, match="took too long"):  # though the first one never lets go
                async with locks.hold("a", deadline=asyncio.get_running_loop().time()):
                    raise AssertionError("two held one lock")
            assert len(locks) == 1
        async with locks.hold("a", deadline=LATE):
            pass
        assert len(locks) == 0

    asyncio.run(main())
