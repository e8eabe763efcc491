"""`Corpus`: dialogues and where they came from, and the names of splits.

Does not read files; see `opening.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from somdst.memory.dialogue import Dialogue, count_turns
from somdst.memory.schema import Schema

Split = Literal["train", "dev", "test"]
SPLIT_NAMES: Final[dict[Split, tuple[str, ...]]] = {
    "train": ("train",),
    "dev": ("dev", "validate", "validation", "valid", "val"),
    "test": ("test",),
}
"""What corpora call their splits in the names of files and folders."""


def split_in(name: str) -> Split | None:
    """The split that a file's name says.

    >>> split_in("original-test.json.xz"), split_in("woz_validate_en.json"), split_in("data.json")
    ('test', 'dev', None)
    """
    words = set(re.split(r"[^a-z]+", name.lower()))
    found = [split for split, names in SPLIT_NAMES.items() if words & set(names)]
    return found[0] if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class Dropped:
    """A dialogue that was left out, by a rule of the corpus or because it is damaged: always counted and named."""

    id: str
    where: str
    """The file, and the line or dialogue in it."""
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Corpus:
    """Texts are raw, as they were typed; labels are normalised and repaired by the rules of the corpus."""

    name: str
    format: str
    """For example "MultiWOZ 2.0/2.1" or "JSON lines"."""
    dialogues: tuple[Dialogue, ...]
    dropped: tuple[Dropped, ...] = ()
    schema: Schema | None = None
    """The slots that the format itself defines; None for JSON lines."""

    @property
    def turns(self) -> int:
        return count_turns(self.dialogues)
