"""MultiWOZ 2.0 and 2.1 as published: `data.json` with `valListFile` and `testListFile`, or one JSON without lists.

User and system alternate in a dialogue's log; the state after a user turn is in the metadata of the system turn that
follows it. As in the paper's preprocessing, some dialogues are dropped whole, and turns outside the five domains are
left out. Labels are repaired in `labels.py`; 2.2 has another layout and is read by `schema_guided.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any, Final

from somdst.corpora.corpus import Corpus, Dropped, Split
from somdst.corpora.folders import Folder
from somdst.corpora.labels import DONTCARE_WORDS, NULL_WORDS, clean
from somdst.corpora.reading import fields, items, text
from somdst.errors import CorpusError, NoSplit
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.schema import Schema, Slot
from somdst.memory.state import State, Value
from somdst.model.text import normalise

FORMAT: Final = "MultiWOZ 2.0/2.1"
DOMAINS: Final = ("taxi", "restaurant", "hospital", "hotel", "attraction", "train", "police")
"""All that metadata must have. Many files have `bus` too, which is in no state."""
TRACKED: Final = ("attraction", "hotel", "restaurant", "taxi", "train")
MAX_WORDS: Final = 50
LIST_FILES: Final[Mapping[Split, str]] = {"dev": "valListFile", "test": "testListFile"}

SCHEMA: Final = Schema.multiwoz()
_OTHER_SLOTS: Final = (Slot.of("hospital", "department"), Slot.of("train", "book ticket"))
_SLOTS: Final = {str(slot): slot for slot in (*SCHEMA.slots, *_OTHER_SLOTS)}
_MOST = 27
"""A part of MultiWOZ may lack a rare slot of the thirty."""
_NO_GOAL: Final = ("eod", "topic", "messageLen", "message")
"""Keys of a goal that are not domains."""

Metadata = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Domain, then `semi` or `book`, then the slot's name, to what the annotator wrote."""


def is_multiwoz(schema: Schema) -> bool:
    """Whether these are MultiWOZ's slots: almost all of the thirty, and few others."""
    names, thirty = set(map(str, schema)), set(map(str, SCHEMA))
    return len(names & thirty) >= _MOST and len(names - thirty) <= 10


def read_folder(folder: Folder, *, split: Split | None) -> Corpus:
    """From a folder or zip with data.json; a split also needs the list files."""
    file = folder.find("data.json")
    where = folder.where(file)
    dialogues = _by_id(folder.load_json(file), where)
    absent: list[Dropped] = []
    if split == "train":
        held_out = {name for file in LIST_FILES.values() for name in _listed(folder, file)}
        dialogues = {name: data for name, data in dialogues.items() if name not in held_out}
    elif split is not None:
        names = _listed(folder, LIST_FILES[split])
        absent = [_absent(name, where, LIST_FILES[split]) for name in names if name not in dialogues]
        dialogues = {name: dialogues[name] for name in names if name in dialogues}
    return _read(dialogues, where=where, name=folder.name, dropped=absent)


def read_data(data: object, *, where: str, name: str) -> Corpus:
    """From the content of one JSON file."""
    return _read(_by_id(data, where), where=where, name=name, dropped=[])


def _read(dialogues: Mapping[str, object], *, where: str, name: str, dropped: list[Dropped]) -> Corpus:
    read: list[Dialogue] = []
    for key, data in dialogues.items():
        try:
            read.append(_dialogue(key, data))
        except CorpusError as error:
            dropped.append(Dropped(key, f"{where}, dialogue {key}", str(error)))
    return Corpus(name, FORMAT, tuple(read), tuple(dropped), SCHEMA)


def _by_id(data: object, where: str) -> dict[str, object]:
    if not isinstance(data, Mapping) or not data:
        raise CorpusError(f"{where} should be a JSON object from dialogue id to dialogue, with at least one.")
    return {_id(key): dialogue for key, dialogue in data.items()}


def _id(name: str) -> str:
    return name.strip().removesuffix(".json")


def _listed(folder: Folder, file: str) -> list[str]:
    try:
        found = folder.find(file, f"{file}.json", f"{file}.txt")
    except CorpusError as error:  # without its list, nobody knows which dialogues are in the split
        raise NoSplit(str(error)) from error
    names = [_id(line) for line in folder.read_text(found).splitlines() if line.strip()]
    if not names:
        raise CorpusError(f"{folder.where(found)} is empty: it should list one dialogue id per line.")
    return names


