"""Training on many schemas: examples from several corpora with weights, each under a schema of its own.

A model that always sees the same slots learns them by heart. So every epoch each dialogue gets a varied schema: slots
renamed by paraphrase (SGD-X), slots it does not need dropped, slots of other domains added, descriptions left out. The
labels follow. Everything is seeded by (seed, epoch, dialogue), so a resumed run sees the same.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from somdst.corpora.domains import Domain, load_domains
from somdst.corpora.made import made_dialogue
from somdst.corpora.opening import open_part, schema_for
from somdst.corpora.schema_guided import read_paraphrases
from somdst.corpora.statistics import joint_schema
from somdst.errors import CorpusError, InputError
from somdst.learn.batches import Example, OwnStates, examples_of
from somdst.learn.noise import ValuePool
from somdst.learn.settings import Settings
from somdst.learn.task import Task
from somdst.memory.dialogue import Dialogue, Turn, count_turns
from somdst.memory.schema import Schema, Slot
from somdst.memory.state import DONTCARE, State

Paraphrases = Mapping[str, Sequence[Mapping[str, Slot]]]
"""For each service and each of its variants, what a slot of that name is called in the variant."""


@dataclass(frozen=True, slots=True)
class Variation:
    """How a dialogue's schema is varied. Each is a chance per dialogue, except where it says otherwise."""

    paraphrase: float = 0.0
    """The names and descriptions of a service become those of one of its variants; per service."""
    drop: float = 0.0
    """Slots that the dialogue never fills are dropped, each with a chance of one half."""
    distract: float = 0.0
    """Slots of one to three other domains are added."""
    undescribed: float = 0.0
    """All descriptions are left out."""
    histories: tuple[int, ...] = (16,)
    """How many turns before it a turn is shown with: one of these per turn, if the model reads as many. Short ones make
    short inputs, which train faster, and teach the model to rely on its memory."""


class DialogueSource(Protocol):
    """A corpus in the mixture."""

    @property
    def pool(self) -> ValuePool:
        """The values that its slots take."""
        ...

    @property
    def variation(self) -> Variation: ...

    @property
    def own_states(self) -> OwnStates | None: ...

    def dialogues(self, epoch: int, turns: int, rng: random.Random) -> list[Dialogue]:
        """Dialogues with at least this many turns, each with its schema."""
        ...


class Existing:
    """Dialogues that exist. An epoch takes a random part of them, or all of them several times."""

    def __init__(
        self,
        dialogues: Sequence[Dialogue],
        schema: Schema | None,
        variation: Variation,
        own_states: OwnStates | None = None,
    ) -> None:
        if schema is None and any(dialogue.schema is None for dialogue in dialogues):
            raise InputError("A corpus in a mixture needs a schema: give one, or one with each dialogue.")
        if unlabelled := next((dialogue for dialogue in dialogues if not dialogue.labelled), None):
            raise CorpusError(f"The dialogue {unlabelled.id} has turns without a `state`: a mixture needs labels.")
        self._dialogues = [dialogue if dialogue.schema else replace(dialogue, schema=schema) for dialogue in dialogues]
        self.variation, self.own_states = variation, own_states
        self.pool = ValuePool.collect(dialogues, joint_schema(self._dialogues))

    def dialogues(self, epoch: int, turns: int, rng: random.Random) -> list[Dialogue]:
        chosen: list[Dialogue] = []
        while turns > 0:
            for dialogue in rng.sample(self._dialogues, len(self._dialogues)):
                if turns <= 0:
                    break
                chosen.append(dialogue)
                turns -= len(dialogue.turns)
        return chosen


class Made:
    """Dialogues that are made again for every epoch, so no earlier model had memories of them."""

    own_states = None

    def __init__(self, make: Callable[[str], Dialogue], variation: Variation, *, seed: int = 0) -> None:
        self._make, self._seed, self.variation = make, seed, variation
        some = [make(f"{seed}-pool-{number}") for number in range(2000)]
        self.pool = ValuePool.collect(some, joint_schema(some))

    def dialogues(self, epoch: int, turns: int, rng: random.Random) -> list[Dialogue]:
        chosen: list[Dialogue] = []
        while turns > 0:
            chosen.append(self._make(f"{self._seed}-{epoch}-{len(chosen)}"))
            turns -= len(chosen[-1].turns)
        return chosen


