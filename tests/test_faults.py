"""What goes wrong outside: power, disk, database, network, model. Nothing acknowledged is lost, nothing doubled."""

from __future__ import annotations

import resource
import signal
import socket
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest
from nemesis import Replica
from postgres import PostgresServer, find_binaries, own_postgres
from services import Server
from sqlalchemy import text
from waiting import LIMIT, until

from somdst import Client
from somdst.errors import Unavailable
from somdst.service.client import RemoteConversation, ServiceError
from somdst.store import Store, Write, verify
from somdst.tracking import edits

KILLS = 30


def assert_sound(database: str) -> None:
    """Every log of the database replays to its snapshot."""
    store = Store(database)
    assert not any(verify(store))
    store.close()


def said(conversation: RemoteConversation) -> list[str]:
    return [entry.turn.user for entry in conversation.log() if entry.turn is not None]


# Power


@pytest.mark.slow
def test_killed_again_and_again_under_load(database: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Writers send turn after turn, each until it is acknowledged; the process is killed again and again meanwhile."""
    server = Replica(database, tmp_path_factory.mktemp("clock") / "clock").start()
    stopping = threading.Event()
    acknowledged: dict[str, list[str]] = {}

    def insist(web: httpx.Client, path: str, body: dict[str, str], key: str) -> dict[str, Any]:
        answers: list[httpx.Response] = []

        def acknowledged() -> bool:
            try:
                answers.append(web.post(server.url + path, json=body, headers={"idempotency-key": key}))
            except httpx.TransportError:
                return False
            assert answers[-1].status_code in (200, 201, 503), answers[-1].text
            return answers[-1].is_success

        until(acknowledged, what="an acknowledgement")
        return dict(answers[-1].json())

    def write(number: int) -> None:
        with httpx.Client(timeout=10) as web:
            id = insist(web, "/v1/conversations", {}, f"create-{number}")["id"]
            acknowledged[id] = []
            while not stopping.is_set():
                words = f"hotel name place {len(acknowledged[id])}"
                insist(web, f"/v1/conversations/{id}/turns", {"user": words}, f"{id}-{words}".replace(" ", "-"))
                acknowledged[id].append(words)

    def done() -> int:
        return sum(map(len, list(acknowledged.values())))

    with ThreadPoolExecutor(6) as threads:
        writers = [threads.submit(write, number) for number in range(6)]
        try:
            for number in range(KILLS):
                goal = done() + 3 + number % 5
                until(lambda goal=goal: done() >= goal, what="more turns")  # it is up again, and in the middle of work
                server.kill()
        finally:
            stopping.set()
        for writer in writers:
            writer.result()
    with Client(server.url, retries=50) as client:
        for id, words in acknowledged.items():
            assert said(client.open(id)) == words
        assert len(list(client.conversations())) == 6
    server.stop()
    assert_sound(database)


# Database


@pytest.mark.slow
def test_the_database_goes_away_and_comes_back() -> None:
    if find_binaries() is None:
        pytest.skip("no PostgreSQL binaries on this machine: install Debian's postgresql")
    with own_postgres() as postgres:
        url = postgres.new_database()
        with Server(url) as server, Client(server.url, retries=0) as client:
            conversation = client.start()
            conversation.update("hotel area north")
            postgres.stop()
            for attempt in (lambda: conversation.update("hotel area south"), conversation.read, client.start):
                with pytest.raises(ServiceError, match="database cannot be reached") as refused:
                    attempt()
                assert refused.value.status == 503
            assert httpx.get(f"{server.url}/healthz", timeout=LIMIT).status_code == 200
            ready = httpx.get(f"{server.url}/readyz", timeout=LIMIT)
            assert (ready.status_code, ready.headers["retry-after"]) == (503, "1")
            postgres.start()
            assert client.ready()
            assert conversation.update("hotel area east").version == 2
            assert said(conversation) == ["hotel area north", "hotel area east"]
        postgres.stop()  # the next time it is not there when the service starts
        with Server(url).start(path="/healthz") as server, Client(server.url, retries=0) as client:
            assert not client.ready()
            postgres.start()
            assert client.open(conversation.id).read().version == 2
        assert_sound(url)


def test_a_database_that_another_process_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("somdst.store.database.BUSY_SECONDS", 0.2)
    path = tmp_path / "conversations.sqlite"
    store = Store(str(path))
    record = store.create("a")
    other = sqlite3.connect(path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked by another process"):
        store.create("a")
    assert store.read("a", record.id)  # reading goes on
    other.rollback()
    store.create("a")
    other.close()
    store.close()


def test_a_row_that_another_process_locks(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    quick = Store(url + "&options=-c%20lock_timeout%3D200ms")
    record = quick.create("a")
    write = Write("a", record.id, edits.correct(record.snapshot, {"hotel-area": "north"}))
    with quick.database.write() as connection:
        connection.execute(text("SELECT id FROM conversations FOR UPDATE"))
        with pytest.raises(Unavailable, match="locked by another process"):
            quick.append(write)
    quick.append(write)
    quick.close()


def test_the_disk_is_full(tmp_path: Path) -> None:
    """A limit on the size of files fails a write in the middle, as a full disk does, and can be lifted again."""
    database = str(tmp_path / "conversations.sqlite")
    with Server(database) as server, Client(server.url, retries=0) as client:
        assert server.process is not None
        conversation = client.start()
        conversation.update("hotel area north")
        _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (300_000, hard))
        acknowledged = ["hotel area north"]
        with pytest.raises(ServiceError, match="no space left") as refused:
            for number in range(500):
                words = f"hotel name place {number}, {'x' * 5000}"
                conversation.update(words)
                acknowledged.append(words)
        assert refused.value.status == 503
        assert len(acknowledged) > 2
        with pytest.raises(ServiceError, match="no space left"):
            conversation.update(f"hotel name another place, {'x' * 5000}")
        assert said(conversation) == acknowledged
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        conversation.update("hotel area south")
        assert said(conversation) == [*acknowledged, "hotel area south"]
    assert_sound(database)


# Replicas


def test_two_replicas_and_the_same_conversations(postgres: PostgresServer) -> None:
    database = postgres.new_database()
    with (
        Server(database) as one,
        Server(database) as two,
        Client(one.url, retries=50) as first,
        Client(two.url, retries=50) as second,
    ):
        ids = [first.start().id for _ in range(3)]

        def write(who: int) -> list[tuple[str, str]]:
            done = []
            for number in range(8):
                id = ids[(who + number) % len(ids)]
                words = f"hotel name place {who} {number}"
                client = (first, second)[(who + number) % 2]
                client.open(id).update(words)
                done.append((id, words))
            return done

        with ThreadPoolExecutor(8) as threads:
            acknowledged = [pair for done in threads.map(write, range(8)) for pair in done]
        for id in ids:
            assert sorted(said(second.open(id))) == sorted(words for where, words in acknowledged if where == id)
        _send_the_same_to_both(one, two, ids[0])
    assert_sound(database)


def _send_the_same_to_both(one: Server, two: Server, id: str) -> None:
    def send(server: Server) -> httpx.Response:
        body, headers = {"user": "hotel stars 4"}, {"idempotency-key": "both"}
        return httpx.post(f"{server.url}/v1/conversations/{id}/turns", json=body, headers=headers, timeout=LIMIT)

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(send, [one, two] * 4))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1


# Network


class Gate:
    """Where the predictor of a server waits until a test opens it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def reached(self) -> None:
        until((self.folder / "entered").exists, what="a turn at the gate")

    def open(self) -> None:
        (self.folder / "open").touch()


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[Server]:
    """A server that soon gives up on a request that does not arrive."""
    with Server(str(tmp_path / "c.sqlite"), "--body-timeout", "6") as server:
        yield server


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT)


