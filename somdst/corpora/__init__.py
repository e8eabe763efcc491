"""Corpora as `Dialogue`s: `open_corpus` reads them, whatever their format.

Texts stay raw; labels are normalised and repaired by the rules of each corpus.
"""

from __future__ import annotations

from somdst.corpora.corpus import Corpus, Dropped, Split
from somdst.corpora.jsonlines import read_dialogues, write_dialogues
from somdst.corpora.opening import open_corpus

__all__ = ["Corpus", "Dropped", "Split", "open_corpus", "read_dialogues", "write_dialogues"]
