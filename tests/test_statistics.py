"""Counts by hand on three dialogues, the paper's rules, and the paper's own tables."""

import pytest

from somdst.corpora import paper_counts
from somdst.corpora.statistics import Generated, Transition, count, schema_of
from somdst.corpora.synthetic import SYNTHETIC_SCHEMA, synthetic_dialogues
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.operations import OPERATION_SETS
from somdst.memory.schema import Schema, Slot
from somdst.memory.state import DONTCARE, State, Value

SCHEMA = Schema([Slot.of("hotel", "area"), Slot.of("hotel", "name"), Slot.of("taxi", "to"), Slot.of("train", "day")])


def dialogue(*turns: tuple[str | None, dict[str, Value]], goal: tuple[str, ...] | None = None) -> Dialogue:
    return Dialogue("d", tuple(Turn("", "hi", State(state), domain) for domain, state in turns), goal)


THREE = (
    dialogue(
        ("hotel", {"hotel-area": "north", "hotel-name": "bell tower"}),
        ("train", {"hotel-name": "bell tower", "train-day": DONTCARE, "police-name": "x"}),
        ("taxi", {"hotel-name": "tower hill", "train-day": DONTCARE, "taxi-to": "bell tower"}),
        ("hotel", {"hotel-name": "tower hill", "train-day": DONTCARE, "taxi-to": "bell tower"}),
        goal=("hotel", "taxi"),
    ),
    dialogue(("hotel", {}), goal=("hotel",)),
    dialogue((None, {}), ("hotel", {"hotel-area": "north"}), goal=("train",)),
)


def test_by_hand() -> None:
    counted = count(THREE, schema=SCHEMA)
    assert (counted.dialogues, counted.turns, counted.slots) == (3, 7, 4)
    assert counted.operations == {"carryover": 21, "delete": 1, "dontcare": 1, "update": 5}
    assert counted.generated == Generated(0, 5 / 7, 2)
    assert [(row.domain, row.dialogues, row.turns) for row in counted.domains] == [
        ("hotel", 2, 4),
        ("taxi", 1, 1),
        ("train", 1, 1),
    ]
    assert counted.vocabulary == {"hotel-name": 3, "taxi-to": 2, "hotel-area": 1, "train-day": 1}
    assert counted.transitions == (Transition(("hotel",), 2), Transition(("hotel", "train", "taxi"), 1))
    assert counted.complicated == counted.complicated_ending("taxi") == 1
    assert counted.complicated_ending("hotel") == 0


def test_without_goals_the_turns_decide() -> None:
    counted = count([Dialogue(d.id, d.turns) for d in THREE], schema=SCHEMA)
    assert counted.counted_by == "turns"
    assert [row.dialogues for row in counted.domains] == [3, 1, 1]


def test_nothing_to_count() -> None:
    counted = count([], schema=SCHEMA)
    assert counted.turns == 0 and counted.generated == Generated(0, 0.0, 0) and counted.transitions == ()
    assert schema_of([]) is None


@pytest.mark.parametrize("name", OPERATION_SETS)
def test_every_slot_of_every_turn_is_counted_once(name: str) -> None:
    dialogues = synthetic_dialogues(dialogues=30)
    counted = count(dialogues, schema=SYNTHETIC_SCHEMA, operation_set=OPERATION_SETS[name])
    assert sum(counted.operations.values()) == counted.turns * 13
    assert sum(row.turns for row in counted.domains) == counted.turns == sum(len(d.turns) for d in dialogues)
    assert sum(row.dialogues for row in counted.transitions) == 30


def test_schema_of_the_states() -> None:
    schema = schema_of(THREE)
    assert schema is not None
    assert set(schema) == {*SCHEMA, "police-name"}
    odd = schema_of([dialogue((None, dict.fromkeys(["area", "-x", "x-", "a -b", "a- b", "h-b-c d", "o-k"], "v")))])
    assert odd is not None and set(odd) == {"h-b-c d", "o-k"}


def test_published_tables_agree_with_themselves() -> None:
    """Typing errors in the table would show in its sums: every turn has a domain and thirty operations."""
    for split, turns in enumerate((54984, 7371, 7368)):
        assert sum(row[split] for row in paper_counts.TURNS.values()) == turns
        assert sum(row[split] for row in paper_counts.OPERATIONS.values()) == turns * 30
    updates = paper_counts.OPERATIONS["update"][2]
    assert round(updates / 7368, 2) == paper_counts.GENERATED[1]
    long = {order: number for order, number in paper_counts.TRANSITIONS.items() if order.count(" ") >= 2}
    taxi = sum(number for order, number in long.items() if order.endswith("taxi"))
    assert (sum(long.values()), taxi) == paper_counts.COMPLICATED
    assert sum(paper_counts.TRANSITIONS.values()) == 999 and len(paper_counts.TRANSITIONS) == 50
    assert set(paper_counts.VOCABULARY) == set(Schema.multiwoz())
