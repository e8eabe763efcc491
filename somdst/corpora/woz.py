"""WOZ 2.0 as published with the Neural Belief Tracker: `woz_{train,validate,test}_en.json`, one domain and three slots.

The state of a turn is in its belief state's `inform` acts. What a user requests is not part of the state: not read.
"""

from __future__ import annotations

from typing import Final

from somdst.corpora.corpus import SPLIT_NAMES, Corpus, Dropped, Split
from somdst.corpora.folders import Folder
from somdst.corpora.labels import clean
from somdst.corpora.reading import fields, items, text
from somdst.errors import CorpusError, NoSplit
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.schema import Schema, Slot
from somdst.memory.state import State, Value

FORMAT: Final = "WOZ 2.0"
FILES: Final = "woz_*_en.json"
DOMAIN: Final = "restaurant"
SLOTS: Final = {
    "area": Slot.of(DOMAIN, "area", description="part of town"),
    "food": Slot.of(DOMAIN, "food", description="kind of food"),
    "price range": Slot.of(DOMAIN, "pricerange", description="how expensive it is"),
}
SCHEMA: Final = Schema(SLOTS.values())


def read_folder(folder: Folder, *, split: Split | None) -> Corpus:
    """The English files in a folder or zip: all of them, or that of one split."""
    wanted = [f"woz_{name}_en.json" for name in SPLIT_NAMES[split]] if split else [FILES]
    names = [name for pattern in wanted for name in folder.matching(pattern)]
    if not names:
        raise NoSplit(f"{folder.path} has no {' or '.join(wanted)}: give another split, or none.")
    parts = [read_data(folder.load_json(name), where=folder.where(name), name=name) for name in names]
    dialogues = tuple(dialogue for part in parts for dialogue in part.dialogues)
    return Corpus(folder.name, FORMAT, dialogues, tuple(d for part in parts for d in part.dropped), SCHEMA)


def read_data(data: object, *, where: str, name: str) -> Corpus:
    """From the content of one file."""
    read: list[Dialogue] = []
    dropped: list[Dropped] = []
    for number, entry in enumerate(items(data, where), start=1):
        try:
            read.append(_dialogue(entry))
        except CorpusError as error:
            key = str(entry.get("dialogue_idx", number)) if isinstance(entry, dict) else str(number)
            dropped.append(Dropped(key, f"{where}, dialogue {key}", str(error)))
    return Corpus(name, FORMAT, tuple(read), tuple(dropped), SCHEMA)


def _dialogue(data: object) -> Dialogue:
    dialogue = fields(data, "the dialogue")
    name = dialogue.get("dialogue_idx")
    if not isinstance(name, int | str) or name == "":
        raise CorpusError("It has no `dialogue_idx`.")
    turns = tuple(_turn(turn, n) for n, turn in enumerate(items(dialogue.get("dialogue"), "`dialogue`"), start=1))
    if not turns:
        raise CorpusError("It has no turn.")
    return Dialogue(str(name), turns, (DOMAIN,))


def _turn(data: object, number: int) -> Turn:
    turn = fields(data, f"turn {number}")
    values: dict[str, Value] = {}
    for act in items(turn.get("belief_state"), f"the belief state of turn {number}"):
        if fields(act, f"an act of turn {number}").get("act") != "inform":
            continue
        for pair in items(act.get("slots"), f"the slots of an act of turn {number}"):
            slot, value = _slot_value(pair, number)
            if value is not None:
                values[slot] = value
    system = text(turn.get("system_transcript"), f"the system's text in turn {number}")
    return Turn(system, text(turn.get("transcript"), f"the user's text in turn {number}"), State(values), DOMAIN)


def _slot_value(pair: object, number: int) -> tuple[Slot, Value | None]:
    match pair:
        case [str(name), str(value)] if name in SLOTS:
            return SLOTS[name], clean(SLOTS[name], value)
        case [str(name), _] if name not in SLOTS:
            raise CorpusError(f'Turn {number} fills the slot "{name}", which is not one of {", ".join(SLOTS)}.')
        case _:
            raise CorpusError(f"Turn {number} has an `inform` act that is not a slot and its value.")
