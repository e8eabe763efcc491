"""The bundled dialogues: invented, with the states that a person would write down after each turn.

`somdst demo`, the page's replay and a few tests use them. They are not a benchmark.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources

from somdst.corpora.jsonlines import dialogue_from_json
from somdst.errors import InputError, no_such
from somdst.memory.dialogue import Dialogue


@dataclass(frozen=True, slots=True)
class Example:
    title: str
    about: str
    dialogue: Dialogue


def examples() -> dict[str, Example]:
    """All of them by name, the longest first."""
    found: dict[str, Example] = {}
    for file in resources.files(__name__).iterdir():
        if file.name.endswith(".json"):
            data = json.loads(file.read_text(encoding="utf-8"))
            found[data["id"]] = Example(data["title"], data["about"], dialogue_from_json(data, where=file.name))
    return dict(sorted(found.items(), key=lambda item: (-len(item[1].dialogue.turns), item[0])))


def example(name: str) -> Example:
    known = examples()
    if name not in known:
        raise InputError(no_such("example", name, known))
    return known[name]