class Mixture:
    """An `ExampleSource` of several corpora; `weights` are their shares of an epoch's turns."""

    def __init__(
        self,
        sources: Mapping[str, DialogueSource],
        weights: Mapping[str, float],
        *,
        turns: int,
        paraphrases: Paraphrases | None = None,
        distractors: Sequence[Schema] = (),
        seed: int = 0,
    ) -> None:
        total = sum(weights.values())
        self._sources = [(name, sources[name], weight / total) for name, weight in weights.items()]
        self._turns, self._seed = turns, seed
        self._paraphrases, self._distractors = paraphrases or {}, list(distractors)

    @property
    def turns(self) -> int:
        return self._turns

    def examples(self, epoch: int) -> Sequence[Example]:
        found: list[Example] = []
        for name, source, share in self._sources:
            rng = random.Random(f"mixture {self._seed} {epoch} {name}")
            wanted = round(share * self._turns)
            own: list[Example] = []
            for number, dialogue in enumerate(source.dialogues(epoch, wanted, rng)):
                varied, names = vary(
                    dialogue,
                    source.variation,
                    random.Random(f"vary {self._seed} {epoch} {name} {number}"),
                    paraphrases=self._paraphrases,
                    distractors=self._distractors,
                )
                assert varied.schema is not None
                pool = source.pool.renamed(names)
                own += [
                    shown_with(example, rng.choice(source.variation.histories))
                    for example in examples_of(varied, varied.schema, pool, source.own_states)
                ]
            found += own[:wanted]
        missing = self._turns - len(found)  # shares that were rounded down
        return [*found, *found[:missing]] if missing >= 0 else found[: self._turns]


def vary(
    dialogue: Dialogue,
    variation: Variation,
    rng: random.Random,
    *,
    paraphrases: Paraphrases,
    distractors: Sequence[Schema],
) -> tuple[Dialogue, Mapping[str, str]]:
    """The dialogue under a varied schema, with the labels that follow from it, and what its slots are called there."""
    assert dialogue.schema is not None
    renamed: dict[str, Slot] = {str(slot): slot for slot in dialogue.schema.slots}
    for service in dialogue.schema.domains:
        variants = paraphrases.get(service, ())
        if variants and rng.random() < variation.paraphrase:
            renamed |= _variant(dialogue.schema, service, rng.choice(variants))
    filled = {slot for turn in dialogue.turns for slot in turn.state or ()}
    if rng.random() < variation.drop:
        renamed = {old: new for old, new in renamed.items() if old in filled or rng.random() < 0.5}
    slots = list(renamed.values())
    if distractors and rng.random() < variation.distract:
        slots += _others(slots, distractors, rng)
    if rng.random() < variation.undescribed:
        slots = [Slot.of(slot.domain, slot.name, values=slot.values) for slot in slots]
    if not slots:
        return dialogue, {str(slot): str(slot) for slot in dialogue.schema.slots}
    different = [pair for pair in dialogue.schema.different if all(slot in renamed for slot in pair)]
    schema = Schema(
        slots,
        different=[[str(renamed[slot]) for slot in pair] for pair in different],
        text_rules=dialogue.schema.text_rules,
    )
    turns = tuple(_renamed(turn, renamed) for turn in dialogue.turns)
    return replace(dialogue, turns=turns, schema=schema), {old: str(new) for old, new in renamed.items()}


def shown_with(example: Example, history: int) -> Example:
    """The example with this many turns before it, or with as many more as have the values that it writes: a model must
    not learn to make up what it cannot read."""
    known = {None, DONTCARE, *example.before.values()}
    new = [
        str(value).casefold()
        for slot, value in example.after.items()
        if value not in known and example.schema[slot].values is None
    ]
    for most in range(history, max(history, LONGEST) + 1):
        shown = replace(example, history=most)
        said = " ".join(f"{turn.system} {turn.user}" for turn in shown.read(most)).casefold()
        if all(value in said for value in new):
            return shown
    return replace(example, history=history)  # no history has them: they are said in other words


def _variant(schema: Schema, service: str, variant: Mapping[str, Slot]) -> dict[str, Slot]:
    """The slots of a service under the names of a variant, by their old names."""
    return {str(slot): variant[slot.name] for slot in schema.slots if slot.domain == service and slot.name in variant}


