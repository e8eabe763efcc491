"""The synthetic corpus: seeded, inside its schema, with everything in it that tests and the tutorial rely on."""

from collections import Counter

import pytest

from somdst.corpora.corpus import Split
from somdst.corpora.synthetic import SYNTHETIC_SCHEMA, synthetic_corpus, synthetic_dialogues, synthetic_named
from somdst.errors import CorpusError
from somdst.memory.dialogue import Dialogue
from somdst.memory.operations import Operation, derive
from somdst.memory.state import DONTCARE, State

SPLITS: tuple[Split, ...] = ("train", "dev", "test")
DIALOGUES = synthetic_dialogues(dialogues=300)


def steps(dialogue: Dialogue) -> list[tuple[State, State]]:
    states = dialogue.states()
    return list(zip([State(), *states], states, strict=False))


def test_same_seed_same_corpus() -> None:
    assert synthetic_dialogues(dialogues=20) == DIALOGUES[:20]
    assert synthetic_dialogues(dialogues=20, seed=1) != DIALOGUES[:20]
    assert len({dialogue.turns for dialogue in DIALOGUES}) == len(DIALOGUES)


@pytest.mark.parametrize("dialogue", DIALOGUES[:50], ids=lambda dialogue: str(dialogue.id))
def test_well_formed(dialogue: Dialogue) -> None:
    assert dialogue.turns[0].system == "" and all(turn.system for turn in dialogue.turns[1:])
    assert all("{" not in turn.system + turn.user for turn in dialogue.turns)
    assert tuple(dict.fromkeys(turn.domain for turn in dialogue.turns)) == dialogue.goal
    for state in dialogue.states():
        for slot, value in state.items():
            allowed = SYNTHETIC_SCHEMA[slot].values
            assert value is DONTCARE or allowed is None or value in allowed


def test_all_operations_and_domains_occur() -> None:
    counts: Counter[Operation] = Counter()
    for dialogue in DIALOGUES:
        for before, after in steps(dialogue):
            counts.update(derive(before, after).operations.values())
    turns = sum(len(dialogue.turns) for dialogue in DIALOGUES)
    for operation in (Operation.UPDATE, Operation.DELETE, Operation.DONTCARE):
        assert counts[operation] > turns * 0.03, f"{operation} is too rare to be learned"
    assert {domain for dialogue in DIALOGUES for domain in dialogue.goal or ()} == {"cafe", "hotel", "taxi"}


def test_corrections_references_and_odd_values_occur() -> None:
    corrections = references = 0
    values: set[str] = set()
    for dialogue in DIALOGUES:
        for (before, after), turn in zip(steps(dialogue), dialogue.turns, strict=True):
            for slot, value in derive(before, after).values.items():
                values.add(str(value))
                corrections += slot in before
                said = f"{turn.system} {turn.user}".lower()
                references += (
                    slot.startswith("taxi") and str(value) not in said and str(value) in map(str, before.values())
                )
    assert corrections > 30 and references > 30
    assert any("-" in value for value in values) and any(":" in value for value in values)


def test_what_is_said_decides_the_state() -> None:
    """The same words on the same state never mean two things: else no model could learn the corpus."""
    meaning: dict[tuple[str, str, str, State], object] = {}
    for dialogue in synthetic_dialogues(dialogues=1000, seed=7):
        system = user = ""
        for (before, after), turn in zip(steps(dialogue), dialogue.turns, strict=True):
            seen = meaning.setdefault((system + user, turn.system, turn.user, before), after)
            assert seen == after
            system, user = turn.system, turn.user


def test_by_name() -> None:
    assert synthetic_named("synthetic").dialogues == synthetic_corpus().dialogues
    splits = [synthetic_named("synthetic:40", split=split) for split in SPLITS]
    assert [len(corpus.dialogues) for corpus in splits] == [40, 8, 8]
    assert len({dialogue.turns for corpus in splits for dialogue in corpus.dialogues}) == 56


@pytest.mark.parametrize("name", ["synthetic:0", "synthetic:many", "synthetic:-1", "synthetic:²"])
def test_bad_name(name: str) -> None:
    with pytest.raises(CorpusError, match="should be"):
        synthetic_named(name)
