"""The service as a client sees it, on SQLite and on PostgreSQL: every route, versions, keys, tenants, monitoring."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from postgres import PostgresServer
from services import Server
from waiting import LIMIT

from somdst import Client, Schema, Slot, State, Turn
from somdst.memory.state import DONTCARE
from somdst.service.client import Answer, ServiceError

KEYS = "acme:acme-key-0123456789,zoo:zoo-key-0123456789"


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if request.param == "sqlite":
        database = str(tmp_path_factory.mktemp("service") / "conversations.sqlite")
    else:
        postgres: PostgresServer = request.getfixturevalue("postgres")
        database = postgres.new_database()
    with Server(database, "--other", environment={"SOMDST_API_KEYS": KEYS}) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url, "acme-key-0123456789") as client:
        yield client


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=server.url, headers={"authorization": "Bearer acme-key-0123456789"}, timeout=LIMIT
    ) as http:
        yield http


def test_a_conversation_from_start_to_end(client: Client) -> None:
    conversation = client.start(subject="s1")
    answer = conversation.update("hotel area north, maybe hotel stars 4", system="Hello")
    assert isinstance(answer, Answer)
    assert answer.state == State({"hotel-area": "north"})
    [change] = answer.changes
    assert (change.operation, change.before, change.after, change.probability) == ("update", None, "north", 0.95)
    assert change.evidence is not None
    assert "hotel area north"[change.evidence.start : change.evidence.end] == "north"
    assert answer.pending[0].question == "Did you mean 4 for the number of stars of the hotel?"
    assert answer.entry.model == "rules"
    assert conversation.confirm().state == State({"hotel-area": "north", "hotel-stars": "4"})
    assert conversation.correct("hotel-area", "east", pin=True).pinned == {"hotel-area"}
    refused = conversation.update("any hotel area")
    assert refused.state["hotel-area"] == "east"
    assert refused.refused[0].slot == "hotel-area"
    assert conversation.unpin("hotel-area").pinned == frozenset()
    assert conversation.pin("hotel-area").pinned == {"hotel-area"}
    assert conversation.undo().pinned == frozenset()
    assert conversation.redo().pinned == {"hotel-area"}
    assert conversation.correct("hotel-area", DONTCARE).state["hotel-area"] is DONTCARE
    assert "hotel-area" not in conversation.correct("hotel-area", None, source="person").state
    log = conversation.log()
    kinds = ["turn", "confirm", "correction", "turn", "unpin", "pin", "undo", "redo", "correction", "correction"]
    assert [entry.kind for entry in log] == kinds
    assert [entry.source for entry in log][-2:] == ["api", "person"]
    view = conversation.read()
    assert (view.version, len(view.turns), view.can_undo, view.can_redo) == (10, 2, True, False)
    assert conversation.at(1).state == State({"hotel-area": "north"})
    assert conversation.at(0).state == State()
    conversation.erase()
    with pytest.raises(ServiceError, match="There is no conversation") as gone:
        conversation.read()
    assert gone.value.status == 404


def test_reject_and_nothing_to_do(client: Client) -> None:
    conversation = client.start()
    conversation.update("maybe hotel area north")
    assert conversation.reject("hotel-area").pending == ()
    for attempt, sentence in (
        (lambda: conversation.reject("hotel-area"), "nothing is pending"),
        (lambda: conversation.redo(), "nothing to redo"),
        (lambda: conversation.unpin("hotel-area"), "nothing to unpin"),
        (lambda: conversation.correct("hotel-aera", "x"), 'Did you mean "hotel-area"'),
        (lambda: conversation.update(""), "turn is empty"),
        (lambda: conversation.correct("hotel-name", " "), "1 to 500 characters"),
    ):
        with pytest.raises(ServiceError, match=sentence) as refused:
            attempt()
        assert refused.value.status == 422
    assert conversation.read().version == 2


def test_turns_and_the_history_of_a_slot(client: Client, http: httpx.Client) -> None:
    conversation = client.start()
    conversation.update("hotel area north")
    conversation.correct("hotel-area", "east", source="person")
    conversation.update("hotel stars 4")
    conversation.update("hotel area west")
    conversation.undo()
    path = f"/v1/conversations/{conversation.id}"
    turns = http.get(f"{path}/turns").json()["turns"]
    assert [turn["version"] for turn in turns] == [1, 3]
    assert [turn["state"] for turn in turns] == [
        {"hotel-area": "north"},
        {"hotel-area": "east", "hotel-stars": "4"},
    ]
    assert [turn["corrected"]["hotel-area"] for turn in turns] == ["east", "east"]
    history = http.get(f"{path}/slots/hotel-area/history").json()
    assert history["value"] == "east"
    told = [(event["kind"], event["in_force"]) for event in history["events"]]
    assert told == [("turn", True), ("correction", True), ("turn", False), ("undo", True)]
    assert http.get(f"{path}/slots/hotel-book day/history").json()["events"] == []
    assert http.get(f"{path}/slots/nonsense/history").status_code == 422


def test_versions(client: Client) -> None:
    conversation = client.start()
    conversation.update("hotel area north", version=0)
    with pytest.raises(ServiceError, match="is at version 1, not 0") as refused:
        conversation.update("hotel area south", version=0)
    assert (refused.value.status, refused.value.version) == (409, 1)
    conversation.correct("hotel-area", "east", version=1)
    assert conversation.read().version == 2


def test_an_idempotency_key_is_done_once(http: httpx.Client, client: Client) -> None:
    made = [http.post("/v1/conversations", headers={"idempotency-key": "create-1"}).json()["id"] for _ in range(2)]
    assert made[0] == made[1]
    path, body = f"/v1/conversations/{made[0]}/turns", {"user": "hotel area north", "version": 0}
    first = http.post(path, json=body, headers={"idempotency-key": "turn-1"})
    http.post(path, json={"user": "hotel area south"})
    again = http.post(path, json=body, headers={"idempotency-key": "turn-1"})
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    other = http.post(path, json={"user": "hotel area west"}, headers={"idempotency-key": "turn-1"})
    assert other.status_code == 422
    assert "used before for another request" in other.json()["error"]
    undo = f"/v1/conversations/{made[0]}/undo"
    undone = [http.post(undo, headers={"idempotency-key": "undo-1"}).json()["version"] for _ in range(3)]
    assert undone == [3, 3, 3]
    assert client.open(made[0]).read().version == 3


def test_pages_and_subjects(client: Client, http: httpx.Client) -> None:
    ids = [client.start(subject="page@example.org").id for _ in range(5)]
    page = http.get("/v1/conversations", params={"subject": "page@example.org", "limit": 2}).json()
    found = [item["id"] for item in page["conversations"]]
    while page["next"]:
        query = {"subject": "page@example.org", "limit": 2, "cursor": page["next"]}
        page = http.get("/v1/conversations", params=query).json()
        found += [item["id"] for item in page["conversations"]]
    assert found == ids[::-1]
    assert [summary.id for summary in client.conversations(subject="page@example.org")] == found
    assert client.erase_subject("page@example.org") == 5
    assert client.erase_subject("page@example.org") == 0
    assert http.get("/v1/conversations", params={"cursor": "bm9uc2Vuc2U"}).status_code == 422


def test_tenants_do_not_see_each_other(server: Server, client: Client) -> None:
    conversation = client.start(subject="shared")
    conversation.update("hotel area north")
    with Client(server.url, "zoo-key-0123456789") as other:
        assert conversation.id not in {summary.id for summary in other.conversations()}
        stranger = other.open(conversation.id)
        for attempt in (
            stranger.read,
            stranger.log,
            stranger.undo,
            stranger.erase,
            lambda: stranger.at(1),
            lambda: stranger.update("hotel area south"),
            lambda: stranger.correct("hotel-area", "x"),
            lambda: other.replay("shouting", conversations=[conversation.id]),
        ):
            with pytest.raises(ServiceError, match="There is no conversation") as refused:
                attempt()
            assert refused.value.status == 404
        assert other.erase_subject("shared") == 0
        assert conversation.id not in {dialogue.id for dialogue in other.export(every=True)}
    assert conversation.read().version == 1


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong-key-0123456789", "Basic YTpi", "acme-key-0123456789"])
def test_no_key_no_answer(server: Server, header: str) -> None:
    for method, path in (("GET", "/v1/conversations"), ("POST", "/v1/track"), ("GET", "/v1/nothing")):
        answer = httpx.request(
            method, server.url + path, headers={"authorization": header} if header else {}, timeout=LIMIT
        )
        assert answer.status_code == 401
        assert "API key" in answer.json()["error"]
        assert answer.headers["www-authenticate"] == "Bearer"


def test_a_whole_dialogue_without_storing(client: Client) -> None:
    before = len(list(client.conversations()))
    turns = [Turn("", "hotel area north"), Turn("Stars?", "hotel stars 4"), Turn("", "no hotel area")]
    tracked = client.track(turns, state=State({"train-day": "friday"}))
    assert [turn.state for turn in tracked] == [
        State({"train-day": "friday", "hotel-area": "north"}),
        State({"train-day": "friday", "hotel-area": "north", "hotel-stars": "4"}),
        State({"train-day": "friday", "hotel-stars": "4"}),
    ]
    assert len(list(client.conversations())) == before


def test_replay_under_another_model(client: Client) -> None:
    conversation = client.start()
    conversation.update("hotel area north")
    conversation.correct("hotel-area", "east")
    conversation.update("hotel stars 4, hotel name ashley")
    conversation.update("hotel name worth house")
    conversation.undo()
    replayed = client.replay("shouting", conversations=[conversation.id])
    assert (replayed.model, replayed.turns, replayed.changed_turns) == ("shouting", 2, 2)
    [found] = replayed.conversations
    assert [(item.turn, item.slot, item.stored, item.replayed) for item in found.differences] == [
        (1, "hotel-area", "north", "NORTH"),
        (2, "hotel-name", "ashley", "ASHLEY"),
    ]
    assert conversation.read().state["hotel-name"] == "ashley"
    with pytest.raises(ServiceError, match='no other model "nothing"; there are shouting') as refused:
        client.replay("nothing")
    assert refused.value.status == 422


def test_corrections_can_be_exported(client: Client) -> None:
    conversation = client.start()
    conversation.update("hotel area north")
    conversation.correct("hotel-area", "east", source="person")
    [dialogue] = [dialogue for dialogue in client.export() if dialogue.id == conversation.id]
    assert dialogue.states() == [State({"hotel-area": "east"})]


def test_schema_and_model(client: Client) -> None:
    assert len(client.schema()) == 30
    assert client.model() == "rules"
    assert client.ready()


def test_monitoring(server: Server, client: Client) -> None:
    client.start().update("hotel area north, maybe hotel stars 3")
    assert httpx.get(f"{server.url}/healthz", timeout=LIMIT).json() == {"status": "ok"}
    assert httpx.get(f"{server.url}/readyz", timeout=LIMIT).json() == {"ready": True, "model": "rules"}
    text = httpx.get(f"{server.url}/metrics", timeout=LIMIT).text
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    turns = float(lines["somdst_turns_total"])
    assert turns >= 1
    assert float(lines["somdst_batch_size_count"]) >= 1
    assert float(lines['somdst_operations_total{operation="update",source="model"}']) >= 1
    assert float(lines["somdst_pending_writes_total"]) >= 1
    assert float(lines["somdst_queue_length"]) == 0
    route = "/v1/conversations/{id}/turns"
    assert float(lines[f'somdst_requests_total{{method="POST",route="{route}",status="200"}}']) >= 1
    assert float(lines[f'somdst_request_seconds_count{{route="{route}"}}']) >= 1


def test_turns_of_one_conversation_keep_their_order(client: Client) -> None:
    from concurrent.futures import ThreadPoolExecutor

    conversation = client.start()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: conversation.update(f"hotel name place {n}"), range(24)))
    view = conversation.read()
    assert (view.version, view.turn_count, len(view.turns)) == (24, 24, 16)
    turns = [entry.turn for entry in conversation.log() if entry.turn is not None]
    assert sorted(turn.user for turn in turns) == sorted(f"hotel name place {n}" for n in range(24))
    assert list(view.turns) == turns[-16:]


def test_the_log_a_page_at_a_time(client: Client, http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = client.start()
    for number in range(5):
        conversation.update(f"hotel name place {number}")
    path = f"/v1/conversations/{conversation.id}/log"
    page = http.get(path, params={"after": 1, "limit": 2}).json()
    assert (page["version"], [entry["version"] for entry in page["entries"]]) == (5, [2, 3])
    assert http.get(path, params={"after": 5}).json()["entries"] == []
    assert [entry["version"] for entry in http.get(path).json()["entries"]] == [1, 2, 3, 4, 5]
    assert http.get(path, params={"limit": 0}).status_code == 422
    monkeypatch.setattr("somdst.service.client.LOG_PAGE", 2)
    assert [entry.version for entry in conversation.log()] == [1, 2, 3, 4, 5]


def test_the_log_of_the_service_is_json_without_utterances(tmp_path: Path) -> None:
    server = Server(str(tmp_path / "c.sqlite"), "--log-level", "INFO").start()
    with Client(server.url) as client:
        conversation = client.start()
        conversation.update("hotel name the-secret-place")
        with pytest.raises(ServiceError):
            conversation.correct("hotel-aera", "the-secret-place")
    lines = [json.loads(line) for line in server.stop().splitlines()]
    requests = [line for line in lines if line["event"] == "request"]
    assert {"method", "route", "status", "ms", "tenant", "request"} <= requests[-1].keys()
    assert requests[-1]["tenant"] == "local"
    assert not any("the-secret-place" in json.dumps(line) for line in lines)


def test_what_to_ask(client: Client, http: httpx.Client) -> None:
    conversation = client.start()
    assert conversation.what_to_ask() == ()  # it is about nothing yet
    conversation.update("hotel area north, maybe hotel stars 4")
    first, *others = conversation.what_to_ask()
    assert (first.slot, first.kind, first.value) == ("hotel-stars", "confirm", "4")
    assert first.question == "Did you mean 4 for the number of stars of the hotel?"
    assert {item.kind for item in others} == {"ask"} and {item.slot.split("-")[0] for item in others} == {"hotel"}
    named = conversation.what_to_ask("train-day", "hotel-area", "hotel-book stay")
    assert [item.slot for item in named] == ["hotel-stars", "train-day", "hotel-book stay"]
    assert named[-1].question == "How many nights?"
    path = f"/v1/conversations/{conversation.id}/questions"
    assert http.get(path).json()["version"] == 1
    assert http.get(path, params={"slot": "hotel-aera"}).json()["error"].endswith('Did you mean "hotel-area"?')
    assert http.get(f"/v1/conversations/{'0' * 32}/questions").status_code == 404
    mine = client.start(
        schema=Schema([Slot.of("pizza", "size", required=True, ask="How big?"), Slot.of("pizza", "dip")])
    )
    assert [item.question for item in mine.what_to_ask()] == ["How big?"]
    mine.change_schema(None)
    assert mine.what_to_ask("hotel-area")[0].slot == "hotel-area"
