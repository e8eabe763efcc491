"""The store, on SQLite and on a real PostgreSQL: versions, keys, the past, erasure, expiry, checking, exporting."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from postgres import PostgresServer
from scripted import RulePredictor
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import IntegrityError

from somdst.errors import Conflict, KeyReused, NotFound, StateError, StoreError, Unavailable
from somdst.memory.dialogue import Turn
from somdst.memory.schema import Schema, Slot
from somdst.memory.state import State
from somdst.store import Damage, Key, Record, Repeated, Store, Write, export, verify
from somdst.tracking import audit, edits
from somdst.tracking.log import EMPTY, Result
from somdst.tracking.records import WINDOW, Entry, RecentTurn, Snapshot
from somdst.tracking.tracker import Tracker

TRACKER = Tracker(RulePredictor(), threshold=0.5)
SECRET = "the secret of the sea"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    store = Store(database, clock=Clock())
    yield store
    store.close()


def say(store: Store, record: Record, user: str, *, key: Key | None = None) -> Snapshot:
    before = store.read(record.tenant, record.id).snapshot
    return store.append(Write(record.tenant, record.id, TRACKER.step(before, Turn("", user)), key))


def correct(snapshot: Snapshot, value: str | None = "north") -> Result:
    return edits.correct(snapshot, {"hotel-area": value})


def test_a_conversation_is_its_log(store: Store) -> None:
    record = store.create("a", subject="s")
    say(store, record, "hotel area north, maybe hotel stars 4")
    snapshot = say(store, record, "no hotel area and hotel type guest house")
    read = store.read("a", record.id)
    assert read.snapshot == snapshot
    assert read.snapshot.state == State({"hotel-type": "guest house"})
    assert read.subject == "s"
    assert store.at("a", record.id, 0) == EMPTY
    assert store.at("a", record.id, 1).state == State({"hotel-area": "north"})
    assert store.at("a", record.id, 1).pending.keys() == {"hotel-stars"}
    assert [entry.kind for entry in store.log("a", record.id)] == ["turn", "turn"]
    with pytest.raises(NotFound, match="versions 0 to 2, not 3"):
        store.at("a", record.id, 3)
    assert list(verify(store)) == [None]


def test_undo_is_an_entry(store: Store) -> None:
    record = store.create("a")
    entry_at = partial(store.entry, "a", record.id)
    after_one = say(store, record, "hotel area north")
    undone = store.append(Write("a", record.id, edits.undo(after_one, entry_at)))
    assert undone.state == State()
    assert undone.version == 2
    redone = store.append(Write("a", record.id, edits.redo(undone, entry_at)))
    assert (redone.state, redone.recent) == (after_one.state, after_one.recent)
    assert [entry.kind for entry in store.log("a", record.id)] == ["turn", "undo", "redo"]
    assert list(verify(store)) == [None]


def test_a_write_from_an_old_version_is_refused(store: Store) -> None:
    record = store.create("a")
    write = Write("a", record.id, correct(EMPTY))
    store.append(write)
    with pytest.raises(Conflict, match="at version 1 and the change was made from version 0") as refused:
        store.append(write)
    assert refused.value.version == 1
    assert store.read("a", record.id).version == 1


def test_an_entry_that_does_not_fit_never_reaches_the_database(store: Store) -> None:
    record = store.create("a")
    misfit = correct(store.append(Write("a", record.id, correct(EMPTY))), None)
    with pytest.raises(StateError, match="does not fit"):
        Write("a", record.id, Result.of(EMPTY, misfit.entry))


def test_one_refusal_stops_no_other_write(store: Store) -> None:
    one, two = store.create("a"), store.create("a")
    good = Write("a", one.id, correct(EMPTY))
    outcomes = store.append_many([good, good, Write("a", "f" * 32, correct(EMPTY)), Write("b", two.id, correct(EMPTY))])
    assert [type(outcome) for outcome in outcomes] == [Snapshot, Conflict, NotFound, NotFound]
    assert store.read("a", one.id).version == 1
    assert store.read("a", two.id).version == 0


def test_a_key_is_done_once(store: Store) -> None:
    one, two = store.create("a"), store.create("a")
    key = Key("k", "request one")
    done = correct(EMPTY)
    first = store.append(Write("a", one.id, done, key))
    again = Write("a", one.id, correct(first, "south"), key)
    assert store.append(again) == first
    repeated = Repeated(one.id, first, done.entry)
    assert store.append_many([again]) == [repeated]
    assert store.find_keys([("a", key), ("a", Key("other", "x")), ("b", key)]) == [repeated, None, None]
    store.append(Write("a", one.id, correct(first, "south")))
    assert store.append(again) == first, "answered as it was then"
    reused = store.append_many([Write("a", two.id, correct(EMPTY), Key("k", "request two"))])[0]
    assert isinstance(reused, KeyReused)
    assert store.read("a", two.id).version == 0
    assert store.read("a", one.id).version == 2


def test_a_key_of_another_request_stores_no_schema(store: Store) -> None:
    store.create("a", key=Key("k", "one"))
    with pytest.raises(KeyReused):
        store.create("a", key=Key("k", "another"), schema=Schema([Slot.of("pizza", "size")]))
    assert len(store.page("a").records) == 1 and not store.schemas.page("a")[0]


def test_two_writes_of_one_batch_with_the_same_key(store: Store) -> None:
    one, two = store.create("a"), store.create("a")
    writes = [Write("a", record.id, correct(EMPTY), Key("k", "f")) for record in (one, two)]
    assert [type(outcome) for outcome in store.append_many(writes)] == [Snapshot, Repeated]
    assert store.read("a", two.id).version == 0


def test_what_follows_a_repeated_write_is_not_done(store: Store) -> None:
    one, two = store.create("a"), store.create("a")
    key = Key("k", "f")
    done = store.append(Write("a", one.id, correct(EMPTY), key))
    again = correct(EMPTY)
    chain = [Write("a", two.id, again, key), Write("a", two.id, correct(again.snapshot, "south"))]
    repeated, refused = store.append_many(chain)
    assert isinstance(repeated, Repeated) and repeated.snapshot == done
    assert isinstance(refused, Conflict) and "has moved on" in str(refused)
    assert store.append_many([Write("a", two.id, again), chain[1]]) == [again.snapshot, chain[1].result.snapshot]
    assert list(verify(store)) == [None, None]


def test_a_key_survives_a_restart(database: str) -> None:
    key, clock = Key("k", "f"), Clock()
    first = Store(database, retention=timedelta(hours=1), clock=clock)
    record = first.create("a", subject="s", key=key)
    clock.now += 60
    say(first, record, "hotel area north")
    first.close()
    second = Store(database, retention=timedelta(hours=2), clock=clock)
    assert second.create("a", key=key) == record, "as it was answered then, not as it is now"
    assert second.create("b", key=key).id != record.id
    with pytest.raises(KeyReused):
        second.create("a", key=Key("k", "g"))
    assert len(second.page("a").records) == 1
    second.close()


def test_another_tenants_conversation_does_not_exist(store: Store) -> None:
    record = store.create("a", subject="s")
    for attempt in (
        lambda: store.read("b", record.id),
        lambda: store.log("b", record.id),
        lambda: store.at("b", record.id, 0),
        lambda: store.entry("b", record.id, 1),
        lambda: store.erase("b", record.id),
    ):
        with pytest.raises(NotFound, match="There is no conversation"):
            attempt()
    assert store.erase_subject("b", "s") == 0
    assert store.page("b").records == ()
    assert store.read("a", record.id)


def test_pages_have_every_conversation_once(store: Store) -> None:
    ids = []
    for number in range(7):
        store.clock.now += number // 2  # type: ignore[attr-defined]  # some were made at the same moment
        ids.append(store.create("a", subject="odd" if number % 2 else None).id)
    found, after, sizes = [], None, []
    while True:
        page = store.page("a", limit=3, after=after)
        found += [record.id for record in page.records]
        sizes.append(len(page.records))
        if (after := page.next) is None:
            break
    assert sorted(found) == sorted(ids)
    assert sizes == [3, 3, 1]
    assert len(store.page("a", subject="odd").records) == 3


def test_erased_means_gone(store: Store, tmp_path: Path) -> None:
    one, two = store.create("a", subject="s"), store.create("a", subject="s")
    other = store.create("a", subject="t")
    for record in (one, two, other):
        for _ in range(20):
            say(store, record, f"hotel name {SECRET if record != other else 'ashley'}", key=Key(f"{record.id}{_}", "f"))
    store.erase("a", one.id)
    with pytest.raises(NotFound):
        store.erase("a", one.id)
    assert store.erase_subject("a", "s") == 1
    assert [record.id for record in store.page("a").records] == [other.id]
    with store.database.read() as connection:
        for table in ("entries", "idempotency_keys"):
            left = connection.execute(text(f"SELECT DISTINCT conversation FROM {table}")).scalars().all()
            assert left == [other.id]
    if store.database.sqlite:
        for path in tmp_path.iterdir():
            assert SECRET.encode() not in path.read_bytes(), path
            assert path.stat().st_size == 0 or path.suffix != ".sqlite-wal"
        assert b"ashley" in (tmp_path / "conversations.sqlite").read_bytes()


def test_keys_of_writes_that_are_left_out_are_free(store: Store) -> None:
    one, two = store.create("a"), store.create("a")
    key, other = Key("k", "f"), Key("other", "g")
    store.append(Write("a", one.id, correct(EMPTY), key))
    again = correct(EMPTY)
    follows = Write("a", two.id, correct(again.snapshot, "south"), other)
    _, refused = store.append_many([Write("a", two.id, again, key), follows])
    assert isinstance(refused, Conflict)
    store.append(Write("a", two.id, again))
    assert store.append_many([follows]) == [follows.result.snapshot], "its key was not used up"


def test_what_another_process_erased_is_scrubbed_later(tmp_path: Path) -> None:
    path = tmp_path / "conversations.sqlite"
    service, command = Store(str(path)), Store(str(path))
    record = service.create("a")
    say(service, record, f"hotel name {SECRET}")
    service.expire()
    with service.database.read() as connection:
        connection.execute(text("SELECT count(*) FROM entries"))
        command.erase("a", record.id)
        assert SECRET.encode() in path.read_bytes()  # else this tests nothing
    service.expire()
    assert not any(SECRET.encode() in file.read_bytes() for file in tmp_path.iterdir())
    for store in (service, command):
        store.close()


def test_a_postgresql_database_of_another_application(postgres: PostgresServer) -> None:
    for table in ("migrations (id INTEGER, batch INTEGER)", "conversations (id INTEGER)"):
        url = postgres.new_database()
        with closing(create_engine(url.replace("postgresql:", "postgresql+psycopg:")).connect()) as connection:
            connection.execute(text(f"CREATE TABLE {table}"))
            connection.commit()
        with closing(Store(url)) as store, pytest.raises(StoreError, match="This is not a somdst database"):
            store.ping()


def test_a_postgresql_database_that_is_not_there(postgres: PostgresServer) -> None:
    refused = pytest.raises(StoreError, match="check user, password and database in its URL")
    url = make_url(postgres.new_database()).set(database="other")
    with closing(Store(url.render_as_string(hide_password=False))) as store, refused:
        store.ping()


def test_what_a_reader_kept_is_scrubbed_later(tmp_path: Path) -> None:
    path = tmp_path / "conversations.sqlite"
    store = Store(str(path))
    record = store.create("a")
    say(store, record, f"hotel name {SECRET}")
    with store.database.read() as connection:
        connection.execute(text("SELECT count(*) FROM entries"))
        store.erase("a", record.id)
        assert SECRET.encode() in Path(f"{path}-wal").read_bytes()  # else this tests nothing
    store.expire()
    assert not any(SECRET.encode() in file.read_bytes() for file in tmp_path.iterdir())
    store.close()


def test_the_write_ahead_file_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that stays keeps it from being merged, and writes go on; the first writer after that merges it."""
    monkeypatch.setattr("somdst.store.database.WAL_LIMIT", limit := 200_000)
    monkeypatch.setattr("somdst.store.database.MERGE_SECONDS", 0.01)
    path = tmp_path / "conversations.sqlite"
    store, other = Store(str(path)), Store(str(path))
    record = store.create("a")
    wal = Path(f"{path}-wal")
    with other.database.read() as connection:
        connection.execute(text("SELECT count(*) FROM entries"))
        while wal.stat().st_size < 2 * limit:
            say(store, record, "hotel area north " + "please " * 500)
    largest = wal.stat().st_size
    while wal.stat().st_size >= largest:
        say(store, record, "hotel stars 4 " + "please " * 500)
        assert wal.stat().st_size < 5 * limit
    assert wal.stat().st_size < limit
    assert list(verify(store)) == [None]
    store.close()
    other.close()


