"""The LangGraph node in real graphs, with real checkpointers: what is tracked, asked, corrected and gone back to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.types import Command, interrupt
from pydantic import BaseModel
from scripted import RulePredictor

from somdst import Tracker
from somdst.errors import InputError
from somdst.integrations.langgraph import Memory, TrackedState, TrackerNode, remember, unread
from somdst.tracking.records import WINDOW

THREAD: Any = {"configurable": {"thread_id": "one"}}


@pytest.fixture
def track() -> TrackerNode:
    return TrackerNode(Tracker(RulePredictor(), threshold=0.5))


@pytest.fixture(params=["memory", "sqlite"])
def checkpointer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseCheckpointSaver[Any]]:
    if request.param == "memory":
        yield InMemorySaver()
        return
    with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as saver:
        yield saver


def graph_of(
    track: TrackerNode, checkpointer: BaseCheckpointSaver[Any] | None = None, state: Any = TrackedState
) -> Any:
    builder = StateGraph(state)
    builder.add_node("track", track)
    builder.add_edge(START, "track")
    return builder.compile(checkpointer=checkpointer)


def says(*texts: str) -> dict[str, Any]:
    """What the user says, or the assistant where a text starts with an arrow."""
    return {
        "messages": [
            AIMessage(text.removeprefix("> ")) if text.startswith("> ") else HumanMessage(text) for text in texts
        ]
    }


def values(graph: Any, config: Any = THREAD) -> dict[str, str]:
    return dict(graph.get_state(config).values["memory"]["state"])


def test_a_graph_leads_to_the_same_memory_as_a_conversation(
    track: TrackerNode, checkpointer: BaseCheckpointSaver[Any]
) -> None:
    graph, conversation = graph_of(track, checkpointer), track.tracker.start()
    graph.invoke(says("hotel area north, maybe hotel stars 4"), THREAD)
    memory = graph.invoke(says("> So hotel name acorn?", "hotel book day friday"), THREAD)["memory"]
    conversation.update(user="hotel area north, maybe hotel stars 4")
    result = conversation.update(user="hotel book day friday", system="So hotel name acorn?")
    assert {key: memory[key] for key in result.to_json()} == result.to_json()
    assert track.snapshot({"memory": memory}) == result.snapshot
    assert track.what_to_ask({"memory": memory}) == conversation.what_to_ask()
    assert json.loads(json.dumps(memory)) == memory


def test_a_memory_outlives_its_process(track: TrackerNode, tmp_path: Path) -> None:
    file = str(tmp_path / "checkpoints.sqlite")
    with SqliteSaver.from_conn_string(file) as saver:
        graph_of(track, saver).invoke(says("hotel area north"), THREAD)
    with SqliteSaver.from_conn_string(file) as saver:
        graph = graph_of(track, saver)
        graph.invoke(says("hotel stars 4"), THREAD)
        assert values(graph) == {"hotel-area": "north", "hotel-stars": "4"}


def asking(track: TrackerNode, checkpointer: BaseCheckpointSaver[Any]) -> Any:
    """A graph that stops to ask about every write that was held back."""

    def ask(state: TrackedState) -> Any:
        pending = state["memory"]["pending"][0]
        yes = interrupt(pending["question"]) == "yes"
        return track.confirm(state, pending["slot"]) if yes else track.reject(state, pending["slot"])

    def unsure(state: TrackedState) -> str:
        return "ask" if state["memory"]["pending"] else END

    builder = StateGraph(TrackedState)
    builder.add_node("track", track)
    builder.add_node("ask", ask)
    builder.add_edge(START, "track")
    builder.add_conditional_edges("track", unsure)
    builder.add_conditional_edges("ask", unsure)
    return builder.compile(checkpointer=checkpointer)


def test_a_question_interrupts_and_its_answer_resumes(
    track: TrackerNode, checkpointer: BaseCheckpointSaver[Any]
) -> None:
    graph = asking(track, checkpointer)
    stopped = graph.invoke(says("hotel area north, maybe hotel stars 4, maybe train day friday"), THREAD)
    assert stopped["__interrupt__"][0].value == "Did you mean 4 for the number of stars of the hotel?"
    assert values(graph) == {"hotel-area": "north"}
    stopped = graph.invoke(Command(resume="yes"), THREAD)
    assert stopped["__interrupt__"][0].value == "Did you mean friday for the day of the journey?"
    done = graph.invoke(Command(resume="no"), THREAD)
    assert done["memory"]["state"] == {"hotel-area": "north", "hotel-stars": "4"}
    assert done["memory"]["pending"] == [] and done["memory"]["version"] == 3  # the turn was tracked once


def test_time_travel_gives_the_memory_of_that_time(track: TrackerNode, checkpointer: BaseCheckpointSaver[Any]) -> None:
    graph = graph_of(track, checkpointer)
    for text in ("hotel area north", "hotel area south", "hotel stars 4"):
        graph.invoke(says(text), THREAD)
    past = {
        (len(item.values["messages"]), item.next): item.config
        for item in graph.get_state_history(THREAD)
        if item.values.get("messages")
    }
    assert values(graph, past[1, ()]) == {"hotel-area": "north"}
    assert values(graph, past[2, ("track",)]) == {"hotel-area": "north"}
    # Replayed from before the second turn was tracked, it is tracked again, with the same outcome.
    assert graph.invoke(None, past[2, ("track",)])["memory"]["state"] == {"hotel-area": "south"}
    # Another second turn: the first is still known, what came later is not.
    forked = graph.invoke(says("hotel stars 3"), past[1, ()])["memory"]
    assert forked["state"] == {"hotel-area": "north", "hotel-stars": "3"} and forked["version"] == 2
    assert values(graph, past[3, ()]) == {"hotel-area": "south", "hotel-stars": "4"}


def test_a_correction_sticks(track: TrackerNode, checkpointer: BaseCheckpointSaver[Any]) -> None:
    graph = graph_of(track, checkpointer)
    graph.invoke(says("hotel area north, maybe hotel stars 4"), THREAD)
    now = graph.get_state(THREAD).values
    graph.update_state(THREAD, track.correct(now, {"hotel-area": "south", "hotel-stars": None}, pin=True))
    memory = graph.invoke(says("hotel name acorn and taxi departure like hotel name"), THREAD)["memory"]
    assert memory["state"] == {"hotel-area": "south", "hotel-name": "acorn"}
    assert memory["pending"] == [] and memory["snapshot"]["pinned"] == ["hotel-area", "hotel-stars"]
    with pytest.raises(InputError, match='Did you mean "hotel-area"'):
        track.correct(memory, {"hotel-aera": "south"})


def test_nodes_that_run_in_parallel_both_write(track: TrackerNode) -> None:
    def edit(state: TrackedState) -> Any:
        return track.correct(state, {"hotel-area": "south", "hotel-stars": "5"}, pin=True)

    builder = StateGraph(TrackedState)
    builder.add_node("track", track)
    builder.add_node("edit", edit)
    builder.add_edge(START, "track")
    builder.add_edge(START, "edit")
    graph = builder.compile(checkpointer=InMemorySaver())
    memory = graph.invoke(says("hotel name acorn, maybe hotel stars 4"), THREAD)["memory"]
    assert memory["state"] == {"hotel-area": "south", "hotel-stars": "5", "hotel-name": "acorn"}
    assert memory["version"] == 2
    memory = graph.invoke(says("hotel name autumn house"), THREAD)["memory"]
    assert memory["state"]["hotel-name"] == "autumn house" and memory["version"] == 4


def test_a_message_is_tracked_once(track: TrackerNode) -> None:
    graph = graph_of(track, InMemorySaver())
    graph.invoke(says("hotel area north"), THREAD)
    memory = graph.invoke(says("> Fine. hotel area south?"), THREAD)["memory"]  # nobody has answered yet
    assert memory["version"] == 1 and memory["state"] == {"hotel-area": "north"}
    memory = graph.invoke(says("> Or train day friday?", "hotel stars 4", "hotel name acorn"), THREAD)["memory"]
    assert memory["version"] == 3
    recent = [(item["turn"]["system"], item["turn"]["user"]) for item in memory["snapshot"]["recent"]]
    assert recent == [
        ("", "hotel area north"),
        ("Fine. hotel area south? Or train day friday?", "hotel stars 4"),
        ("", "hotel name acorn"),
    ]


def test_messages_may_be_trimmed(track: TrackerNode) -> None:
    graph = graph_of(track, InMemorySaver())
    messages = graph.invoke(says("hotel area north", "> Which?", "hotel stars 4", "> Good."), THREAD)["messages"]
    removed: list[Any] = [RemoveMessage(id=message.id) for message in messages[:3]]
    memory = graph.invoke({"messages": [*removed, HumanMessage("hotel name acorn")]}, THREAD)["memory"]
    assert memory["version"] == 3 and memory["snapshot"]["recent"][-1]["turn"]["system"] == "Good."


def test_messages_without_text_or_ids() -> None:
    picture: Any = [{"type": "image", "url": "https://example.org/a.png"}]
    words: Any = [{"type": "text", "text": "a cheap one"}, *picture]
    messages: list[AnyMessage] = [HumanMessage(picture), AIMessage("x" * 30_000), HumanMessage(words)]
    turns, read = unread(messages, "")
    assert [(len(turn.system), turn.user) for turn in turns] == [(20_000, "a cheap one")]
    assert unread(messages, read) == ([], read)
    assert unread([*messages, HumanMessage("more")], read)[0][0].user == "more"


def test_messages_without_ids_in_a_window_that_moves() -> None:
    said = [HumanMessage("one"), AIMessage("Which?"), HumanMessage("two"), AIMessage("And?"), HumanMessage("three")]
    _, read = unread(said[:3], "")
    assert [turn.user for turn in unread(said[2:], read)[0]] == ["three"]


def test_no_message_is_refused_for_ever() -> None:
    [turn], _ = unread([AIMessage("half \ud83d"), HumanMessage("a\udc00" + "b" * 30_000)], "")
    assert turn.system == "half ?" and turn.user == "a?" + "b" * 19_998


def test_an_asynchronous_graph_and_a_state_of_another_kind(track: TrackerNode) -> None:
    class State(BaseModel):
        talk: Annotated[list[AnyMessage], add_messages] = []
        known: Annotated[Memory, remember] = {}

    node = TrackerNode(track.tracker, messages="talk", memory="known")
    graph = graph_of(node, InMemorySaver(), State)
    asyncio.run(graph.ainvoke({"talk": [HumanMessage("hotel area north")]}, THREAD))
    done = asyncio.run(graph.ainvoke({"talk": [HumanMessage("hotel stars 4")]}, THREAD))
    assert done["known"]["state"] == {"hotel-area": "north", "hotel-stars": "4"}


def test_a_memory_can_be_given_to_another_thread(track: TrackerNode) -> None:
    graph = graph_of(track, InMemorySaver())
    memory = graph.invoke(says("hotel area north"), THREAD)["memory"]
    other: Any = {"configurable": {"thread_id": "two"}}
    done = graph.invoke({**says("hotel stars 4"), "memory": {**memory, "read": ""}}, other)["memory"]
    assert done["state"] == {"hotel-area": "north", "hotel-stars": "4"} and done["version"] == 2


def test_the_memory_does_not_grow_with_the_conversation(track: TrackerNode) -> None:
    graph = graph_of(track)
    messages = [HumanMessage(f"hotel stars {number % 2}", id=str(number)) for number in range(3 * WINDOW)]
    sizes = [
        len(json.dumps(graph.invoke({"messages": messages[:length]})["memory"])) for length in (2 * WINDOW, 3 * WINDOW)
    ]
    assert sizes[0] == sizes[1]


def test_the_shipped_model_in_a_graph() -> None:
    tracker = Tracker.from_pretrained(threshold=0)
    graph, conversation = graph_of(TrackerNode(tracker), InMemorySaver()), tracker.start()
    graph.invoke(says("I need a cheap hotel in the north."), THREAD)
    memory = graph.invoke(says("> For how many nights?", "For 3 nights, please."), THREAD)["memory"]
    conversation.update(user="I need a cheap hotel in the north.")
    result = conversation.update(user="For 3 nights, please.", system="For how many nights?")
    assert memory["state"] == result.state.to_json() and memory["state"]["hotel-area"] == "north"
