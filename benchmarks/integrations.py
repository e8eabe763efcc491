#!/usr/bin/env python
"""What an integration adds to a turn: `python benchmarks/integrations.py`.

The same dialogues, turn by turn: as a bare `Conversation.update`; with a store in memory, as the MCP server has it;
through the LangGraph node and its reducer; through a whole graph with a checkpointer in memory; and through the MCP
server, a process of its own, over stdio and over HTTP.
The ways alternate in random order, dialogue after dialogue, because each disturbs the one after it: a process keeps its
cores busy for a moment after its turn.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from random import Random
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from mcp import Client, StdioServerParameters

from somdst import Tracker
from somdst.cli import options
from somdst.cli.main import run_alone
from somdst.cli.mcp_server import memory_folder
from somdst.cli.output import print_json, print_tables, working
from somdst.corpora.examples import examples
from somdst.evaluate.speed import Latency
from somdst.evaluate.tables import Table
from somdst.integrations.langgraph import TrackedState, TrackerNode, remember
from somdst.memory.dialogue import Dialogue, Turn
from somdst.service.configuration import LOCAL
from somdst.store import Store, Write

BARE = "bare update"
Say = Callable[[Turn], Awaitable[object]]
Start = Callable[[], Say]
"""Starts a conversation; what it gives tracks the next turn."""


def main(
    model: options.ModelOption = "default",
    rounds: Annotated[int, typer.Option(min=1, help="How often each way does all dialogues.")] = 5,
    dialogues: Annotated[int, typer.Option(min=1, help="Most bundled dialogues.")] = 100,
    as_json: options.JsonOption = False,
) -> None:
    work = [item.dialogue for item in examples().values()][:dialogues]
    with working("measuring"):
        found = asyncio.run(measure(model, work, rounds=rounds))
    added = {way: latency.p50 - found[BARE].p50 for way, latency in found.items()}
    if as_json:
        print_json({way: {**latency.to_json(), "added_ms": round(added[way], 3)} for way, latency in found.items()})
        return
    rows = tuple(
        (way, latency.p50, latency.p95, added[way], latency.p50 / found[BARE].p50) for way, latency in found.items()
    )
    columns = ("way", "p50 ms", "p95 ms", "added ms", "ratio")
    print_tables([Table("integrations", "A turn through an integration", columns, rows, "`added` is of the medians.")])


async def measure(model: str, work: Sequence[Dialogue], *, rounds: int) -> dict[str, Latency]:
    tracker = Tracker.from_pretrained(model)
    stdio = StdioServerParameters(command=sys.executable, args=["-m", "somdst", "mcp", "--model", model])
    seconds: dict[str, list[float]] = {}
    with served(model) as url, kept_in_memory() as store:
        async with Client(stdio) as over_stdio, Client(url) as over_http:
            ways: dict[str, Start] = {
                BARE: bare(tracker),
                "with a store": stored(tracker, store),
                "LangGraph node": node(tracker),
                "LangGraph graph": graph(tracker),
                "MCP over stdio": tools(over_stdio),
                "MCP over HTTP": tools(over_http),
            }
            chance = Random(0)
            for number in range(rounds + 1):
                for dialogue in work:
                    for way in chance.sample(list(ways), len(ways)):
                        times = [taken async for taken in timed(ways[way](), dialogue)]
                        if number:  # the first round warms up
                            seconds.setdefault(way, []).extend(times)
    return {way: Latency.of(seconds[way]) for way in ways}


async def timed(say: Say, dialogue: Dialogue) -> AsyncIterator[float]:
    """Seconds of every turn."""
    for turn in dialogue.turns:
        began = time.perf_counter()
        await say(turn)
        yield time.perf_counter() - began


def bare(tracker: Tracker) -> Start:
    def start() -> Say:
        conversation = tracker.start()

        async def say(turn: Turn) -> None:
            conversation.update(user=turn.user, system=turn.system)

        return say

    return start


def stored(tracker: Tracker, store: Store) -> Start:
    def start() -> Say:
        id = store.create(LOCAL).id

        async def say(turn: Turn) -> None:
            snapshot = store.read(LOCAL, id).snapshot
            store.append(Write(LOCAL, id, tracker.step(snapshot, Turn(turn.system, turn.user))))

        return say

    return start


@contextmanager
def kept_in_memory() -> Iterator[Store]:
    with TemporaryDirectory(dir=memory_folder()) as folder, closing(Store(f"{folder}/conversations.sqlite")) as store:
        yield store


def node(tracker: Tracker) -> Start:
    track = TrackerNode(tracker)

    def start() -> Say:
        state: dict[str, Any] = {"messages": [], "memory": {}}

        async def say(turn: Turn) -> None:
            state["messages"] += messages(turn)
            state["memory"] = remember(state["memory"], track(state)["memory"])

        return say

    return start


def graph(tracker: Tracker) -> Start:
    builder = StateGraph(TrackedState)
    builder.add_node("track", TrackerNode(tracker))
    builder.add_edge(START, "track")
    compiled = builder.compile(checkpointer=InMemorySaver())
    threads = count()

    def start() -> Say:
        config = {"configurable": {"thread_id": str(next(threads))}}

        async def say(turn: Turn) -> None:
            compiled.invoke({"messages": messages(turn)}, config)

        return say

    return start


def tools(client: Any) -> Start:
    def start() -> Say:
        conversation: dict[str, str] = {}

        async def say(turn: Turn) -> None:
            arguments = {"user": turn.user, "system": turn.system, **conversation}
            answer = await client.call_tool("track_turn", arguments)
            conversation["conversation"] = answer.structured_content["conversation"]

        return say

    return start


def messages(turn: Turn) -> list[Any]:
    return [*([AIMessage(turn.system)] if turn.system else []), HumanMessage(turn.user)]


@contextmanager
def served(model: str) -> Iterator[str]:
    """The MCP server over HTTP, in a process of its own."""
    command = [sys.executable, "-m", "somdst", "mcp", "--http", "--port", "0", "--model", model]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        yield re.findall(r"http://\S+", process.stderr.readline())[0]
    finally:
        process.terminate()
        process.communicate()


if __name__ == "__main__":
    run_alone(main)