def test_what_a_full_disk_kept_is_scrubbed_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "conversations.sqlite"
    store = Store(str(path))
    record = store.create("a")
    say(store, record, f"hotel name {SECRET}")
    scrub = store.database.scrub

    def full() -> bool:
        raise Unavailable("The database has no space left: free some, then try again.")

    monkeypatch.setattr(store.database, "scrub", full)
    store.erase("a", record.id)  # it is erased, and the answer says so
    with pytest.raises(NotFound):
        store.read("a", record.id)
    assert SECRET.encode() in Path(f"{path}-wal").read_bytes()  # else this tests nothing
    with pytest.raises(Unavailable):
        store.expire()
    monkeypatch.setattr(store.database, "scrub", scrub)
    store.expire()
    assert not any(SECRET.encode() in file.read_bytes() for file in tmp_path.iterdir())
    store.close()


def test_expiry(database: str) -> None:
    clock = Clock()
    store = Store(database, retention=timedelta(hours=1), clock=clock)
    old, used = store.create("a"), store.create("a", key=Key("k", "f"))
    clock.now += 3000
    say(store, used, "hotel area north")  # using it starts the hour again
    assert store.expire() == 0
    clock.now += 1000
    with pytest.raises(NotFound):
        store.read("a", old.id)
    refused = store.append_many([Write("a", old.id, correct(EMPTY))])[0]
    assert isinstance(refused, NotFound)
    assert store.expire() == 1
    assert [record.id for record in store.page("a").records] == [used.id]
    assert [dialogue.id for dialogue in export(store, every=True)] == [used.id]
    clock.now += 8 * 24 * 3600
    assert list(export(store, every=True)) == []  # gone for everybody, though not erased yet
    assert store.expire() == 1
    with store.database.read() as connection:
        for table in ("conversations", "entries", "idempotency_keys"):
            assert connection.execute(text(f"SELECT count(*) FROM {table}")).scalar() == 0
    store.close()


