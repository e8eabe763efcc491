"""What a request passes before it reaches a route.

From the outside in: `protocol` limits how long the head of a request may take to arrive. Then, as plain ASGI,
`Observed` gives every request an id, measures and logs it, and puts the security headers on the answer; `Guarded`
checks host, origin and key and turns away what is too much; `Limited` reads the body within size, depth and time, and
sets the deadline of the request. None of them knows a route. All of this runs on the event loop, so the work per
request is linear in its size, whatever was sent.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import secrets
import time
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from somdst.errors import (
    Conflict,
    InputError,
    KeyReused,
    ModelError,
    NotFound,
    Overloaded,
    RequestRefused,
    SchemaError,
    SomdstError,
    StateError,
    TooMuch,
    Unavailable,
    sentence,
)
from somdst.service.api_keys import Keys
from somdst.service.batching import DEADLINE
from somdst.service.configuration import LOCAL, Settings
from somdst.service.monitoring import Metrics, log

OPEN_PATHS = re.compile(r"/|/static/.*|/favicon\.ico|/healthz|/readyz|/metrics|/openapi\.json")
"""What needs no key: the page's own files, and what a monitor asks for."""
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:@/]+)(:[0-9]*)?")
TOKENS = re.compile(rb'\\.|["\[\]{}]', re.DOTALL)
"""What decides how deep JSON is nested: an escaped character, a quote or a bracket. At most two bytes each, so that
finding them all takes one pass."""

SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


RETRY_AFTER = 1
"""Seconds after which a client should try again after a 503."""

_STATUS: tuple[tuple[type[SomdstError], int], ...] = (
    (NotFound, 404),
    (Conflict, 409),
    (KeyReused, 422),
    (TooMuch, 429),
    (Overloaded, 503),
    (Unavailable, 503),
    (ModelError, 503),
    (InputError, 422),
    (SchemaError, 422),
    (StateError, 422),
)


def status_of(error: SomdstError) -> int:
    """The HTTP status that goes with an error."""
    if isinstance(error, RequestRefused):
        return error.status
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def loopback(host: str) -> bool:
    """Whether only this machine itself can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def problem(error: SomdstError) -> JSONResponse:
    """An error as an answer."""
    status = status_of(error)
    body: dict[str, object] = {"error": sentence(error)}
    if (version := getattr(error, "version", None)) is not None:
        body["version"] = version
    headers = {"retry-after": str(getattr(error, "retry_after", RETRY_AFTER))} if status in (429, 503) else {}
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return JSONResponse(body, status, headers)


def protocol(seconds: float) -> type[asyncio.Protocol]:
    """uvicorn's HTTP with a limit on how long the head of a request may take to arrive. Without it, a client that sends
    one letter per minute keeps its connection for ever."""

    class ImpatientProtocol(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._timer = self.loop.call_later(seconds, self._give_up)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._answering():
                self._cancel()
            elif self._timer is None:  # a part of the next request's head
                self._timer = self.loop.call_later(seconds, self._give_up)

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel()
            super().connection_lost(exc)

        def _answering(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def _give_up(self) -> None:
            if not self._answering():
                self.transport.close()

        def _cancel(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return ImpatientProtocol


class Observed:
    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _add_headers(MutableHeaders(scope=message), scope["path"], request_id)
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except Exception as error:
            log("failure", level=logging.ERROR, error=error, request=request_id, route=_route(scope))
            if not status:
                said = f"Something went wrong inside the service: report it with the request id {request_id}."
                await JSONResponse({"error": said}, 500)(scope, receive, send_with_headers)
        finally:
            self._note(scope, status, time.perf_counter() - started, request_id)

    def _note(self, scope: Scope, status: int, seconds: float, request_id: str) -> None:
        route = _route(scope)
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        self.metrics.requests.labels(method, route, str(status)).inc()
        self.metrics.latency.labels(route).observe(seconds)
        log(
            "request",
            request=request_id,
            method=method,
            route=route,
            status=status,
            ms=round(seconds * 1000, 1),
            tenant=scope["state"].get("tenant"),
        )


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})


def _route(scope: Scope) -> str:
    """The route's template: never the path, which has ids and what anybody may type, without an end."""
    return str(getattr(scope.get("route"), "path", "none"))


def _add_headers(headers: MutableHeaders, path: str, request_id: str) -> None:
    for name, value in SECURITY_HEADERS.items():
        headers[name] = value
    headers["x-request-id"] = request_id
    # The page's files are asked for again each time (304 if unchanged), so that an upgrade never mixes two versions.
    headers.setdefault("cache-control", "no-cache" if path.startswith("/static/") else "no-store")


