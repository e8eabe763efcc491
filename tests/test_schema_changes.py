"""A conversation that gets another schema: in the log, in the store, and in batches with conversations of others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from scripted import AnyRules
from sqlalchemy import text
from test_service_core import Gated, queued

from somdst import Conversation, Schema, Slot, State, Tracker, Turn
from somdst.errors import Conflict, InputError, NotFound, StateError, StoreError
from somdst.memory.state import DONTCARE
from somdst.model.prediction import TurnInput
from somdst.service.configuration import Settings
from somdst.service.core import Service
from somdst.store import Key, Store, Write, export, verify
from somdst.store import schemas as stored
from somdst.store.database import Database
from somdst.store.migrations import migrate
from somdst.store.writes import dump
from somdst.tracking import edits
from somdst.tracking.audit import in_force, to_dialogue
from somdst.tracking.log import EMPTY, Result, append, replay
from somdst.tracking.records import Entry, Snapshot
from somdst.tracking.replays import rerun

PIZZA = Schema([Slot.of("pizza", "size", values=["small", "large"]), Slot.of("pizza", "topping")])
CAFE = Schema([Slot.of("pizza", "size", values=["small", "huge"]), Slot.of("coffee", "milk", values=["oat", "cow"])])


def log_of(*results: Result) -> list[Entry]:
    return [result.entry for result in results]


def entry_at(log: Sequence[Entry], number: int) -> Entry:
    return log[number - 1]


# The log


def test_what_stays_pending_is_asked_about_in_the_words_of_the_new_schema() -> None:
    conversation = Tracker(AnyRules(), schema=PIZZA, threshold=0.5).start()
    conversation.update("maybe pizza size Small, maybe pizza topping ham")
    before = conversation.snapshot.pending
    other = Schema(
        [
            Slot.of("pizza", "size", values=["small", "huge"], confirm="A {value} one?"),
            Slot.of("pizza", "topping", description="what is on it"),
        ]
    )
    changed = conversation.change_schema(other)
    assert {item.slot: item.question for item in changed.pending} == {
        "pizza-size": "A small one?",
        "pizza-topping": "Did you mean ham for the pizza topping?",
    }
    assert [item.slot for item in changed.entry.held] == ["pizza-size"], "the other question is the same"
    assert conversation.what_to_ask()[0].question == "A small one?"
    assert conversation.undo().snapshot.pending == before
    assert conversation.redo().snapshot.pending == changed.snapshot.pending


def test_a_slot_of_an_earlier_schema_still_has_its_history() -> None:
    conversation = Tracker(AnyRules(), schema=PIZZA, threshold=0.5).start()
    conversation.update("pizza size large")
    conversation.change_schema(Schema([Slot.of("coffee", "milk")]))
    assert [event.kind for event in conversation.history("pizza-size")] == ["turn", "schema"]
    assert conversation.history("coffee-milk") == ()
    with pytest.raises(InputError, match="There is no slot"):
        conversation.history("pizza-crust")


def test_a_change_of_schema_is_undone_and_redone_like_anything_else() -> None:
    tracker = Tracker(AnyRules(), schema=PIZZA, threshold=0.5)
    started = edits.start(PIZZA.id)
    told = tracker.step(started.snapshot, Turn("", "any pizza topping, pizza size large"))
    changed = edits.change_schema(told.snapshot, CAFE, id=CAFE.id)
    log = log_of(started, told, changed)
    assert changed.state == State() and {item.slot: item.after for item in changed.refused} == {
        "pizza-size": "large",
        "pizza-topping": DONTCARE,
    }
    undone = edits.undo(changed.snapshot, partial(entry_at, log))
    assert (undone.snapshot.schema, undone.state) == (PIZZA.id, told.state)
    log.append(undone.entry)
    redone = edits.redo(undone.snapshot, partial(entry_at, log))
    assert (redone.snapshot.schema, redone.state) == (CAFE.id, State())
    log.append(redone.entry)
    assert replay(log) == redone.snapshot and [entry.version for entry in in_force(log)] == [2, 3]
    assert replay(Entry.from_json(entry.to_json(defaults=False)) for entry in log) == redone.snapshot
    assert Snapshot.from_json(redone.snapshot.to_json(defaults=False)) == redone.snapshot


def test_the_start_cannot_be_undone_nor_come_later() -> None:
    started = edits.start(PIZZA.id)
    with pytest.raises(InputError, match="nothing to undo"):
        edits.undo(started.snapshot, partial(entry_at, log_of(started)))
    corrected = edits.correct(EMPTY, {"pizza-size": "large"})
    with pytest.raises(StateError, match="only the first entry can start"):
        append(corrected.snapshot, replace(started.entry, version=2, previous=1))


def test_an_entry_for_another_schema_does_not_fit() -> None:
    changed = edits.change_schema(edits.start(PIZZA.id).snapshot, CAFE, id=CAFE.id)
    with pytest.raises(StateError, match=f"schema should be {PIZZA.id} and is None"):
        append(edits.correct(EMPTY, {"pizza-size": "large"}).snapshot, replace(changed.entry, previous=1))


def test_what_an_export_says_of_it() -> None:
    tracker = Tracker(AnyRules(), schema=PIZZA)
    one = tracker.step(edits.start(PIZZA.id).snapshot, Turn("", "pizza size large, pizza topping ham"))
    two = edits.change_schema(one.snapshot, CAFE, id=CAFE.id)
    three = tracker.under(CAFE).step(two.snapshot, Turn("", "pizza size small"))
    dialogue = to_dialogue(log_of(edits.start(PIZZA.id), one, two, three), id="d", schema=CAFE)
    assert dialogue.states() == [State(), State({"pizza-size": "small"})], "the last schema holds for all of it"
    assert dialogue.schema == CAFE


def test_a_rerun_has_each_turn_under_its_schema() -> None:
    tracker = Tracker(AnyRules(), schema=PIZZA)
    one = tracker.step(edits.start(PIZZA.id).snapshot, Turn("", "pizza topping ham"))
    two = edits.change_schema(one.snapshot, CAFE, id=CAFE.id)
    three = tracker.under(CAFE).step(two.snapshot, Turn("", "pizza topping egg, coffee milk oat"))
    log = log_of(edits.start(PIZZA.id), one, two, three)
    assert rerun(Tracker(AnyRules()), {"c": log}, schemas={s.id: s for s in (PIZZA, CAFE)}) == {"c": []}


# A conversation in memory


def test_a_conversation_in_memory(tmp_path: Path) -> None:
    tracker = Tracker(AnyRules(), schema=PIZZA, threshold=0.5)
    conversation, other = tracker.start(), tracker.start()
    conversation.update("pizza size large, maybe pizza topping ham")
    result = conversation.change_schema(CAFE)
    assert {item.slot for item in result.refused} == {"pizza-size", "pizza-topping"} and result.state == State()
    assert [item.slot for item in conversation.what_to_ask("coffee-milk")] == ["coffee-milk"]
    turn = Turn("", "coffee milk oat, pizza topping egg")
    assert [r.state.to_json() for r in tracker.update_many([(conversation, turn), (other, turn)])] == [
        {"coffee-milk": "oat"},
        {"pizza-topping": "egg"},
    ]
    assert conversation.correct("coffee-milk", "cow").state["coffee-milk"] == "cow"
    with pytest.raises(InputError, match="no slot"):
        conversation.correct("pizza-topping", "egg")
    data = json.loads(json.dumps(conversation.to_json()))
    again = Conversation.from_json(data, tracker=tracker)
    assert again.snapshot == conversation.snapshot and again.now.schema == CAFE
    assert again.to_dialogue(id="d").schema == CAFE and "schemas" not in other.to_json()
    with pytest.raises(StateError, match="which is not under `schemas`"):
        Conversation.from_json({**data, "schemas": {}}, tracker=tracker)
    for _ in range(3):
        again.undo()
    assert (again.now, again.state) == (tracker, State({"pizza-size": "large"}))
    assert again.redo().snapshot.schema == CAFE.id
    assert again.change_schema(None).snapshot.schema is None


# The store


def test_schemas_live_as_long_as_they_are_used(database: str) -> None:
    now = [0.0]
    store = Store(database, retention=timedelta(seconds=10), clock=lambda: now[0])
    record = store.create("a", schema=PIZZA, key=Key("k", "f"))
    assert (record.version, record.snapshot.schema) == (1, PIZZA.id)
    assert store.create("a", schema=PIZZA, key=Key("k", "f")).id == record.id
    store.schemas.add("a", CAFE)
    snapshot = store.append(Write("a", record.id, edits.change_schema(record.snapshot, CAFE, id=CAFE.id)))
    assert store.read("a", record.id).snapshot == snapshot and list(verify(store)) == [None]
    spoken = Tracker(AnyRules(), schema=CAFE).step(snapshot, Turn("", "coffee milk oat"))
    store.append(Write("a", record.id, spoken))
    assert [dialogue.schema for dialogue in export(store, every=True)] == [CAFE]
    for schema in (PIZZA, CAFE):
        with pytest.raises(Conflict, match="is used by a conversation"):
            store.schemas.delete("a", schema.id)
    with pytest.raises(NotFound):
        store.schemas.delete("b", PIZZA.id)
    now[0] = 11.0
    store.expire()
    for schema in (PIZZA, CAFE):
        store.schemas.delete("a", schema.id)
        with pytest.raises(NotFound):
            store.schemas.read("a", schema.id)
    assert store.schemas.page("a") == ([], None)
    store.close()


def test_a_schema_that_is_deleted_meanwhile_stops_no_other_write(database: str) -> None:
    store = Store(database)
    first, second = store.create("a"), store.create("b")
    store.schemas.add("a", PIZZA)
    changed = edits.change_schema(EMPTY, PIZZA, id=PIZZA.id)
    said = edits.correct(EMPTY, {"pizza-size": "large"})
    store.schemas.delete("a", PIZZA.id)
    refused, done = store.append_many([Write("a", first.id, changed), Write("b", second.id, said)])
    assert isinstance(refused, NotFound) and PIZZA.id in str(refused)
    assert done == said.snapshot and store.read("a", first.id).version == 0
    store.close()


def test_a_tenant_has_a_bounded_number(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "MOST", 2)
    store = Store(database)
    for schema in (PIZZA, CAFE, PIZZA):
        store.schemas.add("a", schema)
    with pytest.raises(InputError, match="You have 2 schemas, which is the maximum"):
        store.create("a", schema=Schema([Slot.of("one", "more")]))
    assert store.page("a").records == (), "nothing was stored"
    store.schemas.add("b", Schema([Slot.of("one", "more")]))
    store.close()


def test_memory_of_schemas_is_bounded(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "CACHED", 500)
    store = Store(database)
    made = [Schema([Slot.of("d", f"slot {n}", description="x" * 50)]) for n in range(10)]
    for schema in made:
        store.schemas.add("a", schema)
        assert store.schemas.of_conversation("a", schema.id) == schema
        assert store.schemas._size <= 500
    assert store.schemas.in_memory("a", made[-1].id) == made[-1] and store.schemas.in_memory("a", made[0].id) is None
    assert store.schemas.in_memory("b", made[-1].id) is None
    with pytest.raises(StoreError, match="is missing"):
        store.schemas.of_conversation("a", "0" * 24)
    store.schemas.delete("a", made[-1].id)
    assert store.schemas.in_memory("a", made[-1].id) is None
    store.close()


def test_a_database_without_schemas_gets_them(database: str) -> None:
    """Layout 4: what was there before conversations could have schemas of their own."""
    old, id = Database(database), "1" * 32
    corrected = edits.correct(EMPTY, {"pizza-size": "large"})
    with old._writer() as connection, connection.begin():
        migrate(connection, upto=4)
        row = {"id": id, "snapshot": dump(corrected.snapshot), "entry": dump(corrected.entry)}
        columns = "id, tenant, created_at, updated_at, version, snapshot"
        connection.execute(text(f"INSERT INTO conversations ({columns}) VALUES (:id, 'a', 1, 1, 1, :snapshot)"), row)
        connection.execute(text("INSERT INTO entries VALUES (:id, 1, 'correction', 'person', :entry)"), row)
    old.close()
    store = Store(database)
    record = store.read("a", id)
    assert (record.snapshot.schema, record.snapshot.state) == (None, State({"pizza-size": "large"}))
    store.schemas.add("a", PIZZA)
    after = store.append(Write("a", id, edits.change_schema(record.snapshot, PIZZA, id=PIZZA.id)))
    assert after.state == State({"pizza-size": "large"}) and list(verify(store)) == [None]
    back = store.append(Write("a", id, edits.undo(after, partial(store.entry, "a", id))))
    assert back.schema is None
    assert [dialogue.id for dialogue in export(store, every=True)] == []
    store.close()


# Batches


class AnyGated(Gated):
    """Reads any schema; the first one of a tenant has to be compiled."""

    fixed_schema = False

    def __init__(self) -> None:
        super().__init__()
        self.schemas: list[set[str]] = []

    def predict(self, inputs: Sequence[TurnInput], **options: object):  # type: ignore[no-untyped-def, override]
        self.schemas.append({item.schema.id for item in inputs if item.schema})
        return super().predict(inputs)


def test_turns_of_different_schemas_share_a_model_run(tmp_path: Path) -> None:
    async def main() -> None:
        predictor = AnyGated()
        settings = Settings(database=str(tmp_path / "conversations.sqlite"))
        service = Service(settings, lambda name: Tracker(predictor, threshold=0.5))
        await service.models.load()
        await service.start()
        own = [Schema([Slot.of("d", f"slot {n}")]) for n in range(8)]
        ids = [service.store.create("a", schema=schema).id for schema in own] + [service.store.create("a").id]
        said = [f"d slot {n} yes" for n in range(8)] + ["hotel area north"]
        first = asyncio.create_task(service.add_turn("a", ids[0], Turn("", said[0])))
        await asyncio.to_thread(predictor.entered.acquire)
        others = [
            asyncio.create_task(service.add_turn("a", id, Turn("", words)))
            for id, words in zip(ids[1:], said[1:], strict=True)
        ]
        await queued(service, 8)
        predictor.gate.set()
        written = await asyncio.gather(first, *others)
        assert [len(batch) for batch in predictor.said] == [1, 8]
        assert predictor.schemas[1] == {schema.id for schema in own[1:]} | {Schema.multiwoz().id}
        states = [one.snapshot.state.to_json() for one in written]
        assert states == [{f"d-slot {n}": "yes"} for n in range(8)] + [{"hotel-area": "north"}]
        await service.stop()

    asyncio.run(main())
