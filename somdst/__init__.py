"""somdst: track what a user wants over a conversation, by selectively overwriting a memory of slots.

>>> from somdst import State, derive
>>> derive(State(), State({"hotel-area": "north"})).values
{'hotel-area': 'north'}
"""

from somdst.dialogue import Dialogue, Turn
from somdst.errors import SomdstError
from somdst.operations import Operation, OperationSet, apply, derive
from somdst.schema import Schema, Slot
from somdst.state import DONTCARE, State

__version__ = "0.1.0"
__all__ = [
    "DONTCARE",
    "Dialogue",
    "Operation",
    "OperationSet",
    "Schema",
    "Slot",
    "SomdstError",
    "State",
    "Turn",
    "apply",
    "derive",
]