def _others(slots: Sequence[Slot], distractors: Sequence[Schema], rng: random.Random) -> list[Slot]:
    """The slots of one to three other domains, none of which is called like another. Two in three are the likeliest of
    a few to be confused: a second slot for a day teaches more than one for a colour."""
    taken, found = {_stem(slot.domain) for slot in slots}, list[Slot]()
    own = _words(slots)
    for _ in range(rng.choice((1, 1, 2, 3))):
        few = rng.sample(distractors, min(LIKELY, len(distractors)) if rng.random() < 2 / 3 else 1)
        other = max(few, key=lambda schema: len(own & _words(schema.slots)))
        domain = rng.choice(other.domains)
        if _stem(domain) not in taken:
            taken.add(_stem(domain))
            found += [slot for slot in other.slots if slot.domain == domain]
    return found


def _stem(domain: str) -> str:
    """What a domain is about: Music_2, Music_1 and music are about the same, and one of them would be wrongly empty."""
    return re.sub(r"[_\s]*\d+$", "", domain).replace("_", " ").lower().removesuffix("s")


def _words(slots: Sequence[Slot]) -> set[str]:
    """The words of the slots' names, and their listed values."""
    return {word for slot in slots for word in (*slot.name.replace("_", " ").split(), *(slot.values or ()))}


def _renamed(turn: Turn, renamed: Mapping[str, Slot]) -> Turn:
    if turn.state is None:
        return turn
    state = State({str(renamed[slot]): value for slot, value in turn.state.items() if slot in renamed})
    domains = {old.split("-", 1)[0]: new.domain for old, new in renamed.items()}
    return replace(turn, state=state, domain=domains.get(turn.domain or "", turn.domain))


# A mixture by the names of its corpora

HISTORIES = (1, 2, 2, 3, 5)
LONGEST = 5
"""Most turns that an example is shown with to have its values in sight."""
OWN = Variation(drop=0.1, distract=0.1, undescribed=0.02, histories=(3, 5, 5))
"""For the corpus itself: mostly as it is."""
GUIDED = Variation(paraphrase=0.8, drop=0.3, distract=0.4, undescribed=0.1, histories=HISTORIES)
"""For corpora whose dialogues have schemas of their own."""
MADE = Variation(drop=0.2, distract=0.5, histories=HISTORIES)
"""For made dialogues, whose descriptions vary already."""
DISTRACTING = 400
"""Made schemas that other slots are drawn from."""
LIKELY = 8
"""Schemas that are drawn; the most similar one is taken."""


def read_mixture(task: Task, settings: Settings, own_states: OwnStates | None = None) -> Mixture:
    """The corpus of a task, with the memories of an earlier model, together with those of `settings.mix`."""
    shares = parse_mix(settings.mix)
    written = load_domains("train")
    sources: dict[str, DialogueSource] = {"": Existing(task.dialogues, task.schema, OWN, own_states)}
    distractors = [task.schema, *(_made(f"distract-{number}", written) for number in range(DISTRACTING))]
    paraphrases: Paraphrases = {}
    for name in shares:
        if name == "domains":
            sources[name] = Made(lambda key: made_dialogue(key, written), MADE, seed=settings.seed)
            continue
        opened = open_part(name, "train")
        guided = any(dialogue.schema for dialogue in opened.dialogues)
        sources[name] = Existing(opened.dialogues, None if guided else schema_for([opened]), GUIDED if guided else OWN)
        own = {dialogue.schema.id: dialogue.schema for dialogue in opened.dialogues if dialogue.schema}
        distractors += own.values()
        if guided and settings.paraphrases is not None:
            paraphrases = {**paraphrases, **read_paraphrases(settings.paraphrases, name)}
    turns = settings.mix_turns or count_turns(task.dialogues)
    rest = {"": 1 - sum(shares.values())} if sum(shares.values()) < 1 else {}
    return Mixture(
        sources, rest | shares, turns=turns, paraphrases=paraphrases, distractors=distractors, seed=settings.seed
    )


def _made(name: str, written: Sequence[Domain]) -> Schema:
    schema = made_dialogue(name, written).schema
    assert schema is not None
    return schema


def parse_mix(text: str) -> dict[str, float]:
    """
    >>> parse_mix("sgd-train.zip=0.3, domains=0.4")
    {'sgd-train.zip': 0.3, 'domains': 0.4}
    """
    shares: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, share = part.rpartition("=")
        try:
            shares[name] = float(share) if equals and name else -1.0
        except ValueError:
            shares[name] = -1.0
        if not 0 < shares[name] <= 1:
            raise InputError(f'A mixture is written as CORPUS=SHARE,CORPUS=SHARE with shares up to 1, not as "{part}".')
    if sum(shares.values()) > 1 + 1e-9:
        raise InputError(f"The shares of a mixture are at most 1 together, not {sum(shares.values()):g}.")
    return shares
