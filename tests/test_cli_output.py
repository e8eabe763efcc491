"""What every command prints through `cli/output.py`: tables, JSON, notices, progress."""

import json

import pytest

from somdst.cli.output import Bar, notice, plain, print_json, print_tables, working
from somdst.evaluate.tables import Table


def test_cells_are_text_and_never_markup(capsys: pytest.CaptureFixture[str]) -> None:
    rows = (("[SLOT] [bold]x[/]", 1234), ("this model", None))
    print_tables([Table("t", "A title", ("what [i]", "count"), rows, "A [note].")])
    out = capsys.readouterr().out
    assert "[SLOT] [bold]x[/]" in out and "what [i]" in out and "A [note]." in out
    assert "1,234" in out and "–" in out


def test_small_tables_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    tables = [Table(name, f"Title {name}", ("a", "b"), (("x", 1),)) for name in ("one", "two")]
    print_tables(tables, side_by_side=True)
    assert any("Title one" in line and "Title two" in line for line in capsys.readouterr().out.splitlines())


def test_notices_go_to_stderr_without_terminal_codes(capsys: pytest.CaptureFixture[str]) -> None:
    notice("left out: \x1b[31mred\x1b[0m")
    assert capsys.readouterr().err == "somdst: left out: �[31mred�[0m\n"
    assert plain("line\nbreak\x07") == "line\nbreak�"


def test_json_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    data = {"name": "café \ud800", "count": 1}
    print_json(data)
    out = capsys.readouterr().out
    assert out.count("\n") == 1 and json.loads(out) == data
    with pytest.raises(ValueError, match="JSON"):
        print_json({"accuracy": float("nan")})


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_for_terminals(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("FORCE_COLOR" if terminal else "NO_COLOR", "1")
    with Bar("evaluating", 3) as bar:
        assert capsys.readouterr().err == "", "nothing is drawn before work starts"
        assert list(bar.over("abc")) == ["a", "b", "c"]
    shown = capsys.readouterr()
    assert shown.out == "" and ("evaluating" in shown.err) is terminal
    with working("reading [x]") as say:
        say("still [reading]")
    shown = capsys.readouterr()
    assert shown.out == "" and ("[x]" in shown.err or "[reading]" in shown.err) is terminal


def test_a_bar_starts_where_an_earlier_run_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with Bar("annotating") as bar:
        bar.start(10, done=4)
        bar.advance(6)
    assert "10/10" in capsys.readouterr().err
