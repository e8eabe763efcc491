"""The clients of the torture: they share a few conversations, repeat, reuse keys and hang up, and record what they saw.

Does not break anything (`nemesis.py`) and does not judge (`history.py`); `torture.py` brings the three together.
"""

from __future__ import annotations

import http.client
import itertools
import json
import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from history import READS, Call
from nemesis import Nemesis, TortureError

ATTEMPTS = 40
"""How often a request is sent that gets no answer or 503."""
KINDS = {"turn": 50, "correction": 14, "undo": 8, "redo": 4, "read": 10, "log": 6, "version": 8}


@dataclass(frozen=True, slots=True)
class Bounds:
    writers: int = 6
    writes: int = 600
    faults: int = 20
    seconds: float = 120.0
    conversations: int = 3
    ahead: int = 8
    """Requests that each writer may send after a fault is due and before the next one is waited for."""


class Clients:
    """Writers that share a few conversations, and the record of all that they saw."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        seed: int,
        bounds: Bounds,
        nemesis: Nemesis | None = None,
        api_key: str | None = None,
    ) -> None:
        self.urls, self.seed, self.bounds, self.nemesis = list(urls), seed, bounds, nemesis
        self.headers = {"content-type": "application/json"}
        if api_key:
            self.headers["authorization"] = f"Bearer {api_key}"
        self.prefix = f"{seed}-{random.SystemRandom().getrandbits(32):x}"
        """Keys of two runs on one deployment must differ."""
        self.calls: list[Call] = []
        self.made: set[str] = set()
        self.erased: set[str] = set()
        self.slots: list[str] = []
        self._creates: list[Request] = []
        """Those that were acknowledged, to be sent again later."""
        self.elapsed = 0.0
        self._ticks, self._numbers = itertools.count(), itertools.count()
        self._begun = self._done = 0
        self._due: int | None = 0
        """Requests to be done before the next fault; None if there will be no more faults."""
        self._progress = threading.Condition()
        self._working = 0
        self._chance = random.Random(f"{seed} alone")

    def begin(self) -> None:
        self._started = time.monotonic()
        self._working = self.bounds.writers
        self.slots = [self._create(self._chance) for _ in range(self.bounds.conversations)]

    def end(self) -> None:
        """Everything once, whatever chance did before; an erasure last, so that nothing overwrites what it leaves."""
        for id in sorted(self.made - self.erased):
            for kind in ("turn", "correction"):
                self._acknowledged(kind, id)
            for _ in range(3):
                self._write_and_read(id)
            for version in range(self.sent("read", id).answer.get("version", 0) + 1):
                self.sent("version", id, named=version)
        id, key = self._create(self._chance), f"{self.prefix}-last"
        create = self._creates[-1]
        self._call(create, self.urls[0], hang_up=True)
        self._insist(create, self._chance)
        self._call(self._request("create", "", self._chance).with_key(create.key), self.urls[-1])
        first, other = (self._request("turn", id, self._chance).with_key(key) for _ in range(2))
        self._call(first, self.urls[0], hang_up=True)
        for _ in range(2):
            self._insist(first, self._chance)
        self._call(other, self.urls[-1])
        self._erase(self._chance, id)
        self.elapsed = time.monotonic() - self._started

    # How far it is

    def reach(self, goal: int) -> bool:
        """Wait until so many requests are done; False if there will be no more."""
        with self._progress:
            self._set_due(goal)
            self._progress.wait_for(lambda: self._done >= goal or not self._working)
            return self._working > 0

    def finish(self) -> None:
        """There will be no more faults. Until this is called, the writers go on, so that every fault meets some."""
        with self._progress:
            self._set_due(None)

    def wait_for(self, more: int) -> None:
        """Wait for so many more requests; no longer than a few seconds, because a fault can stop everybody."""
        with self._progress:
            goal = self._done + more
            self._set_due(goal)
            self._progress.wait_for(lambda: self._done >= goal or not self._working, timeout=3.0)

    def _set_due(self, goal: int | None) -> None:
        self._due = goal
        self._progress.notify_all()

    def _begin_next(self) -> bool:
        """Whether a writer has another request to send. As long as there are faults to come it has, but nobody gets far
        ahead of them, so that the number of requests has a bound."""
        ahead = self.bounds.ahead * self.bounds.writers
        with self._progress:
            self._progress.wait_for(lambda: self._due is None or self._begun < self._due + ahead)
            if self._due is None and self._begun >= self.bounds.writes:
                return False
            self._begun += 1
            return True

    # What a writer does

    def write(self, number: int) -> None:
        chance = random.Random(f"{self.seed} {number}")
        try:
            while time.monotonic() - self._started < self.bounds.seconds and self._begin_next():
                self._one(chance)
                with self._progress:
                    self._done += 1
                    self._progress.notify_all()
        finally:
            with self._progress:
                self._working -= 1
                self._progress.notify_all()

    def _one(self, chance: random.Random) -> None:
        slot = chance.randrange(len(self.slots))
        id = self.slots[slot]
        if chance.random() < 0.01:
            self.slots[slot] = self._create(chance)
            self._erase(chance, id)
            return
        if chance.random() < 0.01:
            self._call(chance.choice(self._creates), chance.choice(self.urls))
            return
        kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
        if kind in READS:
            self.sent(kind, id, chance)
        else:
            self._insist(self._request(kind, id, chance), chance)

    def _request(self, kind: str, id: str, chance: random.Random) -> Request:
        number = next(self._numbers)
        body: dict[str, Any] = {}
        mark = None
        if kind == "create":
            mark = body["subject"] = f"subject-{number}x"
            return Request(kind, "", json.dumps(body), f"{self.prefix}-{number}", mark, None)
        if kind == "turn":
            mark = body["user"] = f"hotel name place {number}x"
        elif kind == "correction":
            mark = f"value {number}x"
            body = {"values": {"hotel-name": mark}, "pin": chance.random() < 0.2}
        named = self._last_version(id) if chance.random() < 0.2 else None
        if named is not None:
            body["version"] = named
        key = f"{self.prefix}-{number}" if chance.random() < 0.9 else None
        return Request(kind, id, json.dumps(body), key, mark, named)

    def _insist(self, request: Request, chance: random.Random) -> Call:
        """Send it until it is answered, as often as a key allows it; then again, and the key with something else."""
        twin = request.key and chance.random() < 0.1
        if twin:
            thread = threading.Thread(target=self._call, args=(request, chance.choice(self.urls)))
            thread.start()
        fate = chance.random()
        if request.key and fate < 0.05:
            self._call(request, chance.choice(self.urls), hang_up=True)
        elif request.key and fate < 0.1:
            half = self._request(request.kind, request.conversation, chance)
            self._call(half, chance.choice(self.urls), half=True)
        for attempt in range(ATTEMPTS):
            call = self._call(request, chance.choice(self.urls))
            if not _worth_repeating(call) or request.key is None:
                break
            time.sleep(min(0.02 * 2**attempt, 0.5))
        if twin:
            thread.join()
        if call.acknowledged and request.key and chance.random() < 0.1:
            self._call(request, chance.choice(self.urls))
        if call.acknowledged and request.key and chance.random() < 0.05:
            other = self._request(request.kind, request.conversation, chance)
            if other.body != request.body:
                self._call(other.with_key(request.key), chance.choice(self.urls))
        return call

    def _acknowledged(self, kind: str, id: str) -> None:
        """Such requests until one is acknowledged: a conversation may be new and have no entry."""
        for _ in range(10):
            if self._insist(self._request(kind, id, self._chance), self._chance).acknowledged:
                return

    def _write_and_read(self, id: str) -> None:
        """A turn, and reads of the log from all replicas until it is answered."""
        turn, chance = self._request("turn", id, self._chance), random.Random(self._chance.random())
        writer = threading.Thread(target=self._insist, args=(turn, chance))
        writer.start()
        for url in itertools.cycle(self.urls):
            self._call(Request("log", id, "", None, None, None), url)
            if not writer.is_alive():
                break
        writer.join()

    def _create(self, chance: random.Random) -> str:
        request = self._request("create", "", chance)
        for _ in range(10):
            call = self._insist(request, chance)
            if call.acknowledged:
                self._creates.append(request)
                return call.conversation
        raise TortureError(f"No conversation could be made: the last answer was {call.status}.")

    def _erase(self, chance: random.Random, id: str) -> None:
        for _ in range(10 * ATTEMPTS):
            call = self._call(Request("erase", id, "", None, None, None), chance.choice(self.urls))
            if call.acknowledged or call.status == 404:
                self.erased.add(id)
                return
            time.sleep(0.2)
        raise TortureError(f"The conversation {id} could not be erased: the last answer was {call.status}.")

    def sent(self, kind: str, id: str, chance: random.Random | None = None, *, named: int | None = None) -> Call:
        """One request without a key, until it is answered. `named` is the version to read, by chance if it is None."""
        chance = chance or self._chance
        if kind == "version" and named is None:
            named = chance.randint(0, self._last_version(id))
        request = Request(kind, id, "", None, None, named) if kind in READS else self._request(kind, id, chance)
        for _ in range(ATTEMPTS):
            call = self._call(request, chance.choice(self.urls))
            if not _worth_repeating(call) or kind not in READS:
                break
            time.sleep(0.1)
        return call

    def _last_version(self, id: str) -> int:
        """As the last calls saw it; it may be old, and is then refused."""
        for call in reversed(self.calls[-50:]):
            if call.conversation == id and call.acknowledged and "version" in call.answer:
                return int(call.answer["version"])
        return 0

    # One call

    def tick(self) -> int:
        """This moment, as calls are ordered by."""
        return next(self._ticks)

    def _clock(self) -> float | None:
        return None if self.nemesis is None else time.time() + self.nemesis.slowest_clock

    def _call(self, request: Request, url: str, *, hang_up: bool = False, half: bool = False) -> Call:
        clock, began = self._clock(), self.tick()
        status, answer = self._send(request, url, hang_up=hang_up, half=half)
        ended = self.tick()
        if clock is not None:
            clock = min(clock, self._clock() or clock)
        made = str(answer.get("id", "")) if request.kind == "create" and status == 201 else request.conversation
        expires = answer.get("expires_at")
        call = Call(
            request.kind,
            made,
            began,
            ended,
            status,
            request.body,
            request.key,
            request.mark,
            request.named,
            answer,
            clock,
            datetime.fromisoformat(expires).timestamp() if expires else None,
        )
        self.calls.append(call)
        if call.kind == "create" and call.acknowledged:
            self.made.add(call.conversation)
        return call

    def _send(self, request: Request, url: str, *, hang_up: bool, half: bool) -> tuple[int | None, Mapping[str, Any]]:
        place = urlsplit(url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=20)
        headers = {**self.headers, **({"idempotency-key": request.key} if request.key else {})}
        try:
            if half:
                connection.putrequest(request.method, request.path)
                for name, value in {**headers, "content-length": str(len(request.body))}.items():
                    connection.putheader(name, value)
                connection.endheaders(request.body[: len(request.body) // 2].encode())
                return 499, {}  # it never arrived, so it must never be done
            connection.request(request.method, request.path, request.body or None, headers)
            if hang_up:
                return None, {}
            response = connection.getresponse()
            text = response.read()
            return response.status, json.loads(text) if text else {}
        except (OSError, http.client.HTTPException, ValueError):
            return None, {}
        finally:
            connection.close()


def _worth_repeating(call: Call) -> bool:
    """It got no answer or 503. After 500, which is a bug, the next answer would hardly be another."""
    return call.unknown and call.status != 500


@dataclass(frozen=True, slots=True)
class Request:
    kind: str
    conversation: str
    body: str
    """The same characters each time: they are part of what a key is bound to."""
    key: str | None
    mark: str | None
    named: int | None

    def with_key(self, key: str | None) -> Request:
        return Request(self.kind, self.conversation, self.body, key, self.mark, self.named)

    @property
    def method(self) -> str:
        return {"erase": "DELETE", "read": "GET", "log": "GET", "version": "GET"}.get(self.kind, "POST")

    @property
    def path(self) -> str:
        rest = {"turn": "/turns", "correction": "/corrections", "undo": "/undo", "redo": "/redo", "log": "/log"}
        if self.kind == "create":
            return "/v1/conversations"
        if self.kind == "version":
            return f"/v1/conversations/{self.conversation}/versions/{self.named}"
        return f"/v1/conversations/{self.conversation}{rest.get(self.kind, '')}"
