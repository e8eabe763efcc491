"""A conversation typed in the terminal: the commands, what they answer, the screen, and completion.

Reading a line and drawing are separate from what a line does (`Session.handle`), so that both are simple and tested.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass

from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from somdst.cli import rendering
from somdst.cli.output import plain
from somdst.errors import InputError, SomdstError, did_you_mean
from somdst.tracking.audit import in_force
from somdst.tracking.records import Entry
from somdst.tracking.tracker import Tracker

HINT = "/system TEXT   /undo   /correct SLOT VALUE   /why SLOT   /help   /quit"


@dataclass(frozen=True, slots=True)
class Command:
    usage: str
    help: str
    run: Callable[[Session, str], RenderableType | None]


class Session:
    """A conversation, what the system is about to say, and whether to go on."""

    def __init__(self, tracker: Tracker) -> None:
        self.tracker = tracker
        self.conversation = tracker.start()
        self.system = ""
        self.open = True

    @property
    def last(self) -> Entry | None:
        """The last thing that happened: it is what is coloured in the memory."""
        entries = self.conversation.entries
        return entries[-1] if entries else None

    def handle(self, line: str) -> RenderableType | None:
        """What a line of input answers, besides the conversation itself. A mistake is an answer too."""
        line = line.strip()
        try:
            if not line.startswith("/"):
                self._say(line)
                return None
            name, _, rest = line[1:].partition(" ")
            if name not in COMMANDS:
                raise InputError(f'There is no command "/{name}": /help lists them.{did_you_mean(name, COMMANDS)}')
            return COMMANDS[name].run(self, rest.strip())
        except SomdstError as error:
            return Text(plain(str(error)), style="red")

    def _say(self, user: str) -> None:
        if user or self.system:  # a user may be silent, but an empty line after nothing is just an empty line
            self.conversation.update(user=user, system=self.system)
            self.system = ""

    def slot_and_rest(self, text: str) -> tuple[str, str]:
        """ "hotel-book people 4" is the slot "hotel-book people" and "4"; "hotel book people" is fine too."""
        for slot in sorted(self.tracker.schema, key=len, reverse=True):
            for name in (slot, rendering.spoken(slot)):
                if text == name or text.startswith(f"{name} "):
                    return str(slot), text[len(name) :].strip()
        word = text.split(" ")[0] if text else ""
        hint = did_you_mean(text, self.tracker.schema) or did_you_mean(word, self.tracker.schema)
        raise InputError(f'Which slot? "{text}" does not begin with one.{hint}' if text else "Which slot?")

    # What commands do

    def say_as_system(self, text: str) -> RenderableType | None:
        self.system = text
        return None if text else Text("The system says nothing before the next turn.", style="dim")

    def correct(self, text: str) -> None:
        slot, value = self.slot_and_rest(text)
        if not value:
            raise InputError(f"What is the {rendering.spoken(slot)}? Type /correct {slot} VALUE, or /delete {slot}.")
        self.conversation.correct(slot, value)

    def delete(self, text: str) -> None:
        self.conversation.correct(self.slot_and_rest(text)[0], None)

    def pin(self, text: str) -> None:
        self.conversation.pin(self.slot_and_rest(text)[0])

    def unpin(self, text: str) -> None:
        self.conversation.unpin(self.slot_and_rest(text)[0])

    def confirm(self, text: str) -> None:
        self.conversation.confirm(*([self.slot_and_rest(text)[0]] if text else []))

    def reject(self, text: str) -> None:
        self.conversation.reject(*([self.slot_and_rest(text)[0]] if text else []))

    def undo(self, text: str) -> None:
        self.conversation.undo()

    def redo(self, text: str) -> None:
        self.conversation.redo()

    def why(self, text: str) -> RenderableType | None:
        slot, _ = self.slot_and_rest(text)
        return rendering.why(slot, self.conversation.history(slot), self.conversation.state.get(slot))

    def json(self, text: str) -> RenderableType | None:
        return Text(plain(json.dumps(self.conversation.to_json(), indent=1, ensure_ascii=False)))

    def new(self, text: str) -> None:
        self.conversation, self.system = self.tracker.start(), ""

    def quit(self, text: str) -> None:
        self.open = False

    def help(self, text: str) -> RenderableType | None:
        table = Table.grid(padding=(0, 3))
        for command in COMMANDS.values():
            table.add_row(Text(command.usage, style="bold"), command.help)
        return Group(Text("Type what the user says, or:", style="dim"), table)


COMMANDS = {
    "system": Command("/system TEXT", "what the system says before the user's next words", Session.say_as_system),
    "undo": Command("/undo", "take back the last thing that happened", Session.undo),
    "redo": Command("/redo", "do it again", Session.redo),
    "correct": Command("/correct SLOT VALUE", "write a value by hand; `dontcare` for any", Session.correct),
    "delete": Command("/delete SLOT", "empty a slot", Session.delete),
    "pin": Command("/pin SLOT", "only new words change this slot from now on", Session.pin),
    "unpin": Command("/unpin SLOT", "let any turn change this slot again", Session.unpin),
    "yes": Command("/yes [SLOT]", "make the writes that were held back", Session.confirm),
    "no": Command("/no [SLOT]", "drop the writes that were held back", Session.reject),
    "why": Command("/why SLOT", "everything that happened to a slot", Session.why),
    "json": Command("/json", "the whole conversation as JSON", Session.json),
    "new": Command("/new", "start another conversation", Session.new),
    "help": Command("/help", "this list", Session.help),
    "quit": Command("/quit", "leave", Session.quit),
}


# The screen


def conversation_panel(session: Session, *, height: int | None = None) -> Panel:
    """Every turn in force with what it did, and what the system is about to say."""
    parts: list[RenderableType] = []
    for entry in in_force(session.conversation.entries):
        if entry.turn is not None:
            parts += [rendering.said(entry.turn, entry), rendering.did(entry), Text()]
        elif entry.changes:
            parts += [Text(f"  {entry.kind}", style="blue"), rendering.did(entry), Text()]
    if session.system:
        parts.append(Text.assemble(("system ", "dim"), (plain(session.system), "dim")))
    content: RenderableType = Group(*parts) if parts else Text("Type what the user says.", style="dim italic")
    if height is not None:
        content = rendering.Tail(content, height)
    return Panel(content, title="conversation", box=box.ROUNDED, border_style="dim", padding=(0, 1))


def screen(session: Session, *, width: int, height: int | None = None) -> RenderableType:
    """The whole conversation with the memory beside it."""
    room = None if height is None else max(6, height - 8)
    snapshot = session.conversation.snapshot
    memory = rendering.memory(snapshot, session.tracker.schema, entry=session.last)
    view = rendering.side_by_side(conversation_panel(session, height=room), memory, width=width)
    return Group(view, rendering.LEGEND, Text(HINT, style="dim"))


def run(session: Session, console: Console, read: Callable[[], str]) -> None:
    """Read lines until the end. In a terminal the screen is drawn again each time; otherwise each turn is printed."""
    note: RenderableType | None = None
    while session.open:
        if console.is_terminal:
            console.clear()
            console.print(screen(session, width=console.width, height=console.height))
        if note is not None:
            console.print(note)
        before = session.conversation.version
        try:
            note = session.handle(read())
        except EOFError:
            break
        if not console.is_terminal and session.conversation.version > before and session.last is not None:
            _print_step(session, console)


def _print_step(session: Session, console: Console) -> None:
    snapshot, entry, schema = session.conversation.snapshot, session.last, session.tracker.schema
    if entry is not None and entry.turn is not None and entry.kind == "turn":
        number = snapshot.turn_count
        view = rendering.turn_view(entry.turn, entry, snapshot, schema, number=number, width=console.width)
        console.print(view)
    elif entry is not None:
        console.print(Text(entry.kind, style="blue"))
        console.print(rendering.memory(snapshot, schema, entry=entry))


# Reading


def talk(tracker: Tracker) -> None:
    """A conversation on this process's own terminal, or through a pipe."""
    console = Console(highlight=False)
    session = Session(tracker)
    run(session, console, _reader(session, console))


def _reader(session: Session, console: Console) -> Callable[[], str]:
    if not sys.stdin.isatty():
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(encoding="utf-8", errors="replace")
        return input
    try:
        import readline
    except ImportError:  # there is none on Windows; typing works without
        pass
    else:
        readline.set_completer_delims("")
        readline.set_completer(Completer(session))
        readline.parse_and_bind("tab: complete")
    return lambda: console.input("[bold]user ▸[/bold] ")


class Completer:
    """Completes commands and the slots after them."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def __call__(self, text: str, state: int) -> str | None:
        found = self.complete(text)
        return found[state] if state < len(found) else None

    def complete(self, text: str) -> list[str]:
        if not text.startswith("/"):
            return []
        name, space, rest = text.partition(" ")
        if not space:
            return [f"/{command} " for command in COMMANDS if f"/{command}".startswith(name)]
        slots = self.session.tracker.schema if "SLOT" in COMMANDS.get(name[1:], COMMANDS["quit"]).usage else ()
        return [f"{name} {slot} " for slot in slots if slot.startswith(rest)]
