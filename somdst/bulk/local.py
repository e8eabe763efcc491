"""Annotating on all cores of this machine, in the order of the input.

A predictor keeps a few cores busy by itself, and for a small file starting processes costs more than it saves. So up to
four cores everything runs in this process; with more cores, in several worker processes with a predictor each.

Dialogues go to the workers in chunks. At most two chunks per worker are on their way, so memory stays flat however long
the input is.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing.connection import wait as wait_for
from typing import Any

from somdst.bulk.annotating import BATCH, Annotated, Opener, annotate
from somdst.errors import ModelError
from somdst.memory.dialogue import Dialogue
from somdst.model.runtime import cores
from somdst.tracking.tracker import Tracker

CORES_PER_WORKER = 4
"""A predictor with more cores than this mostly waits for its one Python thread."""

Progress = Callable[[int], None]
Lines = list[str]


def annotate_all(
    opener: Opener,
    dialogues: Iterable[Dialogue],
    *,
    workers: int | None = None,
    batch: int = BATCH,
    progress: Progress = lambda turns: None,
) -> Generator[Lines, None, None]:
    """Annotated dialogues as JSON lines, in the order of the input, a chunk at a time."""
    workers = workers or -(-cores() // CORES_PER_WORKER)
    chunks = _chunks(dialogues, 2 * batch)
    if workers > 1:
        yield from _in_processes(opener, chunks, workers=workers, batch=batch, progress=progress)
        return
    tracker = opener()
    for chunk in chunks:
        yield _to_lines(annotate(tracker, chunk, batch=batch, progress=progress))


def _chunks(dialogues: Iterable[Dialogue], size: int) -> Iterator[list[Dialogue]]:
    stream = iter(dialogues)
    while chunk := list(islice(stream, size)):
        yield chunk


def _to_lines(annotated: Iterable[Annotated]) -> Lines:
    return [item.to_line() for item in annotated]


def _in_processes(
    opener: Opener, chunks: Iterator[list[Dialogue]], *, workers: int, batch: int, progress: Progress
) -> Iterator[Lines]:
    context = multiprocessing.get_context("spawn")  # a forked copy of a process with threads may hang
    counter = context.Value("q", 0)
    threads = max(1, cores() // workers)
    settings = (opener, threads, batch, counter)
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=settings)
    waiting: deque[Future[Lines]] = deque()
    try:
        for chunk in islice(chunks, 2 * workers):
            waiting.append(pool.submit(_work, chunk))
        while waiting:
            yield _first(waiting, counter, progress)
            for chunk in islice(chunks, 1):
                waiting.append(pool.submit(_work, chunk))
    except BrokenProcessPool as error:
        raise ModelError(
            "A worker process was killed, perhaps for lack of memory: run the command again with fewer `--workers` "
            "to go on from here."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _first(waiting: deque[Future[Lines]], counter: Any, progress: Progress) -> Lines:
    """The result of the oldest chunk. Meanwhile `progress` gets what all workers have done."""
    done = False
    while not done:
        done = bool(wait([waiting[0]], timeout=0.2).done)
        with counter.get_lock():
            turns, counter.value = counter.value, 0
        if turns:
            progress(turns)
    return waiting.popleft().result()


# Inside a worker

_worker: tuple[Tracker, int, Any] | None = None
_failure: Exception | None = None


def _begin(opener: Opener, threads: int, batch: int, counter: Any) -> None:
    global _worker, _failure
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the parent ends the workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _worker = opener(threads=threads), batch, counter
    except Exception as error:  # the first chunk raises it: an initialiser that raises breaks the pool without a reason
        _failure = error


def _end_with_parent() -> None:
    """Without this, a worker whose parent was killed would wait for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def _work(chunk: list[Dialogue]) -> Lines:
    if _worker is None:
        raise _failure or RuntimeError("this worker was not started by a pool")
    tracker, batch, counter = _worker

    def count(turns: int) -> None:
        with counter.get_lock():
            counter.value += turns

    return _to_lines(annotate(tracker, chunk, batch=batch, progress=count))
