"""What the tracking commands share: their options, opening a tracker, and reading dialogues from a file or stdin."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from somdst.errors import CorpusError

if TYPE_CHECKING:
    from somdst.memory.dialogue import Dialogue
    from somdst.tracking.tracker import Tracker

ModelOption = Annotated[
    str, typer.Option("--model", "-m", help="A model's folder, or `default` for the one that is built in.")
]
SchemaOption = Annotated[
    Path | None,
    typer.Option("--schema", help="A schema with fewer slots, or with closed lists of values.", show_default=False),
]
ThresholdOption = Annotated[
    float | None,
    typer.Option(
        "--threshold", min=0, max=1, help="Hold back writes less probable than this; by default the model's own.",
        show_default=False,
    ),
]  # fmt: skip
PrecisionOption = Annotated[str, typer.Option("--precision", help="int8, or float32.")]
ThreadsOption = Annotated[
    int | None,
    typer.Option("--threads", min=1, help="Threads of the model; by default one a core.", show_default=False),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, for programs.")]


def open_tracker(
    model: str,
    *,
    schema: Path | None = None,
    threshold: float | None = None,
    precision: str = "int8",
    threads: int | None = None,
) -> Tracker:
    from somdst.tracking.tracker import Tracker

    return Tracker.from_pretrained(model, schema=schema, threshold=threshold, precision=precision, threads=threads)


def print_json(data: dict[str, Any]) -> None:
    line = json.dumps(data, ensure_ascii=False, allow_nan=False)
    try:
        line.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:  # another encoding, or half a character: JSON's own escapes say the same
        line = json.dumps(data, allow_nan=False)
    typer.echo(line)


def notice(text: str) -> None:
    typer.echo(text, err=True)


_JSON = re.compile(r'\s*(\{\s*["}]|\[\s*[{\]])')
"""How an object, or a list of them, begins; "[SLOT] please" is something that a user said."""


def read_input(path: str) -> list[Dialogue]:
    """Dialogues from a file, or from stdin where `path` is "-".

    JSON lines, one JSON dialogue, or a list of them; otherwise plain text, a line being what the user said ("user: " is
    optional), after an optional line "system: ..." with what the system said before.
    """
    where = "standard input" if path == "-" else path
    text = _read(path)
    if not text.strip():
        raise CorpusError(f"{where} is empty: expected dialogues as JSON, or a line for each thing the user said.")
    return _from_json(text, where) if _JSON.match(text) else [_from_lines(text)]


def _read(path: str) -> str:
    if path == "-":
        return sys.stdin.buffer.read().decode("utf-8", "replace") if hasattr(sys.stdin, "buffer") else sys.stdin.read()
    from somdst.corpora.reading import reading

    try:
        with reading(Path(path)) as stream:
            return stream.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path} is not UTF-8 text: save it as UTF-8.") from error


def _from_json(text: str, where: str) -> list[Dialogue]:
    from somdst.bulk.annotating import check_dialogue
    from somdst.corpora.jsonlines import dialogue_from_json
    from somdst.corpora.reading import parse_json

    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):  # then it is JSON lines, or the line that is wrong will say so
        lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
        items = [(f"{where}, line {number}", parse_json(line.encode("utf-8", "replace"), f"{where}, line {number}"))
                 for number, line in lines]  # fmt: skip
    else:
        found = whole if isinstance(whole, list) else [whole]
        items = [(f"{where}, dialogue {number}", item) for number, item in enumerate(found, start=1)]
    dialogues: list[Dialogue] = []
    for number, (place, item) in enumerate(items, start=1):
        named = {"id": f"dialogue {number}", **item} if isinstance(item, dict) else item
        dialogue = dialogue_from_json(named, where=place)
        check_dialogue(dialogue, where=place)
        dialogues.append(dialogue)
    if not dialogues:
        raise CorpusError(f"{where} holds an empty list: expected at least one dialogue.")
    return dialogues


def _from_lines(text: str) -> Dialogue:
    from somdst.bulk.annotating import check_dialogue
    from somdst.memory.dialogue import Dialogue, Turn

    turns: list[Turn] = []
    system = ""
    for line in filter(None, map(str.strip, text.split("\n"))):
        who, colon, said = line.partition(":")
        speaker = who.strip().lower() if colon else ""
        if speaker == "system":
            system = f"{system} {said.strip()}".strip()
            continue
        turns.append(Turn(system=system, user=said.strip() if speaker == "user" else line))
        system = ""
    if system:
        turns.append(Turn(system=system, user=""))
    dialogue = Dialogue("dialogue 1", tuple(turns))
    check_dialogue(dialogue, where="The text")
    return dialogue
