"""Examples in docstrings say what really happens, and files that they or comments name exist."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "somdst"
MODULES = sorted(PACKAGE.rglob("*.py"))
WITH_EXAMPLES = [path for path in MODULES if ">>> " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_docstrings(path: Path) -> None:
    if path.is_relative_to(PACKAGE / "learn"):
        pytest.importorskip("torch")
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert tried and not failed


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_that_are_named_exist(path: Path) -> None:
    """A file in backticks is beside the one that names it, or its path starts in the package."""
    named = re.findall(r"`([\w/]+\.py)`", path.read_text(encoding="utf-8"))
    assert [name for name in named if not (path.parent / name).exists() and not (PACKAGE / name).exists()] == []
