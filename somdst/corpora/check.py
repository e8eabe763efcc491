"""Checks a user's own corpus before a model is trained on it: what is wrong, what is suspicious, and where.

HARM is what a model cannot learn or learns wrongly: a slot outside the schema, a value outside a closed list, a state
that no operation can write, a turn without a state, a line that cannot be read. SUSPICIOUS is often a slip and
sometimes right: a person has to look. Whether inputs are too long depends on a tokenizer: `check` is given an
`InputCheck` for that (`lengths.py`). Nothing is repaired here.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from somdst.corpora.corpus import Corpus, Dropped, Split, split_in
from somdst.corpora.findings import Finding, Findings, Kind, Place
from somdst.corpora.jsonlines import read_lines
from somdst.corpora.opening import open_parts, schema_for
from somdst.corpora.spelling import two_spellings
from somdst.corpora.statistics import joint_schema
from somdst.errors import CorpusError, SchemaError, did_you_mean
from somdst.files import base_name
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.operations import FOUR, OperationSet
from somdst.memory.schema import Schema, TextRules
from somdst.memory.state import DONTCARE, State, Value
from somdst.model.mentions import SAID_OF_ANYTHING
from somdst.model.prediction import TurnInput
from somdst.model.text import normalise

NULL_WORDS = frozenset({"none", "null", "nil", "n/a", "na", "unknown", "not mentioned", "not given", "?", "-"})
ANY_WORDS = frozenset({"dont care", "don't care", "do not care", "doesn't matter", "any", "anything", "no preference"})


class Problem(NamedTuple):
    kind: Kind
    message: str
    slot: str | None = None


class InputCheck(Protocol):
    """Reports what of a turn does not fit into a model."""

    def __call__(self, input: TurnInput, values: dict[str, Value | None]) -> Iterable[Problem]: ...


class Source(NamedTuple):
    """A dialogue with its place, or why it cannot be read or was left out."""

    place: Place
    dialogue: Dialogue | CorpusError | Dropped


def open_to_check(
    path: str, *, split: Split | None = None, schema: str | None = None
) -> tuple[Iterator[Source], Schema]:
    """The dialogues of a corpus with their places, and the schema to check them against.

    JSON lines are read line by line, so that a bad line is a finding. The slots that occur are what is to be checked,
    so a schema has to be given unless each dialogue has its own. A schema that is given counts for all dialogues.
    """
    files = _json_lines_files(Path(path), split)
    if files:
        slots = schema_for([], given=schema) if schema else _own_schemas(files)
        sources = _lines_of(files)
    else:
        corpora = [part.corpus for part in open_parts(path, split=split)]
        slots = schema_for(corpora, given=schema)
        sources = _dialogues_of(path, corpora)
    return (map(_without_schema, sources) if schema else sources), slots


def _own_schemas(files: Sequence[Path]) -> Schema:
    dialogues = [source.dialogue for source in _lines_of(files) if isinstance(source.dialogue, Dialogue)]
    if not dialogues or not all(dialogue.schema for dialogue in dialogues):
        raise SchemaError("JSON lines do not say which slots there should be: give a schema with --schema.")
    return joint_schema(dialogues)


def _without_schema(source: Source) -> Source:
    given = source.dialogue
    return source._replace(dialogue=replace(given, schema=None)) if isinstance(given, Dialogue) else source


def _json_lines_files(path: Path, split: Split | None) -> list[Path]:
    """The file itself if it is JSON lines, or those in a folder; nothing if the corpus has another format."""
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if base_name(file).endswith(".jsonl"))
        return [file for file in files if split in (None, split_in(file.name))]
    return [path] if path.is_file() and path.suffix != ".zip" and not base_name(path).endswith(".json") else []


def _lines_of(files: Sequence[Path]) -> Iterator[Source]:
    """Dialogues with their lines; a line that cannot be read is a source too."""
    for file in files:
        for number, dialogue in read_lines(file):
            yield Source(Place(str(file), number), dialogue)


def _dialogues_of(name: str, corpora: Sequence[Corpus]) -> Iterator[Source]:
    """Dialogues of a corpus that is not JSON lines: they have no line."""
    for corpus in corpora:
        yield from (Source(Place(name), dialogue) for dialogue in corpus.dialogues)
        yield from (Source(Place(name), dropped) for dropped in corpus.dropped)


@dataclass(slots=True)
class _Seen:
    """What is only known at the end: how often each value of a slot occurs, and where it occurs first."""

    values: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    first: dict[tuple[str, str], Place] = field(default_factory=dict)
    ids: dict[str, Place] = field(default_factory=dict)

    def add(self, slot: str, value: Value, place: Place) -> None:
        self.values[slot][str(value)] += 1
        self.first.setdefault((slot, str(value)), place)


def check(
    sources: Iterable[Source],
    *,
    schema: Schema,
    normalisation: TextRules = "lowercase",
    operation_set: OperationSet = FOUR,
    input_check: InputCheck | None = None,
) -> Findings:
    """Check all dialogues; `sources` is read once, so it may come straight from a file.

    A dialogue with a schema of its own is checked against that one. `schema` is that of the others, and of the corpus.
    """
    seen = _Seen()
    findings: list[Finding] = []
    checker = _Checker(schema, normalisation, operation_set, input_check, seen)
    dialogues = turns = 0
    files: set[str] = set()
    for place, dialogue in sources:
        files.add(place.file)
        if isinstance(dialogue, CorpusError):
            message = str(dialogue).replace(f"{place.file}, line {place.line}", "this line", 1)  # the place says it
            findings.append(Finding(Kind.UNREADABLE, place, message))
            continue
        if isinstance(dialogue, Dropped):
            findings.append(Finding(Kind.LEFT_OUT, place._replace(dialogue=dialogue.id), dialogue.reason))
            continue
        dialogues, turns = dialogues + 1, turns + len(dialogue.turns)
        own = replace(checker, schema=dialogue.schema) if dialogue.schema else checker
        findings += own.dialogue(dialogue, place)
    findings += checker.whole(Place(files.pop() if len(files) == 1 else "the corpus"))
    return Findings(dialogues, turns, tuple(findings))


@dataclass(frozen=True, slots=True)
class _Checker:
    schema: Schema
    normalisation: TextRules
    operation_set: OperationSet
    input_check: InputCheck | None
    seen: _Seen

    def dialogue(self, dialogue: Dialogue, place: Place) -> Iterator[Finding]:
        place = place._replace(dialogue=dialogue.id)
        if (first := self.seen.ids.setdefault(dialogue.id, place)) is not place:
            yield Finding(Kind.SAME_ID, place, f'The id "{dialogue.id}" was already used at {first}.')
        text = [normalise(f"{turn.system} ; {turn.user}", self.normalisation) for turn in dialogue.turns]
        before, dropped, previous = State(), dict[str, Value](), None
        for number, turn in enumerate(dialogue.turns, start=1):
            here = place._replace(turn=number)
            after = turn.state if turn.state is not None else before
            changed = {slot: value for slot, value in after.items() if before.get(slot) != value}
            for slot, value in changed.items():
                self.seen.add(slot, value, here)
            problems = [
                *self._turn(turn),
                *(problem for slot, value in changed.items() for problem in self._value(slot, value)),
                *self._same(changed, after),
                *_returns(changed, dropped),
                *self._nowhere(changed, before, text, number),
                *self._unreachable(before, after),
                *self._input(TurnInput(previous, turn, before, schema=dialogue.schema), after),
            ]
            yield from (Finding(problem.kind, here, problem.message, problem.slot) for problem in problems)
            dropped |= {slot: value for slot, value in before.items() if slot not in after}
            before, previous = after, turn

    def _turn(self, turn: Turn) -> Iterator[Problem]:
        if turn.state is None:
            yield Problem(
                Kind.UNLABELLED, 'The turn has no "state": write the whole state after it, {} if it is empty.'
            )
        if not turn.user.strip():
            yield Problem(Kind.NO_TEXT, "The user says nothing here.")
        if turn.domain is not None and turn.domain not in self.schema.domains:
            hint = did_you_mean(turn.domain, self.schema.domains)
            yield Problem(Kind.UNKNOWN_DOMAIN, f'The turn\'s domain "{turn.domain}" is not in the schema.{hint}')

    def _value(self, slot: str, value: Value) -> Iterator[Problem]:
        if slot not in self.schema:
            hint = did_you_mean(slot, self.schema)
            yield Problem(Kind.UNKNOWN_SLOT, f'The slot "{slot}" is not in the schema.{hint}', slot)
            return
        allowed = self.schema[slot].values
        if value is not DONTCARE and allowed is not None and value not in allowed:
            hint = did_you_mean(str(value), allowed)
            yield Problem(Kind.CLOSED_LIST, f'"{value}" is not in the list of values of "{slot}".{hint}', slot)
        elif str(value).lower() in NULL_WORDS and not allowed:
            advice = "leave the slot out of the state if nothing is known"
            yield Problem(Kind.NULL_WORD, f'"{slot}" is "{value}": {advice}.', slot)
        elif str(value).lower() in ANY_WORDS and not allowed:
            yield Problem(
                Kind.NULL_WORD, f'"{slot}" is "{value}": write "dontcare" if the user has no preference.', slot
            )

    def _same(self, changed: dict[str, Value], after: State) -> Iterator[Problem]:
        for pair in self.schema.different:
            one, other = (after.get(slot) for slot in pair)
            if isinstance(one, str) and one == other and not changed.keys().isdisjoint(pair):
                message = f'"{pair[0]}" and "{pair[1]}" are both "{one}", and the schema says that they are different.'
                yield Problem(Kind.SAME_VALUE, message, pair[0])

    def _nowhere(self, changed: dict[str, Value], before: State, text: list[str], number: int) -> Iterator[Problem]:
        for slot, value in changed.items():
            said = normalise(str(value), self.normalisation)
            if value is DONTCARE or said in SAID_OF_ANYTHING or slot not in self.schema:
                continue
            turns = [n for n, words in enumerate(text, start=1) if _says(words, said)]
            if any(n <= number for n in turns) or value in before.values():
                continue
            later = min(turns, default=None)
            where = "nowhere in the dialogue" if later is None else f"nowhere before turn {later}"
            yield Problem(Kind.NOWHERE, f'"{slot}" becomes "{value}", which is said {where}.', slot)

    def _unreachable(self, before: State, after: State) -> Iterator[Problem]:
        """Applying the operations, with the values that a model can write, has to give the state."""
        operations, values = self.operation_set.derive(before, after)
        writable = {slot: self._writable(slot, value) for slot, value in values.items()}
        reached = self.operation_set.apply(before, operations, writable)
        for slot in values:
            if slot in self.schema and reached.get(slot) != values[slot]:
                can = f'only "{writable[slot]}" can be written' if writable[slot] else "an empty value is never written"
                yield Problem(Kind.UNREACHABLE, f'"{slot}" cannot become "{values[slot]}": {can}.', slot)

    def _writable(self, slot: str, value: Value | None) -> Value | None:
        if value is None or value is DONTCARE:
            return value
        listed = self.schema[slot].values if slot in self.schema else None
        if listed and value in listed:
            return value  # chosen from the list, as it is written there
        return normalise(value, self.normalisation) or None

    def _input(self, input: TurnInput, after: State) -> Iterable[Problem]:
        if self.input_check is None:
            return ()
        values = self.operation_set.derive(input.state, after).values
        return self.input_check(input, {slot: value for slot, value in values.items() if slot in self.schema})

    def whole(self, place: Place) -> Iterator[Finding]:
        """What only the whole corpus shows."""
        for slot in self.schema:
            if slot not in self.seen.values:
                yield Finding(Kind.NEVER_FILLED, place, f'No dialogue fills "{slot}": a model cannot learn it.', slot)
        for slot in sorted(self.seen.values):
            counts, allowed = self.seen.values[slot], (slot in self.schema and self.schema[slot].values) or ()
            for rare, common in two_spellings(counts):
                if rare not in allowed:
                    often = f"{counts[rare]} against {counts[common]}"
                    message = f'"{slot}" is "{rare}" here and "{common}" elsewhere ({often}): one value, two spellings?'
                    yield Finding(Kind.SPELLINGS, self.seen.first[slot, rare], message, slot)


def _says(text: str, value: str) -> bool:
    """Whether a value is in a text: a number as a word of its own, other values with any spacing.

    >>> _says("a guesthouse at 7:15", "guest house"), _says("a guesthouse at 7:15", "07:15"), _says("at 7:15", "15")
    (True, True, False)
    """
    if value[:1].isdigit():
        return re.search(rf"(?<![\w:.])0?{re.escape(value.lstrip('0'))}(?![\w:]|\.\d)", text) is not None
    return value in text or _SPACES.sub("", value) in _SPACES.sub("", text)


_SPACES = re.compile(r"[\s'-]+")


def _returns(changed: dict[str, Value], dropped: dict[str, Value]) -> Iterator[Problem]:
    """A slot that was dropped and is back with the same value: most often it was forgotten in between."""
    for slot, value in changed.items():
        if dropped.pop(slot, None) == value:
            message = f'"{slot}" is "{value}" again after it was dropped: was it forgotten in between?'
            yield Problem(Kind.RETURNS, message, slot)
