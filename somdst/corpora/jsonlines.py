"""The project's own format, which is also what users write their own data in: one JSON dialogue per line.

    {"id": "d1", "turns": [{"system": "", "user": "A hotel in the north", "domain": "hotel",
                            "state": {"hotel-area": "north"}}], "goal": ["hotel"]}

`state` is the whole state after the turn; a slot that is absent is NULL, "dontcare" is DONTCARE. `system`, `domain`,
`state` and `goal` may be missing. A dialogue may have a `schema` of its own, as in a schema file. A turn may have
`spellings`, all that are accepted for a slot's value, and `frames`, the services that are counted by themselves.
Plain, .gz and .xz. Does not check slots against a schema; see `check.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final

from somdst.corpora.reading import parse_json, reading
from somdst.errors import CorpusError, SchemaError, StateError
from somdst.files import replacing
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.schema import Schema
from somdst.memory.state import State

FORMAT: Final = "JSON lines"
MAX_LINE: Final = 4 * 2**20
"""Bytes. A long dialogue has a few thousand: a longer line is not one dialogue, and might not fit into memory."""


def read_dialogues(path: str | Path) -> Iterator[Dialogue]:
    """The dialogues of a file, one after the other. The first bad line raises `CorpusError`."""
    for _, dialogue in read_lines(path):
        if isinstance(dialogue, CorpusError):
            raise dialogue
        yield dialogue


def read_lines(path: str | Path) -> Iterator[tuple[int, Dialogue | CorpusError]]:
    """Line numbers with the dialogue or the error of each line. Only a damaged or empty file raises."""
    path = Path(path)
    empty = True
    with reading(path) as stream:
        for number, line in enumerate(_lines(stream), start=1):
            if line.isspace():
                continue
            empty = False
            try:
                yield number, _parse(line, f"{path}, line {number}")
            except CorpusError as error:
                yield number, error
    if empty:
        raise CorpusError(f"{path} is empty: it should have one JSON dialogue per line.")


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Lines; one that is too long is cut, so that memory stays bounded."""
    while line := stream.readline(MAX_LINE + 1):
        yield line
        while len(line) > MAX_LINE and not line.endswith(b"\n"):
            line = stream.readline(MAX_LINE + 1)


def _parse(line: bytes, where: str) -> Dialogue:
    if len(line) > MAX_LINE:
        raise CorpusError(f"{where} is longer than {MAX_LINE >> 20} MB: write one dialogue per line.")
    return dialogue_from_json(parse_json(line, where), where=where)


def write_dialogues(path: str | Path, dialogues: Iterable[Dialogue]) -> int:
    """Write all dialogues and return their number; if anything goes wrong, the file stays as it was."""
    count = 0
    with replacing(Path(path)) as stream:
        for dialogue in dialogues:
            stream.write(_line(dialogue))
            count += 1
    return count


def _line(dialogue: Dialogue) -> bytes:
    data = dialogue_to_json(dialogue)
    try:
        return json.dumps(data, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # half a character, which JSON can only write as an escape
        return json.dumps(data).encode() + b"\n"


def dialogue_to_json(dialogue: Dialogue) -> dict[str, Any]:
    data: dict[str, Any] = {"id": dialogue.id, "turns": [turn_to_json(turn) for turn in dialogue.turns]}
    if dialogue.goal is not None:
        data["goal"] = list(dialogue.goal)
    return data if dialogue.schema is None else data | {"schema": dialogue.schema.to_json()}


def turn_to_json(turn: Turn) -> dict[str, Any]:
    data: dict[str, Any] = {"system": turn.system, "user": turn.user, "domain": turn.domain}
    if turn.state is not None:
        data["state"] = turn.state.to_json()
    if turn.spellings:
        data["spellings"] = {slot: list(accepted) for slot, accepted in turn.spellings.items()}
    return data if turn.frames is None else data | {"frames": list(turn.frames)}


def dialogue_from_json(data: object, *, where: str = "The dialogue") -> Dialogue:
    """A dialogue from parsed JSON. Errors begin with `where`."""
    if not isinstance(data, dict):
        raise CorpusError(f'{where} is not a JSON object with "id" and "turns".')
    name, turns, goal = data.get("id"), data.get("turns"), data.get("goal")
    if not isinstance(name, str) or not name:
        raise CorpusError(f'{where} needs an "id" that is text, not {_shown(name)}.')
    if not isinstance(turns, list) or not turns:
        raise CorpusError(f'{where} (dialogue {name}) needs "turns", a list with at least one turn.')
    if goal is not None and not _is_texts(goal):
        raise CorpusError(f'{where} (dialogue {name}) has a "goal" that is not a list of domains.')
    try:
        schema = Schema.from_json(data["schema"]) if data.get("schema") is not None else None
    except SchemaError as error:
        raise CorpusError(f"{where} (dialogue {name}) has a bad schema: {error}") from error
    try:
        return Dialogue(name, tuple(map(turn_from_json, turns)), None if goal is None else tuple(goal), schema)
    except (CorpusError, StateError):
        raise _explained(name, turns, where) from None


def turn_from_json(data: object) -> Turn:
    if not isinstance(data, dict):
        raise CorpusError('it is not a JSON object with "user" and "state"')
    user, system, domain, state = data.get("user"), data.get("system", ""), data.get("domain"), data.get("state")
    if not isinstance(user, str):
        raise CorpusError(f'"user" must be text, not {_shown(user)}')
    if not isinstance(system, str):
        raise CorpusError(f'"system" must be text, not {_shown(system)}')
    if domain is not None and not isinstance(domain, str):
        raise CorpusError(f'"domain" must be text or null, not {_shown(domain)}')
    spellings, frames = data.get("spellings"), data.get("frames")
    if spellings is not None and not (isinstance(spellings, dict) and all(map(_is_texts, spellings.values()))):
        raise CorpusError('"spellings" must have a list of texts for each slot')
    if frames is not None and not _is_texts(frames):
        raise CorpusError('"frames" must be a list of services')
    return Turn(
        system,
        user,
        None if state is None else State.from_json(state),
        domain,
        spellings and {slot: tuple(accepted) for slot, accepted in spellings.items()},
        None if frames is None else tuple(frames),
    )


def _explained(name: str, turns: list[Any], where: str) -> CorpusError:
    """The error with the number of its turn. Only searched for now, so that good dialogues are read fast."""
    for number, turn in enumerate(turns, start=1):
        try:
            turn_from_json(turn)
        except (CorpusError, StateError) as error:
            return CorpusError(f"{where} (dialogue {name}), turn {number}: {str(error).rstrip('.')}.")
    raise AssertionError("a turn that failed once fails again")


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return "nothing" if value is None else text if len(text) <= 40 else text[:40] + "..."
