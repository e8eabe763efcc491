"""`Service`: what the routes call. It joins the store and the tracker; it does not know HTTP.

A turn goes through three batchers, each with its own thread: read the conversation, run the model, append to the log.
One query, one model run and one sync of the disk serve all turns that are under way, and while one batch is being
written the next one is being predicted. Turns of one conversation wait for each other here. Between processes the
store's versions decide: a turn that lost is tracked again from the newer memory. Everything else that a request does
runs in the threads of `read` and `write`: while writes are stuck, reads go on.

Conversations may have schemas of their own; their turns share model runs with all others. A schema that the model has
not read yet is compiled in another thread first, so that nobody else's turn waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from threading import Lock
from typing import Any, ParamSpec, TypeVar

from somdst.errors import Conflict, InputError, ModelError, NotFound, Overloaded, SomdstError, no_such
from somdst.memory.dialogue import Turn
from somdst.memory.schema import Schema
from somdst.memory.state import State
from somdst.service.batching import DEADLINE, Batcher, Locks, Threads
from somdst.service.configuration import Settings
from somdst.service.housekeeping import Housekeeping
from somdst.service.monitoring import Metrics, log
from somdst.service.replaying import Replayed, replayed
from somdst.service.schema_input import read_schema
from somdst.store import Key, Record, Repeated, Store, Write
from somdst.tracking import edits
from somdst.tracking.log import EMPTY, Result
from somdst.tracking.records import Entry, Snapshot, Source
from somdst.tracking.step import Rules, Step, step_each
from somdst.tracking.tracker import Tracker

T = TypeVar("T")
P = ParamSpec("P")
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.1
"""Seconds between two attempts at a conversation that another process is writing to."""
READERS = WRITERS = 4
"""Threads. With those of turns, expiry and a replay there are as many as a database has connections."""

OpenTracker = Callable[[str], Tracker]
"""Opens a model by its folder or name."""


@dataclass(frozen=True, slots=True)
class Written:
    """The answer to a write: the conversation after it, and the entry that was added."""

    conversation: str
    snapshot: Snapshot
    entry: Entry


Make = Callable[[Snapshot], Result | Awaitable[Result]]
"""Makes what is to be appended to a snapshot."""


class Service:
    def __init__(self, settings: Settings, open_tracker: OpenTracker) -> None:
        self.settings = settings
        self.store = Store(settings.database, retention=settings.retention)
        self.models = Models(open_tracker, settings.model, settings.other_models)
        self.metrics = Metrics(queue_length=lambda: self.under_way)
        self.under_way = 0
        """Turns and edits that were accepted and not yet answered."""
        self._replaying = asyncio.Lock()
        self._locks = Locks()
        self._housekeeping = Housekeeping(self.store, settings.keys)
        self._readers, self._writers = Threads(READERS, name="readers"), Threads(WRITERS, name="writers")
        self._tasks: set[asyncio.Task[Any]] = set()
        size = settings.max_batch
        self._reads: Batcher[tuple[str, str, Key | None], Record | Repeated] = Batcher(
            self._read_many, name="reads", max_batch=size
        )
        self._compilations: Batcher[Tracker, None] = Batcher(self._compile, name="schemas", max_batch=1)
        self._steps: Batcher[tuple[Step, Rules], Result] = Batcher(
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
        """Load the model in the background. Until it is loaded, the service answers that it is not ready."""
        self._spawn(self.models.load())
        self._housekeeping.start()

    async def stop(self) -> None:
        """Finish everything that was accepted, then close the database."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        for worker in (self._reads, self._compilations, self._steps, self._writes, self._readers, self._writers):
            await worker.close()
        await self._housekeeping.stop()
        await asyncio.to_thread(self.store.close)

    async def read(self, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Work that changes nothing, in a thread. Nobody waits for it after the request's deadline."""
        return await self._readers.run(partial(work, *args, **options), deadline=self._deadline(), finish=False)

    async def write(self, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Work that changes the store, in a thread. It begins before the request's deadline or not at all; what has
        begun is waited for, until the database's own limits, so that the answer says what was done."""
        return await self._writers.run(partial(work, *args, **options), deadline=self._deadline(), finish=True)

    # Turns and edits

    async def add_turn(
        self, tenant: str, conversation: str, turn: Turn, *, version: int | None = None, key: Key | None = None
    ) -> Written:
        """Track one turn."""
        _ = self.models.tracker  # without a model it is refused before anything is read
        deadline = self._deadline()

        async def predict(snapshot: Snapshot) -> Result:
            tracker = await self.tracker(tenant, snapshot)
            return await self._step(tenant, tracker, (snapshot, turn), deadline=deadline)

        return await self._accept(
            self._write(tenant, conversation, predict, version=version, key=key, deadline=deadline)
        )

    async def edit(
        self, tenant: str, conversation: str, make: Make, *, version: int | None = None, key: Key | None = None
    ) -> Written:
        """Append what `make` makes of the newest snapshot: a correction, a pin and the like."""
        deadline = self._deadline()
        return await self._accept(self._write(tenant, conversation, make, version=version, key=key, deadline=deadline))

    async def undo(
        self, tenant: str, conversation: str, *, source: Source, version: int | None = None, key: Key | None = None
    ) -> Written:
        """Take back the last entry in force."""
        back = partial(edits.undo, entry_at=partial(self.store.entry, tenant, conversation), source=source)
        return await self.edit(tenant, conversation, partial(self.read, back), version=version, key=key)

    async def redo(
        self, tenant: str, conversation: str, *, source: Source, version: int | None = None, key: Key | None = None
    ) -> Written:
        """Do again what the last undo took back."""
        again = partial(edits.redo, entry_at=partial(self.store.entry, tenant, conversation), source=source)
        return await self.edit(tenant, conversation, partial(self.read, again), version=version, key=key)

    async def change_schema(
        self,
        tenant: str,
        conversation: str,
        schema: Schema | None,
        *,
        source: Source,
        version: int | None = None,
        key: Key | None = None,
    ) -> Written:
        """Go on under another schema; None is the service's own."""
        tracker = self.models.tracker if schema is None else self.models.tracker.under(schema)
        id = None if schema is None else schema.id

        async def make(snapshot: Snapshot) -> Result:
            result = edits.change_schema(snapshot, tracker.schema, id=id, source=source)
            if schema is not None:
                await self.write(self.store.schemas.add, tenant, schema)
            return result

        return await self.edit(tenant, conversation, make, version=version, key=key)

    # Schemas

    async def schema(self, tenant: str, given: str | Mapping[str, Any] | None) -> Schema | None:
        """The schema that a request means: the id of a stored one, a whole one, or None for the service's own."""
        if given is None:
            return None
        if isinstance(given, str):
            return (await self.read(self.store.schemas.read, tenant, given)).schema
        schema = await self.read(read_schema, given)
        self.models.tracker.under(schema)  # a model with a fixed schema refuses other slots
        return schema

    async def tracker(self, tenant: str, snapshot: Snapshot) -> Tracker:
        """The tracker with the schema of a conversation."""
        tracker, id = self.models.tracker, snapshot.schema
        if id is None:
            return tracker
        schema = self.store.schemas.in_memory(tenant, id)
        if schema is None:
            schema = await self.read(self.store.schemas.of_conversation, tenant, id)
        return tracker.under(schema)

    async def _step(self, tenant: str, tracker: Tracker, step: Step, *, deadline: float) -> Result:
        if tracker is not self.models.tracker and not tracker.compiled:
            await self._compilations.submit(tracker, caller=tenant, deadline=deadline)
        return await self._steps.submit((step, tracker.rules), caller=tenant, deadline=deadline)

    def _compile(self, trackers: Sequence[Tracker]) -> list[None]:
        for tracker in trackers:
            if not tracker.compiled:  # the one before it may have had the same schema
                tracker.compile()
                self.metrics.compilations.inc()
        return [None] * len(trackers)

    # Dialogues

    async def track(
        self, tenant: str, turns: Sequence[Turn], *, state: State | None = None, schema: Schema | None = None
    ) -> list[Result]:
        """A whole dialogue, stored nowhere. Its turns go through the model one per batch, like those of a live
        conversation, so that a long dialogue takes no more than its share."""
        tracker = self.models.tracker if schema is None else self.models.tracker.under(schema)
        start = tracker.correct(EMPTY, dict(state), source="api").snapshot if state else EMPTY

        async def run(snapshot: Snapshot) -> list[Result]:
            results: list[Result] = []
            for turn in turns:
                deadline = self._from_now()  # of this turn: a long dialogue may take longer than one
                results.append(await self._step(tenant, tracker, (snapshot, turn), deadline=deadline))
                snapshot = results[-1].snapshot
            return results

        return await self._accept(run(start))

    async def replay(self, tenant: str, model: str, *, conversations: Sequence[str] | None, limit: int) -> Replayed:
        """Stored conversations, or the newest ones, under another model. One replay runs at a time."""
        if self._replaying.locked():
            raise Overloaded("Another replay is running: try again when it is done.")
        async with self._replaying:
            run = partial(replayed, self.store, tenant, conversations=conversations, limit=limit)
            return await asyncio.to_thread(lambda: run(self.models.other(model)))

    # How a write is done

    def _deadline(self) -> float:
        """The deadline of the request that is being handled."""
        return self._from_now() if (given := DEADLINE.get()) is None else given

    def _from_now(self) -> float:
        return asyncio.get_running_loop().time() + self.settings.turn_timeout

    async def _accept(self, work: Coroutine[Any, Any, T]) -> T:
        """Finish this even if the client goes away; refuse it at once where too much is under way."""
        if self.under_way >= self.settings.max_turns:
            work.close()
            raise Overloaded(f"{self.under_way} writes are in progress, which is the maximum: try again in a moment.")
        self.under_way += 1
        task = self._spawn(work)
        task.add_done_callback(self._leave)
        return await asyncio.shield(task)

    def _leave(self, _task: object) -> None:
        self.under_way -= 1

    async def _write(
        self, tenant: str, conversation: str, make: Make, *, version: int | None, key: Key | None, deadline: float
    ) -> Written:
        # The tenant is part of the lock's name: a stranger who knows the id of a conversation cannot hold it up.
        async with self._locks.hold((tenant, conversation), deadline=deadline):
            for attempt in count(1):
                try:
                    return await self._attempt(tenant, conversation, make, version=version, key=key, deadline=deadline)
                except Conflict:
                    # Another process was faster. Only a writer that named a version gets the error.
                    if version is not None:
                        raise
                pause = min(FIRST_PAUSE * attempt, LONGEST_PAUSE)
                if asyncio.get_running_loop().time() + pause > deadline:
                    break
                await asyncio.sleep(pause)
        raise Overloaded(
            f"Other writes kept changing the conversation {conversation} until this one ran out of time: try again."
        )

    async def _attempt(
        self, tenant: str, conversation: str, make: Make, *, version: int | None, key: Key | None, deadline: float
    ) -> Written:
        found = await self._reads.submit((tenant, conversation, key), caller=tenant, deadline=deadline)
        if isinstance(found, Repeated):
            return _repeat(found)
        if version is not None and version != found.version:
            raise Conflict(
                f"The conversation {conversation} is at version {found.version}, not {version}: read it again.",
                version=found.version,
            )
        made = make(found.snapshot)
        result = made if isinstance(made, Result) else await made
        write = Write(tenant, conversation, result, key)
        outcome = await self._writes.submit(write, caller=tenant, deadline=deadline)
        if isinstance(outcome, Repeated):
            return _repeat(outcome)
        self.metrics.entry(result.entry)
        return Written(conversation, outcome, result.entry)

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

    def _step_many(self, steps: Sequence[tuple[Step, Rules]]) -> Sequence[Result | Exception]:
        return step_each(self.models.tracker.predictor, [step for step, _ in steps], [rules for _, rules in steps])

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _repeat(repeated: Repeated) -> Written:
    """The answer that a request with this key got before."""
    assert repeated.entry is not None, "a key of a request that makes a conversation has another fingerprint"
    return Written(repeated.conversation, repeated.snapshot, repeated.entry)


class Models:
    """The model that tracks, opened in the background, and others to replay conversations under.

    A model that fails to open does not stop the service: /readyz says so, and turns are refused.
    """

    def __init__(self, open_tracker: OpenTracker, main: str, others: Mapping[str, str]) -> None:
        self._open, self._main, self._paths = open_tracker, main, dict(others)
        self._tracker: Tracker | None = None
        self._problem = "The model is being loaded: try again in a moment."
        self._others: dict[str, Tracker] = {}
        self._lock = Lock()

    @property
    def tracker(self) -> Tracker:
        """The tracker that serves, or a `ModelError` that says why there is none."""
        if self._tracker is None:
            raise ModelError(self._problem)
        return self._tracker

    @property
    def names(self) -> list[str]:
        """The other models, by name."""
        return sorted(self._paths)

    async def load(self) -> None:
        """Open the model in a thread."""
        try:
            self._tracker = await asyncio.to_thread(self._open, self._main)
            log("model loaded", model=self._tracker.predictor.model_id)
        except Exception as error:
            sentence = str(error) if isinstance(error, SomdstError) else f"{type(error).__name__}: {error}"
            self._problem = f"The model could not be loaded: {' '.join(sentence.split())}"
            log("model failed", level=logging.ERROR, error=error, reason=self._problem)

    def other(self, name: str) -> Tracker:
        """Another model, opened at its first use; blocks until then."""
        if name not in self._paths:
            known = self.names or ["none: start the service with --other NAME=FOLDER"]
            raise InputError(no_such("other model", name, known))
        with self._lock:
            if name not in self._others:
                self._others[name] = self._open(self._paths[name])
            return self._others[name]
