"""Writing a file whole or not at all, plain or compressed. Does not read corpora; see `corpora/reading.py`."""

from __future__ import annotations

import gzip
import lzma
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from somdst.errors import FileError


def base_name(path: Path) -> str:
    """The file's name without the ending that says how it is compressed: "dev.jsonl" for dev.jsonl.xz."""
    return path.stem if path.suffix in (".gz", ".xz") else path.name


def open_binary(path: Path, mode: str = "rb") -> IO[bytes]:
    """The file, decompressed or compressed as its ending says."""
    match path.suffix:
        case ".gz":
            return cast(IO[bytes], gzip.open(path, mode))
        case ".xz":
            return cast(IO[bytes], lzma.open(path, mode))
        case _:
            return cast(IO[bytes], path.open(mode))


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to that replaces `path` once it is on the disk; if anything fails, `path` stays as it was. A link
    stays a link, and a file keeps its permissions."""
    target = path.resolve()
    draft = target.with_name(f".{secrets.token_hex(4)}-{target.name}")  # the same ending, so the same compression
    try:
        with open_binary(draft, "wb") as stream:
            if target.exists():
                shutil.copymode(target, draft)
            yield stream
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        draft.replace(target)
    except OSError as error:
        raise FileError(f"Cannot write {path}: {reason(error)}. What was there before is intact.") from error
    finally:
        draft.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """Make a folder and those above it; one that exists is fine."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"Cannot make the folder {path}: {reason(error)}.") from error


def write_text(path: Path, text: str) -> None:
    """Replace a file's text, whole or not at all."""
    with replacing(path) as stream:
        stream.write(text.encode())


def reason(error: BaseException) -> str:
    """The operating system's own words for an error, or the error's, on one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error.__context__, OSError):  # torch hides the system's reason behind its own
        return reason(error.__context__)
    return " ".join(str(error).split())[:160] or type(error).__name__
