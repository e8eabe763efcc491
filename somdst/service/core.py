"""`Service`: what the HTTP routes call. It joins the store and the tracker and knows nothing of HTTP.

A turn goes through three batchers, each with a thread of its own: read the conversation, run the model, append to the
log. So one query, one model run and one sync of the disk serve all turns that are under way, and while one batch is
being written the next is already being predicted. Turns of one conversation wait for each other here; between
processes the store's versions decide, and a turn that lost is done again from the newer memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from somdst.errors import Overloaded
from somdst.memory.dialogue import Turn
from somdst.memory.state import State
from somdst.service.batching import Batcher
from somdst.service.configuration import Settings
from somdst.service.locks import Locks
from somdst.service.logs import log
from somdst.service.metrics import Metrics
from somdst.service.models import Models, OpenTracker
from somdst.service.stepping import Step, step_all
from somdst.store import Conflict, Key, NotFound, Record, Repeated, Store, Unavailable, Write
from somdst.tracking import edits
from somdst.tracking.conversation import Result
from somdst.tracking.log import EMPTY, Entry, Snapshot, Source, replay

T = TypeVar("T")
ATTEMPTS = 8
EXPIRY_INTERVAL = 60.0


@dataclass(frozen=True, slots=True)
class Written:
    """The answer to a write: the conversation after it, and the entry that was added."""

    conversation: str
    snapshot: Snapshot
    entry: Entry


Make = Callable[[Snapshot], Awaitable[Entry]]
"""Makes the entry to append to a snapshot."""


class Service:
    def __init__(self, settings: Settings, open_tracker: OpenTracker) -> None:
        self.settings = settings
        self.store = Store(settings.database, retention=settings.retention)
        self.models = Models(open_tracker, settings.model, settings.other_models)
        self.metrics = Metrics(queue_length=lambda: self.under_way)
        self.under_way = 0
        """Turns that were accepted and not yet answered."""
        self.replaying = asyncio.Lock()
        """Held by the one replay under another model that may run."""
        self._locks = Locks()
        self._tasks: set[asyncio.Task[Any]] = set()
        size = settings.max_batch
        self._reads: Batcher[tuple[str, str, Key | None], Record | Repeated] = Batcher(
            self._read_many, name="reads", max_batch=size
        )
        self._steps: Batcher[Step, Result] = Batcher(
            self._step_many,
            name="model",
            max_batch=size,
            wait=settings.batch_wait if size > 1 else 0.0,
            crowd=lambda: self.under_way,
            seen=self.metrics.batches.observe,
        )
        self._writes: Batcher[Write, Snapshot | Repeated] = Batcher(
            self.store.append_many, name="writes", max_batch=size
        )

    async def start(self) -> None:
        """Load the model in the background, so that the service answers, if only that it is not ready."""
        self._spawn(self.models.load())
        self._expiry = asyncio.create_task(self._expire_forever())

    async def stop(self) -> None:
        """Finish every turn that was accepted, then close the database."""
        self._expiry.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)
        for batcher in (self._reads, self._steps, self._writes):
            await batcher.close()
        await asyncio.to_thread(self.store.close)

    # Turns

    async def add_turn(
        self, tenant: str, conversation: str, turn: Turn, *, version: int | None = None, key: Key | None = None
    ) -> Written:
        """Track one turn. Once accepted it is finished, even where the one who asked has gone."""
        deadline = asyncio.get_running_loop().time() + self.settings.turn_timeout

        async def predict(snapshot: Snapshot) -> Entry:
            return (await self._steps.submit((snapshot, turn), deadline=deadline)).entry

        return await self._accept(
            lambda: self._write(tenant, conversation, predict, version=version, key=key, deadline=deadline)
        )

    async def track(self, turns: Sequence[Turn], *, state: State | None = None) -> list[Result]:
        """A whole dialogue, turn by turn, without storing anything."""
        deadline = asyncio.get_running_loop().time() + self.settings.turn_timeout
        snapshot = EMPTY
        if state:
            snapshot = self.models.tracker.correct(EMPTY, dict(state), source="api").snapshot

        async def run(snapshot: Snapshot) -> list[Result]:
            results: list[Result] = []
            for turn in turns:
                results.append(await self._steps.submit((snapshot, turn), deadline=deadline))
                snapshot = results[-1].snapshot
            return results

        return await self._accept(lambda: run(snapshot))

    async def edit(
        self, tenant: str, conversation: str, make: Make, *, version: int | None = None, key: Key | None = None
    ) -> Written:
        """Append what `make` makes of the newest snapshot: a correction, a pin and the like."""
        return await asyncio.shield(self._spawn(self._write(tenant, conversation, make, version=version, key=key)))

    def undo(self, tenant: str, conversation: str, *, source: Source) -> Make:
        async def make(snapshot: Snapshot) -> Entry:
            number = edits.undo_target(snapshot)
            target = await asyncio.to_thread(self.store.entry, tenant, conversation, number)
            return edits.undo(snapshot, target, source=source)

        return make

    def redo(self, tenant: str, conversation: str, *, source: Source) -> Make:
        async def make(snapshot: Snapshot) -> Entry:
            number = edits.redo_target(snapshot)
            target = await asyncio.to_thread(self.store.entry, tenant, conversation, number)
            return edits.redo(snapshot, target, source=source)

        return make

    # How a write is done

    async def _write(
        self,
        tenant: str,
        conversation: str,
        make: Make,
        *,
        version: int | None,
        key: Key | None,
        deadline: float | None = None,
    ) -> Written:
        async with self._locks.hold(conversation, deadline=deadline):
            for attempt in range(ATTEMPTS):
                try:
                    return await self._attempt(tenant, conversation, make, version=version, key=key)
                except Conflict:
                    # Another process was faster. Whoever named a version wants to know; the others go on from there.
                    if version is not None or attempt == ATTEMPTS - 1:
                        raise
                    await asyncio.sleep(0.01 * attempt)
        raise AssertionError("unreachable")

    async def _attempt(
        self, tenant: str, conversation: str, make: Make, *, version: int | None, key: Key | None
    ) -> Written:
        found = await self._reads.submit((tenant, conversation, key))
        if isinstance(found, Repeated):
            return await self._again(tenant, found)
        if version is not None and version != found.version:
            raise Conflict(
                f"The conversation {conversation} is at version {found.version}, not {version}: read it again.",
                version=found.version,
            )
        entry = await make(found.snapshot)
        outcome = await self._writes.submit(Write(tenant, conversation, entry, found.snapshot, key))
        if isinstance(outcome, Repeated):
            return await self._again(tenant, outcome)
        self.metrics.entry(entry)
        return Written(conversation, outcome, entry)

    async def _again(self, tenant: str, repeated: Repeated) -> Written:
        """The answer that a request with this key got before."""
        entries = await asyncio.to_thread(self.store.log, tenant, repeated.conversation, upto=repeated.version)
        return Written(repeated.conversation, replay(entries), entries[-1])

    def _read_many(self, wanted: Sequence[tuple[str, str, Key | None]]) -> list[Record | Repeated | Exception]:
        found: list[Record | Repeated | Exception] = list(
            self.store.read_many([(tenant, conversation) for tenant, conversation, _ in wanted])
        )
        keyed = [(i, tenant, key) for i, (tenant, _, key) in enumerate(wanted) if key is not None]
        repeats = self.store.find_keys([(tenant, key) for _, tenant, key in keyed])
        for (i, _, _), repeated in zip(keyed, repeats, strict=True):
            if repeated is not None and not isinstance(found[i], NotFound):
                found[i] = repeated
        return found

    def _step_many(self, steps: Sequence[Step]) -> Sequence[Result | Exception]:
        return step_all(self.models.tracker, steps)

    async def _accept(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do this as one of the turns that may be under way; refuse it where there are too many, or no model."""
        if self.under_way >= self.settings.max_turns:
            raise Overloaded(f"{self.under_way} turns are under way, the most there can be: try again in a moment.")
        _ = self.models.tracker
        self.under_way += 1
        task = self._spawn(work())
        task.add_done_callback(self._leave)
        return await asyncio.shield(task)  # whoever asked may go: what was accepted is finished

    def _leave(self, _task: object) -> None:
        self.under_way -= 1

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _expire_forever(self) -> None:
        while True:
            try:
                if deleted := await asyncio.to_thread(self.store.expire):
                    log("expired", conversations=deleted)
            except Unavailable as error:
                log("expiry failed", reason=str(error))
            await asyncio.sleep(EXPIRY_INTERVAL)
