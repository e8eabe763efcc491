"""The log: appending and replaying, undo as an entry, JSON both ways, what is refused, logs of version 0.1.0."""

from __future__ import annotations

import dataclasses
import gzip
import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import RulePredictor, ScriptedPredictor, update

from somdst.errors import InputError, StateError
from somdst.memory.dialogue import Turn
from somdst.memory.operations import Operation
from somdst.memory.schema import Schema
from somdst.memory.state import DONTCARE, State, Value
from somdst.model.prediction import Evidence, Prediction, Predictor, TurnInput
from somdst.tracking import audit, edits, records
from somdst.tracking.log import EMPTY, Result, append, leaving, replay
from somdst.tracking.old_logs import read_log
from somdst.tracking.records import WINDOW, Change, Entry, Pending, RecentTurn, Refused, Snapshot, adapter

AREA, STARS = "hotel-area", "hotel-stars"


def numbers(log: Log) -> list[int]:
    """The entries in force."""
    return [entry.version for entry in audit.in_force(log)]


class Log(list[Entry]):
    """A log that grows: every method gives a longer copy."""

    @property
    def snapshot(self) -> Snapshot:
        return replay(self)

    def say(self, user: str, *changes: Change, **parts: Any) -> Log:
        before = self.snapshot
        entry = replace(
            Entry.after(before, "turn", "model"),
            model="m",
            turn=Turn(system="", user=user),
            changes=changes,
            dropped=leaving(before),
            **parts,
        )
        return Log([*self, entry])

    def do(self, edit: Callable[..., Result], *arguments: Any, **options: Any) -> Log:
        return Log([*self, edit(self.snapshot, *arguments, **options).entry])

    def back(self) -> Log:
        return self.do(edits.undo, self.entry_at)

    def again(self) -> Log:
        return self.do(edits.redo, self.entry_at)

    def entry_at(self, number: int) -> Entry:
        return self[number - 1]


def write(slot: str, before: Value | None, after: Value | None) -> Change:
    operation = Operation.DELETE if after is None else Operation.DONTCARE if after is DONTCARE else Operation.UPDATE
    return Change(slot, operation, before, after, 0.9, Evidence("user", 3, 8, "north"))


def held(value: str, before: Value | None = None, *, turn_number: int = 1) -> Pending:
    question = f"Did you mean {value} for the hotel area?"
    return Pending.of(write(AREA, before, value), question=question, turn=turn_number)


def same(one: Snapshot, other: Snapshot) -> bool:
    """Equal in everything that the next turn can see, and in what the next undo takes back."""
    blank = {"version": 0, "undone": 0}
    return replace(one, **blank) == replace(other, **blank)  # type: ignore[arg-type]


def test_a_turn_changes_the_state_and_the_version() -> None:
    snapshot = Log().say("north please", write(AREA, None, "north")).snapshot
    assert snapshot.state == State({AREA: "north"})
    assert (snapshot.version, snapshot.turn_count, snapshot.head) == (1, 1, 1)
    assert snapshot.recent == (RecentTurn(1, Turn("", "north please")),)
    assert EMPTY.state == State(), "the snapshot before stays as it was"


def test_undo_and_redo_are_entries() -> None:
    log = Log().say("north", write(AREA, None, "north")).say("no, south", write(AREA, "north", "south"))
    before, after = replay(log[:1]), log.snapshot
    log = log.back()
    assert same(log.snapshot, before) and log.snapshot.version == 3
    log = log.again()
    assert same(log.snapshot, after) and log.snapshot.version == 4
    log = log.back().back()
    assert same(log.snapshot, EMPTY) and log.snapshot.version == 6
    with pytest.raises(InputError, match="nothing to undo"):
        log.back()
    assert same(log.again().again().snapshot, after)


def test_a_new_entry_ends_what_can_be_redone() -> None:
    log = Log().say("north", write(AREA, None, "north")).back().say("west", write(AREA, None, "west"))
    with pytest.raises(InputError, match="nothing to redo"):
        log.again()
    assert same(log.back().snapshot, EMPTY)


def test_every_version_can_be_read() -> None:
    log = Log().say("north", write(AREA, None, "north")).do(edits.correct, {STARS: "4"}).back()
    assert [s.state.to_json() for s in audit.snapshots(log)[1:]] == [
        {AREA: "north"},
        {AREA: "north", STARS: "4"},
        {AREA: "north"},
    ]
    assert audit.snapshots(log)[2] == replay(log[:2])


