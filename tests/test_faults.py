"""What goes wrong outside: power, disk, database, network, model. Nothing acknowledged is lost, nothing doubled."""

from __future__ import annotations

import os
import random
import resource
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from databases import PostgresServer, find_binaries
from services import Server
from sqlalchemy import text

from somdst import Client
from somdst.service.client import RemoteConversation, ServiceError
from somdst.store import Store, Unavailable, Write, verify
from somdst.tracking import edits

KILLS = 50


def assert_sound(database: str) -> None:
    """Every log of the database replays to its snapshot."""
    store = Store(database)
    assert not any(verify(store))
    store.close()


def said(conversation: RemoteConversation) -> list[str]:
    return [entry.turn.user for entry in conversation.log() if entry.turn is not None]


# Power


@pytest.mark.slow
def test_killed_again_and_again_under_load(database: str) -> None:
    """Writers send turn after turn, each until it is acknowledged; the process is killed fifty times meanwhile."""
    server = Server(database, "--reborn")
    server.process = subprocess.Popen(
        server.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=server.environment
    )
    assert server.process.stdout is not None
    stopping = threading.Event()
    child = int(server.process.stdout.readline())

    acknowledged: dict[str, list[str]] = {}

    def insist(web: httpx.Client, path: str, body: dict[str, str], key: str) -> dict[str, Any]:
        while True:
            try:
                answer = web.post(server.url + path, json=body, headers={"idempotency-key": key})
                if answer.status_code < 300:
                    return dict(answer.json())
                assert answer.status_code == 503, answer.text
            except httpx.TransportError:
                time.sleep(0.01)

    def write(number: int) -> None:
        with httpx.Client(timeout=10) as web:
            id = insist(web, "/v1/conversations", {}, f"create-{number}")["id"]
            acknowledged[id] = []
            while not stopping.is_set():
                words = f"hotel name place {len(acknowledged[id])}"
                insist(web, f"/v1/conversations/{id}/turns", {"user": words}, f"{id}-{words}".replace(" ", "-"))
                acknowledged[id].append(words)

    random.seed(7)
    with ThreadPoolExecutor(6) as threads:
        writers = [threads.submit(write, number) for number in range(6)]
        for _ in range(KILLS):
            seen, deadline = sum(map(len, acknowledged.values())), time.monotonic() + 20
            while sum(map(len, list(acknowledged.values()))) < seen + 3:  # it is up again, and in the middle of work
                assert time.monotonic() < deadline
                time.sleep(0.005)
            time.sleep(random.uniform(0, 0.05))
            os.kill(child, signal.SIGKILL)
            child = int(server.process.stdout.readline())
        stopping.set()
        for writer in writers:
            writer.result(timeout=60)
    with Client(server.url, retries=50) as client:
        for id, words in acknowledged.items():
            assert said(client.open(id)) == words
        assert len(list(client.conversations())) == 6
    os.kill(child, signal.SIGTERM)
    server.process.communicate(timeout=60)
    assert_sound(database)


# Database


@pytest.mark.slow
def test_the_database_goes_away_and_comes_back() -> None:
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL binaries on this machine: install Debian's postgresql")
    postgres = PostgresServer(binaries)
    try:
        url = postgres.new_database()
        with Server(url) as server, Client(server.url, retries=0) as client:
            conversation = client.start()
            conversation.update("hotel area north")
            postgres.stop()
            for attempt in (lambda: conversation.update("hotel area south"), conversation.read, client.start):
                with pytest.raises(ServiceError, match="database cannot be reached") as refused:
                    attempt()
                assert refused.value.status == 503
            assert httpx.get(f"{server.url}/healthz").status_code == 200
            ready = httpx.get(f"{server.url}/readyz")
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
    finally:
        postgres.remove()


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
        Server(database, "--delay", "0.002", "0") as one,
        Server(database, "--delay", "0.002", "0") as two,
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
                _persist(lambda client=client, id=id, words=words: client.open(id).update(words))
                done.append((id, words))
            return done

        with ThreadPoolExecutor(8) as threads:
            acknowledged = [pair for done in threads.map(write, range(8)) for pair in done]
        for id in ids:
            assert sorted(said(second.open(id))) == sorted(words for where, words in acknowledged if where == id)
        _send_the_same_to_both(one, two, ids[0])
    assert_sound(database)


def _persist(attempt: Callable[[], object]) -> None:
    """Eight writers at one conversation: whoever loses too often is told so (409) and may go on."""
    while True:
        try:
            attempt()
            return
        except ServiceError as error:
            assert error.status == 409


def _send_the_same_to_both(one: Server, two: Server, id: str) -> None:
    def send(server: Server) -> httpx.Response:
        body, headers = {"user": "hotel stars 4"}, {"idempotency-key": "both"}
        return httpx.post(f"{server.url}/v1/conversations/{id}/turns", json=body, headers=headers)

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(send, [one, two] * 4))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1


# Network


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Server]:
    with Server(
        str(tmp_path / "c.sqlite"), "--delay", "0.3", "0", "--body-timeout", "0.6", "--max-turns", "8"
    ) as server:
        yield server


