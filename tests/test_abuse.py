"""Tenants that do or store too much, keys that are stolen or replaced, and an account of what was erased."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from services import Server
from sqlalchemy import func, select
from test_store import Clock, say
from waiting import LIMIT

from somdst import Client
from somdst.errors import InputError, TooMuch
from somdst.memory.schema import Schema
from somdst.service.api_keys import add_key, list_keys, load_keys, remove_key
from somdst.service.client import ServiceError
from somdst.service.configuration import Limits
from somdst.service.limits import RECOUNT, RECOUNT_WRITES, Meter
from somdst.store import Action, Key, Store, Usage, Write, read_actions, record_keys, usage
from somdst.store.conversations import KEY_LIFETIME
from somdst.store.layout import entries, idempotency_keys
from somdst.store.writes import dump
from somdst.tracking import edits

# Limits


class Shelf:
    """What a tenant has stored, and how often it was counted."""

    def __init__(self) -> None:
        self.usage, self.counted = Usage(0, 0), 0

    async def __call__(self, _tenant: str) -> Usage:
        self.counted += 1
        await asyncio.sleep(0)  # others may ask meanwhile
        return self.usage


def test_turns_per_second() -> None:
    clock = Clock()
    meter = Meter(Limits(turns_per_second=2), Shelf(), clock=clock)
    meter.take("a", 1)
    meter.take("a", 1)
    with pytest.raises(TooMuch, match="more than 2 turns per second") as refused:
        meter.take("a", 1)
    assert refused.value.retry_after == 1
    meter.take("b", 1)  # another tenant has its own
    clock.now += 0.5
    meter.take("a", 1)
    with pytest.raises(TooMuch):
        meter.take("a", 1)
    clock.now += 1000
    meter.take("a", 1)
    meter.take("a", 1)
    with pytest.raises(TooMuch):
        meter.take("a", 1)  # what was not used is not saved up


def test_a_dialogue_counts_all_its_turns() -> None:
    clock = Clock()
    meter = Meter(Limits(turns_per_second=10), Shelf(), clock=clock)
    meter.take("a", 200)
    with pytest.raises(TooMuch) as refused:
        meter.take("a", 1)
    assert refused.value.retry_after == 20
    clock.now += 20
    meter.take("a", 1)


def test_what_is_stored() -> None:
    async def main() -> None:
        clock, shelf = Clock(), Shelf()
        meter = Meter(Limits(conversations=2, stored_bytes=1000), shelf, clock=clock)
        for _ in range(2):
            await meter.store("a", size=100, creates=True)
        with pytest.raises(TooMuch, match="2 conversations and may store 2"):
            await meter.store("a", size=100, creates=True)
        await meter.store("a", size=900, creates=False)
        with pytest.raises(TooMuch, match="1100 bytes and may store 1000"):
            await meter.store("a", size=1, creates=False)
        assert shelf.counted == 1
        clock.now += RECOUNT
        await meter.store("a", size=1, creates=True)  # counted again: it was erased meanwhile
        assert shelf.counted == 2

    asyncio.run(main())


def test_small_requests_that_store_much_are_counted_soon() -> None:
    async def main() -> None:
        shelf = Shelf()
        meter = Meter(Limits(stored_bytes=1000), shelf, clock=Clock())
        for _ in range(RECOUNT_WRITES):
            await meter.store("a", size=1, creates=False)
        shelf.usage = Usage(1, 1_000_000)
        with pytest.raises(TooMuch, match="1000000 bytes"):
            await meter.store("a", size=1, creates=False)

    asyncio.run(main())


@pytest.mark.parametrize("turns", ["a" * 5_000, [{}] * 5_000, [], None])
def test_a_dialogue_that_is_refused_counts_as_one_turn(tmp_path: Path, turns: object) -> None:
    limits = ("--turns-per-second", "0.0001")
    with Server(str(tmp_path / "c.sqlite"), *limits) as server, httpx.Client(base_url=server.url, timeout=LIMIT) as web:
        assert web.post("/v1/track", json={"turns": turns}).status_code == 422
        refused = web.post("/v1/track", json={"turns": [{"user": "x"}]})
        assert 9_000 < int(refused.headers["retry-after"]) <= 10_000


def test_bytes_are_counted_as_they_are_written(database: str) -> None:
    store = Store(database)
    record = store.create("a")
    before = usage(store, "a")
    assert before.conversations == 1
    say(store, record, "hotel name the acorn")
    say(store, record, f"hotel name {'x' * 400}")
    assert usage(store, "a").stored_bytes > before.stored_bytes + 400
    assert usage(store, "b") == Usage(0, 0)
    store.erase("a", record.id)
    assert usage(store, "a") == Usage(0, 0)
    store.close()


def test_keys_and_schemas_are_counted(database: str) -> None:
    clock = Clock()
    store = Store(database, clock=clock)
    schema = Schema.from_json({"domains": {"hotel": {"area": {}, "name": {}}}})
    record = store.create("a", schema=schema, key=Key("k", "f"))
    snapshot = record.snapshot
    for number in range(3):
        result = edits.correct(snapshot, {"hotel-name": f"place {number}"})
        snapshot = store.append(Write("a", record.id, result, Key(f"k{number}", "f") if number else None))
    with store.database.read() as connection:
        keys = connection.execute(select(func.sum(func.length(idempotency_keys.c.snapshot)))).scalar_one()
        log = connection.execute(select(func.sum(func.length(entries.c.entry)))).scalar_one()
    plain = len(dump(record.snapshot)) + log + len(json.dumps(schema.to_json()))
    assert usage(store, "a") == Usage(1, plain + keys)
    clock.now += KEY_LIFETIME.total_seconds() + 1
    store.expire()
    assert usage(store, "a") == Usage(1, plain), "its keys are forgotten"
    store.erase("a", record.id)
    assert usage(store, "a") == Usage(0, len(json.dumps(schema.to_json())))
    store.schemas.delete("a", schema.id)
    assert usage(store, "a") == Usage(0, 0)
    store.close()


def test_two_that_count_at_once_count_once() -> None:
    async def main() -> None:
        shelf = Shelf()
        meter = Meter(Limits(conversations=2), shelf, clock=Clock())
        stores = [meter.store("a", size=1, creates=True) for _ in range(3)]
        outcomes = await asyncio.gather(*stores, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [type(None), type(None), TooMuch]
        assert shelf.counted == 1

    asyncio.run(main())


def test_what_stores_nothing_is_not_limited_by_storage(tmp_path: Path) -> None:
    schema: dict[str, object] = {"domains": {"pizza": {"size": {}}}}
    with (
        Server(str(tmp_path / "c.sqlite"), "--max-bytes", "1") as server,
        httpx.Client(base_url=server.url, timeout=LIMIT) as web,
    ):
        assert web.post("/v1/conversations", json={"subject": "customer-17"}).status_code == 201
        assert web.post("/v1/schemas", json={"schema": schema}).status_code == 429
        assert web.post("/v1/schemas/check", json={"schema": schema}).status_code == 200
        assert web.post("/v1/track", json={"turns": [{"user": "x"}]}).status_code == 200
        assert web.post("/v1/replays", json={"model": "other"}).status_code == 422, "there is none"


def test_over_http(tmp_path: Path) -> None:
    limits = ("--turns-per-second", "0.0001", "--max-conversations", "2")
    with Server(str(tmp_path / "c.sqlite"), *limits) as server, httpx.Client(base_url=server.url, timeout=LIMIT) as web:
        ids = [web.post("/v1/conversations").json()["id"] for _ in range(2)]
        full = web.post("/v1/conversations")
        assert (full.status_code, full.headers["retry-after"]) == (429, "60")
        path = f"/v1/conversations/{ids[0]}"
        assert web.post(f"{path}/turns", json={"user": "hotel area north"}).status_code == 200
        for body in ({"user": "hotel area south"}, {"nonsense": 1}):
            refused = web.post(f"{path}/turns", json=body)
            assert refused.status_code == 429 and 9_000 < int(refused.headers["retry-after"]) <= 10_000
        assert web.post("/v1/track", json={"turns": [{"user": "x"}]}).status_code == 429
        assert web.get(path).json()["version"] == 1, "reading is not limited, and nothing was written"
        assert web.delete(path).status_code == 204, "nor is erasing"


@pytest.mark.parametrize(
    "limits",
    [("--max-conversations", "1"), ("--max-bytes", "1"), ("--turns-per-second", "0.0001")],
    ids=lambda one: one[0],
)
def test_what_was_done_is_answered_again_over_the_limits(tmp_path: Path, limits: tuple[str, str]) -> None:
    """A client that lost an answer gets it by its key, though that very request used up what it may do or store."""
    with Server(str(tmp_path / "c.sqlite"), *limits) as server, httpx.Client(base_url=server.url, timeout=LIMIT) as web:

        def post(path: str, key: str, **body: str) -> httpx.Response:
            return web.post(path, json=body, headers={"idempotency-key": key})

        path, body, other = "/v1/conversations", {"subject": "customer-16"}, {"subject": "customer-17"}
        made = post(path, "first", **body)
        if limits[0] == "--turns-per-second":
            path, body, other = f"{path}/{made.json()['id']}/turns", {"user": "hotel area north"}, {"user": "no"}
            made = post(path, "second", **body)
        key = made.request.headers["idempotency-key"]
        again = post(path, key, **body)
        assert (again.status_code, again.json()) == (made.status_code, made.json())
        reused = post(path, key, **other)
        assert reused.status_code == 422 and "used before for another request" in reused.json()["error"]
        assert post(path, "new", **body).status_code == 429, "one that was not done"
        assert web.post(path, json=body).status_code == 429, "one without a key"
        assert len(web.get("/v1/conversations").json()["conversations"]) == 1


def test_without_limits_nothing_is_counted(tmp_path: Path) -> None:
    with Server(str(tmp_path / "c.sqlite")) as server, Client(server.url, retries=0) as client:
        conversation = client.start()
        for number in range(20):
            conversation.update(f"hotel name place {number}")
        assert conversation.read().version == 20
    assert not Limits() and Limits(conversations=1)


# Keys


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "keys.txt"
    path.write_text("# made by hand\nacme:0123456789abcdef\n")
    yield path


def test_a_stolen_key_file_opens_nothing(file: Path) -> None:
    key = add_key(file, "zoo")
    assert key not in file.read_text()
    assert "zoo:sha256:" in file.read_text()
    keys = load_keys(file, {})
    assert keys is not None
    assert (keys.tenant(key), keys.tenant("0123456789abcdef")) == ("zoo", "acme")
    digest = file.read_text().rpartition("sha256:")[2].strip()
    assert keys.tenant(digest) is keys.tenant(f"sha256:{digest}") is None


def test_keys_come_and_go_without_a_restart(file: Path, tmp_path: Path) -> None:
    database = str(tmp_path / "c.sqlite")
    with Server(database, "--keys", str(file)) as server:

        def status(key: str) -> int:
            return httpx.get(
                f"{server.url}/v1/schema", headers={"authorization": f"Bearer {key}"}, timeout=LIMIT
            ).status_code

        old, new = "0123456789abcdef", add_key(file, "acme")
        assert (status(old), status(new)) == (200, 200)
        remove_key(file, list_keys(file)[0].id)
        assert (status(old), status(new)) == (401, 200)
        file.write_text("nonsense\n")  # a mistake locks nobody out
        assert (status(old), status(new)) == (401, 200)
        file.unlink()
        assert status(new) == 200
    store = Store(database)
    done = [(action.tenant, action.action) for action in read_actions(store.database)]
    assert done == [("acme", "key added"), ("acme", "key added"), ("acme", "key removed")]
    assert not any(key in str(list(read_actions(store.database))) for key in (old, new))
    store.close()


def test_every_key_is_compared(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after one fits, and whole: how long it takes says nothing."""
    compared: list[tuple[int, int]] = []

    def compare(one: bytes, two: bytes) -> bool:
        compared.append((len(one), len(two)))
        return one == two

    add_key(file, "zoo")
    keys = load_keys(file, {})
    assert keys is not None
    monkeypatch.setattr("somdst.service.api_keys.hmac.compare_digest", compare)
    assert keys.tenant("0123456789abcdef") == "acme"
    assert keys.tenant("0") is None
    assert compared == [(32, 32)] * 4