def test_correction_with_pin_and_their_undo() -> None:
    log = Log().say("north", write(AREA, None, "north")).do(edits.correct, {AREA: "south", STARS: None}, pin=True)
    assert log.snapshot.state == State({AREA: "south"}) and log.snapshot.pinned == {AREA, STARS}
    assert [c.operation for c in log[-1].changes] == [Operation.UPDATE, Operation.CARRYOVER]
    log = log.do(edits.unpin, [AREA])
    assert log.snapshot.pinned == {STARS}
    assert log.back().snapshot.pinned == {AREA, STARS}
    assert log.back().back().snapshot.pinned == frozenset()
    with pytest.raises(InputError, match="pinned already"):
        log.do(edits.pin, [STARS])
    with pytest.raises(InputError, match="nothing to unpin"):
        log.do(edits.unpin, [AREA])


def test_pending_writes_are_confirmed_rejected_and_replaced() -> None:
    first, second = held("north"), held("south", turn_number=2)
    log = Log().say("north?", held=(first,)).say("or south", held=(second,), released=(first,))
    assert log.snapshot.state == State() and log.snapshot.pending == {AREA: second}
    assert log.back().snapshot.pending == {AREA: first}, "undo brings back what was replaced"

    confirmed = log.do(edits.confirm, [AREA])
    assert confirmed.snapshot.state == State({AREA: "south"}) and not confirmed.snapshot.pending
    assert same(confirmed.back().snapshot, log.snapshot)

    rejected = log.do(edits.reject, [AREA])
    assert rejected.snapshot.state == State() and not rejected.snapshot.pending
    with pytest.raises(InputError, match='No write of "hotel-stars" is pending: pending are hotel-area'):
        log.do(edits.confirm, [STARS])
    for slots in ([AREA], []):
        with pytest.raises(InputError, match="nothing is pending"):
            rejected.do(edits.reject, slots)


def test_a_correction_settles_what_was_pending() -> None:
    log = Log().say("north?", held=(held("north"),)).do(edits.correct, {AREA: DONTCARE})
    assert log.snapshot.state == State({AREA: DONTCARE}) and not log.snapshot.pending
    assert log.back().snapshot.pending == {AREA: held("north")}


def test_an_entry_of_another_version_is_refused() -> None:
    log = Log().say("north", write(AREA, None, "north"))
    longer = log.say("hello")
    for misfit, problem in {
        log.say("south", write(AREA, None, "south"))[-1]: "holds another value",
        longer.say("hello")[-1]: "it was made as entry 3",
        log.say("x", released=(held("west"),))[-1]: "not pending",
        replace(log.say("x")[-1], previous=0): "the last entry in force is 1, not 0",
        replace(log.say("x")[-1], dropped=1): "the turn that leaves the view is 0, not 1",
        replace(log.back()[-1], target=0): "entry 0 is not the next to undo",
        replace(log.back()[-1], previous=1): "entry 1 is not the next to undo",
        replace(log.back()[-1], undone=1): "the undo before it is 0, not 1",
        replace(log.back()[-1], turn=Turn("", "another turn")): "a turn that is not the last one",
        replace(log.back()[-1], returned=RecentTurn(1, Turn("", "x"))): "which turn comes back into view",
        replace(log.say("x")[-1], kind="redo", target=1): "entry 1 is not the next to redo",
    }.items():
        with pytest.raises(StateError, match=f"Entry 2 does not fit this conversation: .*{problem}"):
            append(log.snapshot, misfit)
    undone = log.back()
    with pytest.raises(StateError, match="entry 7 is not the next to redo"):
        append(undone.snapshot, replace(undone.again()[-1], target=7))


def test_a_snapshot_does_not_grow_with_the_log() -> None:
    log, before = Log(), {0: EMPTY}
    for number in range(1, 3 * WINDOW + 1):
        log = log.say(f"turn {number}")
        before[number] = log.snapshot
        assert log.snapshot.turn_count == number
        assert [item.number for item in log.snapshot.recent] == list(range(max(1, number - WINDOW + 1), number + 1))
    assert len(json.dumps(log.snapshot.to_json())) < 1.02 * len(json.dumps(before[WINDOW + 20].to_json()))
    read: list[int] = []

    def entry_at(number: int) -> Entry:
        read.append(number)
        return log[number - 1]

    for number in range(3 * WINDOW - 1, -1, -1):
        read.clear()
        log = log.do(edits.undo, entry_at)
        assert same(log.snapshot, before[number])
        assert len(read) == (2 if number >= WINDOW else 1), "the turn that is undone and the one that comes back"
    for number in range(1, 3 * WINDOW + 1):
        read.clear()
        log = log.do(edits.redo, entry_at)
        assert same(log.snapshot, before[number]) and len(read) == 2
    assert numbers(log) == list(range(1, 3 * WINDOW + 1))


