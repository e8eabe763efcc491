"""What the `somdst data` commands read: a corpus by name or path, in its parts, with the schema that goes with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape

from somdst.corpora import Corpus, Split, open_corpus
from somdst.corpora.check import Source
from somdst.corpora.findings import Place
from somdst.corpora.jsonlines import read_lines
from somdst.corpora.paper_counts import is_multiwoz, split_in
from somdst.corpora.statistics import schema_of
from somdst.errors import CorpusError, SchemaError
from somdst.files import base_name
from somdst.memory.schema import Schema
from somdst.model.config import Normalisation

SPLITS: tuple[Split, ...] = ("train", "dev", "test")

notices = Console(stderr=True, highlight=False, soft_wrap=True)


class Part(NamedTuple):
    """A corpus or one of its splits. `split` is None where neither the corpus nor its name tells."""

    title: str
    split: Split | None
    corpus: Corpus


def parts_of(name: str, split: Split | None) -> list[Part]:
    """The one split that is wanted; all splits of a folder or zip that has them; or the whole."""
    if split is not None:
        return [Part(split, split, open_with_notice(name, split))]
    path = Path(name)
    if path.is_file() and path.suffix != ".zip" and base_name(path) != "data.json":
        guess = split_in(path.name)
        return [Part(guess or "all", guess, open_with_notice(name, None))]
    parts = []
    for one in SPLITS:
        try:
            parts.append(Part(one, one, open_with_notice(name, one)))
        except CorpusError:  # a corpus without this split, or without any: the whole says what is wrong, if anything
            continue
    return [part for part in parts if part.corpus.dialogues] or [Part("all", None, open_with_notice(name, None))]


def open_with_notice(name: str, split: Split | None) -> Corpus:
    with notices.status(f"reading {escape(name)}"):
        return open_corpus(name, split=split)


def name_dropped(corpora: Sequence[Corpus], *, most: int = 5) -> None:
    """Every dialogue that was left out is counted, and the first few are named with the reason."""
    dropped = [one for corpus in corpora for one in corpus.dropped]
    if dropped:
        notices.print(f"{len(dropped):,} {'dialogue was' if len(dropped) == 1 else 'dialogues were'} left out:")
        for one in dropped[:most]:
            notices.print(f"  {one}", markup=False)
        if len(dropped) > most:
            notices.print(f"  ... and {len(dropped) - most:,} more (--json names all)")


def schema_for(given: str | None, corpora: Sequence[Corpus]) -> Schema:
    """The schema that was given; else the one that the corpus tells; else the slots that occur in it."""
    if given is not None:
        return Schema.multiwoz() if given == "multiwoz" else Schema.load(given)
    told = next((corpus.schema for corpus in corpora if corpus.schema is not None), None)
    occurring = told or schema_of(dialogue for corpus in corpora for dialogue in corpus.dialogues)
    if occurring is None:
        raise SchemaError("No turn of the corpus has a state, so it has no slots: give a schema with --schema.")
    return Schema.multiwoz() if is_multiwoz(occurring) else occurring


def schema_to_check(given: str | None, corpora: Sequence[Corpus]) -> Schema:
    """As `schema_for`, but slots that merely occur are not taken for a schema: they are what is to be checked."""
    if given is None and all(corpus.schema is None for corpus in corpora):
        raise SchemaError("JSON lines do not tell which slots there should be: give a schema with --schema.")
    return schema_for(given, corpora)


def normalisation_for(schema: Schema, of_multiwoz: Normalisation = "everyday") -> Normalisation:
    return of_multiwoz if is_multiwoz(schema) else "lowercase"


def json_lines_files(path: Path, split: Split | None) -> list[Path]:
    """The file itself if it is JSON lines, or those in a folder; nothing if the corpus has another format."""
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if base_name(file).endswith(".jsonl"))
        return [file for file in files if split in (None, split_in(file.name))]
    return [path] if path.is_file() and path.suffix != ".zip" and not base_name(path).endswith(".json") else []


def sources_of(files: Sequence[Path]) -> Iterator[Source]:
    """Dialogues with their lines; a line that cannot be read is a source too."""
    for file in files:
        for number, dialogue in read_lines(file):
            yield Source(Place(str(file), number), dialogue)


def sources_in(corpora: Sequence[tuple[str, Corpus]]) -> Iterator[Source]:
    """Dialogues of a corpus that is not JSON lines: they have no line."""
    for name, corpus in corpora:
        for dialogue in corpus.dialogues:
            yield Source(Place(name), dialogue)
        for dropped in corpus.dropped:
            yield Source(Place(name), dropped)
