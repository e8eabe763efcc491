"""`open_corpus` finds out what a path holds and calls the reader of that format; `open_parts` opens all its splits.

Also which schema and which text rules go with an opened corpus, and whether it fits a schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from somdst.corpora import jsonlines, multiwoz, schema_guided, woz
from somdst.corpora.corpus import SPLIT_NAMES, Corpus, Split, split_in
from somdst.corpora.folders import Folder
from somdst.corpora.made import domains_named
from somdst.corpora.reading import load_json
from somdst.corpora.statistics import schema_of
from somdst.corpora.synthetic import synthetic_named
from somdst.errors import CorpusError, NoSplit, SchemaError, no_such
from somdst.files import base_name
from somdst.memory.dialogue import Dialogue
from somdst.memory.schema import Schema, TextRules

EXPECTED: Final = (
    "JSON lines (.jsonl), MultiWOZ 2.0/2.1 (data.json), MultiWOZ 2.2 or SGD (dialogues_*.json with schema.json) "
    "or WOZ 2.0 (woz_*_en.json)"
)


class Part(NamedTuple):
    """A corpus or one of its splits. `split` is None where neither the corpus nor its name says which."""

    title: str
    split: Split | None
    corpus: Corpus


def open_corpus(path: str | Path, *, split: Split | None = None) -> Corpus:
    """Read a corpus: a file, folder or zip; plain, .gz or .xz; or "synthetic", "domains". With `split`, that part."""
    path = Path(path)
    if split is not None and split not in SPLIT_NAMES:
        raise CorpusError(no_such("split", split, SPLIT_NAMES))
    if _is_built_in(path, "synthetic"):
        return synthetic_named(str(path), split=split)
    if _is_built_in(path, "domains"):
        return domains_named(str(path), split=split)
    if not path.exists():
        raise CorpusError(f"There is no {path}: give the path of a corpus, which is {EXPECTED}.")
    if path.is_dir() or path.suffix == ".zip":
        return _open_folder(Folder.open(path), split)
    return _open_file(path, split)


def open_parts(path: str | Path, *, split: Split | None = None) -> list[Part]:
    """The one split that is wanted; all splits of a corpus that has them; or the whole."""
    if split is not None:
        return [Part(split, split, open_corpus(path, split=split))]
    if not has_parts(path):
        guess = split_in(Path(path).name)
        return [Part(guess or "all", guess, open_corpus(path))]
    parts = []
    for one in SPLIT_NAMES:
        try:
            parts.append(Part(one, one, open_corpus(path, split=one)))
        except NoSplit:
            continue
    return [part for part in parts if part.corpus.dialogues] or [Part("all", None, open_corpus(path))]


def open_part(path: str | Path, split: Split) -> Corpus:
    """A split of a corpus that can have splits; any other corpus whole."""
    return open_corpus(path, split=split if has_parts(path) else None)


def has_parts(path: str | Path) -> bool:
    """Whether a corpus can have a train, dev and test part: a folder, a zip, MultiWOZ's data.json, "synthetic",
    "domains"."""
    path = Path(path)
    built_in = _is_built_in(path, "synthetic") or _is_built_in(path, "domains")
    return path.is_dir() or path.suffix == ".zip" or base_name(path) == "data.json" or built_in


def schema_for(corpora: Sequence[Corpus], *, given: str | Path | None = None) -> Schema:
    """The schema that was given; else the corpus's own; else the slots that occur in it."""
    if given is not None:
        return Schema.multiwoz() if given == "multiwoz" else Schema.load(given)
    own = next((corpus.schema for corpus in corpora if corpus.schema is not None), None)
    occurring = own or schema_of(dialogue for corpus in corpora for dialogue in corpus.dialogues)
    if occurring is None:
        raise SchemaError("No turn of the corpus has a state, so it has no slots: give a schema with --schema.")
    return Schema.multiwoz() if multiwoz.is_multiwoz(occurring) else occurring


def normalisation_for(schema: Schema, *, of_multiwoz: TextRules = "everyday") -> TextRules:
    """Text rules that suit the slots: MultiWOZ's rules would take the hyphens out of other people's values."""
    return of_multiwoz if multiwoz.is_multiwoz(schema) else "lowercase"


def _is_built_in(path: Path, name: str) -> bool:
    return str(path).partition(":")[0] == name and not path.exists()


def _open_folder(folder: Folder, split: Split | None) -> Corpus:
    if folder.matching("data.json"):
        return multiwoz.read_folder(folder, split=split)
    if folder.matching(schema_guided.DIALOGUES):
        return schema_guided.read_folder(folder, split=split)
    if folder.matching(woz.FILES):
        return woz.read_folder(folder, split=split)
    if folder.matching("*.jsonl") and folder.path.is_dir():
        return _open_lines(folder, split)
    raise CorpusError(f"{folder.path} holds no corpus: expected {EXPECTED}.")


def _open_lines(folder: Folder, split: Split | None) -> Corpus:
    """A folder with train.jsonl, dev.jsonl, test.jsonl or some of them."""
    splits = SPLIT_NAMES if split is None else [split]
    names = [name for part in splits for word in SPLIT_NAMES[part] for name in folder.matching(f"{word}.jsonl")]
    if not names:
        raise NoSplit(f"{folder.path} has no {split or 'train'}.jsonl: name the file itself.")
    paths = [folder.path / name for name in names]
    return Corpus(folder.name, jsonlines.FORMAT, tuple(d for path in paths for d in jsonlines.read_dialogues(path)))


def _open_file(path: Path, split: Split | None) -> Corpus:
    name = Path(base_name(path))
    if name.name == "data.json" and split is not None:
        return multiwoz.read_folder(Folder.open(path.parent), split=split)
    if split is not None and name.stem not in SPLIT_NAMES[split]:
        raise CorpusError(f"{path} is one file, without splits: leave the split out, or give the corpus's folder.")
    if name.suffix != ".json":
        return Corpus(name.stem, jsonlines.FORMAT, tuple(jsonlines.read_dialogues(path)))
    data = load_json(path)
    match data:
        case dict():
            return multiwoz.read_data(data, where=str(path), name=name.stem)
        case [{"dialogue_id": _}, *_]:
            return schema_guided.read_folder(Folder.open(path.parent).only(path.name, schema_guided.SCHEMA), split=None)
        case [{"dialogue_idx": _}, *_]:
            return woz.read_data(data, where=str(path), name=name.stem)
        case _:
            raise CorpusError(f"{path} holds no corpus: expected {EXPECTED}.")


def outside_schema(dialogues: Iterable[Dialogue], schema: Schema) -> dict[str, int]:
    """The labelled slots that the schema lacks, with their number of turns. Evaluation does not count them."""
    outside: dict[str, int] = {}
    for dialogue in dialogues:
        for turn in dialogue.turns:
            for slot in turn.state or ():
                if slot not in schema:
                    outside[slot] = outside.get(slot, 0) + 1
    return dict(sorted(outside.items()))


def check_fit(dialogues: Sequence[Dialogue], schema: Schema) -> None:
    """Refuse a corpus that does not fit the schema at all: no labels, or only slots that the schema lacks."""
    slots = {slot for dialogue in dialogues for turn in dialogue.turns for slot in turn.state or ()}
    if not dialogues or not slots:
        raise CorpusError("The corpus has no labelled turn: give one whose turns have states.")
    if not any(slot in schema for slot in slots):
        raise CorpusError(
            f"The corpus labels {', '.join(sorted(slots)[:3])} and so on, the schema has {', '.join(schema.slots[:3])} "
            "and so on, and no slot is in both: give dialogues that are labelled with the slots of the schema or model."
        )
