"""LangGraph: `TrackerNode`, a node that reads the new messages of a graph and writes the memory into its state.

    class State(TrackedState):             # messages and memory, and whatever else the graph needs
        booking: str

    track = TrackerNode(Tracker.from_pretrained())
    builder = StateGraph(State)
    builder.add_node("track", track)

The memory is JSON, so that any checkpointer keeps it, and does not grow with the conversation. Nodes return entries of
a conversation's log, and the reducer `remember` appends them. There is no log here: going back is time travel, which is
the checkpointer's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, cast
from zlib import crc32

from typing_extensions import TypedDict

from somdst.integrations import extra
from somdst.memory.dialogue import Turn
from somdst.memory.state import Value
from somdst.tracking import edits
from somdst.tracking.log import Result, leaving
from somdst.tracking.questions import Question
from somdst.tracking.records import Entry, Snapshot
from somdst.tracking.step import MAX_TEXT
from somdst.tracking.tracker import Tracker

with extra("langgraph"):
    from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
    from langgraph.graph import MessagesState


class Memory(TypedDict, total=False):
    """What is remembered, as JSON. Empty before the first turn."""

    version: int
    """How many turns and edits there were."""
    state: dict[str, str]
    """Slot to value; a slot that is absent is not known."""
    changes: list[dict[str, Any]]
    """What the last turn or edit did, with probability and evidence (`Change`)."""
    pending: list[dict[str, Any]]
    """Writes that wait for an answer, each with its `question` (`Pending`)."""
    refused: list[dict[str, Any]]
    """Writes that the last turn did not make, each with its `reason` (`Refused`)."""
    domain: str | None
    """What the model says the last turn was about."""
    snapshot: dict[str, Any]
    """What the next turn starts from (`Snapshot`)."""
    read: str
    """The last message that was tracked."""


class MemoryUpdate(TypedDict, total=False):
    """What a node returns: entries to append to the memory."""

    entries: list[dict[str, Any]]
    read: str


def remember(memory: Memory, update: MemoryUpdate | Memory) -> Memory:
    """The reducer: the memory with the entries of an update appended. A whole memory takes the place of the old one."""
    entries = update.get("entries")
    if entries is None:
        return cast(Memory, update)
    found: dict[str, Any] = {**memory}
    for data in cast(list[dict[str, Any]], entries):
        before = _snapshot(found)
        result = Result.of(before, _fitted(Entry.from_json(data), before))
        found |= {**result.to_json(), "snapshot": result.snapshot.to_json(defaults=False)}
    return cast(Memory, found | {"read": update.get("read", found.get("read", ""))})


class TrackedState(MessagesState):
    """The state of a graph that tracks: its messages and its memory."""

    memory: Annotated[Memory, remember]


class TrackerNode:
    """A node that tracks what is new among the messages. It holds nothing itself: all of it is in the graph's state."""

    def __init__(self, tracker: Tracker, *, messages: str = "messages", memory: str = "memory") -> None:
        """`messages` and `memory` are the keys of the graph's state."""
        self.tracker = tracker
        self.keys = messages, memory

    def __call__(self, state: Any) -> dict[str, MemoryUpdate]:
        """Track every user message that was not tracked before; without one, nothing changes."""
        messages, memory = (_get(state, key) for key in self.keys)
        turns, read = unread(messages or [], (memory or {}).get("read", ""))
        snapshot, entries = _snapshot(memory), []
        for turn in turns:
            result = self.tracker.step(snapshot, turn)
            snapshot = result.snapshot
            entries.append(result.entry.to_json(defaults=False))
        return {self.keys[1]: {"entries": entries, "read": read}} if entries else {}

    def correct(self, state: Any, values: Mapping[str, Value | None], *, pin: bool = False) -> dict[str, MemoryUpdate]:
        """The update that writes these values; None deletes. For a node to return, or for `graph.update_state`."""
        return self._update(self.tracker.correct(self.snapshot(state), values, pin=pin))

    def confirm(self, state: Any, *slots: str) -> dict[str, MemoryUpdate]:
        """The update that makes the pending writes of these slots; of all, where none is named."""
        return self._update(edits.confirm(self.snapshot(state), slots))

    def reject(self, state: Any, *slots: str) -> dict[str, MemoryUpdate]:
        """The update that drops the pending writes of these slots; of all, where none is named."""
        return self._update(edits.reject(self.snapshot(state), slots))

    def what_to_ask(self, state: Any, *slots: str) -> tuple[Question, ...]:
        """What to ask next: writes to confirm, then empty slots: these, or the required ones.

        See `tracking/questions.py`.
        """
        return self.tracker.what_to_ask(self.snapshot(state), slots)

    def snapshot(self, state: Any) -> Snapshot:
        """The memory of a graph's state as a record."""
        return _snapshot(_get(state, self.keys[1]))

    def _update(self, result: Result) -> dict[str, MemoryUpdate]:
        return {self.keys[1]: {"entries": [result.entry.to_json(defaults=False)]}}


def unread(messages: Sequence[AnyMessage], read: str) -> tuple[list[Turn], str]:
    """The turns after the message `read`, and the message that is read then.

    A turn is a user message with what the assistant said since the one before. If `read` is no longer there, because
    the messages were trimmed or summarised, the last user message is the only new one. Messages without an id, which
    `add_messages` would give them, are known by their place and text.
    """
    marks = [_mark(place, message) for place, message in enumerate(messages)]
    if read and read not in marks:
        users = [place for place, message in enumerate(messages) if isinstance(message, HumanMessage)]
        start = users[-2] + 1 if len(users) > 1 else 0
    else:
        start = marks.index(read) + 1 if read else 0
    turns: list[Turn] = []
    said: list[str] = []
    for mark, message in zip(marks[start:], messages[start:], strict=True):
        if isinstance(message, AIMessage):
            said.append(message.text.strip())
        elif isinstance(message, HumanMessage):
            if message.text.strip():
                system = " ".join(filter(None, said))[-MAX_TEXT:]  # the end of it is what the user answers
                turns.append(Turn(system=_readable(system), user=_readable(message.text[:MAX_TEXT])))
            said, read = [], mark
    return turns, read


def _mark(place: int, message: AnyMessage) -> str:
    return message.id or f"#{place}-{crc32(_readable(message.text).encode()):08x}"


def _readable(text: str) -> str:
    """Without halves of surrogate pairs: a turn that is refused would be refused at every later call too."""
    return text.encode(errors="replace").decode()


def _fitted(entry: Entry, snapshot: Snapshot) -> Entry:
    """The entry as the next one of this snapshot. Nodes that run in parallel made theirs from the same one before."""
    replaced = {item.slot for item in (*entry.released, *entry.held)}
    return replace(
        entry,
        version=snapshot.version + 1,
        previous=snapshot.head,
        changes=tuple(replace(change, before=snapshot.state.get(change.slot)) for change in entry.changes),
        released=tuple(item for slot, item in snapshot.pending.items() if slot in replaced),
        pinned=tuple(slot for slot in entry.pinned if slot not in snapshot.pinned),
        dropped=leaving(snapshot) if entry.turn else 0,
    )


def _snapshot(memory: Mapping[str, Any] | None) -> Snapshot:
    return Snapshot.from_json((memory or {}).get("snapshot", {}))


def _get(state: Any, key: str) -> Any:
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)