def test_old_keys_are_forgotten(store: Store) -> None:
    record = store.create("a", key=Key("k", "f"))
    store.clock.now += 8 * 24 * 3600  # type: ignore[attr-defined]
    store.expire()
    assert store.create("a", key=Key("k", "f")).id != record.id


def test_verify_finds_damage(store: Store) -> None:
    fine, gap, lie, broken = (store.create("a") for _ in range(4))
    for record in (fine, gap, lie, broken):
        say(store, record, "hotel area north")
        say(store, record, "hotel area south")
    with store.database.write() as connection:
        connection.execute(text("DELETE FROM entries WHERE conversation = :id AND version = 1"), {"id": gap.id})
        snapshot = "UPDATE conversations SET snapshot = replace(snapshot, 'south', 'west') WHERE id = :id"
        connection.execute(text(snapshot), {"id": lie.id})
        entry = "UPDATE entries SET entry = replace(entry, 'north', 'east') WHERE conversation = :id AND version = 2"
        connection.execute(text(entry), {"id": broken.id})
    found = {damage.conversation: damage.problem for damage in verify(store) if damage}
    assert found.keys() == {gap.id, lie.id, broken.id}
    assert "entries 2 to 2" in found[gap.id]
    assert "does not replay" in found[lie.id]
    assert "cannot be replayed" in found[broken.id]


