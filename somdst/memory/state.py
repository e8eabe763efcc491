"""The memory: `State`, an immutable mapping from slot to value.

A slot that is absent is NULL: nothing is known about it. `DONTCARE` says that the user has no preference. It is a value
of its own kind, so that a place called "dontcare" would still be a place; only in JSON is it written as the word.
Does not change a state; see `operations.py`.
"""

from __future__ import annotations

from collections.abc import Container, ItemsView, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeVar

from somdst.errors import StateError

if TYPE_CHECKING:
    from somdst.memory.filling import Filled

M = TypeVar("M")


class DontCare(Enum):
    """The type of `DONTCARE`, its only member."""

    DONTCARE = "dontcare"

    def __repr__(self) -> str:
        return "DONTCARE"

    def __str__(self) -> str:
        return "dontcare"


DONTCARE: Final = DontCare.DONTCARE
Value = str | DontCare


def value_from_json(value: object) -> Value:
    """The word "dontcare" becomes DONTCARE; any other text is itself."""
    if not isinstance(value, str):
        raise StateError(f"A value must be text, not {value!r}.")
    return DONTCARE if value == "dontcare" else value


def value_to_json(value: Value) -> str:
    return str(value)


class State(Mapping[str, Value]):
    """What is known after a turn.

    >>> state = State({"hotel-area": "north", "hotel-stars": DONTCARE})
    >>> state["hotel-area"], state.get("hotel-name")
    ('north', None)
    >>> state.with_values({"hotel-area": None, "train-day": "friday"})
    State({'hotel-stars': DONTCARE, 'train-day': 'friday'})
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Value] | None = None) -> None:
        self._values: dict[str, Value] = dict(values) if values else {}

    def __getitem__(self, slot: str) -> Value:
        return self._values[slot]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, slot: object) -> bool:
        return slot in self._values

    def __eq__(self, other: object) -> bool:
        return self._values == other._values if isinstance(other, State) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"State({self._values!r})"

    def items(self) -> ItemsView[str, Value]:
        return self._values.items()  # the dict's own view: several times faster than Mapping's

    def with_values(self, values: Mapping[str, Value | None]) -> State:
        """A new state in which these slots have these values; None makes a slot NULL."""
        merged = {**self._values, **values}
        return State({slot: value for slot, value in merged.items() if value is not None})

    def differing(self, other: State) -> set[str]:
        """The slots that do not have the same value in both.

        >>> sorted(State({"hotel-area": "north", "hotel-stars": "4"}).differing(State({"hotel-area": "south"})))
        ['hotel-area', 'hotel-stars']
        """
        return {slot for slot, _ in self.items() ^ other.items()}

    def within(self, slots: Container[str]) -> State:
        """The part of the state that is about these slots, or the slots of this schema.

        >>> State({"hotel-area": "north", "train-day": "friday"}).within({"train-day", "train-leaveat"})
        State({'train-day': 'friday'})
        """
        if all(slot in slots for slot in self._values):
            return self
        return State({slot: value for slot, value in self._values.items() if slot in slots})

    def as_model(self, model: type[M], *, domain: str | None = None) -> Filled[M]:
        """An instance of a pydantic model with the fields that the state has, and notes on what did not fit.

        booking, notes = state.as_model(Booking)
        """
        from somdst.memory.filling import as_model

        return as_model(self, model, domain=domain)

    @classmethod
    def from_json(cls, data: object) -> State:
        if not isinstance(data, Mapping):
            raise StateError(f"A state must be a mapping from slot to value, not {type(data).__name__}.")
        if wrong := next((slot for slot, value in data.items() if not isinstance(value, str)), None):
            raise StateError(f'The slot "{wrong}" must have text as its value, not {data[wrong]!r}.')
        return cls({slot: value_from_json(value) for slot, value in data.items()})

    def to_json(self) -> dict[str, str]:
        """Slots in alphabetical order, so that equal states are equal text."""
        return {slot: str(self._values[slot]) for slot in sorted(self._values)}