class Guarded:
    def __init__(self, app: ASGIApp, *, settings: Settings) -> None:
        self.app, self.settings = app, settings
        self.under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            self._check(scope)
        except SomdstError as error:
            await problem(error)(scope, receive, send)
            return
        self.under_way += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self.under_way -= 1

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        if OPEN_PATHS.fullmatch(scope["path"]) is None:
            scope["state"]["tenant"] = self._tenant(headers, self.settings.keys)
        if self.settings.keys is None and not self.settings.any_host:
            _check_origin(headers, scope["method"])
        if self.under_way >= self.settings.max_requests and scope["path"] != "/healthz":
            raise Overloaded(f"{self.under_way} requests are in progress, which is the maximum: try again in a moment.")

    @staticmethod
    def _tenant(headers: Headers, keys: Keys | None) -> str:
        if keys is None:
            return LOCAL
        scheme, _, key = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise RequestRefused(401, "This needs an API key: send it as `Authorization: Bearer KEY`.")
        if (tenant := keys.tenant(key.strip())) is None:
            raise RequestRefused(
                401, "This API key is not known: check it, or ask the operator of the service for one."
            )
        return tenant


def _check_origin(headers: Headers, method: str) -> None:
    """Without keys, any web page that a person opens could talk to the service: keep other sites out.

    A site that pointed its own name at 127.0.0.1 shows in the Host header. A form or script on another site shows in
    Origin or Sec-Fetch-Site, which browsers send and pages cannot forge. A header that is sent twice counts twice.
    """
    host = headers.get("host", "").lower()
    named = HOST.fullmatch(host)
    if named is None or not loopback(named[1].removeprefix("[").removesuffix("]")):
        raise RequestRefused(421, "Without API keys this service answers to localhost only: use http://127.0.0.1.")
    if method in ("GET", "HEAD"):
        return
    sites = {value.strip().lower() for value in headers.getlist("sec-fetch-site")}
    origins = {value.strip().lower() for value in headers.getlist("origin")}
    if not sites <= {"same-origin", "none"} or not origins <= {f"http://{host}", f"https://{host}"}:
        raise RequestRefused(403, "Another web site may not use this service: open its own page instead.")


class Limited:
    """Reads the whole body before the route does, and refuses what is too big, too deep, too slow or no JSON."""

    def __init__(self, app: ASGIApp, *, settings: Settings) -> None:
        self.app, self.settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self.settings.body_timeout):
                body = await self._read(scope, receive)
            if body is None:  # the client is gone, and nobody waits for an answer
                return
            self._check(scope, body)
        except TimeoutError:
            error = RequestRefused(
                408, f"The body did not arrive within {self.settings.body_timeout:g} seconds: send it again."
            )
            await _closing(problem(error))(scope, receive, send)
            return
        except RequestRefused as error:
            await _closing(problem(error))(scope, receive, send)
            return
        DEADLINE.set(asyncio.get_running_loop().time() + self.settings.turn_timeout)
        await self.app(scope, _again(body, receive), send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        length = Headers(scope=scope).get("content-length", "0")
        if length.isdecimal() and int(length) > self.settings.max_body:
            raise self._too_big(int(length))
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > self.settings.max_body:
                raise self._too_big(size)
            if not message.get("more_body"):
                return b"".join(chunks)

    def _too_big(self, size: int) -> RequestRefused:
        return RequestRefused(
            413, f"The body has {size} bytes and at most {self.settings.max_body} are read: send less."
        )

    def _check(self, scope: Scope, body: bytes) -> None:
        if not body:
            return
        kind = Headers(scope=scope).get("content-type", "").split(";")[0].strip().lower()
        if kind != "application/json":
            raise RequestRefused(415, "The body must be JSON: send it with `Content-Type: application/json`.")
        if not _is_utf8(body):
            raise RequestRefused(400, "The body is not UTF-8 text: encode the JSON as UTF-8.")
        if depth(body) > self.settings.max_depth:
            raise RequestRefused(
                400, f"The JSON is nested deeper than {self.settings.max_depth} levels: make it flatter."
            )


def _is_utf8(body: bytes) -> bool:
    """Python's JSON parser would also read UTF-16 and UTF-32, where every other byte is zero and `depth` sees nothing.
    No JSON has a zero byte."""
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in body


def depth(body: bytes) -> int:
    """How deep brackets are nested, not counting those inside strings. One step per token, also for broken JSON.

    >>> depth(b'{"a": ["[[["]}'), depth(b'{"never closed [[[')
    (2, 1)
    """
    now = deepest = 0
    in_string = False
    for token in TOKENS.findall(body):
        if token == b'"':
            in_string = not in_string
        elif in_string or token.startswith(b"\\"):
            continue
        elif token in b"[{":
            now += 1
            deepest = max(deepest, now)
        else:
            now -= 1
    return deepest


def _closing(response: JSONResponse) -> JSONResponse:
    response.headers["connection"] = "close"  # the rest of the body may still come: do not take it for a request
    return response


def _again(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed
