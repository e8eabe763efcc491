"""The MCP server, with the official client: in this process, over stdio to a real one, over HTTP to a real socket."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from bad_schemas import BAD
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from scripted import AnyRules, RulePredictor
from waiting import LIMIT

from somdst import Schema, Slot, Tracker
from somdst.errors import InputError
from somdst.integrations.mcp import build_server
from somdst.model.prediction import Prediction
from somdst.service.configuration import LOCAL
from somdst.store import Store, Write
from somdst.tracking import edits

TOOLS = {"track_turn", "get_state", "correct", "undo", "explain", "what_to_ask"}
COMMAND = ["-m", "somdst", "mcp", "--threshold", "0", "--threads", "1"]
KEY, OTHER_KEY = "a-key-of-the-first-tenant", "a-key-of-another-tenant"
HALF = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {
        "name": "track_turn",
        "arguments": {"user": "hello", "schema": BAD["half a character in a name"][0]},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    },
}
"""A call with half a surrogate pair, which the protocol without sessions lets through."""
HALF_HEADERS = {
    "Content-Type": "application/json",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
    "Mcp-Name": "track_turn",
}
OVER_HTTP = ("an enum of 10,000 values", "300 slots", "an object that contains itself")


class Session:
    """A client's connection, with the answers of tools as Python."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> Any:
        answer = await self.client.call_tool(tool, arguments)
        assert not answer.is_error, answer.content
        assert json.loads(answer.content[0].text) == answer.structured_content  # type: ignore[union-attr]
        return answer.structured_content

    async def problem(self, tool: str, **arguments: Any) -> str:
        answer = await self.client.call_tool(tool, arguments)
        assert answer.is_error
        return str(answer.content[0].text)  # type: ignore[union-attr]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store(str(tmp_path / "conversations.sqlite"))) as store:
        yield store


def talk(store: Store, script: Callable[[Session], Awaitable[None]], predictor: RulePredictor | None = None) -> None:
    """Run a script against a server in this process, with a predictor made of rules."""

    async def main() -> None:
        async with Client(build_server(Tracker(predictor or RulePredictor(), threshold=0.5), store)) as client:
            await script(Session(client))

    asyncio.run(main())


def test_the_tools_describe_themselves(store: Store) -> None:
    async def script(session: Session) -> None:
        tools = {tool.name: tool for tool in (await session.client.list_tools()).tools}
        assert set(tools) == TOOLS
        for tool in tools.values():
            assert tool.description and tool.output_schema
            assert all(field.get("description") for field in tool.input_schema["properties"].values()), tool.name
            assert "context" not in tool.input_schema["properties"]
        reading = {name for name, tool in tools.items() if tool.annotations and tool.annotations.read_only_hint}
        assert reading == {"get_state", "explain", "what_to_ask"}
        assert "hotel-book people" in (session.client.instructions or "")

    talk(store, script)


def test_a_conversation_through_all_six_tools(store: Store) -> None:
    async def script(session: Session) -> None:
        first = await session.call("track_turn", user="hotel area north, maybe hotel stars 4")
        id = first["conversation"]
        assert first["state"] == {"hotel-area": "north"} and first["version"] == 1
        assert first["changes"][0]["evidence"]["text"] == "north"
        assert first["pending"][0]["question"] == "Did you mean 4 for the number of stars of the hotel?"
        second = await session.call("track_turn", user="yes", system="So hotel name acorn?", conversation=id)
        assert second["state"] == {"hotel-area": "north", "hotel-name": "acorn"}
        asked = (await session.call("what_to_ask", conversation=id, slots=["hotel-book stay"]))["questions"]
        assert [(item["kind"], item["slot"]) for item in asked] == [
            ("confirm", "hotel-stars"),
            ("ask", "hotel-book stay"),
        ]
        corrected = await session.call("correct", conversation=id, slot="hotel-area", value="south", pin=True)
        assert corrected["state"]["hotel-area"] == "south" and corrected["pinned"] == ["hotel-area"]
        emptied = await session.call("correct", conversation=id, slot="hotel-name", value=None)
        assert emptied["state"] == {"hotel-area": "south"}
        await session.call("undo", conversation=id)
        undone = await session.call("undo", conversation=id)
        assert undone["state"] == {"hotel-area": "north", "hotel-name": "acorn"} and undone["pinned"] == []
        state = await session.call("get_state", conversation=id)
        assert state == {key: undone[key] for key in state} and state["version"] == 6
        then = await session.call("get_state", conversation=id, version=1)
        assert then["state"] == {"hotel-area": "north"} and then["version"] == 1
        events = (await session.call("explain", conversation=id, slot="hotel-area"))["events"]
        assert [(event["kind"], event["change"]["after"]) for event in events] == [
            ("turn", "north"),
            ("correction", "south"),
            ("undo", "north"),
        ]

    talk(store, script)