def _absent(name: str, where: str, file: str) -> Dropped:
    return Dropped(name, f"{where}, dialogue {name}", f"{file} lists it, and it is not there.")


def _dialogue(name: str, data: object) -> Dialogue:
    """The dialogue, or a `CorpusError` that says why it is left out."""
    log = items(fields(data, "the dialogue").get("log"), "its log")
    if not log:
        raise CorpusError("Its log is empty.")
    if len(log) % 2:
        raise CorpusError(f"Its log has an odd number of entries ({len(log)}): user and system should alternate.")
    texts = [_utterance(entry, number) for number, entry in enumerate(log, start=1)]
    metadata = [_metadata(log[i], i + 1) for i in range(1, len(log), 2)]
    goal = _goal(data)
    turns = tuple(
        Turn(texts[2 * i - 1] if i else "", texts[2 * i], _state(metadata[i], 2 * i + 2), domain)
        for i, domain in enumerate(_turn_domains(metadata, goal))
        if domain in TRACKED
    )
    if not turns:
        raise CorpusError(f"None of its turns is about {', '.join(TRACKED)}.")
    return Dialogue(name, turns, goal)


def _utterance(entry: object, number: int) -> str:
    raw = text(fields(entry, f"log entry {number}").get("text"), f"the text of log entry {number}")
    normal = normalise(raw, "multiwoz")
    words = len(normal.split())
    if words > MAX_WORDS:
        raise CorpusError(f"Log entry {number} has {words} words; dialogues with more than {MAX_WORDS} are dropped.")
    if not normal.isascii():
        raise CorpusError(f"Log entry {number} has a character outside ASCII; such dialogues are dropped.")
    return raw


def _metadata(entry: Mapping[str, object], number: int) -> Metadata:
    where = f"the metadata of log entry {number}"
    metadata = fields(entry.get("metadata"), where)
    for domain in DOMAINS:
        if domain not in metadata:
            raise CorpusError(f'In {where} the domain "{domain}" is missing.')
    for domain, parts in metadata.items():
        for part in ("semi", "book"):
            fields(fields(parts, f'"{domain}" in {where}').get(part), f'`{part}` of "{domain}" in {where}')
    return metadata


def _goal(data: object) -> tuple[str, ...]:
    goal = fields(fields(data, "the dialogue").get("goal"), "the goal")
    return tuple(domain for domain, wishes in goal.items() if wishes and domain not in _NO_GOAL)


def _state(metadata: Metadata, number: int) -> State:
    values: dict[str, Value] = {}
    for domain in DOMAINS:
        for part in ("semi", "book"):
            for name, raw in metadata[domain][part].items():
                if name == "booked" or (label := _label(raw, name, number)) in NULL_WORDS:
                    continue
                slot = _slot(domain, part, name)
                if slot is None:
                    raise CorpusError(f'Log entry {number} fills the slot "{name}" of {domain}, which is unknown.')
                value = clean(slot, label)
                if value is not None:
                    values[slot] = value
    return State(values)


def _label(raw: object, name: str, number: int) -> str:
    """What the annotator wrote; some later copies of the corpus list several spellings, of which we take the first."""
    label = (raw[0] if raw else "") if isinstance(raw, list) else raw
    return label if isinstance(label, str) else text(label, f'the slot "{name}" in log entry {number}')


@cache
def _slot(domain: str, part: str, name: str) -> Slot | None:
    """Our name of a slot: lower-case, and "price range", "leave at", "arrive by" in one word."""
    name = name.lower()
    joined = name.replace(" ", "")
    name = joined if joined in ("pricerange", "leaveat", "arriveby") else name
    return _SLOTS.get(f"{domain}-book {name}" if part == "book" else f"{domain}-{name}")


def _turn_domains(metadata: list[Metadata], goal: tuple[str, ...]) -> Iterator[str | None]:
    """What each turn is about: the first domain whose metadata changed, else what the turn before was about."""
    domain = _first_domain(metadata[0]) or (goal[0] if goal else None)
    yield domain
    for before, after in pairwise(metadata):
        domain = next((name for name in after if after[name] != before.get(name)), domain)
        yield domain


def _first_domain(metadata: Metadata) -> str | None:
    """In the first turn an active domain shows in slots that annotators marked as not mentioned, or as dontcare."""
    for domain, parts in metadata.items():
        labels = (_label(raw, name, 2) for name, raw in parts["semi"].items())
        if any(label == "not mentioned" or label in DONTCARE_WORDS for label in labels):
            return domain
    return None
