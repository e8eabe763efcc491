"""`Task`: the dialogues to learn from, the dialogues to evaluate on, and the schema; read and checked together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from somdst.corpora import Corpus, Split, open_corpus
from somdst.corpora.corpus import Dropped
from somdst.corpora.opening import check_fit, has_parts, open_part, outside_schema, schema_for
from somdst.errors import CorpusError, InputError, NoSplit, did_you_mean
from somdst.memory.dialogue import Dialogue
from somdst.memory.schema import Schema

Source = str | Path | Sequence[Dialogue]
"""A corpus by its path or name, or dialogues that are in memory."""


@dataclass(frozen=True, slots=True)
class Task:
    dialogues: tuple[Dialogue, ...]
    dev: tuple[Dialogue, ...]
    schema: Schema
    dropped: tuple[Dropped, ...] = ()
    """Dialogues of the corpus that are left out because they are damaged."""
    outside: Mapping[str, int] = field(default_factory=dict)
    """Labelled slots that are not in the schema, with their number of turns. They are not learned."""

    def first_dev(self, limit: int) -> tuple[Dialogue, ...]:
        """The first dialogues of dev; 0 takes all."""
        return self.dev[: limit or None]

    def require_dev(self) -> None:
        if not self.dev:
            raise InputError("Models are compared on dev: give a corpus with a dev part, or other dialogues as dev.")


def read_task(
    corpus: Source | Task,
    dev: Source | None = None,
    *,
    schema: Schema | str | Path | None = None,
    limit: int = 0,
    skip_unknown: bool = False,
) -> Task:
    """Read a corpus to learn from. Of a corpus with parts it is the train part, and dev is its dev part.

    Without a schema, the slots are those of the corpus. `limit` takes only the first dialogues to learn from.
    `skip_unknown` leaves out labelled slots that are not in the schema, instead of refusing them. A `Task` is used as
    it is.
    """
    if isinstance(corpus, Task):
        return corpus
    opened = _open(corpus, "train")
    evaluated = _own_dev(corpus) if dev is None else _open(dev, "dev").dialogues
    found = schema if isinstance(schema, Schema) else schema_for([opened], given=schema)
    dialogues = opened.dialogues[: limit or None]
    for dialogue in (*dialogues, *evaluated):
        if not dialogue.labelled:
            raise CorpusError(
                f"The dialogue {dialogue.id} has a turn without a state: training needs one at each turn."
            )
    outside = outside_schema(dialogues, found)
    _check_slots(dialogues, found, outside, skip_unknown=skip_unknown or schema is None)
    return Task(dialogues, evaluated, found, opened.dropped, outside)


def _own_dev(corpus: Source) -> tuple[Dialogue, ...]:
    """The dev part of a corpus with parts, if it has one."""
    if not isinstance(corpus, (str, Path)) or not has_parts(corpus):
        return ()
    try:
        return open_corpus(corpus, split="dev").dialogues
    except NoSplit:
        return ()


def _open(corpus: Source, split: Split) -> Corpus:
    if isinstance(corpus, (str, Path)):
        return open_part(corpus, split)
    return Corpus("dialogues", "dialogues in memory", tuple(corpus))


def _check_slots(
    dialogues: Sequence[Dialogue], schema: Schema, outside: Mapping[str, int], *, skip_unknown: bool
) -> None:
    """Refuse a schema that does not fit the corpus.

    If somebody wrote a schema, a slot that is not in it may be misspelled there, and would never be learned.
    """
    check_fit(dialogues, schema)
    for slot, turns in outside.items():
        if not skip_unknown:
            raise CorpusError(
                f'The corpus labels the slot "{slot}" in {turns:,} turns, and it is not in the schema.'
                f"{did_you_mean(slot, schema)} Correct one of them, or leave such slots out with --skip-unknown-slots."
            )
