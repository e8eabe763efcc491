"""`Table`: what is shown of a measurement, defined once for the terminal, Markdown and HTML; and numbers as words.

Cells stay values until they are rendered: numbers with a fraction get two digits, counts get commas, a missing figure
is a dash, and True is a tick. The tables themselves are in `paper_tables.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

Cell = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    """A short key, the same in JSON."""
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def numeric(self, column: int) -> bool:
        """Right-aligned: every cell that is there is a number."""
        cells = [row[column] for row in self.rows if row[column] is not None]
        return bool(cells) and all(isinstance(cell, (int, float)) and not isinstance(cell, bool) for cell in cells)

    def to_markdown(self) -> str:
        align = ["--:" if self.numeric(i) else ":--" for i in range(len(self.columns))]
        lines = [f"### {self.title}", "", _line(self.columns), _line(align)]
        lines += [_line([shown(cell).replace("|", "\\|") for cell in row]) for row in self.rows]
        return "\n".join([*lines, *(["", self.note] if self.note else [])])

    def to_html(self) -> str:
        kinds = [' class="number"' if self.numeric(i) else "" for i in range(len(self.columns))]
        head = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(self.columns, kinds, strict=True))
        ours = [' class="ours"' if row[0] == "this model" else "" for row in self.rows]
        body = "".join(f"<tr{own}>{_cells(row, kinds)}</tr>" for row, own in zip(self.rows, ours, strict=True))
        note = f"<figcaption>{escape(self.note)}</figcaption>" if self.note else ""
        return (
            f'<figure class="table" id="{self.name}"><h3>{escape(self.title)}</h3>'
            f"<div><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{note}</figure>"
        )


def shown(cell: Cell) -> str:
    """
    >>> shown(53.0), shown(7368), shown(None), shown(True), shown(False)
    ('53.00', '7,368', '–', '✓', '')
    """
    match cell:
        case None:
            return "–"
        case bool():
            return "✓" if cell else ""
        case float():
            return f"{cell:,.2f}"
        case int():
            return f"{cell:,}"
        case _:
            return cell


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "dialogue"), counted(1200, "dialogue")
    ('1 dialogue', '1,200 dialogues')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _line(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"


def _cells(row: tuple[Cell, ...], kinds: list[str]) -> str:
    return "".join(f"<td{kind}>{escape(shown(cell))}</td>" for cell, kind in zip(row, kinds, strict=True))
