"""Conversations as data: `Turn`, one exchange, and `Dialogue`, a sequence of them.

A turn is what the system said and what the user then said. In a corpus it also carries the whole state after it and
the domain it is about; a turn without labels has None there. Does not read files; see `corpora/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from somdst.memory.schema import Schema
from somdst.memory.state import State, Value


@dataclass(frozen=True, slots=True)
class Turn:
    """`system` is empty where the user spoke first. Texts are raw, as they were typed."""

    system: str
    user: str
    state: State | None = None
    domain: str | None = None
    spellings: Mapping[str, tuple[str, ...]] | None = field(default=None, compare=False)
    """Where a corpus accepts several spellings of a value: all of them, by slot."""
    frames: tuple[str, ...] | None = field(default=None, compare=False)
    """Where a corpus counts the state of each service by itself: the services of this turn."""


@dataclass(frozen=True, slots=True)
class Dialogue:
    id: str
    turns: tuple[Turn, ...]
    goal: tuple[str, ...] | None = None
    """The domains of the user's goal, if the corpus tells."""
    schema: Schema | None = field(default=None, compare=False)
    """The slots of this dialogue, where the dialogues of a corpus have different ones."""

    @property
    def labelled(self) -> bool:
        return all(turn.state is not None for turn in self.turns)

    def states(self) -> list[State]:
        """The state after each turn; a turn without a label repeats the one before."""
        states: list[State] = []
        for turn in self.turns:
            states.append(turn.state if turn.state is not None else states[-1] if states else State())
        return states

    def new_values(self) -> Iterator[tuple[str, Value]]:
        """Each slot with each value that it gets, where it is new; not again while it stays."""
        before = State()
        for state in self.states():
            yield from ((slot, value) for slot, value in state.items() if before.get(slot) != value)
            before = state


def count_turns(dialogues: Iterable[Dialogue]) -> int:
    return sum(len(dialogue.turns) for dialogue in dialogues)