def full_log() -> Log:
    log = Log().say("north", write(AREA, None, "north"), write(STARS, None, DONTCARE), held=(held("west", "north"),))
    copied = Change("taxi-departure", Operation.UPDATE, None, "x", 0.5, Evidence("slot", text="x", slot="hotel-name"))
    refused = (Refused.of(write(STARS, DONTCARE, "9"), reason="no such"),)
    for number in range(WINDOW):
        log = log.say(f"turn {number}")
    log = log.say("taxi", copied, domain="taxi", refused=refused)
    log = log.do(edits.correct, {STARS: None}, pin=True, source="api")
    return log.back().again().back().back().back().again()


def test_json_both_ways() -> None:
    log = full_log()
    assert any(entry.returned for entry in log) and any(entry.dropped for entry in log)
    for defaults in (True, False):
        read = [Entry.from_json(json.loads(json.dumps(entry.to_json(defaults=defaults)))) for entry in log]
        assert read == log
        for snapshot in audit.snapshots(log):
            written = json.dumps(snapshot.to_json(defaults=defaults))
            assert Snapshot.from_json(json.loads(written)) == snapshot
    assert "pinned" in log[0].to_json() and "pinned" not in log[0].to_json(defaults=False)


ENTRY = {"version": 1, "kind": "turn", "source": "model", "time": "2026-01-01T00:00:00+00:00"}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ([], "Expected an entry as a JSON object, not list."),
        ({"version": 1, "kind": "turn", "source": "model"}, "the key `time` is missing"),
        (ENTRY | {"kind": "guess"}, "at `kind`, input should be 'turn', 'correction'"),
        (ENTRY | {"time": "yesterday"}, "at `time`, invalid isoformat string"),
        (ENTRY | {"turn": {"system": 1, "user": ""}}, r"at `turn.system`, input should be a valid string\.$"),
        (ENTRY | {"changes": [3]}, "at `changes.0`, input should be a dictionary"),
    ],
)
def test_json_that_is_no_entry(data: object, sentence: str) -> None:
    with pytest.raises(StateError, match=sentence):
        Entry.from_json(data)


def test_the_definition_describes_every_field() -> None:
    """What the OpenAPI file and the Parquet schema are derived from: types, defaults, docstrings."""
    schema = adapter(Entry).json_schema(mode="serialization")
    fields = {field.name for field in dataclasses.fields(Entry)}
    assert set(schema["properties"]) == fields == set(schema["required"]), "every field is always present"
    change, pending = schema["$defs"]["Change"]["properties"], schema["$defs"]["Pending"]["properties"]
    assert change["after"]["anyOf"] == [{"type": "string"}, {"type": "null"}]
    assert {name: pending[name] for name in change} == change
    assert set(pending) - set(change) == {"question", "turn"} and pending["question"]["description"]
    assert schema["$defs"]["Evidence"]["properties"]["turns_ago"]["description"]
    assert adapter(Snapshot).json_schema()["properties"]["state"]["additionalProperties"] == {"type": "string"}


def test_pending_and_refused_are_changes() -> None:
    change = write(AREA, None, "north")
    item = Pending.of(change, question="North?", turn=2)
    assert item.change == change and item.to_json() == {**change.to_json(), "question": "North?", "turn": 2}
    refused = Refused.of(change, reason="It is pinned.")
    assert refused.change == change and refused.to_json() == {**change.to_json(), "reason": "It is pinned."}
    assert Change.from_json(refused.to_json()) == change, "a newer record is read by what is known of it"


def test_why_a_slot_is_so() -> None:
    log = Log().say("north", write(AREA, None, "north")).say("hm", held=(held("west", "north", turn_number=2),))
    log = log.do(edits.correct, {AREA: "south"}, pin=True).back().do(edits.confirm, [AREA])
    events = audit.slot_history(log, AREA)
    assert [(e.version, e.kind, e.source, e.in_force) for e in events] == [
        (1, "turn", "model", True),
        (2, "turn", "model", True),
        (3, "correction", "person", False),
        (4, "undo", "person", True),
        (5, "confirm", "person", True),
    ]
    assert events[0].turn is not None and events[0].turn.user == "north" and events[0].model == "m"
    assert events[-1].change is not None and events[-1].change.after == "west"
    assert audit.slot_history(log, "train-day") == ()
    assert [audit.SlotEvent.from_json(event.to_json()) for event in events] == list(events)


