"""Reads go on while writes are stuck, no request waits for ever, and a write that was given up is never done."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from scripted import AnyRules
from waiting import LIMIT

from somdst.memory.schema import Schema
from somdst.service.app import create_app
from somdst.service.batching import Threads
from somdst.service.configuration import Settings
from somdst.service.core import READERS, WRITERS, Service
from somdst.tracking.tracker import Tracker

PIZZA = {"domains": {"pizza": {"size": {"values": ["small", "large"]}, "topping": {}}}}
NEVER = 1e9


def run(
    tmp_path: Path, test: Callable[[Service, httpx.AsyncClient], Awaitable[None]], *, seconds: float = LIMIT
) -> None:
    """`test` with a service whose requests wait so long, and a client of it."""

    async def main() -> None:
        settings = Settings(database=str(tmp_path / "c.sqlite"), turn_timeout=seconds)
        app = create_app(settings, lambda name: Tracker(AnyRules(), threshold=0.5))
        service: Service = app.state.service
        await service.models.load()
        await service.start()
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=None) as web:
            await test(service, web)
        await service.stop()

    asyncio.run(main())


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """As if another process were in the middle of a write."""
    connection = sqlite3.connect(path, timeout=LIMIT, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


def test_reads_go_on_while_writes_are_stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("somdst.store.database.BUSY_SECONDS", LIMIT)  # no write is refused before the lock is free

    async def test(service: Service, web: httpx.AsyncClient) -> None:
        made = (await web.post("/v1/conversations", json={"schema": PIZZA})).json()
        other = (await web.post("/v1/conversations")).json()["id"]
        path = f"/v1/conversations/{made['id']}"
        await web.post(f"{path}/turns", json={"user": "pizza size large"})
        schema = (await web.get("/v1/schemas")).json()["schemas"][0]["id"]
        with locked(tmp_path / "c.sqlite"):
            creates = [asyncio.create_task(web.post("/v1/conversations")) for _ in range(50)]
            erased = asyncio.create_task(web.delete(f"/v1/conversations/{other}"))
            while len(service._writers) < 51:
                await asyncio.sleep(0.001)
            parts = ("", "/log", "/turns", "/versions/1", "/slots/pizza-size/history", "/questions")
            schemas = ("/v1/schemas", f"/v1/schemas/{schema}")
            for read in (*(path + part for part in parts), "/v1/conversations", *schemas, "/v1/export", "/readyz"):
                assert (await web.get(read)).status_code == 200, read
            for checked in ("/v1/schemas/check", "/v1/track"):
                body: dict[str, Any] = {"schema": PIZZA}
                answer = await web.post(checked, json=body | ({"turns": [{"user": "x"}]} if "track" in checked else {}))
                assert answer.status_code == 200, checked
            assert not any(task.done() for task in (*creates, erased))
        assert {answer.status_code for answer in await asyncio.gather(*creates)} == {201}
        assert (await erased).status_code == 204
        assert len(service.store.page("local", limit=100).records) == 51

    run(tmp_path, test)


async def occupied(threads: Threads, count: int, gate: threading.Event) -> list[asyncio.Task[bool]]:
    """All of these threads, until the gate opens."""
    taken = threading.Semaphore(0)

    def take() -> bool:
        taken.release()
        return gate.wait()

    tasks = [asyncio.create_task(threads.run(take, deadline=NEVER, finish=True)) for _ in range(count)]
    for _ in range(count):
        await asyncio.to_thread(taken.acquire)
    return tasks


def test_whatever_a_request_waits_for_it_has_a_deadline(tmp_path: Path) -> None:
    async def test(service: Service, web: httpx.AsyncClient) -> None:
        schema = Schema.from_json(PIZZA)
        id = service.store.create("local", schema=schema).id
        path, gate = f"/v1/conversations/{id}", threading.Event()
        tasks = await occupied(service._readers, READERS, gate)
        posts: dict[str, dict[str, Any]] = {
            f"{path}/turns": {"user": "pizza size large"},  # the schema of the conversation was not read yet
            f"{path}/corrections": {"values": {"pizza-size": "large"}},
            f"{path}/undo": {},
            f"{path}/redo": {},
            f"{path}/schema": {"schema": schema.id},
            "/v1/conversations": {"schema": schema.id},
            "/v1/track": {"schema": PIZZA, "turns": [{"user": "x"}]},
            "/v1/schemas": {"schema": PIZZA},
            "/v1/schemas/check": {"schema": PIZZA},
        }
        answers = [await web.get(read) for read in (path, f"{path}/questions", "/v1/schemas", "/readyz")]
        answers += [await web.post(write, json=body) for write, body in posts.items()]
        for answer in answers:
            assert answer.status_code == 503, answer.request.url
        gate.set()
        await asyncio.gather(*tasks)
        assert service.store.read("local", id).version == 1
        assert len(service.store.page("local").records) == 1

    run(tmp_path, test, seconds=0.05)


def test_a_write_that_was_given_up_is_never_done(tmp_path: Path) -> None:
    async def test(service: Service, web: httpx.AsyncClient) -> None:
        unused = service.store.schemas.add("local", Schema.from_json(PIZZA)).id
        id = service.store.create("local", subject="customer-17").id
        gate = threading.Event()
        tasks = await occupied(service._writers, WRITERS, gate)
        other: dict[str, Any] = {"schema": {"domains": {"taxi": {"to": {}}}}}
        answers = [await web.post("/v1/conversations", json={"subject": "customer-18"})]
        answers += [await web.post("/v1/conversations", json=other), await web.post("/v1/schemas", json=other)]
        for path in (f"/v1/conversations/{id}", "/v1/subjects/customer-17", f"/v1/schemas/{unused}"):
            answers.append(await web.delete(path))
        answers.append(await web.post(f"/v1/conversations/{id}/schema", json=other))
        for answer in answers:
            assert answer.status_code == 503, answer.request.url
        gate.set()
        await asyncio.gather(*tasks)
        await service._writers.run(lambda: None, deadline=NEVER, finish=True)  # what was before it would be done now
        assert [record.id for record in service.store.page("local").records] == [id]
        assert [stored.id for stored in service.store.schemas.page("local")[0]] == [unused]

    run(tmp_path, test, seconds=0.05)


def test_a_write_that_has_begun_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer says what was done, though the deadline is over."""

    async def main() -> None:
        threads, begun, gate = Threads(1, name="t"), threading.Event(), threading.Event()
        submit = threads._pool.submit

        def work() -> str:
            begun.set()
            gate.wait()
            return "done"

        def submit_and_begin(work: Callable[[], str]) -> object:
            call = submit(work)
            begun.wait()
            return call

        monkeypatch.setattr(threads._pool, "submit", submit_and_begin)
        over = asyncio.get_running_loop().time()
        write = asyncio.create_task(threads.run(work, deadline=over, finish=True))
        while not len(threads):
            await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.01, gate.set)  # long after the deadline
        assert await write == "done"
        assert len(threads) == 0
        await threads.close()

    asyncio.run(main())