PIZZA = {
    "title": "pizza",
    "type": "object",
    "properties": {"size": {"enum": ["small", "large"]}, "topping": {"type": "string", "description": "what is on it"}},
}


def test_a_conversation_with_a_schema_of_its_own(store: Store) -> None:
    async def script(session: Session) -> None:
        first = await session.call("track_turn", user="pizza size large", schema=PIZZA)
        id, schema = first["conversation"], first["schema"]
        assert first["state"] == {"pizza-size": "large"} and first["version"] == 2  # the first names the schema
        questions = (await session.call("what_to_ask", conversation=id))["questions"]
        assert [item["question"] for item in questions] == ["Can you tell me what is on it?"]
        await session.call("correct", conversation=id, slot="pizza-topping", value="ham")
        assert "There is no slot" in await session.problem("correct", conversation=id, slot="hotel-area", value="north")
        assert len((await session.call("explain", conversation=id, slot="pizza-topping"))["events"]) == 1
        then = await session.call("track_turn", user="pizza topping egg, hotel area north", conversation=id)
        assert then["state"] == {"pizza-size": "large", "pizza-topping": "egg"}
        for same in (schema, json.dumps(PIZZA)):  # by its id, and as text
            again = await session.call("track_turn", user="pizza topping ham", schema=same)
            assert again["schema"] == schema and again["conversation"] != id
        own = await session.call("track_turn", user="pizza topping ham, hotel area north")
        assert own["state"] == {"hotel-area": "north"} and own["schema"] is None
        for problem in (
            await session.problem("track_turn", user="hello", conversation=id, schema=PIZZA),
            await session.problem("track_turn", user="hello", schema={"domains": {}}),
            await session.problem("track_turn", user="hello", schema={}),
            await session.problem("track_turn", user="hello", schema="0" * 24),
            await session.problem("track_turn", user="hello", schema="pizza"),
        ):
            assert problem.endswith("."), problem

    talk(store, script, AnyRules())
    assert len(store.page(LOCAL).records) == 4  # what was refused started no conversation


def test_a_bad_schema_is_one_sentence_and_nothing_is_stored(store: Store) -> None:
    async def script(session: Session) -> None:
        for name, (schema, sentence) in BAD.items():
            if "half a character" in name:  # which this client cannot write; over HTTP others can, see below
                continue
            if isinstance(schema, str):  # here a text is the id of a schema
                schema, sentence = "0" * 24, "There is no schema 0+: "
            problem = await session.problem("track_turn", user="hello", schema=schema)
            assert re.search(sentence, problem), (name, problem)
            assert problem.endswith(".") and "\n" not in problem, name

    talk(store, script, AnyRules())
    assert not store.page(LOCAL).records and not store.schemas.page(LOCAL)[0]


def test_a_first_turn_that_is_refused_leaves_no_conversation(store: Store) -> None:
    class Full(AnyRules):
        def predict(self, inputs: object, **_: object) -> list[Prediction]:
            raise InputError("The slots take too much room.")

    async def script(session: Session) -> None:
        assert "too much room" in await session.problem("track_turn", user="hello")

    talk(store, script, Full())
    assert not store.page(LOCAL).records