def request(server: Server, id: str, body: bytes, *, length: int | None = None) -> socket.socket:
    connection = connect(server)
    head = (
        f"POST /v1/conversations/{id}/turns HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body) if length is None else length}\r\n\r\n"
    )
    connection.sendall(head.encode() + body)
    return connection


def test_a_client_that_hangs_up(tmp_path: Path, gate: Gate) -> None:
    with Server(str(tmp_path / "c.sqlite"), "--gate", str(gate.folder)) as server, Client(server.url) as client:
        conversation = client.start()
        request(
            server, conversation.id, b'{"user": "hotel area north"}', length=100
        ).close()  # in the middle of its body
        assert said(conversation) == []
        connection = request(server, conversation.id, b'{"user": "hotel area south"}')
        gate.reached()  # it has been accepted, and the model is at it
        connection.close()
        gate.open()
        conversation.update("hotel stars 4")
        assert said(conversation) == ["hotel area south", "hotel stars 4"]


def test_a_slow_client_disturbs_nobody(impatient: Server) -> None:
    with Client(impatient.url) as client:
        conversation = client.start()
        body = request(impatient, conversation.id, b'{"user": ', length=100)
        head, silent = connect(impatient), connect(impatient)
        head.sendall(b"GET /v1/schema HTTP/1.1\r\nhost: 127")
        conversation.update("hotel area north")
        assert body.recv(1000).startswith(b"HTTP/1.1 408 ")
        assert head.recv(1000) == b""
        assert silent.recv(1000) == b""
        for connection in (body, head, silent):
            connection.close()
        assert said(conversation) == ["hotel area north"]


