"""The schema-guided layout: SGD and MultiWOZ 2.2, `dialogues_*.json` with a `schema.json` beside or above them.

A user turn has a frame for each service, with the state of that service; services without a frame keep theirs. A value
comes in several spellings: the one that the turn says is taken, else the first, and it stays for as long as it is
listed; all of them are kept in `Turn.spellings`. A dialogue of SGD has a schema of its own, the slots of its services.
MultiWOZ 2.2 writes the domain into its slot names and "bookday" for our "book day"; its labels are repaired as those of
2.1. SGD-X has other names and descriptions for the same services: `read_paraphrases`. Acts and spans are not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from somdst.corpora import multiwoz
from somdst.corpora.corpus import SPLIT_NAMES, Corpus, Dropped, Split
from somdst.corpora.folders import Folder
from somdst.corpora.labels import clean
from somdst.corpora.reading import fields, items, load_json, text
from somdst.errors import CorpusError, NoSplit, SomdstError
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.schema import Schema, Slot
from somdst.memory.state import DONTCARE, State, Value
from somdst.model.text import normalise

DIALOGUES: Final = "dialogues_*.json"
SCHEMA: Final = "schema.json"


@dataclass(frozen=True, slots=True)
class Services:
    """What the schema files say: for each service, the slot that each of its slot names stands for."""

    slots: Mapping[str, Mapping[str, Slot]]
    tracked: tuple[Slot, ...]
    """The slots that an intent asks for. Only these are ever in a state: a phone number is told, not asked."""
    is_multiwoz: bool
    _schemas: dict[frozenset[str], Schema | None] = field(default_factory=dict, compare=False)

    @property
    def format(self) -> str:
        return "MultiWOZ 2.2" if self.is_multiwoz else "SGD"

    @property
    def schema(self) -> Schema:
        return multiwoz.SCHEMA if self.is_multiwoz else Schema(self.tracked)

    def schema_of(self, services: Iterable[str]) -> Schema | None:
        """The slots of some services; None where none of them has one that is tracked."""
        wanted = frozenset(services)
        if wanted not in self._schemas:
            slots = [slot for slot in self.tracked if slot.domain in wanted]
            self._schemas[wanted] = Schema(slots) if slots else None
        return self._schemas[wanted]

    def slot(self, service: str, name: str) -> Slot:
        if service not in self.slots:
            raise CorpusError(f'The service "{service}" is not in {SCHEMA}.')
        if name not in self.slots[service]:
            raise CorpusError(f'The slot "{name}" is not among those of the service "{service}" in {SCHEMA}.')
        return self.slots[service][name]

    def value(self, slot: Slot, label: str) -> Value | None:
        if self.is_multiwoz:
            return clean(slot, label)
        return DONTCARE if label == "dontcare" else normalise(label, "lowercase") or None


def read_folder(folder: Folder, *, split: Split | None) -> Corpus:
    """All dialogue files in a folder or zip; a split is what is in a folder of that name."""
    names = [name for name in folder.matching(DIALOGUES) if split is None or _is_in(name, split)]
    if not names:
        raise NoSplit(f"{folder.path} has no folder {split} with {DIALOGUES}: give another split, or none.")
    services = _services(_schemas(folder, names))
    read: list[Dialogue] = []
    dropped: list[Dropped] = []
    for name in names:
        for number, data in enumerate(items(folder.load_json(name), folder.where(name)), start=1):
            try:
                read.append(_dialogue(data, services))
            except CorpusError as error:
                key = _id(data) or f"number {number}"
                dropped.append(Dropped(key, f"{folder.where(name)}, dialogue {key}", str(error)))
    return Corpus(folder.name, services.format, tuple(read), tuple(dropped), services.schema)


def read_paraphrases(path: str | Path, original: str | Path) -> dict[str, tuple[Mapping[str, Slot], ...]]:
    """SGD-X, a folder or zip with v1/train/schema.json and so on: for each service of the original corpus, and for each
    variant, what each of its slots is called there. Slots are in the order of the original schema."""
    names: dict[str, list[str]] = {}
    published = Folder.open(Path(original))
    for file in published.matching(SCHEMA):
        for service in items(published.load_json(file), published.where(file)):
            name, own, _ = _service(service)
            names[name] = list(own)
    found: dict[str, list[Mapping[str, Slot]]] = {}
    folder = Folder.open(Path(path))
    for file in folder.matching(SCHEMA):
        for service in items(folder.load_json(file), folder.where(file)):
            renamed, own, _ = _service(service)
            if (name := _original(renamed)) in names and len(own) == len(names[name]):
                found.setdefault(name, []).append(dict(zip(names[name], own.values(), strict=True)))
    return {service: tuple(variants) for service, variants in found.items()}


def _original(renamed: str) -> str:
    """SGD-X calls the third variant of Banks_1 Banks_13."""
    return renamed[:-1]


def _is_in(name: str, split: Split) -> bool:
    return PurePosixPath(name).parent.name in SPLIT_NAMES[split]


def _schemas(folder: Folder, names: Iterable[str]) -> Iterator[tuple[object, str]]:
    """The schema files that belong to these dialogue files, each with where it stands."""
    above = {str(parent / SCHEMA) for name in names for parent in PurePosixPath(name).parents}
    inside = [name for name in folder.names if name in above]
    for name in inside:
        yield folder.load_json(name), folder.where(name)
    if not inside:  # one split of MultiWOZ 2.2 was given: its schema stands above
        path = folder.path.parent / SCHEMA
        if not path.is_file():
            raise CorpusError(f"{folder.path} has no {SCHEMA}, in it or above it: put the published one beside it.")
        yield load_json(path), str(path)


def _services(schemas: Iterable[tuple[object, str]]) -> Services:
    slots: dict[str, dict[str, Slot]] = {}
    tracked: dict[Slot, None] = {}
    is_multiwoz = False
    for data, where in schemas:
        for service in items(data, where):
            try:
                name, own, asked = _service(service)
            except SomdstError as error:
                raise CorpusError(f"{where} is not a schema-guided schema: {error}") from error
            slots.setdefault(name, {}).update(own)
            tracked.update((own[slot], None) for slot in asked if slot in own)
            is_multiwoz = is_multiwoz or any(slot.startswith(f"{name}-") for slot in own)
    if not tracked:
        raise CorpusError("The schema files name no slot that an intent asks for: fetch the corpus again.")
    return Services(slots, tuple(tracked), is_multiwoz)


def _service(data: object) -> tuple[str, dict[str, Slot], list[str]]:
    """A service's name, its slots by their names in the file, and those that an intent asks for."""
    service = fields(data, "a service")
    name = text(service.get("service_name"), "a `service_name`")
    entries = [fields(entry, f'a slot of "{name}"') for entry in items(service.get("slots"), f'`slots` of "{name}"')]
    asked: list[str] = []
    for intent in items(service.get("intents"), f'`intents` of "{name}"'):
        required = items(fields(intent, f'an intent of "{name}"').get("required_slots"), "`required_slots`")
        asked += [text(slot, "a required slot") for slot in required]
        asked += fields(intent.get("optional_slots"), "`optional_slots`")
    return name, {text(entry.get("name"), "the name of a slot"): _slot(name, entry) for entry in entries}, asked


