"""How a conversation looks in the terminal: what was said with its evidence underlined, the memory, a slot's history.

An operation has a colour and a sign, so that it is clear without colours too. What people typed is shown as text,
never as markup or as terminal codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.panel import Panel
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from somdst.cli.output import counted, plain
from somdst.memory.dialogue import Turn
from somdst.memory.schema import Schema
from somdst.memory.state import DONTCARE, Value
from somdst.tracking.audit import SlotEvent
from somdst.tracking.records import Change, Entry, Pending, Refused, Snapshot

SIGNS = {"new": "+", "changed": "~", "deleted": "-", "dontcare": "*", "kept": "="}
STYLES = {"new": "green", "changed": "yellow", "deleted": "red", "dontcare": "cyan", "kept": "blue"}
PENDING = "magenta"
NARROW = 76
"""In a terminal narrower than this many columns the memory is below the conversation, not beside it."""
SPEAKER = 6
"""Columns for "system" or "user" before what was said. What an entry did is indented as far."""


def effect(change: Change) -> str:
    """What a change does to its slot: a key of `SIGNS` and `STYLES`."""
    if change.before == change.after:
        return "kept"
    if change.after is None:
        return "deleted"
    if change.after is DONTCARE:
        return "dontcare"
    return "new" if change.before is None else "changed"


def shown(value: Value | None) -> str:
    return "nothing" if value is None else "any" if value is DONTCARE else plain(str(value))


def change_line(change: Change) -> Text:
    """One line such as `~ hotel area  north > east  97%`."""
    kind = effect(change)
    line = Text(f"{SIGNS[kind]} {spoken(change.slot)}  ", style=STYLES[kind])
    if change.before is not None and kind != "kept":
        line.append(shown(change.before), style="dim strike")
        line.append(" → ", style="dim")
    line.append(shown(change.after), style="bold")
    if change.probability is not None:
        line.append(f"  {change.probability:.0%}", style="dim")
    if change.evidence is not None and change.evidence.source == "slot":
        line.append(f"  from {spoken(change.evidence.slot or '')}", style="dim")
    return line


def spoken(slot: str) -> str:
    return slot.replace("-", " ", 1)


def said(turn: Turn, entry: Entry | None = None) -> Group:
    """What the system and the user said; the words that values were copied from are underlined."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(style="dim", justify="right", width=SPEAKER)
    grid.add_column(overflow="fold")
    for who, text in (("system", turn.system), ("user", turn.user)):
        if text:
            words = Text(plain(text), style="" if who == "user" else "dim")
            for change in entry.changes if entry else ():
                if change.evidence is not None and change.evidence.is_of(who):
                    lit = f"bold not dim underline {STYLES[effect(change)]}"
                    words.stylize(lit, change.evidence.start, change.evidence.end)
            grid.add_row(who, words)
    return Group(grid)


def did(entry: Entry) -> Padding:
    """What an entry did, held back and refused."""
    lines: list[Text] = [change_line(change) for change in entry.changes]
    lines += [Text(f"? {plain(item.question)}", style=PENDING) for item in entry.held]
    lines += [_refusal(item) for item in entry.refused]
    if not lines:
        lines = [Text("nothing changes", style="dim italic")]
    return Padding(Group(*lines), (0, 0, 0, SPEAKER + 1))


def _refusal(item: Refused) -> Text:
    return Text(f"! {spoken(item.slot)}: not {shown(item.after)}. {plain(item.reason)}", style="dim red")


def memory(snapshot: Snapshot, schema: Schema, *, entry: Entry | None = None) -> Panel:
    """The memory by domain. What `entry` changed is coloured; what it deleted is shown one last time."""
    changed = {change.slot: change for change in entry.changes} if entry else {}
    table = Table.grid(padding=(0, 1))
    table.add_column(width=1)
    table.add_column(no_wrap=True, max_width=20)
    table.add_column(overflow="fold", ratio=1)
    for domain in schema.domains:
        slots = [slot for slot in schema.slots if slot.domain == domain]
        rows = [slot for slot in slots if slot in snapshot.state or slot in snapshot.pending or slot in changed]
        if rows:
            table.add_row("", Text(domain.replace("_", " "), style="bold"), "")
        for slot in rows:
            for row in _memory_rows(snapshot, slot, slot.name, changed.get(slot)):
                table.add_row(*row)
    empty = Text("The memory is empty.", style="dim italic")
    content: RenderableType = table if table.row_count else empty
    return Panel(
        content, title="memory", subtitle=_tally(snapshot), box=box.ROUNDED, border_style="dim", padding=(0, 1)
    )