def test_a_damaged_conversation_stops_no_other(store: Store) -> None:
    fine, cut = store.create("a"), store.create("b")
    with store.database.write() as connection:
        connection.execute(text("UPDATE conversations SET snapshot = '{\"state\":' WHERE id = :id"), {"id": cut.id})
    found, damaged = store.read_many([("a", fine.id), ("b", cut.id)])
    assert isinstance(found, Record) and found.id == fine.id
    assert isinstance(damaged, StoreError) and f"The stored conversation {cut.id} is damaged" in str(damaged)


def test_what_is_damaged_is_named_and_leaves_the_rest_readable(store: Store) -> None:
    fine, cut = store.create("a"), store.create("a")
    say(store, fine, "hotel area north")
    say(store, cut, "hotel area south")
    with store.database.write() as connection:
        connection.execute(text("UPDATE conversations SET snapshot = '{' WHERE id = :id"), {"id": cut.id})
        connection.execute(text("UPDATE entries SET entry = '{' WHERE conversation = :id"), {"id": cut.id})
    assert [record.id for record in store.page("a").records] == [fine.id]
    damaged = f"The stored conversation {cut.id} is damaged"
    for read in (store.log, store.log_part, partial(store.at, version=1), partial(store.entry, version=1)):
        with pytest.raises(StoreError, match=damaged):
            read("a", cut.id)


