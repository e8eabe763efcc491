"""MCP: a server with six tools, so that a language model keeps its notes of a conversation with somdst.

    track_turn  get_state  correct  undo  explain  what_to_ask

`build_server` makes it from a tracker and a store; `somdst mcp` runs it over stdio, or over streamable HTTP behind the
same guards as the service: keys, host, origin, size. It may share a database with `somdst serve`, whose page then shows
the same conversations. Every call names its conversation, so that the protocol needs no session. A conversation has the
server's schema, or its own, which its first turn brings.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from functools import partial, wraps
from typing import Annotated, Any, get_type_hints

from pydantic import Field
from typing_extensions import TypedDict

from somdst import __version__
from somdst.errors import Conflict, InputError, SomdstError, sentence
from somdst.integrations import extra
from somdst.memory.dialogue import Turn
from somdst.service.configuration import LOCAL, Settings
from somdst.service.guards import Guarded, Limited, Observed
from somdst.service.monitoring import Metrics
from somdst.service.requests import SCHEMA_ID
from somdst.service.schema_input import read_schema
from somdst.service.server import serve
from somdst.store import Store, Write
from somdst.tracking import edits
from somdst.tracking.audit import SlotEvent, slot_history
from somdst.tracking.log import Result, replay
from somdst.tracking.questions import Question
from somdst.tracking.records import Change, JsonSlots, JsonState, Pending, Refused, Snapshot, adapter, in_order
from somdst.tracking.step import check_turn
from somdst.tracking.tracker import Tracker

with extra("mcp"):
    from mcp.server.mcpserver import Context, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp.types import ToolAnnotations

INSTRUCTIONS = """\
Keeps what the user wants as a memory of slots, so that you need not invent or repeat it. Call track_turn with every
message of the user and with what you said before it; without a conversation it starts one, and the answer has its id.
Trust the state: a slot that is absent was not said. Ask the questions that what_to_ask returns. If the user corrects a
value and the state is still wrong, call correct. A new conversation may bring a schema of its own. Otherwise the slots
are: """

Id = Annotated[str, Field(description="Id of the conversation: the answer of its first track_turn has it.")]
OwnSchema = Annotated[
    dict[str, Any] | str | None,
    Field(
        description="For a new conversation about other slots: a JSON Schema, a tool definition or a schema of somdst, "
        "as an object or as text; or the id of a schema that a conversation has. By default the server's own."
    ),
]
SlotName = Annotated[str, Field(description="Name of a slot, such as hotel-area.")]
Make = Callable[[Tracker, Snapshot], Result]
"""Makes what is to be appended to a snapshot, with the tracker of its schema."""


class Remembered(TypedDict):
    """A conversation at one version."""

    conversation: str
    version: int
    state: JsonState
    """Slot to value; a slot that is absent is not known, and `dontcare` says that the user has no preference."""
    pending: tuple[Pending, ...]
    """Writes that wait for an answer, each with its question."""
    pinned: JsonSlots
    schema: str | None
    """Id of its own schema; null if it uses the server's."""


class Tracked(Remembered):
    """A conversation after a turn or an edit, and what that did."""

    changes: tuple[Change, ...]
    refused: tuple[Refused, ...]
    domain: str | None


class History(TypedDict):
    slot: str
    events: tuple[SlotEvent, ...]
    """Everything that happened to the slot, oldest first. The last change in force explains its value."""


class Questions(TypedDict):
    questions: tuple[Question, ...]


