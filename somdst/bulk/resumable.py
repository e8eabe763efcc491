"""Annotating a file of JSON lines into another: checked first, resumable, whole or not at all.

The input is read twice: once to find every bad line before any work is done, once to do the work. What is done goes
to OUT.partial, which becomes OUT at the end; a run that was killed is continued after its last whole line, if input and
tracker are still the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
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
from somdst.memory.dialogue import Dialogue

try:
    import fcntl
except ImportError:  # not a Unix: then nobody is kept out
    fcntl = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Checked:
    """What the first reading found."""

    dialogues: int
    turns: int
    bad: tuple[CorpusError, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run did."""

    output: str
    dialogues: int
    turns: int
    skipped: int
    resumed_dialogues: int
    """Of `dialogues`, how many an earlier run had done."""
    seconds: float
    turns_per_s: float
    """Of this run alone."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Listener:
    """Who wants to hear what happens; the default is nobody."""

    start: Callable[[Checked, int, int], None] = lambda checked, dialogues, turns: None
    """What was found, and the dialogues and turns that an earlier run has done."""
    turns: Callable[[int], None] = lambda turns: None


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
    with partial.alone(), partial.open() as stream:
        check_target(target, force=force)  # again: another run may just have ended
        ready = partial.lines
        turns_ready = sum(len(dialogue.turns) for dialogue in islice(good_dialogues(source), ready))
        listener.start(checked, ready, turns_ready)
        todo = islice(good_dialogues(source), ready, None)
        if ready < checked.dialogues:
            with closing(annotate_all(opener, todo, workers=workers, batch=batch, progress=listener.turns)) as chunks:
                for lines in chunks:
                    partial.write(stream, lines)
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
        raise InputError(f"{target} is there already: name another file, or give --force to replace it.")


def _check_source(source: Path, target: Path) -> None:
    ours = Partial(target.resolve(), key="")
    if source.resolve() in (ours.target, ours.path, ours.key_path):
        raise InputError(f"{source} would be overwritten while it is read: name another output.")
    if source.exists() and not source.is_file() and not source.is_dir():
        raise InputError(f"{source} can be read only once, and annotating reads its input twice: save it in a file.")


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


def _key(source: Path, opener: Opener, *, keep_going: bool) -> str:
    with source.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return json.dumps([__version__, digest, opener.identity, keep_going])


class Partial:
    """The unfinished output: OUT.partial, and beside it what it was made from."""

    def __init__(self, target: Path, *, key: str) -> None:
        self.target = target
        self.path = target.with_name(f"{target.name}.partial")
        self.key_path = target.with_name(f"{target.name}.partial.key")
        self.key = key
        self.lines = 0
        """Whole lines that an earlier run left."""

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else writes this output meanwhile. The lock is the system's, and dies with its process."""
        try:
            lock = self.key_path.open("a+b")
        except OSError as error:
            raise InputError(f"Cannot write {self.key_path}: {error.strerror or error}.") from error
        with lock:
            if fcntl is not None:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    raise InputError(
                        f"Another run is writing {self.target}: wait for it, or name another file."
                    ) from error
            yield

    def open(self) -> IO[bytes]:
        """The file, to write on after its last whole line; from its start where it was made from something else."""
        try:
            if self.key_path.read_text(encoding="utf-8") != self.key:
                self.path.unlink(missing_ok=True)
                self.key_path.write_text(self.key, encoding="utf-8")
            stream = self.path.open("a+b")
            self.lines, end = _whole_lines(stream)
            stream.truncate(end)
        except OSError as error:
            raise InputError(f"Cannot write {self.path}: {error.strerror or error}.") from error
        return stream

    def write(self, stream: IO[bytes], lines: list[str]) -> None:
        try:
            stream.write(to_bytes(lines))
            stream.flush()
        except OSError as error:
            problem = error.strerror or error
            raise InputError(
                f"Cannot write {self.path}: {problem}. Run the command again to go on from here."
            ) from error

    def finish(self) -> None:
        try:
            self.path.replace(self.target)
            self.key_path.unlink()
        except OSError as error:
            raise InputError(f"Cannot write {self.target}: {error.strerror or error}.") from error


def to_bytes(lines: list[str]) -> bytes:
    """Half a character, which UTF-8 cannot write, becomes JSON's own escape for it."""
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")


def _whole_lines(stream: IO[bytes]) -> tuple[int, int]:
    """How many lines are whole, and where the last of them ends."""
    stream.seek(0)
    lines = end = 0
    for line in stream:
        if line.endswith(b"\n"):
            lines, end = lines + 1, end + len(line)
    return lines, end
