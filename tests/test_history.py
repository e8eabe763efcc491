"""The verifier on histories made by hand: one that keeps the contract, and for each promise one that breaks it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from history import Call, History, Stored, check, count

C = "c" * 32


def entry(version: int, kind: str, before: str | None, after: str | None, *, user: str | None = None) -> dict[str, Any]:
    return {
        "version": version,
        "kind": kind,
        "turn": None if user is None else {"system": "", "user": user},
        "changes": [{"slot": "hotel-name", "before": before, "after": after}],
        "pinned": [],
        "unpinned": [],
    }


LOG = [
    entry(1, "turn", None, "one", user="hotel name one"),
    entry(2, "correction", "one", "two"),
    entry(3, "undo", "two", "one"),
]
STATES: list[dict[str, str]] = [{}, {"hotel-name": "one"}, {"hotel-name": "two"}, {"hotel-name": "one"}]


def written(version: int) -> dict[str, Any]:
    return {"version": version, "state": STATES[version], "pinned": [], "entry": LOG[version - 1]}


def shown(version: int) -> dict[str, Any]:
    return {"version": version, "state": STATES[version], "pinned": [], "turn_count": min(version, 1)}


CALLS: Mapping[str, Call] = {
    "create": Call("create", C, 0, 1, 201, key="k0", answer={"id": C, **shown(0)}, expires=500.0),
    "turn": Call("turn", C, 2, 5, 200, "one", "k1", "hotel name one", answer=written(1)),
    "early read": Call("read", C, 3, 4, 200, answer=shown(0), expires=500.0, clock=100.0),
    "lost": Call("correction", C, 6, 7, None, "two", "k2", "two", 1),
    "correction": Call("correction", C, 8, 9, 200, "two", "k2", "two", 1, written(2)),
    "again": Call("correction", C, 10, 11, 200, "two", "k2", "two", 1, written(2)),
    "reused": Call("correction", C, 12, 13, 422, "three", "k2", "three", answer={"error": "used before"}),
    "conflict": Call("turn", C, 14, 15, 409, "four", "k4", "hotel name four", 1, {"error": "", "version": 2}),
    "undo": Call("undo", C, 16, 17, 200, "", "k5", answer=written(3)),
    "busy": Call("turn", C, 18, 19, 503, "five", None, "hotel name five", answer={"error": "busy"}),
    "read": Call("read", C, 20, 21, 200, answer=shown(3), expires=500.0, clock=100.0),
    "log": Call("log", C, 22, 23, 200, answer={"version": 3, "entries": LOG}),
    "past": Call("version", C, 24, 25, 200, named=2, answer=shown(2)),
}
STORED = Stored(3, STATES[3], LOG)


def promises(calls: Mapping[str, Call], stored: Stored | None = STORED, **more: Any) -> set[str]:
    conversations = {} if stored is None else {C: stored}
    return {violation.promise for violation in check(History(list(calls.values()), conversations, **more))}


def broken(name: str, stored: Stored | None = STORED, **fields: Any) -> set[str]:
    """The promises that are broken if one call had been otherwise."""
    return promises({**CALLS, name: replace(CALLS[name], **fields)}, stored)


def test_a_history_that_keeps_the_contract() -> None:
    assert check(History(list(CALLS.values()), {C: STORED})) == []
    counts = count(History(list(CALLS.values()), {C: STORED}))
    wanted = {"calls": 13, "writes": 6, "acknowledged": 3, "repeated": 2, "conflicts": 1, "reused keys refused": 1}
    assert counts == {**wanted, "503": 1, "without an answer": 1, "reads": 4, "erased": 0, "entries": 3}


def test_what_got_no_answer_may_be_done_or_not() -> None:
    done = Stored(4, {"hotel-name": "five"}, [*LOG, entry(4, "turn", "one", "five", user="hotel name five")])
    assert promises(CALLS, done) == set()


def test_order() -> None:
    assert broken("read", answer=shown(2)) == {"order"}, "an old snapshot"
    assert broken("early read", began=6, ended=7) == {"order"}
    assert broken("early read", answer=shown(1)) == set(), "a read may see a write that is under way"
    assert broken("early read", began=1, ended=1, answer=shown(1)) == {"order"}, "but not one that has not begun"
    assert broken("conflict", answer={"version": 1}) == {"order", "named versions"}


def test_versions() -> None:
    assert promises(CALLS, replace(STORED, version=4)) == {"versions"}
    assert "versions" in promises(CALLS, Stored(3, STATES[3], [LOG[0], LOG[2]]))
    invented = Stored(4, {"hotel-name": "six"}, [*LOG, entry(4, "turn", "one", "six", user="hotel name six")])
    assert promises(CALLS, invented) == {"versions"}, "nobody asked for it"
    twice = {**CALLS, "other": replace(CALLS["turn"], key="k9", request="nine", mark="hotel name nine")}
    assert "versions" in promises(twice), "one version for two writes"


def test_durable() -> None:
    assert promises(CALLS, Stored(2, STATES[2], LOG[:2])) == {"durable", "prefixes"}
    other = [LOG[0], {**LOG[1], "source": "another"}, LOG[2]]
    assert promises(CALLS, replace(STORED, entries=other)) == {"durable", "prefixes"}
    assert promises(CALLS, None) == {"durable"}, "the conversation is gone"
    assert broken("read", status=404, answer={}) == {"durable"}, "it was not found, and nobody erased it"


def test_keys() -> None:
    doubled = Stored(4, {"hotel-name": "two"}, [*LOG, entry(4, "correction", "one", "two")])
    assert promises(CALLS, doubled) == {"keys"}
    assert broken("again", answer={**written(2), "pinned": ["hotel-name"]}) == {"keys", "replay"}
    assert "keys" in broken("reused", status=200, answer=written(3)), "one key, two requests"
    undone_twice = Stored(4, {}, [*LOG, {**entry(4, "undo", "one", None), "turn": LOG[0]["turn"]}])
    assert promises(CALLS, undone_twice) == {"keys"}


def test_creates() -> None:
    """A key makes one conversation, also one that no client hears of."""
    empty, create = Stored(0, {}, []), CALLS["create"]
    lost = replace(create, conversation="", status=None, answer={}, expires=None)

    def broken_by(*calls: Call, unseen: int = 0, complete: bool = True) -> set[str]:
        stored = {C: STORED, **{f"{number:032}": empty for number in range(unseen)}}
        made = {call.conversation: empty for call in calls if call.acknowledged and call.kind == "create"}
        history = History([*CALLS.values(), *calls], {**made, **stored}, complete=complete)
        return {violation.promise for violation in check(history)}

    assert broken_by() == broken_by(lost) == broken_by(unseen=1, complete=False) == set()
    assert broken_by(unseen=1) == {"keys"}, "nobody made it"
    assert broken_by(lost, unseen=1) == {"keys"}, "the key has made another one, which was answered"
    other, keyless = replace(lost, key="k6"), replace(lost, key=None)
    assert broken_by(other, unseen=1) == broken_by(keyless, replace(keyless), unseen=2) == set(), "nobody knows"
    assert broken_by(other, other, other, unseen=2) == {"keys"}, "one per key"
    assert broken_by(replace(lost, key="k7", status=422), unseen=1) == {"keys"}, "it was refused"
    twin = replace(create, conversation="d", answer={"id": "d", **shown(0)})
    assert broken_by(twin) == {"keys"}, "one key, two conversations"
    reused = replace(create, request="another")
    assert broken_by(reused) == {"keys"}, "one key, two requests"


def test_a_key_is_forgotten_with_its_conversation() -> None:
    create, erase = CALLS["create"], Call("erase", C, 30, 31, 204)
    later = replace(create, conversation="d", began=32, ended=33, answer={"id": "d", **shown(0)})
    lost = replace(create, conversation="", began=32, ended=33, status=None, answer={}, expires=None)

    def broken_by(*calls: Call) -> set[str]:
        history = History([*CALLS.values(), *calls], {"d": Stored(0, {}, [])}, complete=True)
        return {violation.promise for violation in check(history)}

    assert broken_by(erase, later) == broken_by(later, erase) == broken_by(erase, lost) == set()
    assert broken_by(erase) == {"keys"}
    assert broken_by(erase, replace(later, began=28, ended=29)) == {"keys"}, "it was not yet erased"


def test_named_versions() -> None:
    assert broken("correction", named=0) == {"named versions"}
    assert broken("conflict", named=None) == {"named versions"}, "a write without a version is never in conflict"
    assert broken("conflict", named=2) == {"named versions"}, "refused at the version that it named"


@pytest.mark.parametrize("name", ["conflict", "reused"])
def test_refusals(name: str) -> None:
    call = CALLS[name]
    kind, user = call.kind, call.mark if call.kind == "turn" else None
    done = Stored(4, {"hotel-name": str(call.mark)}, [*LOG, entry(4, kind, "one", call.mark, user=user)])
    assert promises(CALLS, done) == {"refusals"}


def test_prefixes() -> None:
    assert broken("log", answer={"version": 3, "entries": LOG[:2]}) == {"prefixes"}
    assert broken("log", answer={"version": 3, "entries": [LOG[0], LOG[2], LOG[1]]}) == {"prefixes"}
    assert broken("log", answer={"version": 3, "entries": []}) == {"prefixes"}, "erased while it was read"
    assert "prefixes" in broken("read", answer={**shown(3), "version": 4}), "a version that is not in the log"


def test_replay() -> None:
    assert broken("past", answer=shown(1)) == {"replay"}, "an entry was skipped"
    assert broken("past", answer={**shown(2), "state": STATES[1]}) == {"replay"}
    assert broken("turn", answer={**written(1), "state": {}}) == {"replay"}
    assert broken("read", answer={**shown(3), "turn_count": 2}) == {"replay"}
    assert promises(CALLS, replace(STORED, state={})) == {"replay"}


def test_erased() -> None:
    erase = Call("erase", C, 30, 31, 204)
    gone = {**CALLS, "erase": erase, "late": Call("read", C, 32, 33, 404)}
    assert promises(gone, None) == set()
    assert promises(gone) == {"erased"}, "it is still in the database"
    assert promises({**gone, "late": replace(CALLS["read"], began=32, ended=33)}, None) == {"erased"}
    assert promises(gone, None, remains=["the write-ahead log"]) == {"erased"}
    lost = {**gone, "erase": replace(erase, status=None)}
    assert promises(lost, None) == promises({**lost, "late": CALLS["read"]}) == set(), "nobody knows"


def test_expired() -> None:
    assert broken("read", clock=500.0) == {"expired"}
    late = Call("read", C, 40, 41, 404, clock=501.0)
    assert promises({**CALLS, "late": late}) == set()
    assert promises({**CALLS, "late": replace(late, clock=499.0)}) == {"durable"}, "it was hidden too early"


def test_conversations_of_one_run_are_checked_apart() -> None:
    other = {name: replace(call, conversation="d", key=call.key and f"d{call.key}") for name, call in CALLS.items()}
    history = History([*CALLS.values(), *other.values()], {C: STORED, "d": replace(STORED, version=5)})
    assert [(violation.promise, violation.conversation) for violation in check(history)] == [("versions", "d")]
    shared = {**other, "turn": replace(other["turn"], key="k1")}
    history = History([*CALLS.values(), *shared.values()], {C: STORED, "d": STORED})
    assert {violation.promise for violation in check(history)} == {"keys"}, "a key belongs to a tenant"
