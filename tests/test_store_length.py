"""A conversation costs the same however long it is: work of the database and bytes, counted, not timed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from conversation_length import SYSTEM, TENANT, fill, spoken
from sqlalchemy import event

from somdst.memory.dialogue import Turn
from somdst.store import Key, Repeated, Store, Write, verify
from somdst.tracking import edits

SHORT, LONG = 20, 20_000


class Work(NamedTuple):
    instructions: int
    """Of SQLite's virtual machine: a row that is looked at costs some, found by an index or not."""
    read: int
    """Characters of text that were fetched."""
    written: int
    """Characters of text that were sent."""


class Counter:
    """A store on SQLite whose every instruction and character is counted."""

    def __init__(self, path: Path) -> None:
        self.store = Store(str(path))
        self.instructions = self.read = self.written = 0
        event.listen(self.store.database.engine, "connect", self._connect)
        event.listen(self.store.database.engine, "before_cursor_execute", self._execute)

    def _connect(self, connection: Any, _record: object) -> None:
        connection.set_progress_handler(self._instruction, 1)
        connection.text_factory = self._text

    def _instruction(self) -> int:
        self.instructions += 1
        return 0

    def _text(self, data: bytes) -> str:
        self.read += len(data)
        return data.decode()

    def _execute(self, _connection: Any, _cursor: Any, _statement: str, parameters: Any, *_: object) -> None:
        self.written += len(str(parameters))

    def of(self, work: Callable[[], object]) -> Work:
        before = self.instructions, self.read, self.written
        work()
        return Work(self.instructions - before[0], self.read - before[1], self.written - before[2])


def measure(counter: Counter, length: int) -> dict[str, Work]:
    store = counter.store
    id = fill(store, length)
    entry_at = partial(store.entry, TENANT, id)
    key = Key(f"key-{length:06}", "f")
    work: dict[str, Work] = {}
    work["read"] = counter.of(lambda: store.read(TENANT, id))
    snapshot = store.read(TENANT, id).snapshot
    assert (snapshot.version, snapshot.turn_count, len(snapshot.recent)) == (length, length, 16)
    write = Write(TENANT, id, spoken(snapshot, 1), key)
    work["append"] = counter.of(lambda: store.append(write))
    work["undo"] = counter.of(lambda: store.append(Write(TENANT, id, edits.undo(write.result.snapshot, entry_at))))
    undone = store.read(TENANT, id).snapshot
    assert undone.recent == snapshot.recent, "the turn that was dropped is back"
    work["redo"] = counter.of(lambda: store.append(Write(TENANT, id, edits.redo(undone, entry_at))))
    work["repeat"] = counter.of(lambda: store.append(write))
    assert store.find_keys([(TENANT, key)]) == [Repeated(id, write.result.snapshot, write.result.entry)]
    work["a part of the log"] = counter.of(lambda: store.log_part(TENANT, id, after=5, limit=10))
    return work


def test_a_long_conversation_costs_what_a_short_one_does(tmp_path: Path) -> None:
    counter = Counter(tmp_path / "conversations.sqlite")
    short, long = measure(counter, SHORT), measure(counter, LONG)
    for name, few in short.items():
        many = long[name]
        assert many.instructions <= 1.1 * few.instructions, name
        # The numbers of entries and versions have more digits.
        assert many.read <= 1.1 * few.read and many.written <= 1.1 * few.written, name
        assert few.instructions > 10, "else nothing was counted"
    assert short["undo"].read > len(SYSTEM) and short["append"].written > 16 * len(SYSTEM)
    assert list(verify(counter.store)) == [None, None]
    counter.store.close()


def test_parts_of_a_log(tmp_path: Path) -> None:
    store, length = Store(str(tmp_path / "conversations.sqlite")), 40
    id = fill(store, length)
    version, entries = store.log_part(TENANT, id, after=length - 3, limit=2)
    assert version == length and [entry.version for entry in entries] == [length - 2, length - 1]
    assert store.log_part(TENANT, id, after=length) == (length, [])
    snapshot = store.read(TENANT, id).snapshot
    assert [item.number for item in snapshot.recent] == list(range(length - 15, length + 1))
    assert snapshot.recent[-1].turn == Turn(SYSTEM, f"What about place {(length - 1) % 10}?")
    store.close()


def test_the_benchmark_runs() -> None:
    script = Path(__file__).parents[1] / "benchmarks" / "conversation_length.py"
    command = [sys.executable, script, "--repeats", "1", "--longest", "200", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["milliseconds"]
    assert [row["entries"] for row in rows] == [20, 200]
    assert {"read", "append", "undo", "redo", "repeat", "snapshot"} <= rows[0].keys()
