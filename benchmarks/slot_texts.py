#!/usr/bin/env python
"""What the words of a schema are worth: the same dialogues under schemas written in other ways.

    python benchmarks/slot_texts.py domains

Nothing is trained. The dialogues, their labels and the tracker stay the same; only the names, the descriptions and the
lists of the slots change. docs/schemas.md has the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated

import typer

from somdst.cli import options
from somdst.cli.main import run_alone
from somdst.cli.output import print_json, print_tables, working
from somdst.corpora import open_corpus
from somdst.errors import InputError
from somdst.evaluate.metrics import measure
from somdst.evaluate.run import run
from somdst.evaluate.tables import Table
from somdst.memory.dialogue import Dialogue
from somdst.memory.schema import Schema, Slot
from somdst.memory.state import State
from somdst.model.folder import open_predictor

Change = Callable[[int, Slot], Slot]
"""The slot at this place of a schema, written in another way."""


def _slot(slot: Slot, *, name: str | None = None, description: str | None = None, listed: bool = True) -> Slot:
    words = slot.description if description is None else description
    return Slot.of(slot.domain, name or slot.name, description=words, values=slot.values if listed else None)


WAYS: dict[str, Change] = {
    "as written": lambda _, slot: slot,
    "names with underscores": lambda _, slot: _slot(slot, name=slot.name.replace(" ", "_")),
    "no descriptions": lambda _, slot: _slot(slot, description=""),
    "no lists": lambda _, slot: _slot(slot, listed=False),
    "no descriptions, no lists": lambda _, slot: _slot(slot, description="", listed=False),
    "names say nothing (field 1)": lambda j, slot: _slot(slot, name=f"field {j + 1}"),
    "names say nothing, no descriptions": lambda j, slot: _slot(slot, name=f"field {j + 1}", description=""),
    "wordy descriptions": lambda _, slot: _slot(
        slot, description=f"this field of the form holds, if the customer has told us so, the {slot.description}"
    ),
}


def main(
    corpus: Annotated[str, typer.Argument(help="Dialogues with schemas of their own, such as domains.")] = "domains",
    model: options.ModelOption = "default",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first dialogues of dev.")] = None,
    as_json: options.JsonOption = False,
) -> None:
    dialogues = [d for d in open_corpus(corpus, split="dev").dialogues if d.schema is not None][:limit]
    if not dialogues:
        raise InputError(f"{corpus} has no dialogue with a schema of its own.")
    predictor = open_predictor(model)
    found: dict[str, tuple[float, float]] = {}
    with working("tracking") as show:
        for number, (way, change) in enumerate(WAYS.items(), start=1):
            show(f"{way}, {number} of {len(WAYS)}")
            runs = list(run(predictor, [rewritten(dialogue, change) for dialogue in dialogues]))
            metrics = measure(runs, schema=Schema.multiwoz(), operation_set=predictor.operation_set)
            found[way] = metrics.turns_right, metrics.empty_state.turns_right
    if as_json:
        print_json({"model": predictor.model_id, "dialogues": len(dialogues), "turns_right": found})
    else:
        print_tables([table(found, dialogues)])


def table(found: dict[str, tuple[float, float]], dialogues: Sequence[Dialogue]) -> Table:
    first = next(iter(found.values()))[0]
    rows = tuple((way, round(right, 1), round(right - first, 1)) for way, (right, _) in found.items())
    empty = next(iter(found.values()))[1]
    note = f"Of {len(dialogues)} dialogues; a tracker that never writes anything: {empty:.1f}."
    return Table("slot texts", "What the words of a schema are worth", ("schema", "turns right, %", "lost"), rows, note)


def rewritten(dialogue: Dialogue, change: Change) -> Dialogue:
    """The same dialogue under a schema written in another way."""
    assert dialogue.schema is not None
    old = dialogue.schema.slots
    new = {str(slot): change(j, slot) for j, slot in enumerate(old)}
    turns = tuple(
        replace(turn, state=State({str(new[slot]): value for slot, value in (turn.state or State()).items()}))
        for turn in dialogue.turns
    )
    return replace(dialogue, turns=turns, schema=Schema(list(new.values())))


if __name__ == "__main__":
    run_alone(main)
