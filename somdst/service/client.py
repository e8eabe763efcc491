"""`Client`: a service from Python, with the same words as a conversation in memory.

    with Client("http://127.0.0.1:8000", api_key=None) as client:
        conversation = client.start(subject="customer-17")
        answer = conversation.update(user="a cheap hotel in the north, please")
        answer.state, answer.changes

Every write carries an idempotency key, so it can be sent again after a 503 or a lost answer and is still done once. A
service that was never reached is an error at once; one that was reached before may be restarting, and is waited for.
Nothing is kept here: a `RemoteConversation` is an address.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Self
from urllib.parse import quote

import httpx

from somdst.corpora.jsonlines import dialogue_from_json
from somdst.errors import SomdstError
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.schema import Schema
from somdst.memory.state import State, Value, value_to_json
from somdst.service.schema_views import SchemaPageView, SchemaSummary
from somdst.service.views import (
    Answer,
    ConversationView,
    LogView,
    ModelView,
    PageView,
    QuestionsView,
    ReplayView,
    SchemaView,
    Summary,
    TrackedView,
    VersionView,
)
from somdst.tracking.questions import Question
from somdst.tracking.records import Entry, TrackedTurn

By = Literal["person", "api"]
Query = Mapping[str, str | Sequence[str]]
MAX_PAUSE = 5.0
CONNECT_TIMEOUT = 5.0
LOG_PAGE = 1000
NEVER_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.LocalProtocolError,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
)
"""Errors of requests that did not reach the service."""


class ServiceError(SomdstError):
    """The service's own sentence with the HTTP status; status 0 if the service could not be reached."""

    def __init__(self, sentence: str, *, status: int, version: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.version = version
        """For a conflict (409), the version that the conversation has."""


class Client:
    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8000",
        api_key: str | None = None,
        *,
        timeout: float = 60.0,
        retries: int = 8,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`timeout`: seconds to wait for an answer. `retries`: how often a request is sent again after a 503 or a lost
        connection."""
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        patience = httpx.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT))
        self._http = httpx.Client(base_url=base_url, headers=headers, timeout=patience, transport=transport)
        self._retries = retries
        self._reached = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def start(self, *, subject: str | None = None, schema: Schema | str | None = None) -> RemoteConversation:
        """A new conversation with an empty memory. `schema` is one of your own, or the id of a stored one."""
        body = {"subject": subject, **_schema(schema)}
        return RemoteConversation(self, self.send("POST", "/v1/conversations", body)["id"])

    def open(self, id: str) -> RemoteConversation:
        """A conversation that exists; nothing is sent yet."""
        return RemoteConversation(self, id)

    def conversations(self, *, subject: str | None = None) -> Iterator[Summary]:
        """All conversations, newest first, a page at a time."""
        for page in self._pages("/v1/conversations", {} if subject is None else {"subject": subject}):
            yield from PageView.from_json(page).conversations

    def erase_subject(self, subject: str) -> int:
        """Erase all conversations of a subject for good. Returns how many there were."""
        return int(self.send("DELETE", f"/v1/subjects/{quote(subject, safe='')}")["erased"])

    def track(
        self, turns: Sequence[Turn], *, state: State | None = None, schema: Schema | str | None = None
    ) -> tuple[TrackedTurn, ...]:
        """A whole dialogue at once; nothing is stored."""
        body = {"turns": [{"system": turn.system, "user": turn.user} for turn in turns], **_schema(schema)}
        answer = self.send("POST", "/v1/track", {**body, "state": (state or State()).to_json()})
        return TrackedView.from_json(answer).turns

    def replay(self, model: str, *, conversations: Sequence[str] | None = None, limit: int = 20) -> ReplayView:
        """Which states of stored conversations would be different under another model of the service."""
        wanted = list(conversations) if conversations is not None else None
        body = {"model": model, "conversations": wanted, "limit": limit}
        return ReplayView.from_json(self.send("POST", "/v1/replays", body))

    def export(self, *, every: bool = False) -> list[Dialogue]:
        """Corrected conversations as dialogues to train on; with `every`, all."""
        lines = self._send("GET", "/v1/export", query={"every": str(every).lower()}).text.splitlines()
        return [dialogue_from_json(json.loads(line)) for line in lines]

    def schema(self, id: str | None = None) -> Schema:
        """A stored schema; without an id, the service's own."""
        return SchemaView.from_json(self.send("GET", f"/v1/schemas/{id}" if id else "/v1/schema")).schema()

    def add_schema(self, schema: Schema) -> str:
        """Store a schema. Returns its id, for conversations to name."""
        return SchemaView.from_json(self.send("POST", "/v1/schemas", _schema(schema))).id

    def schemas(self) -> Iterator[SchemaSummary]:
        """All stored schemas, newest first, a page at a time."""
        for page in self._pages("/v1/schemas", {}):
            yield from SchemaPageView.from_json(page).schemas

    def _pages(self, path: str, query: dict[str, str]) -> Iterator[dict[str, Any]]:
        """A list, page by page."""
        page = self.send("GET", path, query=query)
        yield page
        while cursor := page.get("next"):
            page = self.send("GET", path, query={**query, "cursor": cursor})
            yield page

    def delete_schema(self, id: str) -> None:
        """Delete a schema that no conversation uses."""
        self.send("DELETE", f"/v1/schemas/{id}")

    def model(self) -> str:
        """The id of the model that tracks."""
        return ModelView.from_json(self.send("GET", "/v1/model")).id

    def ready(self) -> bool:
        """Whether the service has its model and its database."""
        try:
            return self._http.get("/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, query: Query | None = None
    ) -> dict[str, Any]:
        """Call any route, with retries. Returns the JSON of the answer, or {} if the answer is empty."""
        response = self._send(method, path, body, query=query)
        data: dict[str, Any] = response.json() if response.content else {}
        return data

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, query: Query | None = None
    ) -> httpx.Response:
        headers = {"idempotency-key": uuid.uuid4().hex} if method == "POST" else {}
        lost = False
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                response = self._http.request(method, path, json=body, params=query, headers=headers)
            except httpx.TransportError as error:
                sent = not isinstance(error, NEVER_SENT)
                if last or (not sent and not self._reached) or isinstance(error, httpx.UnsupportedProtocol):
                    raise self._unreachable(error) from error
                lost = lost or sent
                time.sleep(_pause(attempt))
                continue
            self._reached = True
            if _soon(response) and not last:
                time.sleep(_pause(attempt, response.headers.get("retry-after")))
                continue
            if method == "DELETE" and response.status_code == 404 and lost:
                return httpx.Response(204)  # the first attempt did it; only its answer was lost
            return _checked(response)
        raise AssertionError("unreachable")

    def _unreachable(self, error: Exception) -> ServiceError:
        reason = " ".join(str(error).split()) or type(error).__name__
        sentence = (
            f"The service at {self._http.base_url} cannot be reached ({reason}): start it with `somdst serve`, or "
        )
        return ServiceError(sentence + "check the address.", status=0)


