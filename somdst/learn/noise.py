"""What training changes about an example so that a model does not learn it by heart: wrong memories, the order of the
slots, single words.

Trained on gold memories only, a model trusts its memory blindly, and one mistake stays for the rest of the dialogue.
Here a fed memory loses values, gets other values, gets values that nobody asked for, or is the one that an earlier
model really had at that turn. Labels are then derived against what was fed, so the model learns to repair, but only
what its input shows. Asking for a value that occurs nowhere in the turns it reads would teach it to make values up.
Other ways of typing are in `corpora/perturbation.py`.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from somdst.memory.dialogue import Dialogue
from somdst.memory.schema import Schema, Slot
from somdst.memory.state import State, Value
from somdst.model.encoding import Encoding
from somdst.model.mentions import SAID_OF_ANYTHING
from somdst.model.text import whole_words


@dataclass(frozen=True, slots=True)
class ValuePool:
    """The values that each slot takes in a corpus, each as often as it was written."""

    values: Mapping[str, tuple[Value, ...]]

    @classmethod
    def collect(cls, dialogues: Iterable[Dialogue], schema: Schema) -> ValuePool:
        found: dict[str, list[Value]] = {str(slot): [] for slot in schema}
        for dialogue in dialogues:
            for slot, value in dialogue.new_values():
                if slot in found:
                    found[slot].append(value)
        return cls({slot: tuple(values) for slot, values in found.items() if values})

    def renamed(self, names: Mapping[str, str]) -> ValuePool:
        """The values of these slots under their new names."""
        return ValuePool({new: self.values[old] for old, new in names.items() if old in self.values})

    def draw(self, slot: str, rng: random.Random) -> Value | None:
        """A value of the slot, of any other if there is none: models put values into wrong slots, too."""
        if isinstance(slot, Slot) and slot.values is not None:
            return rng.choice(slot.values)
        if not self.values:
            return None
        return rng.choice(self.values[slot if slot in self.values else rng.choice(list(self.values))])


def corrupt(
    state: State,
    pool: ValuePool,
    schema: Schema,
    *,
    drop: float = 0.1,
    swap: float = 0.1,
    add: float = 0.2,
    rng: random.Random,
) -> State:
    """The state with each filled slot emptied or replaced with these chances, and maybe a wrong slot filled, with one
    of its own values or with that of another slot.

    No other chances were better (docs/experiments.md), so they are not settings.
    """
    changed: dict[str, Value | None] = {}
    for slot in state:
        chance = rng.random()
        if chance < drop:
            changed[slot] = None
        elif chance < drop + swap:
            changed[slot] = pool.draw(schema[slot], rng)
    if rng.random() < add:
        slot = rng.choice(schema.slots)
        if slot not in state and (value := _wrong_value(slot, state, pool, rng)) is not None:
            changed[slot] = value
    return state.with_values(changed)


def _wrong_value(slot: Slot, state: State, pool: ValuePool, rng: random.Random) -> Value | None:
    """What a model may have put into an empty slot. Under schemas that are new to it, one value often lands in two."""
    told = [value for value in state.values() if slot.values is None or value in slot.values]
    return rng.choice(told) if told and rng.random() < 0.5 else pool.draw(slot, rng)


def repairable(before: State, after: State, fed: State, *, told: Collection[str], shown: str, complete: bool) -> State:
    """The state to reach from a wrong memory: `after`, but old mistakes whose repair the input does not show stay.

    `told` are the slots that the turns which the model reads have changed. `shown` is their text, in which a value that
    was told before may be repeated. `complete` says that they are the whole dialogue so far, in which a value that
    nobody asked for can be seen to be wrong.
    """
    kept: dict[str, Value | None] = {}
    for slot in before.keys() | fed.keys():
        wanted = after.get(slot)
        if fed.get(slot) == before.get(slot) or before.get(slot) != wanted:
            continue  # not a mistake, or changed by this very turn
        visible = complete if wanted is None else _says(shown, str(wanted).casefold())
        if not visible and slot not in told:
            kept[slot] = fed.get(slot)
    return after.with_values(kept) if kept else after


def _says(text: str, value: str) -> bool:
    """Whether the text has the value, as whole words. Those that may be about anything say nothing."""
    return value not in SAID_OF_ANYTHING and whole_words(value).search(text.casefold()) is not None


def shuffled_order(slots: int, *, rate: float, rng: random.Random) -> list[int] | None:
    """With probability `rate` a random order of the slots, else None: the alphabetical one."""
    if rng.random() >= rate:
        return None
    order = list(range(slots))
    rng.shuffle(order)
    return order


def drop_words(
    encoding: Encoding, *, rate: float, unk: int, rng: random.Random, spared: Collection[int] = ()
) -> Encoding:
    """Replace dialogue pieces (never the state, never special tokens) by [UNK] with probability `rate`.

    Pieces that are `spared` stay: a value that is to be written must be there to be read.
    """
    ids = list(encoding.ids)
    for region in encoding.regions:
        if region.slot is None:
            for position in range(region.start, region.end):
                if rng.random() < rate and ids[position] not in spared:
                    ids[position] = unk
    return replace(encoding, ids=ids)
