"""The pages on integrations and the examples run as written; an extra that is missing is named in one sentence."""

from __future__ import annotations

import ast
import doctest
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from pipecat.pipeline.worker import PipelineWorker
from waiting import LIMIT

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pipecat gives a pipeline 20 seconds to start, which is not enough on a busy machine."""
    defaults = PipelineWorker.__init__.__kwdefaults__
    for what in ("setup", "start", "cancel", "idle"):
        monkeypatch.setitem(defaults, f"{what}_timeout_secs", LIMIT)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=ROOT, timeout=LIMIT)


@pytest.mark.parametrize("page", ["langgraph.md", "mcp.md", "pipecat.md"])
def test_the_examples_of_a_page_run(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # a server that a page starts finds this somdst
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    test = doctest.DocTestParser().get_doctest(text, {"__name__": "__main__"}, page, page, 0)
    assert len(test.examples) >= 5
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def example(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines that an example prints, run as a program."""
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(ROOT / "examples")
    runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
    return capsys.readouterr().out.splitlines()


def test_the_example_in_langgraph(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = example("langgraph_hotel.py", monkeypatch, capsys)
    said = [line.removeprefix("assistant ") for line in lines if line.startswith("assistant ")]
    assert said == [
        "What is the part of town?",
        "What is the day of arrival?",
        "Booked: Hotel(area='north', pricerange='cheap', day='friday', nights=1, parking=True)",
    ]


def test_the_example_in_mcp(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = example("mcp_client.py", monkeypatch, capsys)
    assert lines[0] == "state   {'hotel-area': 'north', 'hotel-pricerange': 'cheap'}"
    assert lines[-1] == "explain [('turn', 'north'), ('correction', 'south'), ('undo', 'north')]"


def test_the_example_in_pipecat(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = example("pipecat_call.py", monkeypatch, capsys)
    assert lines[-1] == "booking {'area': 'north', 'pricerange': 'cheap', 'day': 'friday', 'parking': True}"


def test_readme_and_examples_have_the_same_class() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code = "".join(example.source for example in doctest.DocTestParser().get_examples(readme.replace("```", "")))

    def hotel(source: str) -> str:
        [found] = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == "Hotel"]
        return ast.unparse(found)

    assert hotel(code) == hotel((ROOT / "examples" / "hotel.py").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("name", "package"), [("langgraph", "langgraph"), ("mcp", "mcp"), ("pipecat", "pipecat")])
def test_a_missing_extra_is_named(name: str, package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; import somdst.integrations.{name}"
    last = run("-c", code).stderr.strip().splitlines()[-1]
    assert last == f"somdst.errors.InputError: This needs the extra `{name}`: pip install 'somdst[{name}]'."


def test_the_command_names_its_extra() -> None:
    code = (
        "import sys; sys.modules['mcp'] = None; sys.argv = ['somdst', 'mcp']; from somdst.cli.main import main; main()"
    )
    done = run("-c", code)
    assert done.returncode == 2
    assert done.stderr == "somdst: This needs the extra `mcp`: pip install 'somdst[mcp]'.\n"
