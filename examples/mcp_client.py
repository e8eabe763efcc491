"""A conversation with the MCP server, over stdio: `python examples/mcp_client.py`.

It needs `pip install 'somdst[mcp]'` and runs offline. The client is the official one; a language model
would make these calls itself.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from hotel import Hotel
from mcp import Client, StdioServerParameters

from somdst import Schema


async def main(folder: Path) -> None:
    Schema.from_pydantic(Hotel).save(folder / "hotel.json")
    # threshold=0: write everything; without it, writes that the model is not sure of wait for an answer
    command = ["-m", "somdst", "mcp", "--schema", str(folder / "hotel.json"), "--threshold", "0"]
    async with Client(StdioServerParameters(command=sys.executable, args=command)) as client:

        async def call(tool: str, **arguments: object) -> dict:
            return (await client.call_tool(tool, arguments)).structured_content or {}

        told = await call("track_turn", user="I am looking for a cheap hotel in the north.")
        id = told["conversation"]
        print("state  ", told["state"])
        print("ask    ", [item["question"] for item in (await call("what_to_ask", conversation=id))["questions"]])
        told = await call("correct", conversation=id, slot="hotel-area", value="south")
        print("correct", told["state"])
        told = await call("undo", conversation=id)
        print("undo   ", told["state"])
        events = (await call("explain", conversation=id, slot="hotel-area"))["events"]
        print("explain", [(event["kind"], event["change"]["after"]) for event in events])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
