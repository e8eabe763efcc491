"""Sentences that fit any domain, from `written/phrases.txt`: `phrase` chooses one of them, with its alternatives.

The file has a section per thing that is said, and one way to say it per line. Every way through the alternatives of a
line, "(yes|no) (please|)", is a sentence. Who says what is decided in `acts.py` and `moves.py`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

FOLDER: Final = Path(__file__).parent / "written"
_CHOICE = re.compile(r"\(([^()]*\|[^()]*)\)")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def phrase(section: str, rng: Random, /, *, need: str = "", **words: str) -> str:
    """A sentence of the section, with the words filled in. Lines whose words are not given are left out.

    `need` names words of which the sentence must have at least one, separated by spaces.
    """
    lines, needed = _lines(section, frozenset(words), need), {f"{{{word}}}" for word in need.split()}
    while True:
        text = rng.choice(lines)
        while "(" in text:
            text = _CHOICE.sub(lambda match: rng.choice(match[1].split("|")), text)
        if not needed or any(word in text for word in needed):  # it may stand in a part that was not chosen
            break
    return _PLACEHOLDER.sub(lambda match: words[match[1]], text)


@cache
def _lines(section: str, words: frozenset[str], need: str) -> tuple[str, ...]:
    lines = [(line, set(_PLACEHOLDER.findall(line))) for line in sections()[section]]
    needed = set(need.split())
    return tuple(line for line, names in lines if names <= words and (not needed or names & needed))


@cache
def sections() -> dict[str, tuple[str, ...]]:
    """All lines by section."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in (FOLDER / "phrases.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            lines = found.setdefault(line.strip("[]"), [])
        elif line.strip() and not line.startswith("#"):
            lines.append(line)
    return {name: tuple(lines) for name, lines in found.items()}
