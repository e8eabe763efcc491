"""What a stranger may try: injections, traversal, bodies that are too much, other hosts and sites, wrong keys."""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from counting import lines_run
from services import Server
from waiting import LIMIT

from somdst import Client, State
from somdst.errors import InputError
from somdst.service.api_keys import Keys, add_key, load_keys
from somdst.service.guards import TOKENS, depth, loopback
from somdst.service.server import bind

NASTY = [
    "'; DROP TABLE conversations; --",
    '" OR 1=1 --',
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "x\r\nSet-Cookie: a=b\r\n\r\n<html>",
    "{{7*7}} ${7*7} %n%s {0}",
    "../../etc/passwd",
    "a\x00b\x1b[31m",
    "[SLOT] [NULL] [SEP]",
    "😀 עברית 中文",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(str(tmp_path_factory.mktemp("security") / "conversations.sqlite")) as server:
        yield server


@pytest.fixture
def web(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=LIMIT) as web:
        yield web


def sentence(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    text: str = answer.json()["error"]
    assert text.endswith((".", "?"))
    assert "\n" not in text
    assert "Traceback" not in text
    return text


@pytest.mark.parametrize("words", NASTY)
def test_whatever_is_typed_comes_back_as_text(server: Server, web: httpx.Client, words: str) -> None:
    with Client(server.url) as client:
        conversation = client.start()
        conversation.update(words, system=words)
        assert conversation.correct("hotel-name", words).state["hotel-name"] == words.strip()
        view = conversation.read()
        assert (view.turns[0].user, view.turns[0].system) == (words, words)
        [tracked] = client.track(view.turns)
        assert tracked.state == State()
    path = f"/v1/conversations/{conversation.id}"
    for attempt in (
        web.post(f"{path}/corrections", json={"values": {words: "x"}}),
        web.post(f"{path}/pin", json={"slots": [words]}),
        web.post(f"{path}/confirm", json={"slots": [words]}),
        web.post("/v1/replays", json={"model": words}),
        web.post("/v1/conversations", json={"subject": words}),
        web.post("/v1/track", json={"turns": [{"user": "x"}], "state": {words: "x"}}),
        web.get("/v1/conversations", params={"subject": words}),
        web.get("/v1/conversations", params={"cursor": words}),
    ):
        sentence(attempt, 422)
        assert attempt.headers["content-type"] == "application/json"
    raw = web.get(path)
    assert raw.headers["content-type"] == "application/json"
    assert "set-cookie" not in raw.headers


def test_every_answer_has_the_headers(web: httpx.Client) -> None:
    for answer in (
        web.get("/"),
        web.get("/healthz"),
        web.get("/v1/schema"),
        web.get("/nothing"),
        web.post("/v1/track"),
    ):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in policy
        assert "server" not in answer.headers


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2f..%2f__init__.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/..\\app.py",
        "/v1/conversations/../../etc/passwd",
        "/v1/conversations/%2e%2e%2f%2e%2e",
        "/static/\x00",
    ],
)
def test_no_path_leads_out(server: Server, path: str) -> None:
    # http.client sends the path as it is; httpx would tidy it up.
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection._validate_path = lambda url: None  # type: ignore[attr-defined]
    connection.putrequest("GET", path.replace("\x00", "%00"), skip_host=False)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    assert answer.status == 404
    assert b"root:" not in body
    assert b"import" not in body
    assert json.loads(body)["error"].endswith(".")


def post_raw(web: httpx.Client, body: bytes, **headers: str) -> httpx.Response:
    return web.post("/v1/track", content=body, headers={"content-type": "application/json", **headers})