def test_the_turns_in_force_with_the_memory_after_each() -> None:
    log = Log().do(edits.correct, {STARS: "4"}).say("north", write(AREA, None, "north")).say("what?").back()
    log = log.do(edits.correct, {AREA: "south"}).say("thanks")
    first, second = audit.turns(log)
    assert (first.number, first.version, first.user) == (1, 2, "north")
    assert (second.number, second.version, second.user) == (2, 6, "thanks")
    assert first.state == State({STARS: "4", AREA: "north"}) and first.changes == log[1].changes
    assert first.corrected == second.state == second.corrected == State({STARS: "4", AREA: "south"})
    assert audit.TurnInForce.from_json(first.to_json()) == first


def test_a_corrected_conversation_becomes_a_training_dialogue() -> None:
    log = Log().say("a hotel in the north", write(AREA, None, "north")).say("actually the south").say("thanks")
    assert not audit.corrected(log)
    log = log.do(edits.correct, {AREA: "south", STARS: "4"})
    assert audit.corrected(log) and not audit.corrected(log.back())
    dialogue = audit.to_dialogue(log, id="c1")
    assert [state.to_json() for state in dialogue.states()] == [
        {AREA: "north"},
        {AREA: "south"},  # the turn that says "south"
        {AREA: "south", STARS: "4"},  # said nowhere: the last turn
    ]
    assert dialogue.labelled and dialogue.id == "c1"
    undone = audit.to_dialogue(log.back().back(), id="c1")
    assert [t.user for t in undone.turns] == ["a hotel in the north", "actually the south"]


def test_a_value_inside_another_word_is_not_what_a_correction_is_about() -> None:
    log = Log().say("a hotel").say("I know the southwest").say("thanks").do(edits.correct, {AREA: "south", STARS: "no"})
    assert [s.to_json() for s in audit.to_dialogue(log, id="c").states()] == [{}, {}, {AREA: "south", STARS: "no"}]


def test_a_confirmed_write_belongs_to_the_turn_that_asked() -> None:
    log = Log().say("whatever area", held=(held("north"),)).say("yes").say("bye").do(edits.confirm, [AREA])
    assert [s.to_json() for s in audit.to_dialogue(log, id="c").states()] == [{AREA: "north"}] * 3


# Laws

VALUES = st.sampled_from(["north", "south", DONTCARE, None])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["turn", "hold", "correct", "pin", "unpin", "confirm", "reject", "undo", "redo"]), VALUES
    ),
    max_size=30,
)


def step(log: Log, kind: str, value: Value | None) -> Log:
    snapshot = log.snapshot
    before = snapshot.state.get(AREA)
    waiting = tuple(snapshot.pending.values())
    if kind == "turn":
        return log.say(f"turn {len(log)}", write(AREA, before, value), released=waiting)
    if kind == "hold":
        item = Pending.of(write(AREA, before, value), question="Did you?", turn=snapshot.turn_count + 1)
        return log.say(f"turn {len(log)}", held=(item,), released=waiting)
    if kind == "correct":
        return log.do(edits.correct, {AREA: value}, pin=value == "south")
    if kind in ("undo", "redo"):
        return log.back() if kind == "undo" else log.again()
    return log.do(getattr(edits, kind), [AREA])


@dataclasses.dataclass
class Stacks:
    """The simple way to undo and redo, which keeps every number: what the pointers must agree with."""

    done: list[int] = dataclasses.field(default_factory=list)
    undone: list[int] = dataclasses.field(default_factory=list)

    def take(self, entry: Entry) -> None:
        if entry.kind == "undo":
            self.undone.append(self.done.pop())
        elif entry.kind == "redo":
            self.done.append(self.undone.pop())
        else:
            self.done.append(entry.version)
            self.undone.clear()


@given(STEPS, st.integers(0, WINDOW + 4))
@settings(max_examples=150, deadline=None)
def test_any_mixture_replays_undoes_and_survives_json(steps: list[tuple[str, Value | None]], turns: int) -> None:
    log, stacks = Log(), Stacks()
    for kind, value in [*[("turn", "north")] * turns, *steps]:
        try:
            log = step(log, kind, value)
        except InputError:
            continue  # nothing to undo, to confirm ...
        stacks.take(log[-1])
        snapshot = log.snapshot
        assert snapshot.version == len(log)
        assert numbers(log) == stacks.done and snapshot.head == (stacks.done or [0])[-1]
        assert (log[snapshot.undone - 1].target if snapshot.undone else None) == (stacks.undone or [None])[-1]
        spoken = [RecentTurn(n, turn) for n in stacks.done if (turn := log[n - 1].turn) is not None]
        assert snapshot.turn_count == len(spoken) and snapshot.recent == tuple(spoken[-WINDOW:])
    snapshot = log.snapshot
    stored = json.loads(json.dumps([entry.to_json(defaults=False) for entry in log]))
    assert read_log(stored) == log and replay(read_log(stored)) == snapshot
    assert read_log([as_first_release(entry) for entry in stored]) == log
    assert Snapshot.from_json(json.loads(json.dumps(snapshot.to_json(defaults=False)))) == snapshot
    if snapshot.head:
        assert same(log.back().again().snapshot, snapshot)
    dialogue = audit.to_dialogue(log, id="x")
    assert [t.user for t in dialogue.turns] == [turn.user for turn in audit.turns(log)]
    if dialogue.turns:
        assert dialogue.states()[-1] == snapshot.state == audit.turns(log)[-1].corrected
    while log.snapshot.head:
        log = log.back()
    assert same(log.snapshot, EMPTY)


