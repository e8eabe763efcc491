"""somdst: track what a user wants over a conversation, by selectively overwriting a memory of slots.

>>> from somdst import State, derive
>>> derive(State(), State({"hotel-area": "north"})).values
{'hotel-area': 'north'}
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from somdst.errors import SomdstError
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.operations import Operation, OperationSet, apply, derive
from somdst.memory.schema import Schema, Slot
from somdst.memory.state import DONTCARE, State

if TYPE_CHECKING:
    from somdst.service.client import Client
    from somdst.tracking.conversation import Conversation
    from somdst.tracking.tracker import Tracker

__version__ = "0.2.0"
__all__ = [
    "DONTCARE",
    "Client",
    "Conversation",
    "Dialogue",
    "Operation",
    "OperationSet",
    "Schema",
    "Slot",
    "SomdstError",
    "State",
    "Tracker",
    "Turn",
    "apply",
    "derive",
]

_LAZY = {
    "Client": "somdst.service.client",
    "Conversation": "somdst.tracking.conversation",
    "Tracker": "somdst.tracking.tracker",
}
"""Names that are imported only when they are asked for, so that `import somdst` stays light."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'somdst' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
