"""Annotating on all cores of this machine, with the order kept: in this process, and from five cores up in several
worker processes, each with its own predictor.

A predictor uses a few cores by itself, and to start processes takes longer than a small file; but what Python does of
the work is done by one core a process.

Dialogues go to the workers in chunks, and at most two chunks a worker are on their way, so that memory stays flat
however long the input is.
"""

from __future__ import annotations

import multiprocessing
import os
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

CORES_A_WORKER = 4
"""So many a predictor keeps busy before what Python does holds them up."""

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
    """Annotated dialogues as JSON lines, in the order of the input, some at a time."""
    workers = workers or -(-cores() // CORES_A_WORKER)
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
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=settings) as pool:
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
                "A worker process ended before its time, perhaps for lack of memory: run the command again to go on "
                "from here, with fewer `--workers`."
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _first(waiting: deque[Future[Lines]], counter: Any, progress: Progress) -> Lines:
    """The result of the oldest chunk; what all workers have done meanwhile is told to `progress`."""
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
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _worker = opener(threads=threads), batch, counter
    except Exception as error:  # told by the first chunk: an initialiser that raises breaks the pool without a word
        _failure = error


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever."""
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
