"""One service, many schemas: stored per tenant, named by conversations, changed on the way, refused in one sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from bad_schemas import BAD, listing
from postgres import PostgresServer
from pydantic import BaseModel
from services import Server
from waiting import LIMIT

from somdst import Client, Schema, Slot, State, Turn
from somdst.service.client import ServiceError
from somdst.store import Store, verify

PIZZA = Schema(
    [
        Slot.of("pizza", "size", description="how large it is", values=["small", "medium", "large"]),
        Slot.of("pizza", "topping", description="what is on it"),
        Slot.of("pizza", "address", description="where to bring it"),
    ]
)
CAFE = Schema(
    [
        Slot.of("pizza", "size", description="how large it is", values=["small", "huge"]),
        Slot.of("pizza", "topping", description="what is on it"),
        Slot.of("coffee", "milk", values=["oat", "cow"]),
    ]
)
NOBODY_S = "0" * 24
KEYS = "acme:acme-key-0123456789,zoo:zoo-key-0123456789"


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if request.param == "sqlite":
        database = str(tmp_path_factory.mktemp("schemas") / "conversations.sqlite")
    else:
        postgres: PostgresServer = request.getfixturevalue("postgres")
        database = postgres.new_database()
    with Server(database, "--other", environment={"SOMDST_API_KEYS": KEYS}) as server:
        server.database = database  # type: ignore[attr-defined]
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url, "acme-key-0123456789") as client:
        yield client


@pytest.fixture
def zoo(server: Server) -> Iterator[Client]:
    with Client(server.url, "zoo-key-0123456789") as client:
        yield client


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=server.url, headers={"authorization": "Bearer acme-key-0123456789"}, timeout=LIMIT
    ) as http:
        yield http


def test_a_schema_is_stored_once_under_its_content(client: Client, http: httpx.Client) -> None:
    id = client.add_schema(PIZZA)
    assert id == PIZZA.id == client.add_schema(Schema.from_json(PIZZA.to_json()))
    assert client.schema(id) == PIZZA
    [summary] = [item for item in client.schemas() if item.id == id]
    assert (summary.domains, summary.slots) == (("pizza",), 3)
    view = http.get(f"/v1/schemas/{id}").json()
    assert [slot["slot"] for slot in view["slots"]] == ["pizza-address", "pizza-size", "pizza-topping"]
    assert view["definition"] == PIZZA.to_json()
    own = http.get("/v1/schema").json()
    assert own["id"] == Schema.multiwoz().id and client.schema() == Schema.multiwoz()


def test_schemas_are_listed_a_page_at_a_time(zoo: Client) -> None:
    made = [zoo.add_schema(Schema([Slot.of("many", f"slot {n}")])) for n in range(7)]
    seen: list[str] = []
    query: dict[str, str] = {"limit": "3"}
    while True:
        page = zoo.send("GET", "/v1/schemas", query=query)
        assert len(page["schemas"]) <= 3
        seen += [item["id"] for item in page["schemas"]]
        if page["next"] is None:
            break
        query["cursor"] = page["next"]
    assert sorted(seen) == sorted(item.id for item in zoo.schemas()) and set(made) <= set(seen)
    for id in made:
        zoo.delete_schema(id)


def test_a_slot_with_a_slash_and_one_with_the_longest_name(client: Client, http: httpx.Client) -> None:
    long = f"{'d' * 100}-{'n' * 100}"
    schema = Schema([Slot.of("pizza", "half/half"), Slot.of(*long.split("-"))])
    conversation = client.start(schema=schema)
    conversation.correct("pizza-half/half", "ham")
    path = f"/v1/conversations/{conversation.id}/slots"
    for name in ("pizza-half/half", "pizza-half%2Fhalf"):
        assert http.get(f"{path}/{name}/history").json()["value"] == "ham"
    assert conversation.correct(long, "x").state[long] == "x"
    assert http.get(f"{path}/{long}/history").json()["value"] == "x"


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "by its id"])
def test_a_conversation_with_a_schema_of_its_own(client: Client, http: httpx.Client, inline: bool) -> None:
    conversation = client.start(subject="s", schema=PIZZA if inline else client.add_schema(PIZZA))
    start = conversation.read()
    assert (start.version, start.schema, start.can_undo, start.state) == (1, PIZZA.id, False, State())
    answer = conversation.update("pizza size Large and pizza topping ham, hotel area north")
    assert answer.state == State({"pizza-size": "large", "pizza-topping": "ham"}) and answer.schema == PIZZA.id
    assert conversation.correct("pizza-size", "Small", pin=True).state["pizza-size"] == "small"
    for attempt, sentence in (
        (lambda: conversation.correct("hotel-area", "north"), 'no slot "hotel-area" among the 3 of this tracker'),
        (lambda: conversation.correct("pizza-size", "gigantic"), "not among the values"),
        (lambda: conversation.pin("pizza-toping"), 'Did you mean "pizza-topping"'),
    ):
        with pytest.raises(ServiceError, match=sentence) as refused:
            attempt()
        assert refused.value.status == 422
    path = f"/v1/conversations/{conversation.id}"
    assert http.get(f"{path}/slots/pizza-address/history").json()["events"] == []
    assert http.get(f"{path}/slots/hotel-area/history").status_code == 422
    assert http.get(f"{path}/versions/0").json()["schema"] is None
    assert [entry.kind for entry in conversation.log()] == ["start", "turn", "correction"]
    for _ in range(2):
        conversation.undo()
    with pytest.raises(ServiceError, match="nothing to undo"):
        conversation.undo()
    assert conversation.read().schema == PIZZA.id
    [summary] = [item for item in client.conversations() if item.id == conversation.id]
    assert summary.schema == PIZZA.id


def test_a_conversation_without_one_is_as_before(client: Client) -> None:
    conversation = client.start()
    assert (conversation.read().version, conversation.read().schema) == (0, None)
    assert conversation.update("hotel area north, pizza size large").state == State({"hotel-area": "north"})


def test_the_same_key_makes_one_conversation(http: httpx.Client) -> None:
    body = {"schema": PIZZA.to_json()}
    made = [http.post("/v1/conversations", json=body, headers={"idempotency-key": "pizza-1"}) for _ in range(2)]
    assert made[0].status_code == made[1].status_code == 201 and made[0].json() == made[1].json()
    assert made[0].json()["version"] == 1


def test_a_dialogue_under_any_schema(client: Client) -> None:
    turns = [Turn("", "pizza size small"), Turn("", "pizza topping ham")]
    for schema in (PIZZA, client.add_schema(PIZZA)):
        tracked = client.track(turns, schema=schema, state=State({"pizza-address": "mill road"}))
        wanted = {"pizza-address": "mill road", "pizza-size": "small", "pizza-topping": "ham"}
        assert tracked[-1].state == State(wanted)
    assert client.track(turns)[-1].state == State()


def test_the_order_of_a_schema_is_kept_for_questions(client: Client, http: httpx.Client) -> None:
    class Order(BaseModel):
        topping: str
        size: str
        number: int = 1
        address: str

    schema = Schema.from_pydantic(Order)
    id = client.add_schema(schema)
    assert list(http.get(f"/v1/schemas/{id}").json()["definition"]["domains"]["order"]) == list(Order.model_fields)
    assert client.schema(id).written == schema.written
    for given in (id, schema):
        conversation = client.start(schema=given)
        conversation.update("order number 2")
        assert [item.slot for item in conversation.what_to_ask()] == ["order-topping", "order-size", "order-address"]


# Another schema for a live conversation


def test_another_schema_keeps_what_fits_and_reports_the_rest(client: Client, server: Server) -> None:
    conversation = client.start(schema=PIZZA)
    conversation.update("pizza size large and pizza topping ham, maybe pizza address mill road")
    conversation.pin("pizza-address")
    before = conversation.read()
    answer = conversation.change_schema(CAFE, source="person")
    assert answer.schema == CAFE.id and answer.state == State({"pizza-topping": "ham"})
    assert (answer.entry.kind, answer.entry.source) == ("schema", "person")
    assert {(item.slot, item.after, item.reason) for item in answer.refused} == {
        ("pizza-size", "large", '"large" is not among the values of pizza-size, and none of them is near.'),
        ("pizza-address", "mill road", "The new schema has no slot pizza-address."),
    }
    assert answer.pending == () and answer.pinned == frozenset()
    after = conversation.update("coffee milk oat, pizza size huge, pizza address here")
    assert after.state == State({"coffee-milk": "oat", "pizza-size": "huge", "pizza-topping": "ham"})
    conversation.undo()
    back = conversation.undo()
    assert (back.schema, back.state, back.pinned, back.pending) == (
        PIZZA.id,
        before.state,
        before.pinned,
        before.pending,
    )
    assert conversation.update("pizza size medium").state["pizza-size"] == "medium"
    conversation.undo()
    assert conversation.redo().state["pizza-size"] == "medium"
    for version in range(conversation.read().version + 1):
        assert conversation.at(version).version == version
    with pytest.raises(ServiceError, match="has this schema already"):
        conversation.change_schema(PIZZA)
    own = conversation.change_schema(None)
    assert own.schema is None and {item.slot for item in own.refused} == set(PIZZA)
    assert conversation.update("hotel area north").state == State({"hotel-area": "north"})
    store = Store(server.database)  # type: ignore[attr-defined]
    assert set(verify(store)) == {None}
    store.close()


def test_values_are_spelt_as_the_new_list_has_them(client: Client) -> None:
    conversation = client.start()
    conversation.update("hotel area North, maybe hotel type Hostel")
    listed = Schema([Slot.of("hotel", "area", values=["NORTH", "south"]), Slot.of("hotel", "type", values=["HOSTEL"])])
    answer = conversation.change_schema(listed)
    assert answer.state == State({"hotel-area": "NORTH"}) and answer.refused == ()
    assert [item.after for item in answer.pending] == ["HOSTEL"]
    assert conversation.undo().state == State({"hotel-area": "north"})


def test_a_change_of_schema_is_a_write_like_others(client: Client, http: httpx.Client) -> None:
    conversation = client.start()
    with pytest.raises(ServiceError, match="is at version 0, not 7") as refused:
        conversation.change_schema(PIZZA, version=7)
    assert refused.value.status == 409
    path, body = f"/v1/conversations/{conversation.id}/schema", {"schema": PIZZA.to_json()}
    answers = [http.post(path, json=body, headers={"idempotency-key": "other-1"}).json() for _ in range(2)]
    assert answers[0] == answers[1] and conversation.read().version == 1


# Who may use and delete a schema


def test_another_tenant_s_schema_does_not_exist(client: Client, zoo: Client) -> None:
    mine = client.add_schema(Schema([Slot.of("secret", "plan")]))
    theirs = zoo.start()
    for id in (mine, NOBODY_S):
        for attempt in (
            lambda id=id: zoo.schema(id),
            lambda id=id: zoo.delete_schema(id),
            lambda id=id: zoo.start(schema=id),
            lambda id=id: theirs.change_schema(id),
            lambda id=id: zoo.track([Turn("", "hello")], schema=id),
        ):
            with pytest.raises(ServiceError, match=f"There is no schema {id}") as refused:
                attempt()
            assert refused.value.status == 404
    assert mine not in {item.id for item in zoo.schemas()} and theirs.read().version == 0
    client.delete_schema(mine)


def test_a_schema_in_use_stays(client: Client) -> None:
    schema = Schema([Slot.of("used", "once")])
    conversation = client.start(schema=schema)
    conversation.change_schema(None)
    with pytest.raises(ServiceError, match="is used by a conversation") as refused:
        client.delete_schema(schema.id)
    assert refused.value.status == 409
    assert conversation.undo().schema == schema.id, "so it can always go back"
    conversation.erase()
    client.delete_schema(schema.id)
    with pytest.raises(ServiceError) as gone:
        client.schema(schema.id)
    assert gone.value.status == 404
    assert client.start(schema=schema).update("used once yes").state == State({"used-once": "yes"})


# Bad schemas


@pytest.mark.parametrize("name", list(BAD))
def test_a_bad_schema_is_one_sentence_and_nothing_is_stored(client: Client, http: httpx.Client, name: str) -> None:
    schema, sentence = BAD[name]
    stored = {item.id for item in client.schemas()}
    conversation = client.start()
    conversations = {item.id for item in client.conversations()}
    places = [("/v1/schemas", {}), ("/v1/schemas/check", {})]
    if not isinstance(schema, str):
        places += [("/v1/conversations", {}), (f"/v1/conversations/{conversation.id}/schema", {})]
        places += [("/v1/track", {"turns": [{"user": "hello"}]})]
    for path, more in places:
        text = json.dumps({"schema": schema, **more})
        answer = http.post(path, content=text, headers={"content-type": "application/json"})
        assert answer.status_code == 422, (path, answer.text)
        said = answer.json()["error"]
        assert "\n" not in said and said.endswith(".")
        assert re.search(sentence, said), said
    assert {item.id for item in client.schemas()} == stored
    assert {item.id for item in client.conversations()} == conversations and conversation.read().version == 0


def test_a_schema_of_five_megabytes(http: httpx.Client) -> None:
    for schema in ("# " + "x" * 5_000_000, listing(["x" * 5_000_000])):
        answer = http.post("/v1/schemas", json={"schema": schema})
        assert answer.status_code == 413 and "are read: send less." in answer.json()["error"]


@pytest.mark.parametrize("id", ["nonsense", "0" * 23, "../../etc/passwd", "0" * 23 + "\0", "'; DROP TABLE schemas; --"])
def test_something_that_is_no_id(http: httpx.Client, id: str) -> None:
    for path in ("/v1/conversations", "/v1/track"):
        assert http.post(path, json={"schema": id, "turns": [{"user": "x"}]}).status_code == 422
    assert http.get("/v1/schemas/nonsense").status_code == 422


def test_markup_and_sql_are_only_text(client: Client) -> None:
    text = "<script>alert(1)</script>'; DROP TABLE schemas; -- {{7*7}} %s \\ \u202e"
    schema = Schema([Slot.of("d", "s", description=text, values=["<b>bold</b>", "'; --"])])
    assert client.schema(client.add_schema(schema)) == schema
    assert client.start(schema=schema).correct("d-s", "<b>bold</b>").state == State({"d-s": "<b>bold</b>"})


def test_text_of_a_file(http: httpx.Client) -> None:
    text = "domains:\n  pizza:\n    size: [small, large]   # how big\n    ready: {values: [17:15, no]}\n"
    checked = http.post("/v1/schemas/check", json={"schema": text})
    assert checked.status_code == 200 and http.get(f"/v1/schemas/{checked.json()['id']}").status_code == 404
    stored = http.post("/v1/schemas", json={"schema": text})
    remarks = checked.json()["remarks"]
    assert stored.status_code == 201 and checked.json() == stored.json() | {"remarks": remarks}
    assert remarks[0] == "pizza-ready has no description: say in a few words what it is."
    assert [slot["values"] for slot in stored.json()["slots"]] == [["17:15", "no"], ["small", "large"]]


# Around it


def test_logs_with_schemas_under_another_model(client: Client) -> None:
    conversation = client.start(schema=PIZZA)
    conversation.update("pizza topping ham")
    conversation.change_schema(CAFE)
    conversation.update("coffee milk oat, pizza topping egg")
    replayed = client.replay("shouting", conversations=[conversation.id])
    [found] = replayed.conversations
    assert [(item.turn, item.slot, item.replayed) for item in found.differences] == [
        (1, "pizza-topping", "HAM"),
        (2, "pizza-topping", "EGG"),
    ], "and the closed list of coffee-milk holds there too"


def test_what_an_operator_sees(client: Client, http: httpx.Client) -> None:
    def count(name: str) -> float:
        [line] = [line for line in http.get("/metrics").text.splitlines() if line.startswith(f"{name} ")]
        return float(line.split()[1])

    changes, compiled = count("somdst_schema_changes_total"), count("somdst_schema_compilations_total")
    conversation = client.start(schema=Schema([Slot.of("metrics", "new")]))
    for _ in range(3):
        conversation.update("metrics new yes")
    conversation.change_schema(None)
    assert count("somdst_schema_compilations_total") == compiled + 1, "once, not once per turn"
    assert count("somdst_schema_changes_total") == changes + 1
    assert http.get("/v1/model").json()["any_schema"] is True


def test_a_model_with_a_fixed_schema_refuses_other_slots(tmp_path: Path) -> None:
    with Server(str(tmp_path / "fixed.sqlite"), "--model", "fixed") as server, Client(server.url) as client:
        fewer = Schema([Slot.of("hotel", "area", values=["north"])])
        assert client.start(schema=fewer).update("hotel area north, hotel stars 4").state == State(
            {"hotel-area": "north"}
        )
        for attempt in (
            lambda: client.add_schema(PIZZA),
            lambda: client.start(schema=PIZZA),
            lambda: client.track([Turn("", "x")], schema=PIZZA),
        ):
            with pytest.raises(ServiceError, match="was not trained on the slot") as refused:
                attempt()
            assert refused.value.status == 422
        assert client.send("GET", "/v1/model")["any_schema"] is False