def test_the_file_keeps_its_comments_and_its_last_key(file: Path) -> None:
    key = add_key(file, "zoo")
    first, second = list_keys(file)
    assert remove_key(file, first.id).tenant == "acme"
    assert file.read_text().startswith("# made by hand\nzoo:sha256:")
    with pytest.raises(InputError, match="the last one"):
        remove_key(file, second.id)
    with pytest.raises(InputError, match="There is no key"):
        remove_key(file, "0" * 12)
    for tenant in ("a b", "a:b", "a\nb:c", ""):
        with pytest.raises(InputError, match="A tenant is 1 to 100 letters"):
            add_key(file, tenant)
    assert len(key) == 32
    file.write_text("zoo:sha256:1234\n")
    with pytest.raises(InputError, match="64 hexadecimal digits"):
        load_keys(file, {})


def test_the_command(file: Path) -> None:
    def somdst(*arguments: str | Path) -> str:
        command = [sys.executable, "-m", "somdst", "keys", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    key = somdst("add", file, "zoo").strip()
    keys = load_keys(file, {})
    assert keys is not None and keys.tenant(key) == "zoo"
    lines = somdst("list", file).splitlines()
    assert [line.split()[1] for line in lines] == ["acme", "zoo"]
    assert somdst("remove", file, lines[0].split()[0]) == "removed a key of acme\n"


# Actions


def test_every_erasure_is_noted_without_what_was_erased(database: str) -> None:
    clock = Clock()
    store = Store(database, clock=clock, retention=timedelta(hours=1))
    one, *_ = (store.create("a", subject="mrs-smith") for _ in range(3))
    store.create("b", subject="mr-jones")
    store.erase("a", one.id)
    clock.now += 1
    store.erase_subject("a", "mrs-smith")
    store.erase_subject("a", "mrs-smith")  # nothing was erased, and nothing is noted
    clock.now += 4000
    store.expire()
    assert list(read_actions(store.database)) == [
        Action(1_000_000.0, "a", "conversation erased", one.id),
        Action(1_000_001.0, "a", "subject erased", "2 conversations"),
        Action(1_004_001.0, "", "expired", "1 conversations"),
    ]
    store.close()


def test_an_erasure_that_fails_is_not_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(str(tmp_path / "c.sqlite"))
    record = store.create("a")
    monkeypatch.setattr("somdst.store.conversations.record_action", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        store.erase("a", record.id)
    assert store.read("a", record.id) and not list(read_actions(store.database))
    store.close()


def test_keys_are_noted_once(database: str) -> None:
    store = Store(database)
    for now, keys in enumerate([{"k1": "a"}, {"k1": "a"}, {"k1": "a", "k2": "b"}, {"k2": "b"}, {"k1": "a", "k2": "b"}]):
        record_keys(store.database, keys, float(now))
    done = [(action.at, action.action, action.detail) for action in read_actions(store.database)]
    added, removed = "key added", "key removed"
    assert done == [(0.0, added, "k1"), (2.0, added, "k2"), (3.0, removed, "k1"), (4.0, added, "k1")]
    store.close()


def test_the_list_of_actions(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    store = Store(str(path), clock=Clock())
    store.erase("a", id := store.create("a").id)
    store.close()
    command = [sys.executable, "-m", "somdst", "store", "actions", "--database", str(path)]
    line = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert line == f"1970-01-12T13:46:40+00:00  a  conversation erased  {id}\n"
    [action] = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True).stdout)["actions"]
    assert action["tenant"] == "a"


def test_a_full_store_is_one_sentence(tmp_path: Path) -> None:
    limits = ("--max-bytes", "40")
    with Server(str(tmp_path / "c.sqlite"), *limits) as server, Client(server.url, retries=0) as client:
        conversation = client.start()
        conversation.update("hotel area north")  # there was room when it came
        with pytest.raises(ServiceError, match="bytes and may store 40: erase conversations first") as refused:
            conversation.update("hotel area south")
        assert refused.value.status == 429