def test_a_slot_of_an_earlier_schema_is_explained(store: Store) -> None:
    async def script(session: Session) -> None:
        id = (await session.call("track_turn", user="pizza size large", schema=PIZZA))["conversation"]
        other = Schema([Slot.of("coffee", "milk")])
        store.schemas.add(LOCAL, other)  # as `somdst serve` does it, in the same database
        change = edits.change_schema(store.read(LOCAL, id).snapshot, other, id=other.id)
        store.append(Write(LOCAL, id, change))
        events = (await session.call("explain", conversation=id, slot="pizza-size"))["events"]
        assert [(event["kind"], event["change"]["after"]) for event in events] == [("turn", "large"), ("schema", None)]
        assert (await session.call("explain", conversation=id, slot="coffee-milk"))["events"] == []
        assert "There is no slot" in await session.problem("explain", conversation=id, slot="pizza-topping")

    talk(store, script, AnyRules())


def test_a_model_of_a_fixed_schema_refuses_others(store: Store) -> None:
    async def script(session: Session) -> None:
        assert "was not trained on" in await session.problem("track_turn", user="pizza size large", schema=PIZZA)

    talk(store, script)
    assert not store.page(LOCAL).records


def test_an_error_is_a_sentence_for_the_language_model(store: Store) -> None:
    async def script(session: Session) -> None:
        id = (await session.call("track_turn", user="hotel area north"))["conversation"]
        assert 'Did you mean "hotel-area"?' in await session.problem(
            "correct", conversation=id, slot="hotel-aera", value="south"
        )
        assert "There is no conversation 123" in await session.problem("get_state", conversation="123")
        assert "versions 0 to 1" in await session.problem("get_state", conversation=id, version=7)
        assert "There is no slot" in await session.problem("explain", conversation=id, slot="hotel")
        assert "There is no slot" in await session.problem("what_to_ask", conversation=id, slots=["hotel"])
        assert "The turn is empty" in await session.problem("track_turn", user=" ")
        await session.call("undo", conversation=id)
        assert "There is nothing to undo." in await session.problem("undo", conversation=id)

    talk(store, script)
    assert len(store.page(LOCAL).records) == 1  # an empty turn starts no conversation


def test_calls_at_the_same_time_all_count(store: Store) -> None:
    slots = ["hotel-area", "hotel-name", "hotel-stars", "train-day", "taxi-departure", "attraction-type"]

    async def script(session: Session) -> None:
        id = (await session.call("track_turn", user="hello"))["conversation"]
        await asyncio.gather(
            *(session.call("correct", conversation=id, slot=slot, value=slot[-3:]) for slot in slots),
            session.call("track_turn", user="restaurant food thai", conversation=id),
        )
        state = await session.call("get_state", conversation=id)
        assert state["version"] == len(slots) + 2
        assert state["state"] == {slot: slot[-3:] for slot in slots} | {"restaurant-food": "thai"}

    talk(store, script)


async def book(client: Client) -> str:
    """A few turns on the shipped model, from two transports: the id of the conversation."""
    session = Session(client)
    first = await session.call("track_turn", user="I need a cheap hotel in the north.")
    id = str(first["conversation"])
    assert first["state"]["hotel-area"] == "north" and first["state"]["hotel-pricerange"] == "cheap"
    corrected = await session.call("correct", conversation=id, slot="hotel-area", value="south")
    assert corrected["state"]["hotel-area"] == "south"
    assert (await session.call("undo", conversation=id))["state"]["hotel-area"] == "north"
    events = (await session.call("explain", conversation=id, slot="hotel-area"))["events"]
    assert events[0]["change"]["evidence"]["text"] == "north"
    questions = (await session.call("what_to_ask", conversation=id))["questions"]
    assert "How many nights?" in {item["question"] for item in questions}
    assert (await session.call("get_state", conversation=id))["version"] == 3
    return id


