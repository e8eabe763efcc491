"""Files under a corpus: plain, .gz or .xz. Damaged ones give one clear sentence; they are written all or not at all."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from somdst.errors import CorpusError

DAMAGED = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)
"""What the decompressors raise on a file that was cut short or is something else."""


def base_name(path: Path) -> str:
    """The file's name without what says how it is compressed: "dev.jsonl" for dev.jsonl.xz."""
    return path.stem if path.suffix in (".gz", ".xz") else path.name


def open_binary(path: Path, mode: str = "rb") -> IO[bytes]:
    match path.suffix:
        case ".gz":
            return cast(IO[bytes], gzip.open(path, mode))
        case ".xz":
            return cast(IO[bytes], lzma.open(path, mode))
        case _:
            return cast(IO[bytes], path.open(mode))


@contextmanager
def reading(path: Path) -> Iterator[IO[bytes]]:
    """The open file; what goes wrong with the file itself becomes a `CorpusError`."""
    try:
        with open_binary(path) as stream:
            yield stream
    except DAMAGED as error:
        raise CorpusError(f"{path} is cut short or damaged ({error}): fetch or write it again.") from error
    except OSError as error:
        raise CorpusError(f"Cannot read {path}: {error.strerror or error}.") from error


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to that takes the place of `path` when all went well; otherwise `path` stays as it was."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    except OSError as error:
        raise CorpusError(f"Cannot write {path}: {error.strerror or error}.") from error
    os.close(handle)
    temporary = Path(name)
    try:
        with open_binary(temporary, "wb") as stream:
            yield stream
        temporary.chmod(0o666 & ~_umask())  # mkstemp makes files that only their owner can read
        temporary.replace(path)
    except OSError as error:
        raise CorpusError(f"Cannot write {path}: {error.strerror or error}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def parse_json(content: bytes, where: object) -> object:
    """JSON from UTF-8 bytes; `where` opens the sentence where that is not what they are."""
    try:
        return json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise CorpusError(f"{where} is not UTF-8 text (byte {error.start}): save it as UTF-8.") from error
    except (ValueError, RecursionError) as error:
        problem = str(error) or type(error).__name__
        raise CorpusError(f"{where} is not valid JSON ({problem}).") from error


def load_json(path: Path) -> object:
    with reading(path) as stream:
        content = stream.read()
    if not content.strip():
        raise CorpusError(f"{path} is empty: it should hold JSON.")
    return parse_json(content, path)
