"""Results of a long comparison, each in a small file with all that it depends on: `keep` and `kept`.

A stopped comparison goes on where it was, and one that has these files no longer needs the runs that they are of: the
parts of a comparison can be trained on different days or machines. A result whose key differs does not count.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from somdst.errors import InputError
from somdst.files import make_folder, write_text
from somdst.learn.checkpoints import fingerprint
from somdst.memory.dialogue import Dialogue

Key = Mapping[str, Any]
"""All that a result depends on, as JSON."""


def kept(file: Path, kind: Any, key: Key) -> Any:
    """The result in a file, of this type, or None if there is none with this key."""
    if not file.exists():
        return None
    try:
        found = json.loads(file.read_bytes())
        result = TypeAdapter(kind).validate_python(found["result"])
    except (ValueError, KeyError, TypeError) as error:  # pydantic's are ValueErrors
        raise InputError(f"{file} is damaged: remove it, and it is measured again.") from error
    return result if found["key"] == key else None


def keep(file: Path, key: Key, result: Any) -> None:
    make_folder(file.parent)
    write_text(file, json.dumps({"key": key, "result": to_jsonable_python(result)}) + "\n")


def contents(dialogues: Sequence[Dialogue]) -> str:
    """A hash of everything in dialogues that a result depends on."""
    return fingerprint(_texts(dialogues))


def _texts(dialogues: Sequence[Dialogue]) -> Iterator[bytes]:
    for dialogue in dialogues:
        for turn in dialogue.turns:
            labels = (str(turn.domain), *map(str, sorted((turn.state or {}).items())))
            yield "\0".join((dialogue.id, turn.system, turn.user, *labels)).encode(errors="surrogatepass")
