"""Annotating a file of JSON lines into another: checked first, resumable, complete or not there.

The input is read twice: once to find every bad line before any work is done, once to do the work. Results go to
OUT.partial, which becomes OUT at the end. A run that was stopped goes on after its last whole line, if the input and
everything that decides the annotations are the same; OUT.partial.key says what they were.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import IO, Any

from somdst import __version__
from somdst.bulk.annotating import BATCH, Opener, check_dialogue
from somdst.bulk.local import annotate_all
from somdst.corpora.jsonlines import read_lines
from somdst.errors import CorpusError, InputError
from somdst.files import reason
from somdst.memory.dialogue import Dialogue, count_turns

try:
    import fcntl
except ImportError:  # not Unix: two runs could then write the same output
    fcntl = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Checked:
    """What the first reading found."""

    dialogues: int
    turns: int
    bad: tuple[CorpusError, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is about to do."""

    checked: Checked
    resumed_dialogues: int = 0
    """Dialogues that an earlier run annotated and that are kept."""
    resumed_turns: int = 0
    unusable_dialogues: int = 0
    """Dialogues that an earlier run annotated in another way: they are annotated again."""
    changed: tuple[str, ...] = ()
    """What differs from that run, such as "threshold"."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run did."""

    output: str
    dialogues: int
    turns: int
    skipped: int
    resumed_dialogues: int
    """How many of `dialogues` an earlier run had done."""
    seconds: float
    turns_per_s: float
    """Of this run alone."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Listener:
    """Callbacks for what happens during a run; by default nothing is called."""

    start: Callable[[Plan], None] = lambda plan: None
    turns: Callable[[int], None] = lambda turns: None
    """Called with the number of turns just annotated."""
    saved: Callable[[int], None] = lambda dialogues: None
    """Called with the number of dialogues just written to OUT.partial."""


def annotate_file(
    source: str | Path,
    target: str | Path,
    opener: Opener,
    *,
    keep_going: bool = False,
    force: bool = False,
    workers: int | None = None,
    batch: int = BATCH,
    listener: Listener = Listener(),
) -> Summary:
    """Annotate `source` into `target`. With `keep_going`, bad lines are left out instead of refused."""
    source, target = Path(source), Path(target)
    check_target(target, force=force)
    _check_source(source, target)
    checked = check_file(source, keep_going=keep_going)
    partial = Partial(target.resolve(), key=_key(source, opener, keep_going=keep_going))
    began = perf_counter()
    with partial.alone():
        check_target(target, force=force)  # again: another run may just have ended
        ready = partial.ready()
        turns_ready = count_turns(islice(good_dialogues(source), ready))
        listener.start(Plan(checked, ready, turns_ready, *partial.unusable()))
        todo = islice(good_dialogues(source), ready, None)
        if ready < checked.dialogues:
            with closing(annotate_all(opener, todo, workers=workers, batch=batch, progress=listener.turns)) as chunks:
                for lines in chunks:
                    partial.write(lines)
                    listener.saved(len(lines))
        partial.finish()
    seconds = perf_counter() - began
    rate = (checked.turns - turns_ready) / seconds
    return Summary(str(target), checked.dialogues, checked.turns, len(checked.bad), ready, seconds, rate)


def check_target(target: Path, *, force: bool) -> None:
    if target.suffix in (".gz", ".xz", ".parquet"):
        more = " Parquet needs `--engine ray`." if target.suffix == ".parquet" else ""
        raise InputError(f"The output {target} must be a plain file of JSON lines, such as {target.stem}.jsonl.{more}")
    if target.is_dir() or not target.parent.is_dir():
        raise InputError(f"The output {target} must be a file in a folder that exists.")
    if target.exists() and not force:
        raise InputError(f"{target} already exists: name another file, or give --force to replace it.")


def _check_source(source: Path, target: Path) -> None:
    ours = Partial(target.resolve(), key={})
    if source.resolve() in (ours.target, ours.path, ours.key_path):
        raise InputError(f"{source} would be overwritten while it is read: name another output.")
    if source.exists() and not source.is_file() and not source.is_dir():
        raise InputError(f"{source} can be read only once, and annotating reads its input twice: save it in a file.")
    if (what := _not_lines(source)) is not None:
        raise InputError(
            f"{source} is {what}, and annotating reads JSON lines, one dialogue per line: write a corpus as JSON "
            f"lines with `somdst data convert {source} dialogues.jsonl`, then annotate those."
        )


def _not_lines(source: Path) -> str | None:
    """What this is, if it is clearly something other than text."""
    if source.is_dir():
        return "a folder"
    try:
        with source.open("rb") as stream:
            start = stream.read(4)
    except OSError:
        return None  # reading says why
    return {b"PK\x03\x04": "a zip archive", b"PAR1": "a Parquet file (which `--engine ray` reads)"}.get(start)


def check_file(source: Path, *, keep_going: bool) -> Checked:
    """Read everything once. Without `keep_going`, the first bad line is an error."""
    bad: list[CorpusError] = []
    dialogues = turns = 0
    for item in _read(source):
        if isinstance(item, CorpusError):
            bad.append(item)
        else:
            dialogues += 1
            turns += len(item.turns)
    if bad and not keep_going:
        more = f" {len(bad) - 1} more lines are bad." if len(bad) > 1 else ""
        raise CorpusError(f"{str(bad[0]).rstrip('.')}.{more} With --keep-going bad lines are named and skipped.")
    if not dialogues:
        raise CorpusError(f"{source} has no line that can be annotated. The first problem: {bad[0]}")
    return Checked(dialogues, turns, tuple(bad))


def good_dialogues(source: Path) -> Iterator[Dialogue]:
    return (item for item in _read(source) if isinstance(item, Dialogue))


def _read(source: Path) -> Iterator[Dialogue | CorpusError]:
    for number, item in read_lines(source):
        if isinstance(item, CorpusError):
            yield item
            continue
        try:
            check_dialogue(item, where=f"{source}, line {number}")
            yield item
        except CorpusError as error:
            yield error


def _key(source: Path, opener: Opener, *, keep_going: bool) -> dict[str, str]:
    """Everything that decides what is in OUT, by name."""
    with source.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"version of somdst": __version__, "input": digest, "--keep-going": str(keep_going), **opener.identity}


class Partial:
    """The unfinished output: OUT.partial, and beside it what it was made from."""

    def __init__(self, target: Path, *, key: Mapping[str, str]) -> None:
        self.target = target
        self.path = target.with_name(f"{target.name}.partial")
        self.key_path = target.with_name(f"{target.name}.partial.key")
        self.key = dict(key)
        self._stream: IO[bytes] | None = None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else can write this output at the same time. The lock belongs to the process and ends with it.

        Nothing is changed before the first `write`: a run that fails earlier leaves everything as it was.
        """
        with self._locked():
            try:
                yield
            finally:
                if self._stream is not None:
                    self._stream.close()
                if self.key_path.exists() and not self.key_path.stat().st_size:
                    self.key_path.unlink()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            lock = self.key_path.open("a+b")
        except OSError as error:
            raise self._cannot_write(self.key_path, error) from error
        with lock:
            if fcntl is not None:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    # The run that had the lock may have just ended and removed the file.
                    same = self.key_path.exists() and os.path.samestat(os.fstat(lock.fileno()), self.key_path.stat())
                except OSError:
                    same = False
                if not same:
                    raise InputError(f"Another run is writing {self.target}: wait for it, or name another file.")
            yield

    def ready(self) -> int:
        """How many dialogues an earlier run of the same work left."""
        return self._left() if self._old_key() == self.key else 0

    def unusable(self) -> tuple[int, tuple[str, ...]]:
        """How many dialogues an earlier run of other work left, and the names of what differs."""
        old = self._old_key()
        if old == self.key or not self._left():
            return 0, ()
        return self._left(), tuple(name for name in self.key if old.get(name) != self.key[name])

    def write(self, lines: list[str]) -> None:
        try:
            if self._stream is None:
                self._stream = self._open()
            self._stream.write(to_bytes(lines))
            self._stream.flush()
        except OSError as error:
            raise self._cannot_write(self.path, error, " Run the command again to go on from here.") from error

    def finish(self) -> None:
        try:
            if self._stream is not None:
                os.fsync(self._stream.fileno())
                self._stream.close()
            self.path.replace(self.target)
            self.key_path.unlink()
        except OSError as error:
            raise self._cannot_write(self.target, error) from error

    def _open(self) -> IO[bytes]:
        """The file, positioned after its last whole line; empty if it was made from something else."""
        if self._old_key() != self.key:
            self.path.unlink(missing_ok=True)
            self.key_path.write_text(json.dumps(self.key), encoding="utf-8")
        stream = self.path.open("a+b")
        stream.truncate(_whole_lines(stream)[1])
        return stream

    def _old_key(self) -> dict[str, str]:
        try:
            found = json.loads(self.key_path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}  # somdst 0.1.0 wrote a list

    def _left(self) -> int:
        try:
            with self.path.open("rb") as stream:
                return _whole_lines(stream)[0]
        except OSError:
            return 0

    def _cannot_write(self, path: Path, error: OSError, advice: str = "") -> InputError:
        return InputError(f"Cannot write {path}: {reason(error)}.{advice}")


def to_bytes(lines: list[str]) -> bytes:
    """Lines as UTF-8. Half a surrogate pair, which UTF-8 cannot encode, becomes its JSON escape."""
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")


def _whole_lines(stream: IO[bytes]) -> tuple[int, int]:
    """How many lines are whole, and where the last of them ends."""
    stream.seek(0)
    lines = end = 0
    for line in stream:
        if line.endswith(b"\n"):
            lines, end = lines + 1, end + len(line)
    return lines, end
