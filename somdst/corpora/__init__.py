"""Corpora as `Dialogue`s: `open_corpus` reads them, whatever their format.

Texts stay raw; labels are normalised and repaired by the rules of each corpus.
"""

from __future__ import annotations

from pathlib import Path

from somdst.corpora.corpus import Corpus, Dropped, Split
from somdst.corpora.jsonlines import read_dialogues, write_dialogues

__all__ = ["Corpus", "Dropped", "Split", "open_corpus", "read_dialogues", "write_dialogues"]


def open_corpus(path: str | Path, *, split: Split | None = None) -> Corpus:
    """Read a corpus."""
    path = Path(path)
    return Corpus(path.name, "JSON lines", tuple(read_dialogues(path)))
