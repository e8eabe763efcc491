"""Every pattern that sees what a caller wrote: its work grows with the text, not faster. Counted in steps, not time."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from backtracking import steps

from somdst.model import text as rules
from somdst.service import guards

PACKAGE = Path(guards.__file__).parents[1]
ROOMS = ("memory", "model", "tracking", "service")
"""What a request passes through."""
NOT_OF_CALLERS = {"service/api_keys.py": "the operator's key file", "tracking/records.py": "names of our own classes"}
MADE_OF_VALUES = {"model/text.py", "tracking/redaction.py"}
"""Make patterns of a value while they run; `VALUES` has one of each form."""
VALUES = [
    rules.whole_words("guest house"),
    re.compile(re.escape("--")),
]
SHORT = {
    r"[_\s]*\d+$": "of a domain's name, which has at most 100 characters",
}
"""Patterns whose work grows faster, on texts that cannot be long."""
PIECES = (
    "two ",
    "1 ",
    "1",
    " ",
    ". ",
    "b ",
    "b  and ",
    "'s",
    "- ",
    "two three ",
    "5 past ",
    "w/",
    "ten to ",
    "5 past 5 ",
    "5 o ",
    "5 minutes ",
    "07700 ",
    "a ",
    "a-",
    "guest ",
    "q=",
    "; q=1 ",
    "[:",
    "1,111",
)
LENGTHS = 20, 200
MOST = 15
"""Times as many steps for ten times the text. Where a pattern looks at all that follows from each place, 100 times."""


def sources() -> Iterator[tuple[str, ast.Module]]:
    for room in ROOMS:
        for path in sorted((PACKAGE / room).glob("*.py")):
            name = path.relative_to(PACKAGE).as_posix()
            if name not in NOT_OF_CALLERS:
                yield name, ast.parse(path.read_text(encoding="utf-8"))


def calls() -> Iterator[tuple[str, ast.expr, bool]]:
    """The file and the pattern of every call such as `re.sub(pattern, ...)`, and whether it only looks at the start."""
    for name, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and re.fullmatch(r"re\.(?!escape)\w+", ast.unparse(node.func)):
                yield name, node.args[0], ast.unparse(node.func).endswith("match")


def compiled(thing: Any) -> Iterator[re.Pattern[Any]]:
    """The patterns in a module's variables, however deep."""
    if isinstance(thing, re.Pattern):
        yield thing
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from compiled(value)
    elif isinstance(thing, (tuple, list)):
        for value in thing:
            yield from compiled(value)


def patterns() -> list[re.Pattern[Any]]:
    found = {(pattern.pattern, pattern.flags): pattern for pattern in VALUES}
    for name, _ in sources():
        if not name.endswith("__init__.py"):
            module = importlib.import_module(f"somdst.{name.removesuffix('.py').replace('/', '.')}")
            found |= {(one.pattern, one.flags): one for one in compiled(dict(vars(module)))}
    for _, pattern, at_start in calls():
        if isinstance(pattern, ast.Constant):
            one = re.compile(rf"\A(?:{pattern.value})" if at_start else pattern.value)
            found.setdefault((one.pattern, one.flags), one)
    return list(found.values())


ALL = patterns()


def test_all_are_looked_at() -> None:
    """Those that are made while the program runs are named here, the others are found."""
    files = {name for name, pattern, _ in calls() if not isinstance(pattern, ast.Constant)}
    at_import = {"model/everyday.py"}
    assert files - at_import == MADE_OF_VALUES, "a pattern is made of something: add one of its form to VALUES"
    assert {rule.pattern for kind in rules._RULES.values() for rule in kind} <= set(ALL)
    assert {guards.HOST, guards.TOKENS} <= set(ALL)


def letters(pattern: re.Pattern[Any]) -> list[str]:
    """A few letters that the pattern tells apart: some that it names, and one of each kind."""
    text = pattern.pattern.decode("latin-1") if isinstance(pattern.pattern, bytes) else pattern.pattern
    named = dict.fromkeys(letter for letter in text if letter.isalnum() or letter in "./:;=-_'\"[{")
    return [*dict.fromkeys((" ", "1", "a", *list(named)[:3], *list(named)[-1:]))]


@pytest.mark.parametrize("pattern", ALL, ids=lambda pattern: str(pattern.pattern)[:40])
def test_the_work_grows_with_the_text(pattern: re.Pattern[Any]) -> None:
    pieces = {*PIECES, *letters(pattern), *map("".join, product(letters(pattern), repeat=2))}
    worst = 0.0
    for piece in sorted(pieces):
        # Once repeated to the end, and once before something that no pattern takes.
        for end in ("", "\x01"):
            short, long = (steps(pattern, (piece * size)[:size] + end) for size in LENGTHS)
            worst = max(worst, long / short)
    if pattern.pattern in SHORT:
        assert worst > MOST, "it is fast enough now: take it out of SHORT"
    else:
        assert worst <= MOST


def test_the_count_finds_slow_patterns() -> None:
    """Repeats inside repeats, the same letters repeated side by side, and a search from every place to the end."""
    for slow in (r"(?:\s+)+x", r"\s*\s*x", r"\d+\s*\d+x", r"[_\s]+y", r"(a|a)*b"):
        one = re.compile(slow)
        counts = [[steps(one, piece * size) for size in (6, 12)] for piece in (" ", "1", "_", "a")]
        assert max(long / short for short, long in counts) > 2.5, slow
