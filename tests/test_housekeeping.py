"""What a service does by itself: keys are noted when their file changes, once, and also after the database was away."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from services import Server
from test_service_threads import locked
from waiting import until

from somdst.service.api_keys import add_key, list_keys, load_keys, remove_key
from somdst.service.housekeeping import Housekeeping
from somdst.store import Action, Store, read_actions, record_keys


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys.txt"
    path.write_text("acme:0123456789abcdef\n")
    return path


def noted(store: Store) -> list[tuple[str, str]]:
    return [(action.tenant, action.action) for action in read_actions(store.database)]


def test_a_key_is_noted_though_nobody_asks_for_anything(file: Path, tmp_path: Path) -> None:
    database = str(tmp_path / "c.sqlite")
    store = Store(database)
    with Server(database, "--keys", str(file)):
        until(lambda: noted(store) == [("acme", "key added")])
        add_key(file, "zoo")
        until(lambda: noted(store)[1:] == [("zoo", "key added")])
    store.close()


def test_a_note_that_failed_is_made_later(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("somdst.store.database.BUSY_SECONDS", 0.01)
    monkeypatch.setattr("somdst.service.housekeeping.KEYS_INTERVAL", 0.01)
    events: list[str] = []
    monkeypatch.setattr("somdst.service.housekeeping.log", lambda event, **_: events.append(event))

    async def main() -> None:
        store, keys = Store(str(tmp_path / "c.sqlite")), load_keys(file, {})
        assert keys is not None
        store.ping()
        housekeeping = Housekeeping(store, keys)
        with locked(tmp_path / "c.sqlite"):
            housekeeping.start()
            add_key(file, "zoo")
            keys.refresh()
            remove_key(file, list_keys(file)[0].id)
            keys.refresh()
            while events.count("keys not noted") < 2:
                await asyncio.sleep(0.01)
            assert noted(store) == []
        while len(noted(store)) < 3:
            await asyncio.sleep(0.01)
        await housekeeping.stop()
        assert noted(store) == [("acme", "key added"), ("zoo", "key added"), ("acme", "key removed")]
        store.close()

    asyncio.run(main())


def test_expiry_goes_on_after_any_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("somdst.service.housekeeping.EXPIRY_INTERVAL", 0.01)
    said: list[object] = []
    monkeypatch.setattr("somdst.service.housekeeping.log", lambda event, **more: said.append((event, more["reason"])))

    async def main() -> None:
        store = Store(str(tmp_path / "c.sqlite"))
        monkeypatch.setattr(store, "expire", lambda: {}["private"])
        housekeeping = Housekeeping(store, None)
        housekeeping.start()
        while len(said) < 2:
            await asyncio.sleep(0.01)
        await housekeeping.stop()
        assert said[0] == ("expiry failed", "KeyError"), "the error's text may be private"
        store.close()

    asyncio.run(main())


def test_a_service_that_stops_notes_what_it_read(file: Path, tmp_path: Path) -> None:
    async def main() -> None:
        store, keys = Store(str(tmp_path / "c.sqlite")), load_keys(file, {})
        assert keys is not None
        housekeeping = Housekeeping(store, keys)
        housekeeping.start()
        add_key(file, "zoo")
        keys.refresh()
        await housekeeping.stop()
        assert noted(store) == [("acme", "key added"), ("zoo", "key added")]
        store.close()

    asyncio.run(main())


def test_replicas_that_read_a_key_at_once_note_it_once(database: str) -> None:
    stores = [Store(database) for _ in range(6)]
    stores[0].ping()
    barrier = threading.Barrier(len(stores))

    def note(store: Store) -> None:
        barrier.wait()
        record_keys(store.database, {"k1": "a", "k2": "a"}, 1.0)

    threads = [threading.Thread(target=note, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = sorted(read_actions(stores[0].database), key=lambda action: action.detail)
    assert done == [Action(1.0, "a", "key added", id) for id in ("k1", "k2")]
    for store in stores:
        store.close()
