"""The arrows between modules, and that `import somdst` stays light."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "somdst"
ROOMS = [  # a module may import from its own line and the lines below it
    {"cli", "__main__"},
    {"integrations"},
    {"service"},
    {"bulk"},
    {"store"},
    {"baselines"},
    {"learn"},
    {"evaluate"},
    {"tracking"},
    {"corpora"},
    {"model"},
    {"memory"},
    {"errors", "files"},
]
RANK = {name: rank for rank, room in enumerate(ROOMS) for name in room}


def unit(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("somdst"):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names if alias.name.startswith("somdst.")}
    return {name.split(".")[1] for name in names} & set(RANK)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down_only(path: Path) -> None:
    if path == PACKAGE / "__init__.py":
        return
    assert unit(path) in RANK, f"{path} is in no room"
    upward = {name for name in imported(path) if RANK[name] < RANK[unit(path)]}
    assert not upward, f"{path} imports upwards: {upward}"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_learn_and_baselines_name_torch(path: Path) -> None:
    top = [node for node in ast.parse(path.read_text()).body if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {alias.name for node in top for alias in node.names} | {
        node.module or "" for node in top if isinstance(node, ast.ImportFrom)
    }
    if unit(path) not in ("learn", "baselines"):
        assert not {name for name in names if name.split(".")[0] in ("torch", "transformers", "accelerate")}


NAMED_TWICE = {"model", "store"}
"""Names of modules that two rooms have. A file of commands may be named after its room; this list only gets shorter."""


def test_a_module_name_is_used_once() -> None:
    files = [path for path in PACKAGE.rglob("*.py") if path.stem not in ("__init__", "__main__")]
    rooms = [path.parent.name for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE]
    names = Counter([path.stem for path in files] + rooms)
    assert {name for name, count in names.items() if count > 1} <= NAMED_TWICE


def test_files_are_neither_long_nor_tiny() -> None:
    lines = {
        path.relative_to(PACKAGE).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in PACKAGE.rglob("*.py")
        if path.stem not in ("__init__", "__main__")
    }
    assert not {name for name, count in lines.items() if count > 400}
    assert not {name for name, count in lines.items() if count <= 20}, "merge it into the file that uses it"


def test_import_is_light() -> None:
    heavy = ["torch", "transformers", "fastapi", "ray", "sqlalchemy", "matplotlib", "langgraph", "mcp", "pipecat"]
    code = f"import sys, somdst; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
