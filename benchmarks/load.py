"""Load on a service, from this process to another one on the same machine: dialogues, turn by turn, over HTTP.

Two shapes. Closed: a fixed number of conversations, each sending its next turn as soon as the last was answered, which
shows how much the service can do. Open: turns arrive at a given rate, however fast the service is, and a turn's latency
counts from when it should have been sent, so that a stall is not hidden. The HTTP client is a few lines over a socket:
a full one would take as much of the machine as the service that it measures. Run by `service.py` and others.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, TypeVar

from somdst.errors import InputError, SomdstError
from somdst.memory.dialogue import Dialogue, Turn

T = TypeVar("T")


class LoadError(SomdstError):
    """The service answered with something that no load should lead to."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One turn: when it should have been sent, when it was answered (seconds of the loop), and the status."""

    due: float
    done: float
    status: int

    @property
    def milliseconds(self) -> float:
        return (self.done - self.due) * 1000


class Connections:
    """Kept connections to one service on loopback, opened as they are needed."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._idle: deque[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = deque()

    async def post(self, path: str, body: object, *, key: str | None = None) -> tuple[int, bytes]:
        """The status and the text of the answer. A connection that was lost raises OSError or EOFError."""
        reader, writer = self._idle.pop() if self._idle else await asyncio.open_connection("127.0.0.1", self.port)
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        head += f"idempotency-key: {key}\r\n" if key else ""
        try:
            writer.write(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
            answer = await reader.readuntil(b"\r\n\r\n")
            fields = dict(line.split(b": ", 1) for line in answer.lower().splitlines()[1:-1])
            text = await reader.readexactly(int(fields[b"content-length"]))
        except BaseException:
            writer.close()
            raise
        if fields.get(b"connection") == b"close":
            writer.close()
        else:
            self._idle.append((reader, writer))
        return int(answer.split(b" ", 2)[1]), text

    def close(self) -> None:
        for _, writer in self._idle:
            writer.close()


class Talks:
    """As many conversations as there are seats; one whose dialogue has ended makes room for the next dialogue."""

    def __init__(
        self,
        connections: Connections,
        dialogues: Sequence[Dialogue],
        *,
        seats: int,
        schemas: Sequence[dict[str, Any]] = (),
    ) -> None:
        """`schemas` are given to new conversations in turn; without any, they have the service's own."""
        self._connections = connections
        self._dialogues = cycle(dialogues)
        self._schemas = cycle({"schema": schema} for schema in schemas) if schemas else cycle([{}])
        self._ready: deque[str] = deque()
        self._seats: list[tuple[str, Iterator[Turn]]] = [("", iter(()))] * seats

    async def prepare(self, conversations: int) -> None:
        """Start conversations ahead, so that the measurement has turns only."""
        for _ in range(conversations - len(self._ready)):
            self._ready.append(await self._start())

    async def next(self, seat: int) -> tuple[str, Turn]:
        """The next turn of a seat, and the conversation that it belongs to."""
        id, turns = self._seats[seat]
        turn = next(turns, None)
        if turn is None:
            id = self._ready.popleft() if self._ready else await self._start()
            turns = iter(next(self._dialogues).turns)
            self._seats[seat] = id, turns
            turn = next(turns)
        return id, turn

    async def _start(self) -> str:
        body = next(self._schemas)
        while True:
            status, text = await self._connections.post("/v1/conversations", body)
            if status == 201:
                return str(json.loads(text)["id"])
            if status == 422:
                raise InputError(json.loads(text)["error"])
            if status != 503:
                raise LoadError(f"A conversation could not be started: status {status}, {text[:200]!r}.")
            await asyncio.sleep(0.1)


class Load:
    """Turns of `seats` conversations at once, sent to the service at `port`."""

    def __init__(
        self, port: int, dialogues: Sequence[Dialogue], *, seats: int, schemas: Sequence[dict[str, Any]] = ()
    ) -> None:
        self.connections = Connections(port)
        self.talks = Talks(self.connections, dialogues, seats=seats, schemas=schemas)
        self.seats = seats

    async def send(self, seat: int) -> Sample:
        """The next turn of one seat, now."""
        id, turn = await self.talks.next(seat)
        return await self._send(id, turn, due=asyncio.get_running_loop().time())

    async def closed(self, seconds: float) -> list[Sample]:
        """Every seat sends its next turn when the last was answered."""
        return await without_pause(self.send, seats=self.seats, seconds=seconds)

    async def open(self, rate: float, seconds: float) -> list[Sample]:
        """Turns arrive at random moments, `rate` per second on average, for the seats in turn; at least one does."""
        end = asyncio.get_running_loop().time() + seconds
        tasks: list[asyncio.Task[Sample]] = []
        async for due in arrivals(rate, end, random.Random(0)):
            id, turn = await self.talks.next(len(tasks) % self.seats)
            tasks.append(asyncio.create_task(self._send(id, turn, due=due)))
        return list(await asyncio.gather(*tasks)) or [await self.send(0)]

    async def _send(self, id: str, turn: Turn, *, due: float) -> Sample:
        body = {"system": turn.system, "user": turn.user}
        status, _ = await self.connections.post(f"/v1/conversations/{id}/turns", body)
        return Sample(due, asyncio.get_running_loop().time(), status)

    def close(self) -> None:
        self.connections.close()


async def without_pause(send: Callable[[int], Awaitable[T]], *, seats: int, seconds: float) -> list[T]:
    """What `send` gives, called for every seat again and again."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    done: list[T] = []

    async def talk(seat: int) -> None:
        while loop.time() < end:
            done.append(await send(seat))

    await asyncio.gather(*(talk(seat) for seat in range(seats)))
    return done


async def arrivals(rate: float, end: float, chance: random.Random) -> AsyncIterator[float]:
    """Random moments until `end`, `rate` per second on average, each when it has come."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while (due := due + chance.expovariate(rate)) < end:
        if (ahead := due - loop.time()) > 0:
            await asyncio.sleep(ahead)
        yield due


def statuses(samples: Sequence[Sample]) -> dict[str, int]:
    counts = Counter(str(sample.status) for sample in samples)
    return dict(sorted(counts.items()))


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of all values is not above; the nearest one, never between two."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered)) - 1))] if ordered else float("nan")
