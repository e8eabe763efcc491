"""`open_corpus`: finds out what a path holds and calls the reader of that format."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from somdst.corpora import jsonlines, multiwoz, schema_guided, woz
from somdst.corpora.corpus import SPLIT_NAMES, Corpus, Split
from somdst.corpora.folders import Folder
from somdst.corpora.reading import load_json
from somdst.corpora.synthetic import synthetic_named
from somdst.errors import CorpusError
from somdst.files import base_name

EXPECTED: Final = (
    "JSON lines (.jsonl), MultiWOZ 2.0/2.1 (data.json), MultiWOZ 2.2 or SGD (dialogues_*.json with schema.json) "
    "or WOZ 2.0 (woz_*_en.json)"
)


def open_corpus(path: str | Path, *, split: Split | None = None) -> Corpus:
    """Read a corpus: a file, a folder or a zip; plain, .gz or .xz; or "synthetic". With `split`, only that part."""
    path = Path(path)
    if split is not None and split not in SPLIT_NAMES:
        raise CorpusError(f'There is no split "{split}"; there are {", ".join(SPLIT_NAMES)}.')
    if str(path).partition(":")[0] == "synthetic" and not path.exists():
        return synthetic_named(str(path), split=split)
    if not path.exists():
        raise CorpusError(f"There is no {path}: give the path of a corpus, which is {EXPECTED}.")
    if path.is_dir() or path.suffix == ".zip":
        return _open_folder(Folder.open(path), split)
    return _open_file(path, split)


def _open_folder(folder: Folder, split: Split | None) -> Corpus:
    if folder.matching("data.json"):
        return multiwoz.read_folder(folder, split=split)
    if folder.matching(schema_guided.DIALOGUES):
        return schema_guided.read_folder(folder, split=split)
    if folder.matching(woz.FILES):
        return woz.read_folder(folder, split=split)
    if folder.matching("*.jsonl") and folder.path.is_dir():
        return _open_lines(folder, split)
    raise CorpusError(f"{folder.path} holds no corpus: expected is {EXPECTED}.")


def _open_lines(folder: Folder, split: Split | None) -> Corpus:
    """A folder with train.jsonl, dev.jsonl, test.jsonl or some of them."""
    splits = SPLIT_NAMES if split is None else [split]
    names = [name for part in splits for word in SPLIT_NAMES[part] for name in folder.matching(f"{word}.jsonl")]
    if not names:
        raise CorpusError(f"{folder.path} has no {split or 'train'}.jsonl: name the file itself.")
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
            raise CorpusError(f"{path} holds no corpus: expected is {EXPECTED}.")
