"""The tracker where builders work: a LangGraph node, an MCP server, a Pipecat processor. Each is an extra of its own.

Import the one that you use (`from somdst.integrations.langgraph import TrackerNode`); nothing else imports them, so
that none of the frameworks is needed otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from somdst.errors import InputError


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Around the imports of a framework: where it is not installed, the error says which extra brings it.

    >>> with extra("langgraph"):
    ...     import a_package_that_nobody_has
    Traceback (most recent call last):
    somdst.errors.InputError: This needs the extra `langgraph`: pip install 'somdst[langgraph]'.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(f"This needs the extra `{name}`: pip install 'somdst[{name}]'.") from error
