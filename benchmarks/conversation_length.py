#!/usr/bin/env python
"""What a stored conversation costs as it grows: `python benchmarks/conversation_length.py`.

Conversations of several lengths are written into one database. Then each is read, gets a turn, has it undone and
redone, and is asked for a write that was done before. Each figure is the median of many repeats, in milliseconds.
Does not run a model: the turns are ready before the clock starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from somdst.cli import options
from somdst.cli.main import run_alone
from somdst.cli.output import print_json, print_tables, working
from somdst.evaluate.tables import Table
from somdst.memory.dialogue import Turn
from somdst.memory.operations import Operation
from somdst.store import Key, Store, Write
from somdst.tracking import edits
from somdst.tracking.log import EMPTY, Result, leaving
from somdst.tracking.records import Change, Entry, Snapshot

LENGTHS = (20, 200, 2_000, 20_000)
TENANT = "benchmark"
SYSTEM = "I have several places in the centre. Do you have a price in mind?"


def main(
    database: Annotated[str | None, typer.Option(help="A file or URL to write to. Default: a new file.")] = None,
    longest: Annotated[int, typer.Option(min=20, help="Leave out longer conversations.")] = LENGTHS[-1],
    repeats: Annotated[int, typer.Option(min=1, help="How often each thing is measured; the median counts.")] = 200,
    as_json: options.JsonOption = False,
) -> None:
    with TemporaryDirectory() as folder, working("measuring"):
        store = Store(database or str(Path(folder) / "conversations.sqlite"))
        rows = [measure(store, length, repeats=repeats) for length in LENGTHS if length <= longest]
        store.close()
    if as_json:
        print_json({"milliseconds": rows})
        return
    columns = tuple(rows[0])
    cells = tuple(tuple(row[name] for name in columns) for row in rows)
    note = "Medians in milliseconds; snapshot in bytes. An append is on the disk when it returns."
    print_tables([Table("length", "A conversation as it grows", columns, cells, note)])


def measure(store: Store, length: int, *, repeats: int) -> dict[str, float]:
    """Milliseconds of each operation on a conversation with so many entries."""
    id = fill(store, length)
    entry_at = partial(store.entry, TENANT, id)
    taken: dict[str, list[float]] = {name: [] for name in ("read", "append", "undo", "redo", "repeat")}

    def timed(name: str, work: Callable[[], Snapshot]) -> Snapshot:
        began = time.perf_counter()
        snapshot = work()
        taken[name].append((time.perf_counter() - began) * 1000)
        return snapshot

    for number in range(repeats):
        snapshot = timed("read", lambda: store.read(TENANT, id).snapshot)
        write = Write(TENANT, id, spoken(snapshot, number), Key(f"{id}-{number}", "f"))
        snapshot = timed("append", lambda write=write: store.append(write))  # type: ignore[misc]
        for name, edit in (("undo", edits.undo), ("redo", edits.redo), ("undo", edits.undo)):
            work = partial(_edit, store, id, edit, snapshot, entry_at)
            snapshot = timed(name, work)
        timed("repeat", lambda write=write: store.append(write))  # type: ignore[misc]
    text = len(str(store.read(TENANT, id).snapshot.to_json(defaults=False)))
    return {"entries": length, **{name: median(times) for name, times in taken.items()}, "snapshot": text}


def _edit(
    store: Store, id: str, edit: Callable[..., Result], snapshot: Snapshot, entry_at: Callable[[int], Entry]
) -> Snapshot:
    return store.append(Write(TENANT, id, edit(snapshot, entry_at)))


def fill(store: Store, length: int) -> str:
    """A conversation with so many turns; its id."""
    id = store.create(TENANT).id
    writes = [Write(TENANT, id, result) for result in talk(length)]
    for start in range(0, length, 1000):
        store.append_many(writes[start : start + 1000])
    return id


def talk(length: int) -> Iterator[Result]:
    """A conversation that changes one slot per turn."""
    snapshot = EMPTY
    for number in range(length):
        result = spoken(snapshot, number)
        yield result
        snapshot = result.snapshot


def spoken(snapshot: Snapshot, number: int) -> Result:
    """A turn, as a model would have tracked it."""
    value = f"place {number % 10}"
    change = Change("hotel-name", Operation.UPDATE, snapshot.state.get("hotel-name"), value, 0.9)
    entry = replace(
        Entry.after(snapshot, "turn", "model"),
        turn=Turn(SYSTEM, f"What about {value}?"),
        changes=(change,),
        dropped=leaving(snapshot),
    )
    return Result.of(snapshot, entry)


if __name__ == "__main__":
    run_alone(main)