def test_bodies_that_are_too_much(web: httpx.Client) -> None:
    assert "at most 262144" in sentence(post_raw(web, b"x" * 300_000), 413)

    def stream() -> Iterator[bytes]:
        for _ in range(1000):
            yield b"x" * 1000

    answer = web.post("/v1/track", content=stream(), headers={"content-type": "application/json"})
    sentence(answer, 413)
    deep = b'{"turns": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    assert "deeper than 32" in sentence(post_raw(web, deep), 400)
    sentence(post_raw(web, b"[" * 100_000), 400)
    long = {"turns": [{"user": "x" * 20_001}]}
    sentence(web.post("/v1/track", json=long), 422)
    sentence(web.post("/v1/track", json={"turns": [{"user": "x"}] * 201}), 422)


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b"9" * 5000, b"{'a': 1}"])
def test_bodies_that_are_not_json(web: httpx.Client, body: bytes) -> None:
    sentence(post_raw(web, body), 400)


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b'"text"', b"NaN"])
def test_bodies_that_are_no_request(web: httpx.Client, body: bytes) -> None:
    sentence(post_raw(web, body), 422)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "latin-1"])
def test_only_utf8_is_read(web: httpx.Client, encoding: str) -> None:
    body = json.dumps({"turns": [{"user": "café"}]}, ensure_ascii=False)
    assert "not UTF-8" in sentence(post_raw(web, body.encode(encoding)), 400)
    deep = '{"turns": ' + "[" * 100 + "]" * 100 + "}"
    sentence(post_raw(web, deep.encode(encoding)), 400)
    assert post_raw(web, body.encode()).status_code == 200


def test_a_body_that_is_not_sent_as_json(web: httpx.Client) -> None:
    sentence(web.post("/v1/track", data={"turns": "x"}), 415)
    sentence(web.post("/v1/track", content=b"{}", headers={"content-type": "text/plain"}), 415)


WRONG: list[dict[str, Any]] = [
    {"turns": "text"},
    {"turns": []},
    {"turns": [{"user": 5}]},
    {"turns": [{"user": None}]},
    {"turns": [{"user": ["x"]}]},
    {"turns": [{"user": "x", "extra": 1}]},
    {"turns": [{"user": "x"}], "state": []},
    {"turns": [{"user": "x"}], "state": {"hotel-area": 5}},
    {"turns": [{"user": "\ud800"}]},
]


@pytest.mark.parametrize("body", WRONG, ids=str)
def test_wrong_types(web: httpx.Client, body: dict[str, Any]) -> None:
    sentence(post_raw(web, json.dumps(body).encode()), 422)


@pytest.mark.parametrize("version", [-1, 10**30, 1.5, "1", True])
def test_versions_that_are_none(server: Server, web: httpx.Client, version: object) -> None:
    with Client(server.url) as client:
        conversation = client.start()
    sentence(web.post(f"/v1/conversations/{conversation.id}/turns", json={"user": "x", "version": version}), 422)
    sentence(web.get(f"/v1/conversations/{conversation.id}/versions/{10**30}"), 422)
    sentence(web.get(f"/v1/conversations/{conversation.id}/versions/7"), 404)


def test_ids_that_are_none(web: httpx.Client) -> None:
    for id in ("x", "F" * 32, "0" * 31, "0" * 33, "%00", "'", "0" * 5000):
        assert web.get(f"/v1/conversations/{id}").status_code == 422
    sentence(web.get(f"/v1/conversations/{'0' * 32}"), 404)
    sentence(web.delete(f"/v1/conversations/{'0' * 32}"), 404)


def test_headers_that_are_none(web: httpx.Client) -> None:
    answer = web.get("/v1/schema", headers={"x-request-id": "a b; <script>"})
    assert "script" not in answer.headers["x-request-id"]
    assert web.get("/v1/schema", headers={"x-request-id": "mine-1"}).headers["x-request-id"] == "mine-1"
    sentence(web.post("/v1/conversations", headers={"idempotency-key": "x" * 201}), 422)
    sentence(web.post("/v1/conversations", headers={"idempotency-key": "a b"}), 422)