@pytest.mark.parametrize(
    "damage", ["DELETE FROM entries WHERE version = 1 AND", "UPDATE entries SET entry = '{' WHERE"]
)
def test_an_export_leaves_out_and_names_what_is_damaged(store: Store, damage: str) -> None:
    cut, fine = store.create("a"), store.create("a")
    for words in ("hotel area north", "hotel area south"):
        say(store, cut, words)
        say(store, fine, words)
    with store.database.write() as connection:
        connection.execute(text(f"{damage} conversation = :id"), {"id": cut.id})
    with pytest.raises(StoreError, match=f"The conversation {cut.id} cannot be exported"):
        list(export(store, every=True))
    damages: list[Damage] = []
    assert [dialogue.id for dialogue in export(store, every=True, damaged=damages.append)] == [fine.id]
    assert [damage.conversation for damage in damages] == [cut.id]


def test_bugs_are_not_called_an_outage(store: Store) -> None:
    with pytest.raises(IntegrityError), store.database.write() as connection:
        connection.execute(text("INSERT INTO entries (conversation) VALUES ('nobody')"))


def test_a_user_without_rights_gets_a_sentence(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    with closing(Store(url)) as store, store.database.write() as connection:
        connection.execute(text("CREATE ROLE guest LOGIN"))
    weak = Store(url.replace("postgres@", "guest@"), upgrade=False)
    with closing(weak), pytest.raises(StoreError, match="refuses this user"):
        weak.read("a", "1" * 32)
    with closing(Store(url)) as store, store.database.write() as connection:
        connection.execute(text("DROP ROLE guest"))


def test_verify_finds_a_wrong_pointer(store: Store) -> None:
    record = store.create("a")
    for number in range(WINDOW + 1):
        say(store, record, f"hotel name place {number}")
    before = store.read("a", record.id).snapshot
    undone = edits.undo(before, partial(store.entry, "a", record.id))
    assert undone.entry.returned == RecentTurn(1, Turn("", "hotel name place 0"))
    wrong = replace(undone.entry, returned=RecentTurn(1, Turn("", "something else")))
    store.append(Write("a", record.id, Result.of(before, wrong)))
    [damage] = verify(store)
    assert damage is not None and "brought back another turn" in damage.problem


def test_export_gives_corrected_dialogues(store: Store) -> None:
    untouched, corrected = store.create("a"), store.create("a")
    say(store, untouched, "hotel area north")
    before = say(store, corrected, "hotel area north")
    store.append(Write("a", corrected.id, correct(before, "east")))
    say(store, corrected, "hotel stars 4")
    [dialogue] = export(store, tenant="a")
    assert dialogue.id == corrected.id
    assert dialogue.states() == [
        State({"hotel-area": "east"}),
        State({"hotel-area": "east", "hotel-stars": "4"}),
    ]
    assert len(list(export(store, every=True))) == 2
    assert list(export(store, tenant="b", every=True)) == []


@pytest.mark.parametrize("words", ["'; DROP TABLE entries; --", "\x00\x01", "😀 عربى", "%s {0} \\ \"'", "<script>"])
def test_any_text_comes_back(store: Store, words: str) -> None:
    record = store.create("a")
    before = store.read("a", record.id).snapshot
    entry = TRACKER.step(before, Turn(words, words + "x")).entry
    named = edits.correct(before, {"hotel-name": words})
    after = store.append(Write("a", record.id, named))
    assert after.state["hotel-name"] == words
    store.append(Write("a", record.id, TRACKER.step(after, Turn(words, words + "x"))))
    read = store.read("a", record.id).snapshot
    assert read.recent[0].turn == entry.turn
    assert read.state["hotel-name"] == words


def test_many_writers_lose_nothing(database: str) -> None:
    """Each of several stores, as if in as many processes, adds to the same conversations until it has added enough."""
    first = Store(database)
    ids = [first.create("a").id for _ in range(3)]
    stores = [Store(database) for _ in range(4)]
    gate = threading.Barrier(len(stores))

    def add(store: Store, who: int) -> None:
        gate.wait()
        for number in range(10):
            waiting = set(ids)
            while waiting:
                records = [store.read("a", id) for id in waiting]
                writes = [Write("a", record.id, correct(record.snapshot, f"{who}/{number}")) for record in records]
                for write, outcome in zip(writes, store.append_many(writes), strict=True):
                    if isinstance(outcome, Snapshot):
                        waiting.discard(write.conversation)
                    else:
                        assert isinstance(outcome, Conflict), outcome

    with ThreadPoolExecutor(len(stores)) as threads:
        list(threads.map(add, stores, range(len(stores))))
    for id in ids:
        values = [entry.changes[0].after for entry in first.log("a", id)]
        assert sorted(map(str, values)) == sorted(f"{who}/{n}" for who in range(len(stores)) for n in range(10))
    assert not any(verify(first))
    for store in (first, *stores):
        store.close()


def test_one_key_in_many_processes_is_done_once(database: str) -> None:
    stores = [Store(database) for _ in range(4)]
    stores[0].ping()
    gate = threading.Barrier(len(stores))

    def create(store: Store) -> str:
        gate.wait()
        while True:
            try:
                return store.create("a", key=Key("k", "f")).id
            except Conflict:
                continue

    with ThreadPoolExecutor(len(stores)) as threads:
        assert len(set(threads.map(create, stores))) == 1
    assert len(stores[0].page("a").records) == 1
    for store in stores:
        store.close()


ACTIONS = st.lists(
    st.sampled_from(["hotel area north", "maybe hotel stars 4", "no hotel area", "undo", "redo", "correct", "confirm"]),
    max_size=12,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=ACTIONS)
def test_whatever_happens_the_log_replays_to_the_snapshot(store: Store, actions: list[str]) -> None:
    record = store.create("hypothesis")
    kept: list[Entry] = []
    snapshot = EMPTY
    for action in actions:
        result = _act(action, snapshot, kept)
        if result is not None:
            snapshot = store.append(Write("hypothesis", record.id, result))
            kept.append(result.entry)
    assert store.log("hypothesis", record.id) == kept
    assert store.read("hypothesis", record.id).snapshot == snapshot
    assert audit.snapshots(kept)[-1] == snapshot
    store.erase("hypothesis", record.id)


def _act(action: str, snapshot: Snapshot, kept: list[Entry]) -> Result | None:
    if action == "undo":
        return edits.undo(snapshot, lambda number: kept[number - 1]) if snapshot.head else None
    if action == "redo":
        return edits.redo(snapshot, lambda number: kept[number - 1]) if snapshot.undone else None
    if action == "correct":
        return correct(snapshot, "east")
    if action == "confirm":
        return edits.confirm(snapshot, snapshot.pending) if snapshot.pending else None
    return TRACKER.step(snapshot, Turn("", action))


@pytest.mark.parametrize("url", ["mysql://x/y", "sqlite://", "sqlite:///:memory:", "://"])
def test_a_database_that_is_none(url: str) -> None:
    with pytest.raises(StoreError, match="must be"):
        Store(url)


def test_a_database_that_does_not_answer(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        Store(f"postgresql://postgres@/x?host={tmp_path}").ping()