def environment(folder: Path) -> dict[str, str]:
    """For a process of its own: this somdst, and a folder for what it keeps for the time being."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "TMPDIR": str(folder)}


def kept(folder: Path) -> list[Path]:
    return list(folder.glob("somdst-mcp-*"))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_over_stdio_to_a_real_process(mode: str, tmp_path: Path) -> None:
    database = tmp_path / "conversations.sqlite"
    command = [*COMMAND, "--database", str(database)]
    server = StdioServerParameters(command=sys.executable, args=command, env=environment(tmp_path))

    async def main() -> str:
        async with Client(server, mode=mode) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
            return await book(client)

    id = asyncio.run(main())
    with closing(Store(str(database))) as store:  # the store of `somdst serve`
        assert store.read(LOCAL, id).version == 3


@pytest.mark.parametrize("stop", ["end of input", "SIGTERM", "SIGINT"])
def test_a_server_that_stops_leaves_nothing_behind(stop: str, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, *COMMAND],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
    process.stdin.flush()
    assert json.loads(process.stdout.readline()) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert len(kept(tmp_path)) == 1
    if stop != "end of input":  # the client still holds its end
        process.send_signal(signal.Signals[stop])
        process.wait(LIMIT)
    out, err = process.communicate(timeout=LIMIT)
    assert (out, err) == (b"", b"")
    assert process.returncode == {"end of input": 0, "SIGTERM": 143, "SIGINT": 130}[stop]
    assert kept(tmp_path) == []


@contextmanager
def served(folder: Path, *options: str) -> Iterator[str]:
    """`somdst mcp --http` in a process of its own, on a port that the system chose."""
    command = [sys.executable, *COMMAND, "--http", "--port", "0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(folder))
    assert process.stderr is not None
    try:
        said = process.stderr.readline()
        found = re.search(r"http://\S+", said)
        assert found, said + process.stderr.read()
        yield found[0]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT)
    assert kept(folder) == []


@asynccontextmanager
async def connected(url: str, key: str) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=LIMIT) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


def test_over_http_to_a_real_socket(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with Client(url) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
            await book(client)
        async with Client(url, mode="legacy") as client:  # what clients spoke before the protocol had no sessions
            await book(client)
        async with httpx2.AsyncClient(timeout=LIMIT) as http:
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
            accept = {"Accept": "application/json, text/event-stream"}
            for headers, status in (
                ({"Origin": "https://example.org"}, 403),
                ({"Host": "example.org"}, 421),
                ({"Content-Type": "text/plain"}, 415),
            ):
                answer = await http.post(url, json=call, headers=accept | headers)
                assert answer.status_code == status and answer.json()["error"]
            too_big = await http.post(url, json=call | {"params": {"text": "x" * 300_000}}, headers=accept)
            assert too_big.status_code == 413
            broken = await http.post(url, content=json.dumps(HALF), headers=accept | HALF_HEADERS, timeout=LIMIT)
            assert (
                broken.status_code == 200
                and r'"d-\ud800" has a name with characters' in broken.json()["result"]["content"][0]["text"]
            )

    with served(tmp_path) as url:
        assert url.endswith("/mcp")
        asyncio.run(main(url))


def test_over_http_a_tenant_sees_its_own_conversations(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"first:{KEY}\nother:{OTHER_KEY}\n")

    async def main(url: str) -> None:
        async with connected(url, KEY) as client:
            id = await book(client)
            own = await Session(client).call("track_turn", user="A large pizza, please.", schema=PIZZA)
        async with connected(url, OTHER_KEY) as client:
            other = Session(client)
            assert "There is no conversation" in await other.problem("get_state", conversation=id)
            problem = await other.problem("track_turn", user="hello", schema=own["schema"])
            assert f"There is no schema {own['schema']}: " in problem and problem.endswith(".")
            for name in OVER_HTTP:
                schema, sentence = BAD[name]
                assert re.search(sentence, await other.problem("track_turn", user="hello", schema=schema)), name
        async with httpx2.AsyncClient(timeout=LIMIT) as http:
            assert (await http.post(url, json={})).status_code == 401

    database = str(tmp_path / "conversations.sqlite")
    with served(tmp_path, "--keys", str(keys), "--database", database) as url:
        asyncio.run(main(url))
    with closing(Store(database)) as store:
        assert len(store.page("first").records) == 2
        assert not store.page("other").records and not store.schemas.page("other")[0]


def test_without_keys_it_listens_on_loopback_only(tmp_path: Path) -> None:
    command = [sys.executable, *COMMAND, "--http", "--host", "0.0.0.0", "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(tmp_path), timeout=LIMIT)
    assert done.returncode == 2 and "listens on loopback only" in done.stderr and done.stdout == ""
    assert kept(tmp_path) == []