# Version 0.1.0


def as_first_release(entry: dict[str, Any]) -> dict[str, Any]:
    new = {"version", "previous", "dropped", "returned", "undone"}
    return {name: value for name, value in entry.items() if name not in new}


def test_a_log_of_the_first_release_is_read() -> None:
    """Entries that the code of version 0.1.0 wrote (see test_store_migrations.py), with what it made of them."""
    folder = Path(__file__).parent / "fixtures"
    expected = json.loads(gzip.decompress((folder / "store-0.1.0.json.gz").read_bytes()))
    connection = sqlite3.connect(":memory:")
    connection.deserialize(gzip.decompress((folder / "store-0.1.0.sqlite.gz").read_bytes()))
    for id, versions in expected.items():
        query = "SELECT entry FROM entries WHERE conversation = ? ORDER BY version"
        log = read_log([json.loads(entry) for (entry,) in connection.execute(query, (id,))])
        for old, snapshot in zip(versions, audit.snapshots(log), strict=True):
            new = snapshot.to_json()
            for name in ("version", "state", "pinned"):
                assert new[name] == old[name]
            assert [item["turn"] for item in new["recent"]] == old["turns"][-WINDOW:]
            assert snapshot.turn_count == len(old["turns"])
            assert snapshot.head == (old["done"] or [0])[-1]
            assert bool(snapshot.undone) == bool(old["undone"])
            assert list(snapshot.pending.values()) == [Pending.from_json(item) for item in old["pending"]]
        assert numbers(log) == versions[-1]["done"]


@pytest.mark.parametrize("kind", ["undo", "redo"])
def test_a_log_of_the_first_release_that_is_damaged(kind: str) -> None:
    data = {"kind": kind, "source": "person", "time": "2026-01-01T00:00:00+00:00", "target": 1}
    with pytest.raises(StateError, match=f"Entry 1 does not fit this conversation: There is nothing to {kind}"):
        read_log([data])


def test_scripted_predictors() -> None:
    rules = RulePredictor()
    assert isinstance(rules, Predictor)
    text = "Hotel area North, any hotel stars, maybe taxi departure like hotel name; no train day. "
    text += "hotel internet yes and hi"
    item = TurnInput(None, Turn("hotel name Avalon.", text), State({"hotel-name": "acorn"}))
    (said,) = rules.predict([item])
    assert {slot: (str(p.operation), p.value, p.probability) for slot, p in said.slots.items()} == {
        "hotel-name": ("update", "avalon", 0.95),
        "hotel-area": ("update", "north", 0.95),
        "hotel-stars": ("dontcare", None, 0.95),
        "taxi-departure": ("update", "acorn", 0.3),
        "train-day": ("delete", None, 0.95),
        "hotel-internet": ("update", "yes", 0.95),
    }
    assert said.slots["hotel-area"].evidence == Evidence("user", 11, 16, "North")
    assert said.slots["hotel-name"].evidence == Evidence("system", 11, 17, "Avalon")
    scripted = ScriptedPredictor(Schema.multiwoz(), lambda item: Prediction({AREA: update("x", user=item.turn.user)}))
    assert isinstance(scripted, Predictor)
    (forced,) = scripted.predict([TurnInput(None, Turn("", "x"), State())], operations=[{AREA: Operation.DELETE}])
    assert forced.slots[AREA].operation is Operation.DELETE and forced.values == {}


def test_one_thread_at_a_time_builds_what_turns_records_into_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """pydantic parses source code for it. In threads that fails now and then, with a SystemError in Python 3.11."""
    others: list[bool] = []

    def build(kind: Any) -> Any:
        other = Thread(target=lambda: others.append(records._BUILDING.acquire(blocking=False)))
        other.start()
        other.join()
        return kind

    monkeypatch.setattr(records, "_build_adapter", build)
    assert records.adapter(Entry) is Entry
    assert others == [False]
