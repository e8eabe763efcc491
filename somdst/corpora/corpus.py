"""`Corpus`: dialogues and what is known of where they came from. Reading one is `open_corpus`'s concern."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from somdst.dialogue import Dialogue
from somdst.schema import Schema

Split = Literal["train", "dev", "test"]
SPLIT_NAMES: Final[dict[Split, tuple[str, ...]]] = {
    "train": ("train",),
    "dev": ("dev", "validate", "validation", "valid", "val"),
    "test": ("test",),
}
"""What corpora call their splits in the names of files and folders."""


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
    """The slots that the format itself tells; None for JSON lines."""

    @property
    def turns(self) -> int:
        return sum(len(dialogue.turns) for dialogue in self.dialogues)