def request(server: Server, id: str, body: bytes, *, length: int | None = None) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    head = (
        f"POST /v1/conversations/{id}/turns HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body) if length is None else length}\r\n\r\n"
    )
    connection.sendall(head.encode() + body)
    return connection


def test_a_client_that_hangs_up(slow: Server) -> None:
    with Client(slow.url) as client:
        conversation = client.start()
        request(slow, conversation.id, b'{"user": "hotel area north"}', length=100).close()  # in the middle of its body
        assert said(conversation) == []
        connection = request(slow, conversation.id, b'{"user": "hotel area south"}')
        time.sleep(0.1)  # it has been accepted, and the model is at it
        connection.close()
        conversation.update("hotel stars 4")
        assert said(conversation) == ["hotel area south", "hotel stars 4"]


def test_a_slow_client_disturbs_nobody(slow: Server) -> None:
    with Client(slow.url) as client:
        conversation = client.start()
        body = request(slow, conversation.id, b'{"user": ', length=100)
        head = socket.create_connection(("127.0.0.1", slow.port), timeout=10)
        head.sendall(b"GET /v1/schema HTTP/1.1\r\nhost: 127")
        silent = socket.create_connection(("127.0.0.1", slow.port), timeout=10)
        conversation.update("hotel area north")
        assert body.recv(1000).startswith(b"HTTP/1.1 408 ")
        assert head.recv(1000) == b""
        assert silent.recv(1000) == b""
        for connection in (body, head, silent):
            connection.close()
        assert said(conversation) == ["hotel area north"]


def test_a_client_that_comes_back_later_on_the_same_connection(slow: Server) -> None:
    with httpx.Client(base_url=slow.url) as web:
        for _ in range(3):
            assert web.get("/healthz").status_code == 200
            time.sleep(0.8)  # longer than a head may take: an idle connection is no slow one


# Load


def test_more_than_it_can_take(slow: Server) -> None:
    with Client(slow.url, retries=0) as client:
        conversations = [client.start() for _ in range(40)]
        before = slow.memory

        def send(conversation: RemoteConversation) -> int:
            body = {"user": "hotel area north"}
            answer = httpx.post(f"{slow.url}/v1/conversations/{conversation.id}/turns", json=body, timeout=30)
            assert answer.status_code == 200 or answer.headers["retry-after"] == "1"
            return answer.status_code

        with ThreadPoolExecutor(40) as threads:
            statuses = list(threads.map(send, conversations))
        assert set(statuses) == {200, 503}
        for conversation, status in zip(conversations, statuses, strict=True):
            assert len(said(conversation)) == (status == 200)
        assert slow.memory < before + 50
        assert client.start().update("hotel area north").version == 1


def test_a_turn_that_waits_too_long_is_given_up(tmp_path: Path) -> None:
    options = ("--delay", "0.5", "0", "--turn-timeout", "0.2", "--max-batch", "1")
    with Server(str(tmp_path / "c.sqlite"), *options) as server, Client(server.url, retries=0) as client:
        conversations = [client.start() for _ in range(3)]

        def send(conversation: RemoteConversation) -> str:
            try:
                conversation.update("hotel area north")
            except ServiceError as error:
                assert error.status == 503
                return str(error)
            return "done"

        with ThreadPoolExecutor(3) as threads:
            outcomes = list(threads.map(send, conversations))
        assert outcomes.count("done") == 1
        assert any("too busy to start this turn in time" in outcome for outcome in outcomes)
        assert sum(len(said(conversation)) for conversation in conversations) == 1


def test_stopping_finishes_what_was_accepted(tmp_path: Path) -> None:
    database = str(tmp_path / "c.sqlite")
    server = Server(database, "--delay", "0.4", "0", "--max-batch", "2").start()
    assert server.process is not None
    with Client(server.url, retries=0) as client:
        conversations = [client.start() for _ in range(6)]
        with ThreadPoolExecutor(6) as threads:
            answers = [threads.submit(conversation.update, "hotel area north") for conversation in conversations]
            time.sleep(0.2)
            server.process.send_signal(signal.SIGTERM)
            assert [answer.result().version for answer in answers] == [1] * 6
    assert server.process.wait(timeout=30) in (0, -signal.SIGTERM)
    store = Store(database)
    assert {record.version for record in store.page("local").records} == {1}
    store.close()


# Model


def test_a_model_that_fails_to_load(tmp_path: Path) -> None:
    server = Server(str(tmp_path / "c.sqlite"), "--model", "broken").start(path="/healthz")
    with server, Client(server.url, retries=0) as client:
        ready = httpx.get(f"{server.url}/readyz")
        assert ready.status_code == 503
        assert ready.json()["error"].startswith("The model could not be loaded: The model folder broken is missing")
        conversation = client.start()
        for attempt in (lambda: conversation.update("hotel area north"), client.schema, client.model):
            with pytest.raises(ServiceError, match="could not be loaded") as refused:
                attempt()
            assert refused.value.status == 503
        assert conversation.read().version == 0
        assert httpx.get(f"{server.url}/healthz").status_code == 200
