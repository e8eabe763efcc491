"""An assistant in LangGraph that asks until it knows enough: `python examples/langgraph_hotel.py`.

It needs `pip install 'somdst[langgraph]'` and runs offline, on the model that comes with somdst. Where it says
"assistant", yours may call a language model.
"""

from typing import Any

from hotel import Hotel
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from somdst import Schema, State, Tracker
from somdst.integrations.langgraph import TrackedState, TrackerNode

# threshold=0: write everything; without it, writes that the model is not sure of wait for an answer
track = TrackerNode(Tracker.from_pretrained(schema=Schema.from_pydantic(Hotel), threshold=0))


def assistant(state: TrackedState) -> dict[str, Any]:
    """Ask for what is missing; with everything that is required, book."""
    open_questions = track.what_to_ask(state)
    if open_questions:
        return {"messages": [AIMessage(open_questions[0].question)]}
    hotel, _ = State.from_json(state["memory"]["state"]).as_model(Hotel)
    return {"messages": [AIMessage(f"Booked: {hotel!r}")]}


builder = StateGraph(TrackedState)
builder.add_node("track", track)
builder.add_node("assistant", assistant)
builder.add_edge(START, "track")
builder.add_edge("track", "assistant")
graph = builder.compile(checkpointer=InMemorySaver())  # or any other checkpointer

if __name__ == "__main__":
    for text in ("I am looking for a cheap hotel.", "In the north, please.", "On Friday, and with parking."):
        done = graph.invoke({"messages": [HumanMessage(text)]}, {"configurable": {"thread_id": "1"}})
        print("user     ", text)
        print("assistant", done["messages"][-1].text)
        print("memory   ", done["memory"]["state"])
