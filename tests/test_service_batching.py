"""Batchers and locks on their own: batches grow with the load, one bad item spoils no other, nothing waits for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest
from scripted import RulePredictor

from somdst.errors import InputError, Overloaded
from somdst.memory.dialogue import Turn
from somdst.service.batching import Batcher
from somdst.service.locks import Locks
from somdst.service.stepping import step_all
from somdst.tracking.conversation import Result
from somdst.tracking.log import EMPTY
from somdst.tracking.tracker import Tracker


class Doubler:
    """Doubles numbers, slowly, and remembers its batches. Cannot do 13, and says so for the whole batch."""

    def __init__(self, seconds: float = 0.02) -> None:
        self.batches: list[int] = []
        self.seconds = seconds

    def __call__(self, items: Sequence[int]) -> list[int | Exception]:
        self.batches.append(len(items))
        time.sleep(self.seconds)
        if 13 in items:
            raise ValueError("13")
        return [2 * item for item in items]


def test_what_comes_at_once_is_done_at_once() -> None:
    async def main() -> None:
        work = Doubler()
        batcher: Batcher[int, int] = Batcher(work, name="t", max_batch=8)
        assert await asyncio.gather(*(batcher.submit(n) for n in range(20, 40))) == [2 * n for n in range(20, 40)]
        assert max(work.batches) == 8
        assert sum(work.batches) == 20
        assert len(work.batches) <= 4
        await batcher.close()

    asyncio.run(main())


def test_a_lone_item_waits_for_nobody() -> None:
    async def main() -> float:
        batcher: Batcher[int, int] = Batcher(Doubler(0), name="t", max_batch=8, wait=5.0, crowd=lambda: 1)
        started = time.perf_counter()
        assert await batcher.submit(1) == 2
        await batcher.close()
        return time.perf_counter() - started

    assert asyncio.run(main()) < 1


def test_a_batch_waits_for_those_on_their_way() -> None:
    async def main() -> None:
        work = Doubler(0)
        batcher: Batcher[int, int] = Batcher(work, name="t", max_batch=8, wait=0.1, crowd=lambda: 2)

        async def late() -> int:
            await asyncio.sleep(0.03)
            return await batcher.submit(2)

        assert await asyncio.gather(batcher.submit(1), late()) == [2, 4]
        assert work.batches == [2]
        await batcher.close()

    asyncio.run(main())


def test_work_that_raises_is_told_to_everybody() -> None:
    async def main() -> list[int | BaseException]:
        batcher: Batcher[int, int] = Batcher(Doubler(0), name="t", max_batch=8)
        results = await asyncio.gather(*(batcher.submit(n) for n in (12, 13)), return_exceptions=True)
        assert await batcher.submit(14) == 28  # and it goes on
        await batcher.close()
        return results

    assert [type(result) for result in asyncio.run(main())] == [ValueError, ValueError]


def test_one_bad_turn_spoils_no_other() -> None:
    turns = [Turn("", words) for words in ("hotel area north", "", "hotel area south", "x" * 30_000, "hotel area east")]
    results = step_all(Tracker(RulePredictor()), [(EMPTY, turn) for turn in turns])
    assert [type(result) for result in results] == [Result, InputError, Result, InputError, Result]


def test_a_deadline_and_a_caller_who_left() -> None:
    async def main() -> None:
        work = Doubler(0.1)
        batcher: Batcher[int, int] = Batcher(work, name="t", max_batch=1)
        first = asyncio.create_task(batcher.submit(1))
        await asyncio.sleep(0.01)
        late = asyncio.create_task(batcher.submit(2, deadline=asyncio.get_running_loop().time() + 0.02))
        left = asyncio.create_task(batcher.submit(3))
        await asyncio.sleep(0)
        left.cancel()
        assert await first == 2
        with pytest.raises(Overloaded, match="too busy"):
            await late
        await batcher.close()
        assert work.batches == [1]

    asyncio.run(main())


def test_locks_keep_order_and_go_away() -> None:
    async def main() -> None:
        locks = Locks()
        order: list[int] = []

        async def enter(number: int) -> None:
            async with locks.hold("a"):
                await asyncio.sleep(0.005)
                order.append(number)

        await asyncio.gather(*(enter(number) for number in range(5)))
        assert order == list(range(5))
        assert len(locks) == 0
        async with locks.hold("a"), locks.hold("b"):
            assert len(locks) == 2
        with pytest.raises(Overloaded):
            async with locks.hold("a", deadline=asyncio.get_running_loop().time() - 1):
                pass
        assert len(locks) == 0

    asyncio.run(main())
