"""`Trial`: a model and the dialogues to measure it on, opened together and checked for whether they fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from somdst.corpora import Corpus, Split, open_corpus
from somdst.corpora.opening import check_fit, has_parts, open_parts, outside_schema, schema_for
from somdst.corpora.statistics import joint_schema
from somdst.errors import CorpusError, NoSplit
from somdst.evaluate.tables import counted
from somdst.memory.dialogue import Dialogue, count_turns
from somdst.memory.schema import Schema
from somdst.model import folder
from somdst.model.prediction import Predictor
from somdst.tracking.step import reads_schemas
from somdst.tracking.tracker import Tracker


@dataclass(frozen=True, slots=True)
class Trial:
    predictor: Predictor
    schema: Schema
    """The slots to track: a user's own, those of the dialogues where each has a schema, or the model's."""
    corpus: str
    """The corpus's name, with the part that is measured, and how much of it if not all."""
    dialogues: tuple[Dialogue, ...]
    dev_by_default: bool
    """Nobody said which part to measure, so dev was taken: never what a model was trained on."""
    outside: Mapping[str, int]
    """Labelled slots that are not tracked, with their number of turns. They are not counted."""

    @property
    def turns(self) -> int:
        return count_turns(self.dialogues)


def open_trial(
    model: str,
    corpus: str,
    *,
    split: Split | None = None,
    limit: int | None = None,
    engine: str = "auto",
    precision: str = "int8",
    schema: Path | None = None,
) -> Trial:
    """Open the corpus first, because it is read faster, then the model."""
    read, part = _open_part(corpus, split)
    dialogues = read.dialogues[:limit]
    predictor = folder.open_predictor(model, engine=engine, precision=precision)
    if schema or not reads_schemas(predictor):  # then every dialogue is tracked with the same slots
        dialogues = tuple(replace(dialogue, schema=None) for dialogue in dialogues)
        slots = Tracker(predictor, schema=Schema.load(schema) if schema else None).schema
    else:
        slots = _slots(read, dialogues, predictor.schema)
    check_fit(dialogues, slots)
    return Trial(
        predictor=predictor,
        schema=slots,
        corpus=_name(read, part, measured=len(dialogues)),
        dialogues=dialogues,
        dev_by_default=part is not None and split is None,
        outside=outside_schema(dialogues, slots),
    )


def _slots(read: Corpus, dialogues: Sequence[Dialogue], model: Schema) -> Schema:
    """What a model that reads schemas tracks: the slots of the dialogues, of the format, or else of the labels. The
    model's own schema is taken where it has all of them, because it has descriptions and closed lists."""
    if any(dialogue.schema for dialogue in dialogues):
        return joint_schema(dialogues)
    return schema_for([read]) if read.schema or outside_schema(dialogues, model) else model


def _name(read: Corpus, part: Split | None, *, measured: int) -> str:
    """What is measured, said so that nobody takes a few dialogues for the whole."""
    name = f"{read.name} ({part})" if part else read.name
    total = len(read.dialogues)
    return name if measured == total else f"{name}, the first {measured:,} of {counted(total, 'dialogue')}"


def _open_part(corpus: str, split: Split | None) -> tuple[Corpus, Split | None]:
    """The corpus and the part of it: dev if it has parts and none is asked for."""
    if split is None and has_parts(corpus):
        try:
            return open_corpus(corpus, split="dev"), "dev"
        except NoSplit:
            parts = open_parts(corpus)
            if len(parts) > 1:  # one of them is train, which nobody means
                names = " or ".join(f"--split {part.split}" for part in parts)
                raise CorpusError(f"{corpus} has no dev part: say which part is meant with {names}.") from None
            return parts[0].corpus, None
    return open_corpus(corpus, split=split), split