def _slot(service: str, entry: Mapping[str, Any]) -> Slot:
    name = text(entry.get("name"), "the name of a slot")
    if name.startswith(f"{service}-"):
        name = name.removeprefix(f"{service}-")
        name = f"book {name.removeprefix('book')}" if name.startswith("book") else name
    possible = items(entry.get("possible_values", []), f'`possible_values` of "{name}"')
    values = [normalise(text(value, f'a value of "{name}"'), "lowercase") for value in possible]
    closed = [value for value in values if value not in ("", "dontcare")] if entry.get("is_categorical") else None
    return Slot.of(service, name, description=str(entry.get("description") or ""), values=closed or None)


def _id(data: object) -> str | None:
    name = data.get("dialogue_id") if isinstance(data, Mapping) else None
    return name.removesuffix(".json") if isinstance(name, str) else None


def _dialogue(data: object, services: Services) -> Dialogue:
    """The dialogue, or a `CorpusError` that says why it is left out."""
    dialogue = fields(data, "the dialogue")
    name = _id(dialogue)
    if not name:
        raise CorpusError("It has no `dialogue_id`.")
    turns: list[Turn] = []
    system, domain, state = "", None, State()
    spellings: dict[str, tuple[str, ...]] = {}
    for number, turn in enumerate(items(dialogue.get("turns"), "`turns`"), start=1):
        speaker, said = _said(turn, number)
        if speaker == "SYSTEM":
            system = f"{system} {said}".strip()
            continue
        frames = [
            fields(frame, f"a frame of turn {number}")
            for frame in items(turn.get("frames"), f"`frames` of turn {number}")
        ]
        after, told = _state(state, frames, services, number, said=f"{system} {said}".lower())
        spellings = {slot: known for slot, known in (spellings | told).items() if slot in after}
        domain = _turn_domain(state, after, frames, services) or domain
        with_state = tuple(str(frame.get("service")) for frame in frames if "state" in frame)
        turns.append(Turn(system, said, after if _labelled(frames) else None, domain, spellings, with_state))
        system, state = "", after
    if not turns:
        raise CorpusError("It has no user turn.")
    goal = [text(service, "a service") for service in items(dialogue.get("services"), "`services`")]
    return Dialogue(name, tuple(turns), tuple(goal), None if services.is_multiwoz else services.schema_of(goal))