def _tally(snapshot: Snapshot) -> str:
    return f"{counted(len(snapshot.state), 'slot')} · version {snapshot.version}"


def _memory_rows(snapshot: Snapshot, slot: str, name: str, change: Change | None) -> Iterable[tuple[Text, Text, Text]]:
    style = STYLES[effect(change)] if change else ""
    sign = SIGNS[effect(change)] if change else ""
    if slot in snapshot.state or change is not None:
        value = Text(shown(snapshot.state.get(slot)), style=style)
        if change is not None and change.after is None:
            # a style of the whole cell would strike its padding too
            value = Text.assemble((shown(change.before), f"strike {style}"))
        if slot in snapshot.pinned:
            value.append("  pinned", style="blue")
        yield Text(sign, style=style), Text(f" {name} ", style=style or "dim"), value
    if slot in snapshot.pending:
        item: Pending = snapshot.pending[slot]  # the question itself is beside the turn that raised it
        asked = Text(f"{shown(item.after)}?", style=PENDING)
        yield Text("?", style=PENDING), Text(f" {name} ", style=PENDING), asked


def side_by_side(left: RenderableType, right: RenderableType, *, width: int) -> RenderableType:
    """The memory beside the conversation, or under it where the terminal is narrow."""
    if width < NARROW:
        return Group(left, right)
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(ratio=3)
    grid.add_column(ratio=2)
    grid.add_row(left, right)
    return grid


def why(slot: str, events: Sequence[SlotEvent], value: Value | None) -> RenderableType:
    """Everything that happened to a slot, and what it is now."""
    if not events:
        return Text(f"{spoken(slot)} is {shown(value)}: nothing has happened to it.", style="dim")
    table = Table(box=box.SIMPLE_HEAD, title=f"{spoken(slot)} is {shown(value)}", title_justify="left")
    for heading in ("version", "what", "by", "change", "words"):
        table.add_column(heading, overflow="fold")
    for event in events:
        table.add_row(
            str(event.version),
            Text(event.kind, style="" if event.in_force else "strike dim"),
            plain(event.model or "") if event.source == "model" else event.source,
            _what_happened(event),
            _words(event),
        )
    return table


def _what_happened(event: SlotEvent) -> Text:
    if event.change is not None:
        return change_line(event.change)
    if event.refused is not None:
        return _refusal(event.refused)
    if event.pending is not None:
        return Text(f"? {plain(event.pending.question)}", style=PENDING)
    return Text(event.kind)


def _words(event: SlotEvent) -> Text:
    evidence = event.change.evidence if event.change else None
    if evidence is None:
        return Text("")
    where = spoken(evidence.slot or "") if evidence.source == "slot" else evidence.source
    ago = f", {counted(evidence.turns_ago, 'turn')} before" if evidence.turns_ago else ""
    return Text(f"{where}{ago}: {plain(evidence.text)}")


@dataclass(frozen=True, slots=True)
class Tail:
    """The last lines of something that may be longer than the screen."""

    content: RenderableType
    height: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self.content, options.update(height=None), pad=True)
        for line in lines[-self.height :]:
            yield from line
            yield Segment.line()


def turn_view(
    turn: Turn, entry: Entry, snapshot: Snapshot, schema: Schema, *, number: int, width: int
) -> RenderableType:
    """One turn: what was said and what it did, with the memory after it."""
    title = f"turn {number}" + (f" · {entry.domain}" if entry.domain else "")
    left = Panel(
        Group(said(turn, entry), Text(), did(entry)),
        title=title,
        title_align="left",
        box=box.ROUNDED,
        border_style="dim",
        padding=(0, 1),
    )
    return side_by_side(left, memory(snapshot, schema, entry=entry), width=width)


_MEANINGS = {"new": "new", "changed": "changed", "dontcare": "any is fine", "deleted": "deleted"}
LEGEND = Text("   ").join(
    [Text(f"{SIGNS[kind]} {words}", style=STYLES[kind]) for kind, words in _MEANINGS.items()]
    + [Text("? held back", style=PENDING)]
)
