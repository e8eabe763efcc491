"""Dialogues in whatever form people have them at hand, for `somdst track`: JSON lines, one dialogue, or plain text.

A corpus on disk is read by `open_corpus`, which is strict; here ids may be missing, and text needs no JSON at all.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from somdst.corpora.jsonlines import dialogue_from_json
from somdst.corpora.reading import parse_json, reading
from somdst.errors import CorpusError
from somdst.memory.dialogue import Dialogue, Turn

_JSON: Final = re.compile(r'\s*(\{\s*["}]|\[\s*[{\]])')
"""How an object, or a list of them, begins; "[SLOT] please" is something that a user said."""


def read_transcripts(path: Path) -> list[Dialogue]:
    """The dialogues of a text file, plain, .gz or .xz."""
    try:
        with reading(path) as stream:
            text = stream.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path} is not UTF-8 text: save it as UTF-8.") from error
    return parse_transcripts(text, where=str(path))


def parse_transcripts(text: str, *, where: str) -> list[Dialogue]:
    """JSON lines, one JSON dialogue, or a list of them; otherwise plain text.

    In plain text each line is what the user said ("user: " is optional). A line "system: ..." before it is what the
    system said.

    >>> [(turn.system, turn.user) for turn in parse_transcripts("system: Which area?\\nthe north", where="x")[0].turns]
    [('Which area?', 'the north')]
    """
    if not text.strip():
        raise CorpusError(f"{where} is empty: expected dialogues as JSON, or a line for each thing the user said.")
    return _from_json(text, where) if _JSON.match(text) else [_from_lines(text)]


def _from_json(text: str, where: str) -> list[Dialogue]:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):  # then it is JSON lines, or the error names the line that is wrong
        lines = [(f"{where}, line {number}", line) for number, line in enumerate(text.split("\n"), start=1)]
        items = [(place, parse_json(line.encode("utf-8", "replace"), place)) for place, line in lines if line.strip()]
    else:
        found = whole if isinstance(whole, list) else [whole]
        items = [(f"{where}, dialogue {number}", item) for number, item in enumerate(found, start=1)]
    if not items:
        raise CorpusError(f"{where} holds an empty list: expected at least one dialogue.")
    return [
        dialogue_from_json({"id": f"dialogue {number}", **item} if isinstance(item, dict) else item, where=place)
        for number, (place, item) in enumerate(items, start=1)
    ]


def _from_lines(text: str) -> Dialogue:
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
    return Dialogue("dialogue 1", tuple(turns))