def _said(turn: object, number: int) -> tuple[str, str]:
    entry = fields(turn, f"turn {number}")
    speaker = entry.get("speaker")
    if speaker not in ("USER", "SYSTEM"):
        raise CorpusError(f"The speaker of turn {number} should be USER or SYSTEM, not {speaker!r}.")
    return speaker, text(entry.get("utterance"), f"the utterance of turn {number}")


def _labelled(frames: Sequence[Mapping[str, Any]]) -> bool:
    """The test set of the challenge came without states; a turn without frames repeats the state."""
    return not frames or any("state" in frame for frame in frames)


def _state(
    before: State, frames: Sequence[Mapping[str, Any]], services: Services, number: int, *, said: str
) -> tuple[State, dict[str, tuple[str, ...]]]:
    """The state after a turn's frames, and all spellings of the values that they tell."""
    values: dict[str, Value | None] = {}
    spelled: dict[str, tuple[str, ...]] = {}
    for frame in frames:
        if "state" not in frame:
            continue
        service = text(frame.get("service"), f"the service of a frame of turn {number}")
        told = fields(frame["state"], f'the state of "{service}" in turn {number}').get("slot_values")
        values |= dict.fromkeys(slot for slot in before if slot.startswith(f"{service}-"))
        for name, labels in fields(told, f'`slot_values` of "{service}" in turn {number}').items():
            slot = services.slot(service, name)
            spellings = labels if isinstance(labels, list) else [labels]
            what = f'the slot "{name}" in turn {number}'
            known = [services.value(slot, text(spelling, what)) for spelling in spellings]
            spelled[slot] = tuple(str(value) for value in known if value is not None)
            # Another spelling of the same value is not an update: SGD puts the newest in front.
            if slot in before and before[slot] in known:
                values[slot] = before[slot]
            else:
                values[slot] = next((value for value in known if str(value) in said), next(iter(known), None))
    return before.with_values(values), spelled


def _turn_domain(before: State, after: State, frames: Sequence[Mapping[str, Any]], services: Services) -> str | None:
    """The first service whose state changed, else the first with an intent; None where neither is."""
    named = [str(frame.get("service")) for frame in frames]
    changed = {slot.split("-", 1)[0] for slot in before.differing(after)}
    intent = [str(frame["service"]) for frame in frames if _intent(frame) not in ("NONE", None)]
    domain = next((name for name in named if name in changed), None) or next(iter(intent), None)
    return domain if not services.is_multiwoz or domain in multiwoz.TRACKED else None


def _intent(frame: Mapping[str, Any]) -> str | None:
    state = frame.get("state")
    return state.get("active_intent") if isinstance(state, Mapping) else None
