"""`made_dialogue`: an endless number of labelled conversations about the written domains, each with its own schema.

A conversation is an opening and a sequence of acts (`acts.py`), about one domain or two. Every sentence is made
together with what it changes, so that labels are right by construction. Everything random is seeded by the dialogue's
name. `domains_named` is the corpus "domains" of `open_corpus`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

from somdst.corpora import acts, moves, prompts
from somdst.corpora.corpus import Corpus, Split
from somdst.corpora.domains import Domain, Part, load_domains
from somdst.corpora.rewriting import rewritten, verbatim
from somdst.corpora.talk import Piece, Talk
from somdst.errors import CorpusError, NoSplit
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.schema import Schema, Slot
from somdst.memory.state import State

_REWRITTEN = 0.5
_TWO_DOMAINS = 0.2
_LIST_LEFT_OUT = 1 / 6
_NO_DESCRIPTIONS = 0.1
_UNDERSCORES = 1 / 7
_MADE = 2000
_MADE_FOR_DEV = 300
_ARTICLE = re.compile(
    r"(?:an?|the|my|our|his|her|your) "
    r"(?!(?:week|month|year|day|hour|couple|dozen|hundred|thousand|few|half|pair|minute|night|fortnight|quarter|single)\b)"
)
"""Not part of a value, except where it is a number: "a stapler" is a stapler, but "a week" is a week."""


def made_dialogue(name: str, domains: Sequence[Domain], *, vary: bool = True) -> Dialogue:
    """The dialogue of this name; the same name and domains give the same dialogue.

    With `vary`, every second one about a domain that has words to make dialogues of, and all about the others, are
    written dialogues, half of them with other values. One in seven has names with underscores, as programmers write
    them.
    """
    rng = Random(name)  # seeding with text is the same on every platform and version of Python
    topics = [rng.choice(domains if vary else [domain for domain in domains if domain.has_words])]
    if vary and topics[0].dialogues and (rng.random() < _REWRITTEN or not topics[0].has_words):
        dialogue = _dialogue(name, topics, rewritten(topics[0], rng), made_schema(topics, rng, frozenset()))
    else:
        dialogue = _new_dialogue(name, topics, domains, rng)
    return _with_underscores(dialogue) if vary and rng.random() < _UNDERSCORES else dialogue


def _new_dialogue(name: str, topics: list[Domain], domains: Sequence[Domain], rng: Random) -> Dialogue:
    if len(domains) > 1 and rng.random() < _TWO_DOMAINS:
        topics.append(_second_topic(topics[0], domains, rng))
    lists = [field.key for domain in topics for field in domain.fields if field.kind == "list"]
    opened = frozenset(key for key in lists if rng.random() < _LIST_LEFT_OUT)
    talk = Talk(rng, topics, opened)
    _converse(talk, topics)
    return _dialogue(name, topics, tuple(talk.turns), made_schema(topics, rng, opened))


def _dialogue(name: str, topics: Sequence[Domain], turns: tuple[Turn, ...], schema: Schema) -> Dialogue:
    labelled = (replace(turn, state=_without_articles(turn.state or State(), schema)) for turn in turns)
    return Dialogue(name, tuple(labelled), tuple(domain.name for domain in topics), schema)


def _without_articles(state: State, schema: Schema) -> State:
    return State(
        {
            slot: value[_article(value) :] if isinstance(value, str) and schema[slot].values is None else value
            for slot, value in state.items()
        }
    )


def _article(value: str) -> int:
    """How many characters of a value are an article."""
    found = _ARTICLE.match(value)
    return found.end() if found else 0


def _with_underscores(dialogue: Dialogue) -> Dialogue:
    """The same with "pickup_day" in place of "pickup day", in the schema and in the states."""
    assert dialogue.schema is not None

    def name(text: str) -> str:
        return text.replace(" ", "_")

    slots = [
        Slot.of(name(slot.domain), name(slot.name), description=slot.description, values=slot.values)
        for slot in dialogue.schema.slots
    ]
    turns = tuple(
        replace(
            turn,
            state=State({name(key): value for key, value in (turn.state or State()).items()}),
            domain=name(turn.domain or ""),
        )
        for turn in dialogue.turns
    )
    return replace(dialogue, turns=turns, goal=tuple(map(name, dialogue.goal or ())), schema=Schema(slots))


def _second_topic(first: Domain, domains: Sequence[Domain], rng: Random) -> Domain:
    """Often one that has a day or an address too, so that "the same day" can be said."""
    types = {field.type for field in first.fields} & moves.SAME_NOUNS.keys()
    others = [domain for domain in domains if domain is not first and domain.has_words]
    related = [domain for domain in others if types & {field.type for field in domain.fields}]
    return rng.choice(related if related and rng.random() < 0.75 else others)


def domains_named(name: str, *, split: Split | None = None) -> Corpus:
    """The corpus called "domains", or "domains:500": the written dialogues and 500 made ones; dev always has 300.

    >>> corpus = domains_named("domains:5", split="train")
    >>> corpus.name, corpus.dialogues[-1].id
    ('domains:5 train', 'domains-train-00004')
    """
    number = name.partition(":")[2] or str(_MADE)
    if not (number.isascii() and number.isdigit() and int(number) <= 10_000_000):
        raise CorpusError(f'"{name}" should be "domains", or "domains:500" for 500 made dialogues, up to ten million.')
    part: Part = "dev" if split == "dev" else "train"
    if split == "test":
        raise NoSplit("The written domains have no test split: measure on dev, whose domains are in no training.")
    domains = load_domains(part)
    size = _MADE_FOR_DEV if part == "dev" else int(number)
    made = (made_dialogue(f"domains-{part}-{i:05}", domains, vary=part == "train") for i in range(size))
    return Corpus(name if split is None else f"{name} {split}", "written domains", (*written_dialogues(domains), *made))


def written_dialogues(domains: Sequence[Domain]) -> Iterator[Dialogue]:
    """The dialogues that people wrote, as they are."""
    for domain in domains:
        for number, turns in enumerate(domain.dialogues):
            name = f"domains-{domain.name}-{number}"
            schema = made_schema([domain], Random(name), frozenset())
            yield _dialogue(name, [domain], verbatim(domain, turns), schema)


def made_schema(domains: Sequence[Domain], rng: Random, opened: frozenset[str]) -> Schema:
    """The slots of the domains, described in one of their ways or not at all; `opened` lists are left out."""
    described = rng.random() >= _NO_DESCRIPTIONS
    slots = []
    for domain in domains:
        for field in domain.fields:
            description = rng.choice(field.descriptions)
            closed = field.kind != "open" and field.key not in opened
            slots.append(
                Slot.of(
                    domain.name,
                    field.name,
                    description=description if described else "",
                    values=tuple(field.values) if closed else None,
                )
            )
    return Schema(slots)


def _converse(talk: Talk, topics: Sequence[Domain]) -> None:
    turns = talk.rng.choices(range(3, 10), (3, 5, 6, 5, 4, 3, 2))[0]
    mixed = len(topics) > 1 and talk.chance(0.3)
    talk.say("", _opening(talk))
    if mixed:
        talk.fields = talk.all_fields
    closing = talk.chance(0.4)
    while len(talk.turns) < turns - closing:
        if len(topics) > 1 and talk.domain is topics[0] and len(talk.turns) >= turns // 2:
            _switch(talk, topics[1], mixed=mixed)
        elif (same := moves.referring(talk)) and talk.chance(0.4):
            acts.elicit(talk, talk.rng.choice(same))
        elif talk.waiting and talk.chance(0.6):
            acts.elicit(talk, talk.waiting)
        else:
            talk.rng.choices(list(acts.ACTS), list(acts.ACTS.values()))[0](talk)
    if closing:
        acts.close(talk)


def _switch(talk: Talk, domain: Domain, *, mixed: bool) -> None:
    talk.domain, talk.fields = domain, talk.all_fields if mixed else domain.fields
    talk.waiting = None
    system = prompts.prompt(talk)
    piece = _opening(talk)
    talk.say(system, Piece(f"{talk.phrase('switch')} {piece.text}", piece.changes))


def _opening(talk: Talk) -> Piece:
    way = talk.rng.random()
    line = talk.rng.choice(talk.domain.openings)
    if way < (0.3 if talk.turns else 0.42) and (piece := moves.request(talk)):
        if talk.chance(0.15):
            end = "" if line.endswith(("?", "!", ".")) else talk.rng.choice((".", ",", " -", "..."))
            return Piece(f"{line}{end} {piece.text}", piece.changes)
        said = [field for field in talk.fields if field.key in piece.changes]
        more = moves.tell(talk, most=1, but=said) if talk.chance(0.12) else None
        return talk.join(piece, more) if more else piece
    if way < (0.5 if talk.turns else 0.68) or (way > 0.95 and not talk.turns):
        return Piece(line, {})
    told = (moves.refer(talk) if talk.chance(0.6) else None) or moves.tell(talk, most=3)
    if told is None or way > 0.92:
        return told or Piece(line, {})
    if line.endswith(("?", "!", ".")):
        link = " "
    else:
        link = talk.rng.choice((", ", ". ", " - ", ": ", ", ", ". ", "... ", "; "))
    text = (
        f"{told.text}{talk.rng.choice(('. ', ' - ', '... '))}{line}"
        if talk.chance(0.12)
        else f"{line}{link}{told.text}"
    )
    return Piece(text, told.changes)
