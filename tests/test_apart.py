"""Slots that are different, and words that two slots repeat: what is written where both got the same, and by which."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tiny

from somdst.memory.operations import Operation
from somdst.memory.schema import Schema, Slot
from somdst.memory.state import DONTCARE, State
from somdst.model.prediction import Evidence
from somdst.model.values import LEAST, MEMORY, Proposal, another, clashes, covered, repeated, resolve_duplicates

PAIR = ("taxi-from", "taxi-to")
SCHEMA = Schema([Slot.of("taxi", "from"), Slot.of("taxi", "to"), Slot.of("taxi", "when")], different=[PAIR])


def said(value: str | None, probability: float) -> Proposal:
    return Proposal(value, None, probability)


def test_what_clashes() -> None:
    here, there = said("north", 0.9), said("south", 0.9)
    pairs = SCHEMA.different
    assert clashes({"taxi-from": here, "taxi-to": here}, {}, pairs) == [PAIR]
    assert clashes({"taxi-from": here}, {"taxi-to": "north"}, pairs) == [PAIR]
    assert clashes({"taxi-from": here, "taxi-to": there}, {}, pairs) == []
    assert clashes({"taxi-from": here}, {"taxi-to": "south"}, pairs) == []
    assert clashes({"taxi-from": there, "taxi-when": here}, {"taxi-to": "north"}, pairs) == []
    assert clashes({"taxi-when": here}, {"taxi-from": "north", "taxi-to": "north"}, pairs) == [], "not by this turn"
    assert clashes({"taxi-from": said(None, 0.9), "taxi-to": said(None, 0.9)}, {}, pairs) == []
    assert clashes({"taxi-from": Proposal(DONTCARE, None, 0.9)}, {"taxi-to": DONTCARE}, pairs) == [], "may both be open"


def test_the_less_certain_yields() -> None:
    regenerated = {slot: said("south", 0.8) for slot in PAIR}
    for first, second, yields in ((0.9, 0.6, "taxi-to"), (0.6, 0.9, "taxi-from")):
        written = {"taxi-from": said("north", first), "taxi-to": said("north", second)}
        assert resolve_duplicates(PAIR, written, regenerated) == {yields: said("south", 0.8)}


def test_a_likely_other_value_counts_too() -> None:
    written = {"taxi-from": said("north", 0.7), "taxi-to": said("north", 0.65)}
    regenerated = {"taxi-from": said("south", 0.9), "taxi-to": said("south", 0.3)}
    assert resolve_duplicates(PAIR, written, regenerated) == {"taxi-from": said("south", 0.9)}


@pytest.mark.parametrize("found", [said("south", LEAST / 2), said(None, 0.9), said("", 0.9), said("north", 0.9)])
def test_rather_nothing_than_a_guess(found: Proposal) -> None:
    written = {"taxi-from": said("north", 0.9), "taxi-to": said("north", 0.6)}
    told = resolve_duplicates(PAIR, written, {"taxi-from": found, "taxi-to": found})
    assert {slot: one.value for slot, one in told.items()} == {"taxi-to": None}


def test_the_memory_is_believed_unless_the_turn_is_surer() -> None:
    regenerated = {"taxi-to": said("south", 0.8)}
    assert resolve_duplicates(PAIR, {"taxi-to": said("north", MEMORY - 0.1)}, regenerated) == regenerated
    assert resolve_duplicates(PAIR, {"taxi-to": said("north", 0.99)}, regenerated) == {}, "what was said just now stays"


def test_covering() -> None:
    ids, mask = np.array([5, 6, 7, 6, 7, 0]), np.array([True] * 5 + [False])
    assert covered(ids, mask, [6, 7]).tolist() == [True, False, False, False, False, False]
    assert covered(ids, mask, [9]).tolist() == mask.tolist()
    assert covered(ids, mask, []).tolist() == mask.tolist()
    assert covered(ids, mask, range(7)).tolist() == mask.tolist()
    assert mask.tolist() == [True] * 5 + [False], "the input itself stays as it was"


def copying(schema: Schema = SCHEMA, **config: Any) -> Any:
    """A predictor that writes into every slot the first of two words that it may copy."""
    pytest.importorskip("torch")
    from somdst.learn.torch_predictor import TorchPredictor
    from somdst.model.compiled import Ints
    from somdst.model.predictor import Arrays, Bools, EncoderRun, GeneratorRun

    model, text = tiny.model(schema, **config)
    [north], [south] = (text.encode_value(word)[:-1] for word in ("north", "south"))
    certainty = {SCHEMA.index["taxi-from"]: 0.6, SCHEMA.index["taxi-to"]: 0.9, SCHEMA.index["taxi-when"]: 0.5}

    class Copying(TorchPredictor):
        runs = 0

        def run_encoder(self, arrays: Arrays, *, alone: bool = False) -> EncoderRun:
            run = super().run_encoder(arrays, alone=alone)
            run.operations[..., self.operation_set.index(Operation.UPDATE)] = 9.0  # every slot
            return run

        def run_generator(
            self, arrays: Arrays, context: Any, owners: Ints, slots: Ints, *, mask: Bools | None = None
        ) -> GeneratorRun:
            self.runs += 1
            visible = arrays.mask[owners] if mask is None else mask
            tokens, positions = [], []
            for ids, seen in zip(arrays.ids[owners], visible, strict=True):
                at = next((i for word in (north, south) for i in np.flatnonzero((ids == word) & seen)), 0)
                tokens.append([ids[at] if at else text.eos, text.eos])
                positions.append([at, 0])
            probability = np.array([certainty[j] for j in slots.tolist()], dtype=np.float32)
            return GeneratorRun(np.array(tokens), probability, np.array(positions))

    return Copying(model, text)


EVERY = {"taxi-from": "update", "taxi-to": "update", "taxi-when": "update"}


def test_a_turn_that_takes_one_place_for_both() -> None:
    apart, plain = copying(tell_apart=True), copying(tell_apart=False)
    given = [
        tiny.turn_input("to the north in the south"),
        tiny.turn_input("to the north"),
        tiny.turn_input("in the south"),
    ]
    found = apart.predict(given, operations=[EVERY] * 3)
    assert [dict(one.values) for one in found] == [
        {"taxi-from": "south", "taxi-to": "north", "taxi-when": "north"},
        {"taxi-from": None, "taxi-to": "north", "taxi-when": "north"},
        {"taxi-from": None, "taxi-to": "south", "taxi-when": "south"},
    ]
    evidence = found[0].slots["taxi-from"].evidence
    assert evidence is not None and evidence.text == "south"
    assert apart.runs == 2, "one loop more for all that clash"
    for one, together in zip(given, found, strict=True):  # processors add up a batch in another order
        (alone,) = apart.predict([one], operations=[EVERY])
        assert alone.values == together.values
        for slot, said in together.slots.items():
            assert alone.slots[slot].evidence == said.evidence
            assert alone.slots[slot].probability == pytest.approx(said.probability, rel=1e-4)
    assert plain.predict(given, operations=[EVERY] * 3)[0].values["taxi-from"] == "north"
    assert plain.runs == 1


def test_the_memory_counts() -> None:
    apart = copying(tell_apart=True)
    given = tiny.turn_input("from the north or the south", state=State({"taxi-to": "north"}))
    assert apart.predict([given], operations=[{"taxi-from": "update"}])[0].values == {"taxi-from": "south"}
    free = tiny.turn_input("from the north", state=State({"taxi-to": "south"}))
    apart.runs = 0
    assert apart.predict([free], operations=[{"taxi-from": "update"}])[0].values == {"taxi-from": "north"}
    assert apart.runs == 1, "nothing clashes, nothing is written twice"


def test_three_slots_with_one_value() -> None:
    apart = copying(Schema(SCHEMA.slots, different=[EVERY]), tell_apart=True)
    found = apart.predict([tiny.turn_input("to the north in the south")], operations=[EVERY])[0].values
    assert found == {"taxi-from": "south", "taxi-to": "north", "taxi-when": None}, "there are two places for three"


def copied(probability: float, words: Evidence | None) -> Proposal:
    return Proposal(words.text if words else "north", words, probability)


SURE = dict.fromkeys(SCHEMA, 1.0)
FRIDAY = Evidence("user", 3, 9, "friday")


@pytest.mark.parametrize(
    ("words", "other", "yields"),
    [
        (FRIDAY, FRIDAY, ["taxi-to"]),
        (FRIDAY, Evidence("user", 13, 19, "friday"), []),  # said twice
        (FRIDAY, Evidence("system", 3, 9, "friday"), []),
        (FRIDAY, Evidence("user", 3, 9, "friday", turns_ago=1), []),
        (FRIDAY, None, []),
        (None, None, []),
        (Evidence("user", 0, 3, "yes"), Evidence("user", 0, 3, "yes"), []),  # may answer two questions
        (Evidence("slot", slot="a-b"), Evidence("slot", slot="a-b"), []),  # "the same day" for both
    ],
)
def test_the_same_words_fill_one_slot(words: Evidence | None, other: Evidence | None, yields: list[str]) -> None:
    one, two = {"taxi-from": copied(0.7, words)}, {"taxi-to": copied(0.6, other)}
    assert repeated(one | two, SURE) == repeated(two | one, SURE) == yields


def test_the_operation_counts_too() -> None:
    slots = {"taxi-from": copied(0.9, FRIDAY), "taxi-to": copied(0.8, FRIDAY)}
    assert repeated(slots, {"taxi-from": 0.5, "taxi-to": 0.7}) == ["taxi-from"]


def test_only_the_most_probable_of_three_keeps_the_words() -> None:
    slots = {"taxi-from": copied(0.5, FRIDAY), "taxi-to": copied(0.6, FRIDAY), "taxi-when": copied(0.7, FRIDAY)}
    assert repeated(slots, SURE) == ["taxi-to", "taxi-from"]


def test_other_words_for_a_slot_that_yields() -> None:
    monday = copied(0.9, Evidence("user", 20, 26, "monday"))
    others = {"taxi-from": copied(0.7, FRIDAY)}
    assert another(monday, others, None) == monday
    assert another(monday, others, ("Monday", "Friday")) == monday._replace(value="Monday")
    assert another(monday, others, ("north", "south")) is None, "not in its list"
    assert another(monday, others | {"taxi-to": monday}, None) is None, "these words have a slot too"
    assert another(said(None, 0.9), others, None) is another(said("monday", 0.9), others, None) is None, "not copied"


def test_a_turn_whose_words_would_fill_two_slots() -> None:
    apart, plain = copying(tell_apart=True), copying(tell_apart=False)
    given = [tiny.turn_input("to the north in the south"), tiny.turn_input("from the north")]
    both, one = apart.predict(given)
    assert dict(both.values) == {"taxi-from": "south", "taxi-to": "north"}, "there are two places for three slots"
    assert dict(one.values) == {"taxi-from": None, "taxi-to": "north"} and one.carryover["taxi-when"] < 0.5
    assert set(plain.predict(given)[0].values) == set(SCHEMA), "the paper's model writes all"
    assert set(apart.predict(given, operations=[EVERY] * 2)[0].values) == set(SCHEMA), "an oracle is obeyed"


@pytest.mark.parametrize(
    ("certain", "written"),
    [(0.7, {"taxi-to": "north"}), (0.5, {"taxi-to": "north", "taxi-from": "south"})],
)
def test_a_slot_that_yields_gets_what_is_certain_enough(
    certain: float, written: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("somdst.model.predictor.CERTAIN", certain)
    apart = copying(Schema(SCHEMA.slots), tell_apart=True)  # no slots are `different`
    assert apart.predict([tiny.turn_input("to the north in the south")])[0].values == written
    assert apart.runs == 2, "one loop more"
