"""`Conversation`: one conversation in memory. It is a log with its snapshot, and a lock so that threads can share it.

Does not predict (`tracker.py`). Conversations in a database are in `store/`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from somdst.errors import InputError, StateError
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.schema import Schema
from somdst.memory.state import State, Value
from somdst.tracking import edits
from somdst.tracking.audit import SlotEvent, in_force, slot_history, to_dialogue
from somdst.tracking.log import Result, replay
from somdst.tracking.old_logs import read_log
from somdst.tracking.questions import Question
from somdst.tracking.records import Entry, HasSnapshot, Snapshot

if TYPE_CHECKING:
    from somdst.tracking.tracker import Tracker


class Conversation(HasSnapshot):
    """One conversation in memory: the log, its snapshot, and everything that can be done to it.

    Every method that changes something gives a `Result`. A method that raises leaves the conversation as it was.
    """

    def __init__(
        self, tracker: Tracker, entries: Sequence[Entry] = (), *, schemas: Mapping[str, Schema] | None = None
    ) -> None:
        """`schemas` are those that the entries name, by their ids."""
        self.tracker = tracker
        self._trackers: dict[str | None, Tracker] = {None: tracker}
        self._trackers |= {id: tracker.under(schema) for id, schema in (schemas or {}).items()}
        self.snapshot = replay(entries)
        self._entries = list(entries)
        self.lock = threading.RLock()

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries)

    @property
    def now(self) -> Tracker:
        """The tracker with the schema in force: `tracker`, unless the schema was changed."""
        return self._trackers[self.snapshot.schema]

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns that have not been undone."""
        return tuple(entry.turn for entry in in_force(self._entries) if entry.turn)

    def update(self, user: str, system: str = "") -> Result:
        """The next turn: what the system said, if anything, and what the user said to it."""
        with self.lock:
            return self.take(self.now.step(self.snapshot, Turn(system=system, user=user)))

    async def update_async(self, user: str, system: str = "") -> Result:
        """`update` in a thread, so that the event loop is not blocked."""
        return await asyncio.to_thread(self.update, user, system)

    def correct(self, slot: str, value: Value | None, *, pin: bool = False) -> Result:
        """Write a value by hand; None deletes. The next turn starts from it."""
        with self.lock:
            return self.take(self.now.correct(self.snapshot, {slot: value}, pin=pin))

    def pin(self, *slots: str) -> Result:
        """From now on only new evidence in a later utterance changes these slots."""
        with self.lock:
            return self.take(self.now.pin(self.snapshot, slots))

    def unpin(self, *slots: str) -> Result:
        """Let every prediction change these slots again."""
        with self.lock:
            return self.take(edits.unpin(self.snapshot, slots))

    def confirm(self, *slots: str) -> Result:
        """Make the pending writes of these slots; of all, where none is named."""
        with self.lock:
            return self.take(edits.confirm(self.snapshot, slots))

    def reject(self, *slots: str) -> Result:
        """Drop the pending writes of these slots; of all, where none is named."""
        with self.lock:
            return self.take(edits.reject(self.snapshot, slots))

    def change_schema(self, schema: Schema | None) -> Result:
        """Go on under another schema; None is the tracker's own. What still fits is kept, and `refused` of the result
        says what does not."""
        with self.lock:
            id, tracker = (None, self.tracker) if schema is None else (schema.id, self.tracker.under(schema))
            result = edits.change_schema(self.snapshot, tracker.schema, id=id)
            self._trackers[id] = tracker
            return self.take(result)

    def undo(self) -> Result:
        """Take back the last thing that happened, a turn or an edit. More undos go further back."""
        with self.lock:
            return self.take(edits.undo(self.snapshot, self._entry_at))

    def redo(self) -> Result:
        """Do again what the last undo took back."""
        with self.lock:
            return self.take(edits.redo(self.snapshot, self._entry_at))

    def at(self, version: int) -> Snapshot:
        """The conversation as it was at a version, which is a number of entries; 0 is the start."""
        if not 0 <= version <= self.version:
            raise InputError(f"There is no version {version}: this conversation has 0 to {self.version}.")
        return replay(self._entries[:version])

    def what_to_ask(self, *slots: str) -> tuple[Question, ...]:
        """What to ask next: writes to confirm, then empty slots: these, or the required ones (`questions.py`)."""
        return self.now.what_to_ask(self.snapshot, slots)

    def history(self, slot: str) -> tuple[SlotEvent, ...]:
        """Why does this slot have its value? Everything that happened to it, oldest first, also under an earlier
        schema."""
        if not (events := slot_history(self._entries, slot)):
            self.now.slot(slot)  # a slot that was never written is no error, a misspelt one is
        return events

    def to_dialogue(self, *, id: str) -> Dialogue:
        """The turns with their corrected states, to train on. Private values are hidden."""
        schema = self.now.schema
        own = schema if self.snapshot.schema else None
        return to_dialogue(self._entries, id=id, schema=own, redacted=schema.redacted)

    def to_json(self) -> dict[str, Any]:
        """The whole log, and the state for readers that only want that."""
        entries = [entry.to_json(defaults=False) for entry in self._entries]
        schemas = {id: tracker.schema.to_json() for id, tracker in self._trackers.items() if id}
        return {"entries": entries, "state": self.state.to_json(), **({"schemas": schemas} if schemas else {})}

    @classmethod
    def from_json(cls, data: object, *, tracker: Tracker) -> Conversation:
        """What `to_json` gave. The state is replayed from the log and must agree with the one that was written."""
        if not isinstance(data, Mapping) or not isinstance(data.get("entries"), list):
            raise StateError("A conversation is a JSON object with the key `entries`, a list.")
        entries, schemas = read_log(data["entries"]), _read_schemas(data.get("schemas"))
        named = {entry.schema.after for entry in entries if entry.schema and entry.schema.after}
        if missing := sorted(named - set(schemas)):
            raise StateError(f"The conversation names the schema {missing[0]}, which is not under `schemas`.")
        conversation = cls(tracker, entries, schemas=schemas)
        snapshot = conversation.snapshot
        for slot in (*snapshot.state, *snapshot.pinned, *snapshot.pending):
            conversation.now.slot(slot)
        if "state" in data and State.from_json(data["state"]) != conversation.state:
            raise StateError("The conversation's state is not what its entries lead to: one of them was changed.")
        return conversation

    def take(self, result: Result) -> Result:
        """Append a result that the tracker made from this conversation's snapshot, with the lock held."""
        self._entries.append(result.entry)
        self.snapshot = result.snapshot
        return result

    def _entry_at(self, number: int) -> Entry:
        return self._entries[number - 1]


def _read_schemas(data: object) -> dict[str, Schema]:
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        raise StateError("Under `schemas`, a conversation has its schemas by their ids.")
    return {schema.id: schema for schema in map(Schema.from_json, data.values())}
