"""docs/paper-map.md: every name in it exists, and it leaves out no equation, table or figure.

The commands of docs/evaluation.md are looked up in the same way, and every link between the docs.
"""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from somdst.cli.main import app
from somdst.corpora.perturbation import PERTURBATIONS
from somdst.evaluate.run import ORACLES

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")
NAMES = sorted({name for name in re.findall(r"`([^`]+)`", TEXT) if name.startswith("somdst.")})
EVALUATION = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
COMMANDS = sorted({name for name in re.findall(r"`([^`]+)`", TEXT + EVALUATION) if name.startswith("somdst ")})

SYMBOLS = ("V_t", "X_t", "W_pool", "P_opr", "GRU", "P_vcb", "P_ctx", "P_val", "α", "P_dom")
SYMBOLS += ("L_opr", "L_dom", "L_svg", "L_joint")


def exists(name: str) -> bool:
    """Looked up in the source, so that nothing heavy is imported."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:length])
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return _has(ast.parse(file.read_text(encoding="utf-8")).body, parts[length:])
    return False


def _has(body: list[ast.stmt], parts: list[str]) -> bool:
    if not parts:
        return True
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == parts[0]:
            return _has(node.body, parts[1:])
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == parts[0] for target in targets):
            return len(parts) == 1
    return False


@pytest.mark.parametrize("name", NAMES)
def test_every_name_exists(name: str) -> None:
    assert exists(name), f"docs/paper-map.md names {name}, which is not there"


def test_a_name_that_is_not_there_is_noticed() -> None:
    assert (
        not exists("somdst.memory.state.Stat")
        and not exists("somdst.nowhere")
        and not exists("somdst.memory.state.State.gone")
    )


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_exists_with_its_options(line: str) -> None:
    words = line.split()[1:]
    command: Any = typer.main.get_command(app)
    for word in words:
        if not hasattr(command, "commands"):
            break  # what follows are arguments
        assert word in command.commands, f"there is no command `{line}`"
        command = command.commands[word]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= known


def rows(title: str) -> list[str]:
    section = TEXT.split(f"## {title}\n")[1].split("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("|")][2:]


def test_nothing_of_the_paper_is_left_out() -> None:
    assert [row.split("|")[1].strip() for row in rows("Tables")] == [str(number) for number in range(1, 12)]
    assert [row.split("|")[1].strip() for row in rows("Figures")] == ["1", "2", "3", "4"]
    equations = "\n".join(rows("Equations"))
    for symbol in SYMBOLS:
        assert symbol in equations, f"the equation of {symbol} is missing"
    assert all("`" in row.split("|")[3] for title in ("Equations", "Tables", "Figures") for row in rows(title))


def test_every_perturbation_and_oracle_is_explained() -> None:
    explained = re.findall(r"^\| `([a-z-]+)` \|", EVALUATION, re.MULTILINE)
    assert explained == [*ORACLES, *PERTURBATIONS]


def anchors(path: Path) -> set[str]:
    """The places of a page that a link can name, as GitHub writes them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.name
)
def test_every_link_leads_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if not link.startswith("http"):
            file, _, anchor = link.partition("#")
            target = path.parent / file if file else path
            assert target.exists(), f"{path.name} names {file}, which is not there"
            assert not anchor or anchor in anchors(target), f"{path.name} names {link}, and there is no such heading"


def test_benchmarks_of_the_docs_exist() -> None:
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    named = re.findall(r"^    python (benchmarks/\w+\.py)", text, re.MULTILINE)
    assert named and all((ROOT / name).is_file() for name in named)