def test_methods_and_addresses_that_are_none(web: httpx.Client) -> None:
    sentence(web.put("/v1/conversations", json={}), 405)
    sentence(web.request("BREW", "/v1/conversations"), 405)
    sentence(web.get("/nothing"), 404)
    assert web.get("/docs").status_code == 404


def test_other_hosts_and_sites_are_kept_out(web: httpx.Client) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80"):
        sentence(web.get("/v1/conversations", headers={"host": host}), 421)
    for host in ("localhost:9999", "127.0.0.2:80", "[::1]:8000"):
        assert web.get("/v1/conversations", headers={"host": host}).status_code == 200
    cross = {"sec-fetch-site": "cross-site", "origin": "https://evil.example"}
    sentence(web.post("/v1/conversations", headers=cross), 403)
    assert "access-control-allow-origin" not in web.get("/v1/conversations", headers=cross).headers
    assert web.post("/v1/conversations", headers={"sec-fetch-site": "same-origin"}).status_code == 201


FOREIGN: list[list[tuple[str, str]]] = [
    [("origin", "https://evil.example")],
    [("origin", "null")],
    [("origin", "http://127.0.0.1:1")],  # another service of this machine
    [("origin", "http://HOST"), ("origin", "https://evil.example")],
    [("Origin", "HTTPS://EVIL.EXAMPLE")],
    [("sec-fetch-site", "Cross-Site")],
    [("sec-fetch-site", "same-site")],
    [("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")],
    [("sec-fetch-site", "same-origin, cross-site")],
    [("sec-fetch-site", "same-origin"), ("origin", "https://evil.example")],
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_another_site_cannot_write(server: Server, web: httpx.Client, headers: list[tuple[str, str]]) -> None:
    host = server.url.removeprefix("http://")
    sent = [(name, value.replace("HOST", host)) for name, value in headers]
    for method in ("POST", "DELETE"):
        path = "/v1/conversations" if method == "POST" else "/v1/subjects/somebody"
        sentence(web.request(method, path, headers=sent), 403)


def test_the_service_s_own_page_can_write(server: Server, web: httpx.Client) -> None:
    for headers in ({"origin": server.url}, {"origin": server.url, "sec-fetch-site": "same-origin"}, {}):
        assert web.post("/v1/conversations", headers=headers).status_code == 201


def test_without_keys_only_loopback() -> None:
    with pytest.raises(InputError, match="listens on loopback only"):
        bind("0.0.0.0", 0, keys=False, insecure=False)
    for host in ("127.0.0.1", "localhost"):
        bind(host, 0, keys=False, insecure=False).close()
    bind("0.0.0.0", 0, keys=True, insecure=False).close()
    bind("0.0.0.0", 0, keys=False, insecure=True).close()
    with bind("127.0.0.1", 0, keys=False, insecure=False) as listener:
        assert listener.proto == socket.IPPROTO_TCP  # else asyncio leaves TCP_NODELAY off, and answers take 40 ms more
    assert loopback("::1")
    assert not loopback("example.org")


@pytest.mark.parametrize("listening", [True, False], ids=["listening", "only bound"])
def test_a_port_that_is_taken_is_one_sentence(tmp_path: Path, listening: bool) -> None:
    with socket.socket() as taken:
        # With this option two sockets may be bound to one port, as long as neither listens.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(listening))
        taken.bind(("127.0.0.1", 0))
        if listening:
            taken.listen()
        port = str(taken.getsockname()[1])
        database = tmp_path / "unused.sqlite"
        command = [sys.executable, "-m", "somdst", "serve", "--port", port, "--database", str(database)]
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    sentence = f"Cannot listen on 127.0.0.1 port {port}: Address already in use; choose another with --port."
    assert done.stderr.splitlines() == [f"somdst: {sentence}"]
    assert not database.exists()


def test_the_port_is_taken_from_the_start() -> None:
    with bind("127.0.0.1", 0, keys=False, insecure=False) as first:
        port = first.getsockname()[1]
        with pytest.raises(InputError, match="Address already in use"):
            bind("127.0.0.1", port, keys=False, insecure=False)


def test_keys(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("# comment\nacme: 0123456789abcdef  # the old one\nacme:fedcba9876543210\n\nzoo:aaaaaaaaaaaa#aaa\n")
    keys = load_keys(path, {})
    assert keys is not None
    assert len(keys) == 3
    assert keys.tenant("0123456789abcdef") == keys.tenant("fedcba9876543210") == "acme"
    assert keys.tenant("aaaaaaaaaaaa#aaa") == "zoo"  # not a comment
    assert keys.tenant("") is None
    assert keys.tenant("0123456789abcdeF") is None
    assert "0123" not in repr(keys)
    assert load_keys(None, {}) is None
    for line in ("0123456789abcdef", "acme:short", "ac me:0123456789abcdef", "acme:with a space in it"):
        with pytest.raises(InputError) as refused:
            load_keys(None, {"SOMDST_API_KEYS": line})
        assert line not in str(refused.value)
    with pytest.raises(InputError, match="no API key"):
        Keys([])
    with pytest.raises(InputError, match="Cannot read"):
        load_keys(tmp_path / "nothing", {})


def test_a_key_file_keeps_its_permissions_and_its_link(tmp_path: Path) -> None:
    path, link = tmp_path / "keys", tmp_path / "link"
    add_key(path, "acme")
    assert path.stat().st_mode & 0o777 == 0o600, "a new one is its owner's alone"
    path.chmod(0o640)
    link.symlink_to(path)
    key = add_key(link, "zoo")
    assert link.is_symlink() and path.stat().st_mode & 0o777 == 0o640
    keys = load_keys(path, {})
    assert keys is not None and keys.tenant(key) == "zoo"
    with pytest.raises(InputError, match=r"Cannot read the API keys in .*: Is a directory"):
        add_key(tmp_path, "acme")


def test_keys_are_read_once_their_file_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys"
    path.write_text("acme:0123456789abcdef\n")
    keys = load_keys(path, {})
    assert keys is not None
    path.write_text("zoo:fedcba9876543210\n")
    with monkeypatch.context() as forbidden:  # the tests may run as root, who can read everything
        forbidden.setattr(Path, "read_text", partial(_refuse, path))
        assert keys.tenant("0123456789abcdef") == "acme", "the keys before stay in force"
    path.chmod(0o600)
    assert keys.tenant("0123456789abcdef") is None and keys.tenant("fedcba9876543210") == "zoo"


def _refuse(path: Path, *_: object, **__: object) -> str:
    raise PermissionError(13, "Permission denied", str(path))


def test_depth_counts_brackets_outside_strings() -> None:
    assert depth(b'{"a": ["[[[[", {"b": "\\"[["}]}') == 3
    assert depth(b'{"a\\\\": [[1]]}') == 3
    assert depth(b'"text"') == 0
    assert depth(b'{"never closed: [[[') == 1
    assert depth(b"]]]]") == 0


HOSTILE = [b'{"user":"' + b'\\"', b'{"user":"' + b"\\", b'"', b'"[', b"[", b"[]", b"{", b"\\", b"\\[", b'"\\"', b"x"]


@pytest.mark.parametrize("unit", HOSTILE, ids=repr)
def test_the_work_grows_with_the_size_of_a_body(unit: bytes) -> None:
    """Steps are counted, not seconds: a body ten times as long takes ten times as many, whatever is in it."""
    start, repeated = (unit[:9], unit[9:]) if unit.startswith(b'{"user":"') else (b"", unit)
    short, long = (lines_run(partial(depth, start + repeated * times), of=depth.__code__) for times in (100, 1000))
    assert long <= 10 * short
    # A step of the loop is one match. Of at most two bytes each, so that no match scans far and gives up.
    assert re._parser.parse(TOKENS.pattern, re.DOTALL).getwidth()[1] == 2  # type: ignore[attr-defined]
