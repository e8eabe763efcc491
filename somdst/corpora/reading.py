"""Reading the files of a corpus, plain, .gz or .xz, and their JSON. A damaged file gives one clear sentence.

Does not write; see `files.py`.
"""

from __future__ import annotations

import gzip
import json
import lzma
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from somdst.errors import CorpusError
from somdst.files import open_binary, reason

DAMAGED = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)
"""What the decompressors raise on a file that was cut short or is something else."""


@contextmanager
def reading(path: Path) -> Iterator[IO[bytes]]:
    """The open file; what goes wrong with the file itself becomes a `CorpusError`."""
    try:
        with open_binary(path) as stream:
            yield stream
    except DAMAGED as error:
        raise CorpusError(f"{path} is cut short or damaged ({error}): fetch or write it again.") from error
    except OSError as error:
        raise CorpusError(f"Cannot read {path}: {reason(error)}.") from error


def parse_json(content: bytes, where: object) -> object:
    """JSON from UTF-8 bytes. Errors begin with `where`."""
    if not content.strip():
        raise CorpusError(f"{where} is empty: it should hold JSON.")
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
    return parse_json(content, path)


def fields(value: object, what: str) -> Mapping[str, Any]:
    """The value as a JSON object; errors call it `what`."""
    if not isinstance(value, Mapping):
        raise CorpusError(f"{what[0].upper()}{what[1:]} should be a JSON object, not {json_kind(value)}.")
    return value


def items(value: object, what: str) -> list[Any]:
    """The value as a JSON list; errors call it `what`."""
    if not isinstance(value, list):
        raise CorpusError(f"{what[0].upper()}{what[1:]} should be a list, not {json_kind(value)}.")
    return value


def text(value: object, what: str) -> str:
    """The value as text; errors call it `what`."""
    if not isinstance(value, str):
        raise CorpusError(f"{what[0].upper()}{what[1:]} should be text, not {json_kind(value)}.")
    return value


def json_kind(value: object) -> str:
    match value:
        case None:
            return "missing or null"
        case bool() | int() | float():
            return json.dumps(value)
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"
