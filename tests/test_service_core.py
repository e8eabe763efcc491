"""`Service` without HTTP: what shares a batch, who waits for whom and how long, and when another process writes too."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from scripted import RulePredictor

from somdst.errors import Conflict, NotFound, Overloaded
from somdst.memory.dialogue import Turn
from somdst.memory.operations import Operation
from somdst.model.prediction import Prediction, TurnInput
from somdst.service import core
from somdst.service.configuration import Settings
from somdst.service.core import Service, Written
from somdst.store import Store, Write
from somdst.tracking import edits
from somdst.tracking.log import Result
from somdst.tracking.records import Snapshot
from somdst.tracking.tracker import Tracker

NORTH = Turn("", "hotel area north")


class Gated(RulePredictor):
    """Waits at a gate before it predicts, and remembers what the users of every batch said."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[list[str]] = []
        self.entered, self.gate = threading.Semaphore(0), threading.Event()

    def predict(
        self, inputs: Sequence[TurnInput], *, operations: Sequence[Mapping[str, Operation]] | None = None
    ) -> list[Prediction]:
        self.said.append([item.turn.user for item in inputs])
        self.entered.release()
        self.gate.wait()
        return super().predict(inputs, operations=operations)


def run(tmp_path: Path, test: Callable[[Service, Gated], Awaitable[None]], **settings: int) -> None:
    """`test` with a service on an empty database and the predictor that it waits for."""

    async def main() -> None:
        predictor = Gated()
        database = str(tmp_path / "conversations.sqlite")
        service = Service(Settings(database=database, **settings), lambda name: Tracker(predictor, threshold=0.5))  # type: ignore[arg-type]
        await service.models.load()
        await service.start()
        try:
            await test(service, predictor)
        finally:
            predictor.gate.set()
            await service.stop()

    asyncio.run(main())


async def queued(service: Service, count: int) -> None:
    """Wait until so many turns wait for the model."""
    while len(service._steps) < count:
        await asyncio.sleep(0.001)


def test_concurrent_turns_share_a_model_run(tmp_path: Path) -> None:
    async def test(service: Service, predictor: Gated) -> None:
        ids = [service.store.create("a").id for _ in range(16)]
        first = asyncio.create_task(service.add_turn("a", ids[0], NORTH))
        await asyncio.to_thread(predictor.entered.acquire)
        others = [asyncio.create_task(service.add_turn("a", id, NORTH)) for id in ids[1:]]
        await queued(service, 15)
        predictor.gate.set()
        written = await asyncio.gather(first, *others)
        assert [len(batch) for batch in predictor.said] == [1, 15]
        assert {one.snapshot.state["hotel-area"] for one in written} == {"north"}

    run(tmp_path, test)


def test_a_long_dialogue_does_not_hold_the_model(tmp_path: Path) -> None:
    async def test(service: Service, predictor: Gated) -> None:
        id = service.store.create("b").id
        long = [asyncio.create_task(service.track("a", [Turn("", f"{d}.{t}") for t in range(50)])) for d in range(4)]
        await asyncio.to_thread(predictor.entered.acquire)
        await queued(service, 3)
        short = asyncio.create_task(service.add_turn("b", id, NORTH))
        await queued(service, 4)
        predictor.gate.set()
        await short
        await asyncio.gather(*long)
        said = [words for [words] in predictor.said]
        assert said.index(NORTH.user) == 2, "after the turn at the gate and one more of the other caller"
        assert len(said) == 4 * 50 + 1

    run(tmp_path, test, max_batch=1)


def test_a_stranger_cannot_hold_up_a_conversation(tmp_path: Path) -> None:
    async def test(service: Service, predictor: Gated) -> None:
        predictor.gate.set()
        id = service.store.create("owner").id
        read: list[list[str]] = []
        read_many = service.store.read_many

        def recording(wanted: Sequence[tuple[str, str]]) -> list[object]:
            read.append([tenant for tenant, _ in wanted])
            return list(read_many(wanted))

        service.store.read_many = recording  # type: ignore[method-assign, assignment]
        callers = ["stranger"] * 10 + ["owner"]
        outcomes = await asyncio.gather(*(service.add_turn(who, id, NORTH) for who in callers), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [NotFound] * 10 + [Written]
        assert read[0] == ["stranger", "owner"], "the owner waited for one stranger at most, not for ten"

    run(tmp_path, test)


def test_edits_count_like_turns(tmp_path: Path) -> None:
    async def test(service: Service, predictor: Gated) -> None:
        ids = [service.store.create("a").id for _ in range(2)]
        turn = asyncio.create_task(service.add_turn("a", ids[0], NORTH))
        await asyncio.to_thread(predictor.entered.acquire)
        with pytest.raises(Overloaded, match="1 writes are in progress"):
            await service.edit("a", ids[1], lambda snapshot: edits.correct(snapshot, {"hotel-area": "east"}))
        with pytest.raises(Overloaded, match="1 writes are in progress"):
            await service.undo("a", ids[1], source="api")
        predictor.gate.set()
        await turn

    run(tmp_path, test, max_turns=1)


def test_edits_have_a_deadline(tmp_path: Path) -> None:
    async def test(service: Service, predictor: Gated) -> None:
        id = service.store.create("a").id
        turn = asyncio.create_task(service.add_turn("a", id, NORTH))
        await asyncio.to_thread(predictor.entered.acquire)
        service.settings = replace(service.settings, turn_timeout=0.0)
        with pytest.raises(Overloaded, match="writes before this one took too long"):
            await service.edit("a", id, lambda snapshot: edits.correct(snapshot, {"hotel-area": "east"}))
        predictor.gate.set()
        assert (await turn).snapshot.version == 1

    run(tmp_path, test)


def test_a_read_has_a_deadline(tmp_path: Path) -> None:
    async def test(service: Service, _: Gated) -> None:
        stuck = threading.Event()
        service.settings = replace(service.settings, turn_timeout=0.0)
        with pytest.raises(Overloaded, match="too busy to answer in time"):
            await service.read(stuck.wait)
        stuck.set()

    run(tmp_path, test)


def another_process(path: Path, id: str, *, times: int) -> Callable[[Snapshot], Result]:
    """An edit before which another process writes to the same conversation, so many times."""
    other = Store(str(path / "conversations.sqlite"))
    left = times

    def make(snapshot: Snapshot) -> Result:
        nonlocal left
        if left:
            left -= 1
            other.append(Write("a", id, edits.correct(snapshot, {"hotel-name": f"place {left}"})))
        return edits.correct(snapshot, {"hotel-area": "north"})

    return make


def test_a_write_without_a_version_goes_on_from_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "LONGEST_PAUSE", 0.0)

    async def test(service: Service, _: Gated) -> None:
        id = service.store.create("a").id
        written = await service.edit("a", id, another_process(tmp_path, id, times=40))
        assert written.snapshot.version == 41
        with pytest.raises(Conflict, match="at version 42"):
            await service.edit("a", id, another_process(tmp_path, id, times=1), version=41)

    run(tmp_path, test)


def test_it_does_so_until_its_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "LONGEST_PAUSE", 1e9)  # the pause after the first conflict is over the deadline
    monkeypatch.setattr(core, "FIRST_PAUSE", 1e9)

    async def test(service: Service, _: Gated) -> None:
        id = service.store.create("a").id
        with pytest.raises(Overloaded, match="Other writes kept changing"):
            await service.edit("a", id, another_process(tmp_path, id, times=1))
        assert service.store.read("a", id).version == 1
        assert service.under_way == 0

    run(tmp_path, test)
