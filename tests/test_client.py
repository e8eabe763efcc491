"""What the client does when things go wrong on the way: the same key again, patience, one sentence."""

from __future__ import annotations

import socket
from collections.abc import Callable

import httpx
import pytest

from somdst import Client, SomdstError
from somdst.service.client import ServiceError

ID = "0" * 32
MADE = {"id": ID}


def client(*answers: httpx.Response | Exception, retries: int = 5) -> tuple[Client, list[httpx.Request]]:
    """A client whose service gives these answers, one after the other, and the requests that it got."""
    seen: list[httpx.Request] = []
    todo = list(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        said = todo.pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    return Client("http://service", retries=retries, transport=httpx.MockTransport(answer)), seen


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nobody waits; how long they would have waited."""
    made: list[float] = []
    monkeypatch.setattr("somdst.service.client.time.sleep", made.append)
    return made


def busy(**headers: str) -> httpx.Response:
    return httpx.Response(503, json={"error": "Too busy."}, headers=headers)


def test_the_same_request_with_the_same_key_until_it_is_done(pauses: list[float]) -> None:
    api, seen = client(busy(**{"retry-after": "2"}), httpx.ReadError("lost"), busy(), httpx.Response(201, json=MADE))
    assert api.start().id == ID
    assert len({request.headers["idempotency-key"] for request in seen}) == 1
    assert len({request.content for request in seen}) == 1
    assert pauses == [2.0, pytest.approx(0.2), pytest.approx(0.4)]


@pytest.mark.parametrize("address", ["localhost:8000", "127.0.0.1:8000"])
def test_an_address_without_http_is_an_error_at_once(address: str, pauses: list[float]) -> None:
    with Client(address) as api, pytest.raises(ServiceError, match="cannot be reached"):
        api.start()
    assert pauses == []


def test_too_many_turns_are_sent_again_and_a_full_store_is_not(pauses: list[float]) -> None:
    def refused(seconds: int) -> httpx.Response:
        return httpx.Response(429, json={"error": "Too much."}, headers={"retry-after": str(seconds)})

    api, _ = client(refused(3), httpx.Response(201, json=MADE))
    assert api.start().id == ID and pauses == [3.0]
    api, seen = client(refused(60))
    with pytest.raises(ServiceError, match="Too much") as error:
        api.start()
    assert (error.value.status, len(seen)) == (429, 1)


def test_every_write_has_its_own_key() -> None:
    api, seen = client(httpx.Response(201, json=MADE), httpx.Response(201, json=MADE))
    api.start()
    api.start()
    assert len({request.headers["idempotency-key"] for request in seen}) == 2


def test_patience_has_an_end() -> None:
    api, seen = client(*[busy()] * 3, retries=2)
    with pytest.raises(ServiceError, match="Too busy") as refused:
        api.start()
    assert (refused.value.status, len(seen)) == (503, 3)
    api, seen = client(*[httpx.ReadError("lost")] * 3, retries=2)
    with pytest.raises(SomdstError, match=r"http://service.* cannot be reached \(lost\)"):
        api.start()
    assert len(seen) == 3


def test_a_service_that_is_not_there_is_an_error_at_once(pauses: list[float]) -> None:
    with socket.socket() as unused:  # bound and not listening: whoever connects is refused
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with Client(url) as api, pytest.raises(ServiceError) as refused:
            api.start()
        with Client(url) as api:
            assert not api.ready()
    assert refused.value.status == 0
    assert str(refused.value) == (
        f"The service at {url} cannot be reached ([Errno 111] Connection refused): start it with `somdst serve`, or "
        "check the address."
    )
    assert pauses == []


def test_a_service_that_restarts_is_waited_for(pauses: list[float]) -> None:
    made, gone = httpx.Response(201, json=MADE), httpx.ConnectError("refused")
    api, seen = client(made, gone, gone, httpx.Response(201, json=MADE))
    api.start()
    assert api.start().id == ID
    assert len(seen) == 4
    assert len(pauses) == 2


def test_what_was_refused_is_not_sent_again() -> None:
    api, seen = client(httpx.Response(409, json={"error": "Moved on.", "version": 4}))
    with pytest.raises(ServiceError, match="Moved on") as refused:
        api.open(ID).update("hello", version=3)
    assert (refused.value.status, refused.value.version, len(seen)) == (409, 4, 1)


def test_an_erasure_whose_answer_was_lost() -> None:
    gone = httpx.Response(404, json={"error": "There is no conversation."})
    api, _ = client(httpx.ReadError("lost"), gone)
    api.open(ID).erase()
    api, _ = client(gone)
    with pytest.raises(ServiceError):
        api.open(ID).erase()


@pytest.mark.parametrize("make", [lambda: httpx.Response(502, text="<html>"), lambda: httpx.Response(500, json=[1])])
def test_something_between_that_answers_otherwise(make: Callable[[], httpx.Response]) -> None:
    api, _ = client(make())
    with pytest.raises(ServiceError, match=r"answered with status 50\d and no reason"):
        api.start()


def test_the_api_key_is_sent() -> None:
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["authorization"])
        return httpx.Response(201, json=MADE)

    with Client("http://service", "secret", transport=httpx.MockTransport(answer)) as api:
        api.start()
    assert seen == ["Bearer secret"]