class Tools:
    """The six tools. Their docstrings are what a language model reads. They run in threads, many at a time."""

    def __init__(self, tracker: Tracker, store: Store) -> None:
        self.tracker = tracker
        self.store = store

    def track_turn(
        self,
        context: Context,
        user: Annotated[str, Field(description="What the user said, word for word.")],
        system: Annotated[str, Field(description="What you said before that; empty if the user spoke first.")] = "",
        conversation: Annotated[str | None, Field(description="Id of the conversation; none starts a new one.")] = None,
        schema: OwnSchema = None,
    ) -> Tracked:
        """Update the memory with what the user just said. Call it for every message of the user, in order."""
        turn = Turn(system=system, user=user)
        check_turn(turn)  # so that a bad turn starts no conversation
        if conversation and schema is not None:
            raise InputError("A conversation keeps the schema that it started with: leave out one of the two.")
        id = conversation or self._start(_tenant(context), schema)
        try:
            return self._write(context, id, lambda tracker, snapshot: tracker.step(snapshot, turn))
        except SomdstError:
            if not conversation:  # nobody would know its id
                self.store.erase(_tenant(context), id)
            raise

    def get_state(
        self,
        context: Context,
        conversation: Id,
        version: Annotated[int | None, Field(description="As it was at this version; by default as it is.")] = None,
    ) -> Remembered:
        """Read what is known: the state, and the writes that wait for an answer."""
        tenant = _tenant(context)
        if version is None:
            return _remembered(conversation, self.store.read(tenant, conversation).snapshot)
        return _remembered(conversation, self.store.at(tenant, conversation, version))

    def correct(
        self,
        context: Context,
        conversation: Id,
        slot: SlotName,
        value: Annotated[str | None, Field(description="The right value; null empties the slot; dontcare: any.")],
        pin: Annotated[bool, Field(description="Keep it until a later turn says another value.")] = False,
    ) -> Tracked:
        """Write a value that is wrong or missing, or confirm one that is pending. The next turn starts from it."""
        return self._write(
            context,
            conversation,
            lambda tracker, snapshot: tracker.correct(snapshot, {slot: value}, pin=pin, source="api"),
        )

    def undo(self, context: Context, conversation: Id) -> Tracked:
        """Take back the last turn or correction. Call it again to go further back."""
        entry_at = partial(self.store.entry, _tenant(context), conversation)
        return self._write(context, conversation, lambda _, snapshot: edits.undo(snapshot, entry_at, source="api"))

    def explain(self, context: Context, conversation: Id, slot: SlotName) -> History:
        """Say why a slot has its value: which turn wrote it, from which words, how sure, who corrected it."""
        tenant = _tenant(context)
        log = self.store.log(tenant, conversation)
        events = slot_history(log, slot)
        if not events:  # a slot that was never written is no error, a misspelt one is
            self._tracker(tenant, replay(log)).slot(slot)
        return {"slot": slot, "events": events}

    def what_to_ask(
        self,
        context: Context,
        conversation: Id,
        slots: Annotated[
            list[str],
            Field(
                description="Ask for these if they are empty; by default for all that the schema requires, or, if it "
                "requires none, for all of the domains that the user talked about."
            ),
        ] = [],  # noqa: B006
    ) -> Questions:
        """List what to ask the user next: values to confirm first, then what is still missing."""
        tenant = _tenant(context)
        snapshot = self.store.read(tenant, conversation).snapshot
        return {"questions": self._tracker(tenant, snapshot).what_to_ask(snapshot, slots)}

    def _start(self, tenant: str, given: dict[str, Any] | str | None) -> str:
        """The id of a new conversation. With a schema, nothing is stored unless the model can track it."""
        if given is None:
            return self.store.create(tenant).id
        if isinstance(given, str) and re.fullmatch(SCHEMA_ID, given):
            schema = self.store.schemas.read(tenant, given).schema
        else:
            schema = read_schema(given)
        self.tracker.under(schema)
        return self.store.create(tenant, schema=schema).id

    def _tracker(self, tenant: str, snapshot: Snapshot) -> Tracker:
        """The tracker with the schema of a conversation."""
        id = snapshot.schema
        return self.tracker.under(self.store.schemas.of_conversation(tenant, id)) if id else self.tracker

    def _write(self, context: Context, conversation: str, make: Make) -> Tracked:
        tenant = _tenant(context)
        while True:
            snapshot = self.store.read(tenant, conversation).snapshot
            result = make(self._tracker(tenant, snapshot), snapshot)
            try:
                self.store.append(Write(tenant, conversation, result))
            except Conflict:  # another call was faster: once more, from the newer memory
                continue
            return {
                **_remembered(conversation, result.snapshot),
                "changes": result.changes,
                "refused": result.refused,
                "domain": result.domain,
            }


def _remembered(conversation: str, snapshot: Snapshot) -> Remembered:
    return {
        "conversation": conversation,
        "version": snapshot.version,
        "state": snapshot.state,
        "pending": in_order(snapshot.pending),
        "pinned": snapshot.pinned,
        "schema": snapshot.schema,
    }


def _tenant(context: Context) -> str:
    """Whose conversations a call may see: over HTTP what `Guarded` found, over stdio everything is one user's."""
    request = context.request_context.request
    return str(request.state.tenant) if request is not None else LOCAL


def _tool(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method as a tool: its answer as JSON, and an error that somdst raises on purpose as a sentence to read."""
    shape = adapter(get_type_hints(method)["return"])

    @wraps(method)
    def answer(**arguments: Any) -> Any:
        try:
            return shape.dump_python(method(**arguments), mode="json")
        except SomdstError as error:
            raise ToolError(sentence(error)) from error

    return answer


def build_server(tracker: Tracker, store: Store) -> MCPServer[Any]:
    """The server, for any transport: `server.run("stdio")`, `serve_http`, or a client in the same process."""
    tools = Tools(tracker, store)
    instructions = INSTRUCTIONS.replace("\n", " ") + ", ".join(tracker.schema) + "."
    server: MCPServer[Any] = MCPServer("somdst", version=__version__, instructions=instructions, log_level="WARNING")
    writing = ToolAnnotations(destructive_hint=False, open_world_hint=False)
    reading = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    for tool in (tools.track_turn, tools.correct, tools.undo, tools.get_state, tools.explain, tools.what_to_ask):
        reads = tool in (tools.get_state, tools.explain, tools.what_to_ask)
        server.add_tool(_tool(tool), annotations=reading if reads else writing, structured_output=True)
    return server


def serve_http(server: MCPServer[Any], settings: Settings, *, listener: socket.socket) -> None:
    """Serve at /mcp over streamable HTTP until SIGINT or SIGTERM. Each tenant sees its own conversations only."""
    app = server.streamable_http_app(
        stateless_http=True,  # a call names its conversation, so there is nothing to keep between two of them
        json_response=True,
        max_request_body_size=settings.max_body,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # `Guarded` checks it
    )
    guarded = Guarded(Limited(app, settings=settings), settings=settings)
    observed = Observed(guarded, metrics=Metrics(queue_length=lambda: guarded.under_way))
    serve(observed, settings, sockets=[listener], log_level="WARNING")
