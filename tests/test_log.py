"""The log: appending and replaying, undo as an entry, JSON both ways, what is refused."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace

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
from somdst.tracking import audit, edits
from somdst.tracking.log import EMPTY, append, replay
from somdst.tracking.records import Change, Entry, Pending, Refused, Snapshot, now
from somdst.tracking.shapes import adapter

AREA, STARS = "hotel-area", "hotel-stars"


def write(slot: str, before: Value | None, after: Value | None) -> Change:
    operation = Operation.DELETE if after is None else Operation.DONTCARE if after is DONTCARE else Operation.UPDATE
    return Change(slot, operation, before, after, 0.9, Evidence("user", 3, 8, "north"))


def turn(user: str, *changes: Change, held: tuple[Pending, ...] = (), released: tuple[Pending, ...] = ()) -> Entry:
    spoken = Turn(system="", user=user)
    return Entry("turn", "model", now(), model="m", turn=spoken, changes=changes, held=held, released=released)


def back(entries: list[Entry]) -> list[Entry]:
    """The log with an undo at its end."""
    snapshot = replay(entries)
    return [*entries, edits.undo(snapshot, entries[edits.undo_target(snapshot) - 1])]


def again(entries: list[Entry]) -> list[Entry]:
    snapshot = replay(entries)
    return [*entries, edits.redo(snapshot, entries[edits.redo_target(snapshot) - 1])]


def same(one: Snapshot, other: Snapshot) -> bool:
    """Equal in everything that the next turn can see."""
    blank = {"version": 0, "done": (), "undone": ()}
    return replace(one, **blank) == replace(other, **blank)  # type: ignore[arg-type]


def test_a_turn_changes_the_state_and_the_version() -> None:
    snapshot = append(EMPTY, turn("north please", write(AREA, None, "north")))
    assert snapshot.state == State({AREA: "north"})
    assert snapshot.version == 1
    assert [t.user for t in snapshot.turns] == ["north please"]
    assert EMPTY.state == State(), "the snapshot before stays as it was"


def test_undo_and_redo_are_entries() -> None:
    log = [turn("north", write(AREA, None, "north")), turn("no, south", write(AREA, "north", "south"))]
    before, after = replay(log[:1]), replay(log)
    log = back(log)
    assert same(replay(log), before) and replay(log).version == 3
    log = again(log)
    assert same(replay(log), after) and replay(log).version == 4
    log = back(back(log))
    assert same(replay(log), EMPTY) and replay(log).version == 6
    with pytest.raises(InputError, match="nothing to undo"):
        back(log)
    assert same(replay(again(again(log))), after)


def test_a_new_entry_ends_what_can_be_redone() -> None:
    log = back([turn("north", write(AREA, None, "north"))])
    log.append(turn("west", write(AREA, None, "west")))
    with pytest.raises(InputError, match="nothing to redo"):
        again(log)
    assert same(replay(back(log)), EMPTY)


def test_every_version_can_be_read() -> None:
    log = [turn("north", write(AREA, None, "north")), edits.correct(replay([]), {STARS: "4"})]
    log = back(log)
    assert [s.state.to_json() for s in audit.snapshots(log)] == [
        {AREA: "north"},
        {AREA: "north", STARS: "4"},
        {AREA: "north"},
    ]
    assert audit.snapshots(log)[1] == replay(log[:2])


def test_correction_with_pin_and_their_undo() -> None:
    log = [turn("north", write(AREA, None, "north"))]
    log.append(edits.correct(replay(log), {AREA: "south", STARS: None}, pin=True))
    snapshot = replay(log)
    assert snapshot.state == State({AREA: "south"}) and snapshot.pinned == {AREA, STARS}
    assert [c.operation for c in log[-1].changes] == [Operation.UPDATE, Operation.CARRYOVER]
    log.append(edits.unpin(snapshot, [AREA]))
    assert replay(log).pinned == {STARS}
    assert replay(back(log)).pinned == {AREA, STARS}
    assert replay(back(back(log))).pinned == frozenset()
    with pytest.raises(InputError, match="pinned already"):
        edits.pin(replay(log), [STARS])
    with pytest.raises(InputError, match="nothing to unpin"):
        edits.unpin(replay(log), [AREA])


def held(value: str, before: Value | None = None, *, turn_number: int = 1) -> Pending:
    question = f"Did you mean {value} for the hotel area?"
    return Pending.of(write(AREA, before, value), question=question, turn=turn_number)


def test_pending_writes_are_confirmed_rejected_and_replaced() -> None:
    first, second = held("north"), held("south", turn_number=2)
    log = [turn("north?", held=(first,)), turn("or south", held=(second,), released=(first,))]
    assert replay(log).state == State() and replay(log).pending == {AREA: second}
    assert replay(back(log)).pending == {AREA: first}, "undo brings back what was replaced"

    confirmed = [*log, edits.confirm(replay(log), [AREA])]
    assert replay(confirmed).state == State({AREA: "south"}) and not replay(confirmed).pending
    assert same(replay(back(confirmed)), replay(log))

    rejected = [*log, edits.reject(replay(log), [AREA])]
    assert replay(rejected).state == State() and not replay(rejected).pending
    with pytest.raises(InputError, match='No write of "hotel-stars" is pending: pending are hotel-area'):
        edits.confirm(replay(log), [STARS])
    for slots in ([AREA], []):
        with pytest.raises(InputError, match="nothing is pending"):
            edits.reject(replay(rejected), slots)


def test_a_correction_settles_what_was_pending() -> None:
    log = [turn("north?", held=(held("north"),))]
    log.append(edits.correct(replay(log), {AREA: DONTCARE}))
    assert replay(log).state == State({AREA: DONTCARE}) and not replay(log).pending
    assert replay(back(log)).pending == {AREA: held("north")}


def test_an_entry_of_another_version_is_refused() -> None:
    snapshot = append(EMPTY, turn("north", write(AREA, None, "north")))
    with pytest.raises(StateError, match=r'Entry 2 does not fit .* should hold nothing and holds "north"'):
        append(snapshot, turn("south", write(AREA, None, "south")))
    stale = edits.undo(snapshot, turn("north", write(AREA, None, "north")))
    twice = append(snapshot, turn("hello"))
    with pytest.raises(StateError, match="entry 1 is not the next to undo"):
        append(twice, stale)
    with pytest.raises(StateError, match="not pending"):
        append(snapshot, turn("x", released=(held("west"),)))
    with pytest.raises(StateError, match="not the last one"):
        append(snapshot, edits.undo(snapshot, turn("another turn")))


def full_log() -> list[Entry]:
    log = [turn("north", write(AREA, None, "north"), write(STARS, None, DONTCARE), held=(held("west", "north"),))]
    copied = Change("taxi-departure", Operation.UPDATE, None, "x", 0.5, Evidence("slot", text="x", slot="hotel-name"))
    refused = (Refused.of(write(STARS, DONTCARE, "9"), reason="no such"),)
    log.append(replace(turn("taxi", copied), domain="taxi", refused=refused))
    log.append(edits.correct(replay(log), {STARS: None}, pin=True, source="api"))
    return again(back(log))


def test_json_both_ways() -> None:
    log = full_log()
    read = [Entry.from_json(json.loads(json.dumps(entry.to_json()))) for entry in log]
    assert read == log
    snapshot = replay(log)
    assert Snapshot.from_json(json.loads(json.dumps(snapshot.to_json()))) == snapshot
    assert "pinned" in log[0].to_json() and "pinned" not in log[0].to_json(defaults=False)
    assert [Entry.from_json(entry.to_json(defaults=False)) for entry in log] == log


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ([], "Expected an entry as a JSON object, not list."),
        ({"kind": "turn", "source": "model"}, "the key `time` is missing"),
        ({"kind": "guess", "source": "model", "time": "2026-01-01T00:00:00+00:00"}, "`kind` is 'guess'"),
        ({"kind": "turn", "source": "model", "time": "yesterday"}, "This is not an entry"),
        (
            {"kind": "turn", "source": "model", "time": "2026-01-01T00:00:00+00:00", "turn": {"system": 1, "user": ""}},
            r"`turn.system` is 1; input should be a valid string\.$",
        ),
        (
            {"kind": "turn", "source": "model", "time": "2026-01-01T00:00:00+00:00", "changes": [3]},
            "This is not an entry",
        ),
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
    log = [turn("north", write(AREA, None, "north")), turn("hm", held=(held("west", "north", turn_number=2),))]
    log.append(edits.correct(replay(log), {AREA: "south"}, pin=True))
    log = back(log)
    log.append(edits.confirm(replay(log), [AREA]))
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
    json.dumps([event.to_json() for event in events])


def test_a_corrected_conversation_becomes_a_training_dialogue() -> None:
    log = [turn("a hotel in the north", write(AREA, None, "north")), turn("actually the south"), turn("thanks")]
    assert not audit.corrected(log)
    log.append(edits.correct(replay(log), {AREA: "south", STARS: "4"}))
    assert audit.corrected(log) and not audit.corrected(back(log))
    dialogue = audit.to_dialogue(log, id="c1")
    assert [state.to_json() for state in dialogue.states()] == [
        {AREA: "north"},
        {AREA: "south"},  # the turn that says "south"
        {AREA: "south", STARS: "4"},  # said nowhere: the last turn
    ]
    assert dialogue.labelled and dialogue.id == "c1"
    undone = audit.to_dialogue(back(back(log)), id="c1")
    assert [t.user for t in undone.turns] == ["a hotel in the north", "actually the south"]


def test_a_confirmed_write_belongs_to_the_turn_that_asked() -> None:
    log = [turn("whatever area", held=(held("north"),)), turn("yes"), turn("bye")]
    log.append(edits.confirm(replay(log), [AREA]))
    assert [s.to_json() for s in audit.to_dialogue(log, id="c").states()] == [{AREA: "north"}] * 3


VALUES = st.sampled_from(["north", "south", DONTCARE, None])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["turn", "hold", "correct", "pin", "unpin", "confirm", "reject", "undo", "redo"]), VALUES
    ),
    max_size=30,
)


def step(log: list[Entry], kind: str, value: Value | None) -> list[Entry]:
    snapshot = replay(log)
    before = snapshot.state.get(AREA)
    waiting = tuple(snapshot.pending.values())
    if kind == "turn":
        return [*log, turn(f"turn {len(log)}", write(AREA, before, value), released=waiting)]
    if kind == "hold":
        item = Pending.of(write(AREA, before, value), question="Did you?", turn=len(snapshot.turns) + 1)
        return [*log, turn(f"turn {len(log)}", held=(item,), released=waiting)]
    if kind == "correct":
        return [*log, edits.correct(snapshot, {AREA: value}, pin=value == "south")]
    if kind in ("undo", "redo"):
        return back(log) if kind == "undo" else again(log)
    entry: Entry = getattr(edits, kind)(snapshot, [AREA])
    return [*log, entry]


@given(STEPS)
@settings(max_examples=150, deadline=None)
def test_any_mixture_replays_undoes_and_survives_json(steps: list[tuple[str, Value | None]]) -> None:
    log: list[Entry] = []
    for kind, value in steps:
        try:
            log = step(log, kind, value)
        except InputError:
            continue  # nothing to undo, to confirm ...
    snapshot = replay(log)
    assert snapshot.version == len(log)
    assert replay([Entry.from_json(json.loads(json.dumps(entry.to_json()))) for entry in log]) == snapshot
    assert Snapshot.from_json(json.loads(json.dumps(snapshot.to_json()))) == snapshot
    if snapshot.done:
        assert same(replay(again(back(log))), snapshot)
    dialogue = audit.to_dialogue(log, id="x")
    assert tuple(replace(t, state=None) for t in dialogue.turns) == snapshot.turns
    if dialogue.turns:
        assert dialogue.states()[-1] == snapshot.state
    while replay(log).done:
        log = back(log)
    assert same(replay(log), EMPTY)


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
