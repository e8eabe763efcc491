"""JSON Patch and JSON Merge Patch: applied to the document before a write they give the one after it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import RulePredictor
from services import Server
from waiting import LIMIT

from somdst import Client, Conversation, Schema, Slot, Tracker
from somdst.errors import InputError
from somdst.service.negotiation import JSON, JSON_PATCH, MERGE_PATCH, preferred
from somdst.tracking.log import Result

PARTS = ("version", "state", "pending")
ODD = Schema([Slot.of("a", "b/c~d"), Slot.of("a", "e"), Slot.of("a", "f", values=["x", "y"])])
EMPTY: dict[str, Any] = {"version": 0, "state": {}, "pending": []}


def document(data: dict[str, Any]) -> dict[str, Any]:
    return {key: json.loads(json.dumps(data[key])) for key in PARTS}


def merged(target: Any, patch: Any) -> Any:
    """MergePatch of RFC 7386, section 2, as it is written there."""
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = merged(target.get(name), value)
    return target


def applied(before: dict[str, Any], outcome: Any) -> dict[str, Any]:
    """The document after a write, by JSON Patch; the merge patch must give the same."""
    patch = json.loads(json.dumps(outcome.json_patch()))
    after: dict[str, Any] = jsonpatch.apply_patch(before, patch)
    assert document(merged(before, json.loads(json.dumps(outcome.merge_patch())))) == after
    return after


words = st.sampled_from(["a b/c~d", "a e", "a f"])
said = st.builds(
    lambda slot, kind, value, unsure: f"{'maybe ' if unsure else ''}{kind}{slot} {value if not kind else ''}".strip(),
    words, st.sampled_from(["", "", "no ", "any "]), st.sampled_from(["x", "y"]), st.booleans(),
)  # fmt: skip
edit = st.sampled_from(["confirm", "reject", "undo", "redo", "correct", "empty", "pin"])


def take(conversation: Conversation, step: str) -> Result:
    match step:
        case "correct":
            return conversation.correct("a-b/c~d", "z", pin=True)
        case "empty":
            return conversation.correct("a-b/c~d", None)
        case "pin":
            return conversation.pin("a-e")
        case "confirm" | "reject" | "undo" | "redo":
            done: Result = getattr(conversation, step)()
            return done
    return conversation.update(step)


@given(steps=st.lists(said | edit, max_size=12))
def test_patches_follow_any_conversation(steps: list[str]) -> None:
    conversation = Tracker(RulePredictor(ODD), threshold=0.5).start()
    here = EMPTY
    for step in steps:
        try:
            result = take(conversation, step)
        except InputError:  # such as an undo of nothing: then nothing was done
            continue
        here = applied(here, result)
        assert here == document(result.to_json())


def test_an_operation_says_how_sure_and_from_where() -> None:
    conversation = Tracker(RulePredictor(ODD), threshold=0.5).start()
    result = conversation.update("a b/c~d x, maybe a e y, any a f")
    assert result.json_patch() == [
        {"op": "test", "path": "/version", "value": 0},
        {
            "op": "add", "path": "/state/a-b~1c~0d", "value": "x", "probability": 0.95,
            "evidence": {"source": "user", "start": 8, "end": 9, "text": "x", "slot": None, "turns_ago": 0},
        },
        {"op": "add", "path": "/state/a-f", "value": "dontcare", "probability": 0.95},
        {"op": "add", "path": "/pending", "value": [result.pending[0].to_json()]},
        {"op": "replace", "path": "/version", "value": 1},
    ]  # fmt: skip
    assert result.json_patch()[3]["value"][0]["question"] == "Did you mean y for the a e?"
    assert result.merge_patch()["state"] == {"a-b/c~d": "x", "a-f": "dontcare"}
    assert result.merge_patch()["changes"] == [change.to_json() for change in result.changes]
    result = conversation.update("no a f and a b/c~d y")
    assert [operation["op"] for operation in result.json_patch()] == ["test", "replace", "remove", "replace"]
    assert result.merge_patch()["state"] == {"a-b/c~d": "y", "a-f": None}


def test_a_patch_applies_once_and_to_its_own_version() -> None:
    conversation = Tracker(RulePredictor(ODD)).start()
    first, second = conversation.update("a e x"), conversation.update("a e y")
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        jsonpatch.apply_patch(EMPTY, second.json_patch())
    after = jsonpatch.apply_patch(EMPTY, first.json_patch())
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        jsonpatch.apply_patch(after, first.json_patch())


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Server(str(tmp_path_factory.mktemp("patches") / "c.sqlite")) as server:
        yield server.url


def test_the_client_has_them(url: str) -> None:
    with Client(url) as client:
        conversation = client.start()
        here = EMPTY
        for text in ("hotel area north, maybe hotel stars 4", "any hotel area", "no hotel area and hotel stars 4"):
            answer = conversation.update(text)
            here = applied(here, answer)
            assert here == document(answer.to_json())
        assert answer.as_model.__doc__ and here["state"] == {"hotel-stars": "4"}
        answer = conversation.undo()
        assert applied(here, answer) == document(answer.to_json())


def test_the_service_answers_with_the_form_that_is_asked_for(url: str) -> None:
    with httpx.Client(base_url=url, timeout=LIMIT) as http:
        address = f"/v1/conversations/{http.post('/v1/conversations').json()['id']}"
        here = http.get(address).json()
        turns = ["hotel area north, maybe hotel stars 4", "any hotel area", "no hotel area"]
        for text, form in zip(turns, (JSON_PATCH, MERGE_PATCH, JSON_PATCH), strict=True):
            response = http.post(f"{address}/turns", json={"user": text}, headers={"accept": form})
            assert (response.status_code, response.headers["content-type"]) == (200, form)
            apply = jsonpatch.apply_patch if form == JSON_PATCH else merged
            here = apply(here, response.json())
            assert document(here) == document(http.get(address).json())
        whole = http.post(f"{address}/turns", json={"user": "hello"}, headers={"accept": "text/html, */*;q=0.1"})
        assert whole.headers["content-type"] == JSON and whole.json()["entry"]["version"] == 4
        refused = http.post(f"{address}/turns", json={"user": "x", "version": 1}, headers={"accept": JSON_PATCH})
        assert (refused.status_code, refused.headers["content-type"]) == (409, JSON)


PIZZA = {"domains": {"hotel": {"area": ["south"]}, "pizza": {"size": {}}}}


@pytest.mark.parametrize("form", [JSON_PATCH, MERGE_PATCH])
def test_every_edit_answers_in_the_form_that_is_asked_for(url: str, form: str) -> None:
    edits: list[tuple[str, dict[str, Any]]] = [
        ("turns", {"user": "hotel area north, maybe hotel stars 4, maybe hotel parking yes"}),
        ("confirm", {"slots": ["hotel-stars"]}),
        ("reject", {}),
        ("corrections", {"values": {"hotel-area": "south", "hotel-stars": None, "hotel-name": None}}),
        ("corrections", {"values": {"hotel-area": "south"}}),  # somebody looked at it, and nothing changes
        ("undo", {}),
        ("undo", {}),
        ("redo", {}),
        ("pin", {"slots": ["hotel-area"]}),
        ("unpin", {"slots": ["hotel-area"]}),
        ("turns", {"user": "hotel name acorn"}),
        ("schema", {"schema": PIZZA}),
        ("undo", {}),
    ]
    with httpx.Client(base_url=url, timeout=LIMIT) as http:
        address = f"/v1/conversations/{http.post('/v1/conversations').json()['id']}"
        here = document(http.get(address).json())
        for version, (name, body) in enumerate(edits, start=1):
            response = http.post(f"{address}/{name}", json=body, headers={"accept": form})
            assert (response.status_code, response.headers["content-type"]) == (200, form), response.text
            here = (jsonpatch.apply_patch if form == JSON_PATCH else merged)(here, response.json())
            assert document(here) == document(http.get(address).json()), name
            assert here["version"] == version
        whole = http.post(f"{address}/undo")
        assert whole.headers["content-type"] == JSON and whole.json()["entry"]["kind"] == "undo"
        refused = http.post(f"{address}/undo", json={"version": 1}, headers={"accept": form})
        assert (refused.status_code, refused.headers["content-type"]) == (409, JSON)


def test_the_same_key_gets_the_same_patch(url: str) -> None:
    with httpx.Client(
        base_url=url, headers={"accept": JSON_PATCH, "idempotency-key": "patch-1"}, timeout=LIMIT
    ) as http:
        made = http.post("/v1/conversations", headers={"idempotency-key": "patch-0"}).json()["id"]
        first, again = (http.post(f"/v1/conversations/{made}/turns", json={"user": "taxi departure x"}) for _ in "ab")
        assert first.json() == again.json() and first.json()[1]["path"] == "/state/taxi-departure"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", JSON),
        ("*/*", JSON),
        (JSON_PATCH, JSON_PATCH),
        (f"{JSON_PATCH}, */*", JSON_PATCH),
        (f"*/*, {MERGE_PATCH.upper()};charset=utf-8", MERGE_PATCH),
        (f"{JSON}, {JSON_PATCH}", JSON),
        (f"{JSON_PATCH};q=0.5, {JSON}", JSON),
        (f"{JSON_PATCH};q=0.5, {JSON};q=0.4, {MERGE_PATCH}; q=0.9", MERGE_PATCH),
        (f"{JSON_PATCH};q=0", JSON),
        (f"{JSON_PATCH};q=nan", JSON_PATCH),
        (",;=,q=", JSON),
    ],
)
def test_what_accept_prefers(accept: str, form: str) -> None:
    assert preferred(accept) == form
