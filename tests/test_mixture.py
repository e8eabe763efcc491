"""Training on many schemas: the mixture of corpora, and how a dialogue's schema is varied."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
from somdst.corpora.domains import load_domains
from somdst.corpora.made import made_dialogue
from somdst.corpora.synthetic import SYNTHETIC_SCHEMA, synthetic_dialogues
from somdst.errors import CorpusError, InputError
from somdst.learn.batches import examples_of
from somdst.learn.mixture import Existing, Made, Mixture, Variation, parse_mix, shown_with, vary
from somdst.learn.noise import ValuePool
from somdst.learn.settings import load_settings
from somdst.learn.training import train
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.schema import Schema, Slot
from somdst.memory.state import State

BANK = Schema([Slot.of("Banks_1", "amount", description="how much"), Slot.of("Banks_1", "recipient")])
VARIANT = {
    "amount": Slot.of("Banks_13", "sum_of_money", description="money to send"),
    "recipient": Slot.of("Banks_13", "payee"),
}
TURNS = (Turn("", "send 5 pounds", State({"Banks_1-amount": "5"}), "Banks_1"),)
DIALOGUE = Dialogue("bank", TURNS, schema=BANK)


def varied(variation: Variation, *, seed: int = 0, distractors: tuple[Schema, ...] = ()) -> Dialogue:
    paraphrases = {"Banks_1": (VARIANT,)}
    return vary(DIALOGUE, variation, random.Random(seed), paraphrases=paraphrases, distractors=distractors)[0]


def test_a_paraphrase_renames_slots_and_labels() -> None:
    found = varied(Variation(paraphrase=1.0))
    assert found.schema is not None and list(found.schema) == ["Banks_13-payee", "Banks_13-sum_of_money"]
    assert found.turns[0].state == State({"Banks_13-sum_of_money": "5"}) and found.turns[0].domain == "Banks_13"


def test_only_slots_that_are_never_filled_are_dropped() -> None:
    schemas = [varied(Variation(drop=1.0), seed=seed).schema for seed in range(20)]
    sizes = Counter(len(schema) for schema in schemas if schema)
    assert set(sizes) == {1, 2} and all("Banks_1-amount" in schema for schema in schemas if schema)


def test_slots_of_other_domains_are_added() -> None:
    found = varied(Variation(distract=1.0), distractors=(SYNTHETIC_SCHEMA,))
    assert found.schema is not None and len(found.schema.domains) > 1 and found.turns == TURNS


@pytest.mark.parametrize("name", ["Banks_2", "Bank", "banks", "banks 7"])
def test_no_domain_about_the_same_is_added(name: str) -> None:
    other = Schema([Slot.of(name, "amount", description="how much")])
    assert varied(Variation(distract=1.0), distractors=(other,)).schema == BANK
    renamed = varied(Variation(distract=1.0, paraphrase=1.0), distractors=(other,)).schema
    assert renamed is not None and set(renamed.domains) == {"Banks_13"}


def test_wrong_memories_of_renamed_slots_have_values_of_these_slots() -> None:
    source = Existing([DIALOGUE], None, Variation(paraphrase=1.0))
    made = Mixture({"": source}, {"": 1.0}, turns=1, paraphrases={"Banks_1": (VARIANT,)})
    [example] = made.examples(0)
    assert example.pool.values == {"Banks_13-sum_of_money": ("5",)}


def test_as_many_turns_are_shown_as_have_the_values_that_are_written() -> None:
    words = ("I want to visit Balto Statue", "Is it free?", "Can I get a pool ride over there?")
    empty, ride = State(), State({"Ride-to": "balto statue", "Ride-shared": "yes"})
    states = (empty, empty, ride)
    schema = Schema([Slot.of("Ride", "to"), Slot.of("Ride", "shared", values=["yes", "no"])])
    turns = tuple(Turn("", text, state) for text, state in zip(words, states, strict=True))
    *_, last = examples_of(Dialogue("d", turns, schema=schema), schema, ValuePool({}))
    assert [len(shown_with(last, history).read(16)) for history in (1, 2, 5)] == [3, 3, 3]
    assert len(shown_with(replace(last, before=ride), 1).read(16)) == 2, "the memory has it"
    other = replace(last, after=State({"Ride-to": "somewhere else"}))
    assert len(shown_with(other, 1).read(16)) == 2, "no turn has it"


def test_a_mixture_learns_from_labelled_turns_only() -> None:
    unlabelled = replace(DIALOGUE, turns=(*TURNS, Turn("", "thanks", None)))
    with pytest.raises(CorpusError, match="The dialogue bank has turns without a `state`"):
        Existing([unlabelled], None, Variation())


def test_descriptions_are_left_out() -> None:
    found = varied(Variation(undescribed=1.0))
    assert found.schema is not None and not any(slot.description for slot in found.schema.slots)


def mixture(seed: int = 0) -> Mixture:
    written = load_domains("train")
    sources = {
        "synthetic": Existing(synthetic_dialogues(dialogues=20), SYNTHETIC_SCHEMA, Variation(histories=(1, 3))),
        "domains": Made(lambda name: made_dialogue(name, written), Variation(drop=0.5)),
    }
    return Mixture(sources, {"synthetic": 0.25, "domains": 0.75}, turns=200, seed=seed)


def test_shares_and_epochs() -> None:
    made = mixture()
    first, again, second = made.examples(0), mixture().examples(0), made.examples(1)
    assert len(first) == len(second) == made.turns == 200
    assert sum(example.schema == SYNTHETIC_SCHEMA for example in first) == 50
    assert [(e.dialogue.id, e.number, e.schema.id) for e in first] == [
        (e.dialogue.id, e.number, e.schema.id) for e in again
    ], "a resumed run sees the same"
    assert {e.dialogue.id for e in first} != {e.dialogue.id for e in second}
    assert {e.history for e in first if e.schema == SYNTHETIC_SCHEMA} == {1, 3}
    assert all(slot in e.schema for e in first for slot in (*e.before, *e.after))


def test_memories_of_an_earlier_model() -> None:
    dialogues = synthetic_dialogues(dialogues=5)
    filled = next(iter(dialogues[0].turns[0].state or ()))
    own = {(dialogues[0].id, 1): State({filled: "something else"})}
    source = Existing(dialogues, SYNTHETIC_SCHEMA, Variation(drop=1.0, distract=1.0), own)
    examples = Mixture({"": source}, {"": 1.0}, turns=100, distractors=[BANK]).examples(0)
    fed = {(example.dialogue.id, example.number): example.own for example in examples if example.own is not None}
    assert fed == own


@pytest.mark.parametrize("text", ["sgd", "sgd=x", "=0.5", "sgd=0", "a=0.7,b=0.7"])
def test_a_mixture_that_cannot_be_read(text: str) -> None:
    with pytest.raises(InputError, match="mixture"):
        parse_mix(text)


@pytest.mark.parametrize("other", [{"system": "trade"}, {"layout": "paper"}])
def test_a_mixture_needs_a_model_that_reads_schemas(tmp_path: Path, other: dict[str, object]) -> None:
    settings = load_settings("cpu", encoder="tiny", mix="domains=0.5", **other)
    with pytest.raises(InputError, match="mix needs"):
        train("synthetic:10", tmp_path / "run", settings=settings)


def test_training_on_a_mixture(tmp_path: Path) -> None:
    settings = load_settings("cpu", encoder="tiny", mix="domains=0.5", mix_turns=64, epochs=1.0, precision="fp32")
    result = train("synthetic:10", tmp_path / "run", settings=settings)
    assert result.finished and result.step == 2