def test_a_client_that_comes_back_later_on_the_same_connection(impatient: Server) -> None:
    """An idle connection is no slow one: it outlives one that was opened later and said nothing."""
    kept = HTTPConnection("127.0.0.1", impatient.port, timeout=LIMIT)
    kept.connect()
    kept.auto_open = 0  # it would connect again without a word
    for _ in range(2):
        kept.request("GET", "/healthz")
        with kept.getresponse() as answer:
            assert (answer.status, answer.read()) == (200, b'{"status":"ok"}')
        with connect(impatient) as silent:
            assert silent.recv(1000) == b""
    kept.close()


# Load


def test_more_than_it_can_take(tmp_path: Path, gate: Gate) -> None:
    options = ("--gate", str(gate.folder), "--max-turns", "8")
    with Server(str(tmp_path / "c.sqlite"), *options) as server, Client(server.url, retries=0) as client:
        conversations = [client.start() for _ in range(40)]
        before = server.memory

        def send(conversation: RemoteConversation) -> httpx.Response:
            body = {"user": "hotel area north"}
            return httpx.post(f"{server.url}/v1/conversations/{conversation.id}/turns", json=body, timeout=LIMIT)

        with ThreadPoolExecutor(40) as threads:
            answers = [threads.submit(send, conversation) for conversation in conversations]
            until(lambda: sum(answer.done() for answer in answers) == 32, what="the refusal of what is too much")
            gate.open()
        for conversation, answer in zip(conversations, answers, strict=True):
            accepted = answer.result().status_code == 200
            assert accepted or (answer.result().status_code, answer.result().headers["retry-after"]) == (503, "1")
            assert len(said(conversation)) == accepted
        assert sum(answer.result().status_code == 200 for answer in answers) == 8
        assert server.memory < before + 50
        assert client.start().update("hotel area north").version == 1


def test_a_turn_that_waits_too_long_is_given_up(tmp_path: Path, gate: Gate) -> None:
    options = ("--gate", str(gate.folder), "--turn-timeout", "0.5", "--max-batch", "1")
    with (
        Server(str(tmp_path / "c.sqlite"), *options) as server,
        Client(server.url, retries=0) as client,
        Client(server.url, retries=1000) as patient,
    ):
        conversations = [client.open(patient.start().id) for _ in range(3)]

        def send(conversation: RemoteConversation) -> str:
            with pytest.raises(ServiceError) as refused:
                conversation.update("hotel area north")
            assert refused.value.status == 503
            return str(refused.value)

        with ThreadPoolExecutor(3) as threads:
            first = threads.submit(patient.open(conversations[0].id).update, "hotel area north")
            gate.reached()  # the others wait behind it
            for sentence in threads.map(send, conversations[1:]):
                assert "too busy to start this request in time" in sentence
            gate.open()
            assert first.result().version == 1, "what was started is finished"
        assert [len(said(patient.open(conversation.id))) for conversation in conversations] == [1, 0, 0]
        assert patient.open(conversations[0].id).update("hotel area south").version == 2


def test_stopping_finishes_what_was_accepted(tmp_path: Path, gate: Gate) -> None:
    database = str(tmp_path / "c.sqlite")
    server = Server(database, "--gate", str(gate.folder), "--max-batch", "2").start()
    assert server.process is not None

    def accepted() -> bool:
        return "somdst_queue_length 6.0\n" in httpx.get(f"{server.url}/metrics", timeout=LIMIT).text

    with Client(server.url, retries=0) as client:
        conversations = [client.start() for _ in range(6)]
        with ThreadPoolExecutor(6) as threads:
            answers = [threads.submit(conversation.update, "hotel area north") for conversation in conversations]
            until(accepted, what="the acceptance of all turns")
            server.process.send_signal(signal.SIGTERM)
            gate.open()
            assert [answer.result().version for answer in answers] == [1] * 6
    assert server.process.wait() == -signal.SIGTERM
    store = Store(database)
    assert {record.version for record in store.page("local").records} == {1}
    store.close()


# Model


def test_a_model_that_fails_to_load(tmp_path: Path) -> None:
    server = Server(str(tmp_path / "c.sqlite"), "--model", "broken").start(path="/healthz")
    with server, Client(server.url, retries=0) as client:
        until(lambda: "could not be loaded" in httpx.get(f"{server.url}/readyz", timeout=LIMIT).text)
        ready = httpx.get(f"{server.url}/readyz", timeout=LIMIT)
        assert ready.status_code == 503
        assert ready.json()["error"].startswith("The model could not be loaded: The model folder broken is missing")
        conversation = client.start()
        for attempt in (lambda: conversation.update("hotel area north"), client.schema, client.model):
            with pytest.raises(ServiceError, match="could not be loaded") as refused:
                attempt()
            assert refused.value.status == 503
        assert conversation.read().version == 0
        assert httpx.get(f"{server.url}/healthz", timeout=LIMIT).status_code == 200