class RemoteConversation:
    """One conversation of a service. With `version`, a write is refused (409) if the conversation has moved on."""

    def __init__(self, client: Client, id: str) -> None:
        self.client, self.id = client, id

    def __repr__(self) -> str:
        return f"RemoteConversation({self.id!r})"

    def update(self, user: str, system: str = "", *, version: int | None = None) -> Answer:
        """The next turn: what the system said, if anything, and what the user said to it."""
        return self._write("turns", {"user": user, "system": system, "version": version})

    def correct(
        self, slot: str, value: Value | None, *, pin: bool = False, source: By = "api", version: int | None = None
    ) -> Answer:
        """Write a value by hand; None deletes."""
        values = {slot: None if value is None else value_to_json(value)}
        return self._write("corrections", {"values": values, "pin": pin, "source": source, "version": version})

    def pin(self, *slots: str, source: By = "api", version: int | None = None) -> Answer:
        return self._write("pin", {"slots": slots, "source": source, "version": version})

    def unpin(self, *slots: str, source: By = "api", version: int | None = None) -> Answer:
        return self._write("unpin", {"slots": slots, "source": source, "version": version})

    def confirm(self, *slots: str, source: By = "api", version: int | None = None) -> Answer:
        """Make the pending writes of these slots; of all if none is named."""
        return self._write("confirm", {"slots": slots, "source": source, "version": version})

    def reject(self, *slots: str, source: By = "api", version: int | None = None) -> Answer:
        """Drop the pending writes of these slots; of all if none is named."""
        return self._write("reject", {"slots": slots, "source": source, "version": version})

    def undo(self, *, source: By = "api", version: int | None = None) -> Answer:
        return self._write("undo", {"source": source, "version": version})

    def redo(self, *, source: By = "api", version: int | None = None) -> Answer:
        return self._write("redo", {"source": source, "version": version})

    def change_schema(self, schema: Schema | str | None, *, source: By = "api", version: int | None = None) -> Answer:
        """Go on under another schema, given whole or by the id of a stored one; None for the service's own. What still
        fits is kept, and `refused` of the answer says what does not."""
        return self._write("schema", {"schema": None, **_schema(schema), "source": source, "version": version})

    def read(self) -> ConversationView:
        """The conversation as it is, with its last turns."""
        return ConversationView.from_json(self.client.send("GET", self._path()))

    def at(self, version: int) -> VersionView:
        """The conversation as it was."""
        return VersionView.from_json(self.client.send("GET", self._path(f"versions/{version}")))

    def what_to_ask(self, *slots: str) -> tuple[Question, ...]:
        """What to ask next: writes to confirm, then empty slots: these, or the required ones."""
        answer = self.client.send("GET", self._path("questions"), query={"slot": slots})
        return QuestionsView.from_json(answer).questions

    def log(self) -> tuple[Entry, ...]:
        """Everything that ever happened, oldest first; read a page at a time."""
        entries: list[Entry] = []
        while True:
            query = {"after": str(len(entries)), "limit": str(LOG_PAGE)}
            page = LogView.from_json(self.client.send("GET", self._path("log"), query=query))
            entries += page.entries
            if len(page.entries) < LOG_PAGE:
                return tuple(entries)

    def erase(self) -> None:
        """Erase it for good."""
        self.client.send("DELETE", self._path())

    def _path(self, rest: str = "") -> str:
        return f"/v1/conversations/{self.id}/{rest}".rstrip("/")

    def _write(self, route: str, body: Mapping[str, Any]) -> Answer:
        return Answer.from_json(self.client.send("POST", self._path(route), body))


def _schema(schema: Schema | str | None) -> dict[str, Any]:
    if schema is None:
        return {}
    return {"schema": schema if isinstance(schema, str) else schema.to_json()}


def _soon(response: httpx.Response) -> bool:
    """Whether the same request may succeed in a moment. A tenant whose storage is full gets 429 with a long wait."""
    wait = response.headers.get("retry-after", "")
    return response.status_code == 503 or (response.status_code == 429 and wait.isdecimal() and int(wait) <= MAX_PAUSE)


def _pause(attempt: int, retry_after: str | None = None) -> float:
    if retry_after is not None and retry_after.isdecimal():
        return min(float(retry_after), MAX_PAUSE)
    return float(min(0.1 * 2**attempt, MAX_PAUSE))


def _checked(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    try:
        data = response.json()
        sentence, version = str(data["error"]), data.get("version")
    except (ValueError, KeyError, TypeError, AttributeError):
        sentence, version = f"The service answered with status {response.status_code} and no reason.", None
    raise ServiceError(sentence, status=response.status_code, version=version)
