"""Batches, wrong memories and the optimiser: what a step of training is made of."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tiny

torch = pytest.importorskip("torch")

from small_runs import DIALOGUES, EVERYTHING, SMALL, trainer  # noqa: E402

from somdst.corpora.synthetic import SYNTHETIC_SCHEMA  # noqa: E402
from somdst.learn.batches import Batches, Examples  # noqa: E402
from somdst.learn.noise import ValuePool, corrupt, repairable  # noqa: E402
from somdst.learn.optimisation import make_optimizer, schedule, update_average  # noqa: E402
from somdst.memory.dialogue import Dialogue, Turn  # noqa: E402
from somdst.memory.operations import FOUR  # noqa: E402
from somdst.memory.schema import Schema, Slot  # noqa: E402
from somdst.memory.state import DONTCARE, State  # noqa: E402

# The optimiser.


def test_learning_rates(tmp_path: Path) -> None:
    made = trainer(tmp_path, SMALL | {"freeze_embeddings": True})
    optimizer = make_optimizer(made.model, made.settings)
    names = {id(parameter): name for name, parameter in made.model.named_parameters()}
    groups = [({names[id(p)] for p in group["params"]}, group) for group in optimizer.param_groups]
    (matrices, first), (others, second), (decoder, third) = groups
    assert "operation_predictor.W_opr.weight" in matrices and "operation_predictor.W_opr.bias" in others
    assert decoder == {name for name, _ in made.model.named_parameters() if name.startswith("value_generator.")}
    assert [first["peak"], second["peak"], third["peak"]] == [2e-3, 2e-3, 4e-3]
    assert [first["weight_decay"], second["weight_decay"], third["weight_decay"]] == [0.01, 0.0, 0.0]
    assert not any("word_embeddings" in name for name in matrices | others | decoder)
    assert {group["eps"] for _, group in groups} == {1e-6}


def test_schedule() -> None:
    assert [schedule(x, 0.1) for x in (0.0, 0.05, 0.1, 0.55, 1.0)] == pytest.approx([0, 0.5, 1, 0.5, 0])
    assert schedule(0.0, 0.0) == 1.0


def test_the_average_of_the_weights(tmp_path: Path) -> None:
    model, _ = tiny.model()
    average = {name: torch.zeros_like(parameter) for name, parameter in model.named_parameters()}
    name, parameter = next(iter(model.named_parameters()))
    with torch.no_grad():
        parameter.fill_(1.0)
    update_average(average, model, 0.9, 0)  # (1 + 0) / (10 + 0): forgets the untrained weights quickly
    assert average[name].flatten()[0].item() == pytest.approx(0.9)
    update_average(average, model, 0.9, 1000)
    assert average[name].flatten()[0].item() == pytest.approx(0.91)


# Batches.


def batches(settings: dict[str, Any] | None = None) -> Batches:
    made = trainer(Path(), SMALL | (settings or {}))
    return Batches(Examples(DIALOGUES, made.encoder.schema), made.encoder, made.settings)


def equal(one: Any, other: Any) -> bool:
    pairs = zip(one, other, strict=True)
    return all(
        torch.equal(a, b) if isinstance(a, torch.Tensor) else (equal(a, b) if a is not None else b is None)
        for a, b in pairs
    )


def test_batches_depend_on_nothing_else() -> None:
    one, other = batches(EVERYTHING), batches(EVERYTHING)
    for epoch in (3, 0, 2):
        order = one.order(epoch)
        assert order == other.order(epoch)
        assert sorted(i for chosen in order for i in chosen) == list(range(one.source.turns))
        assert len(order) == len(one)
    chosen = max(one.order(0), key=len)
    first = one.tensors(chosen, 0)
    other.tensors(other.order(5)[1], 5)  # what was asked for before does not matter
    random.seed(9)
    assert equal(first, other.tensors(chosen, 0))
    assert not equal(first, one.tensors(chosen, 1))
    assert not equal(first, batches(EVERYTHING | {"seed": 1}).tensors(chosen, 0))
    alone = one.tensors(chosen[2:3], 0)
    width = alone.ids.shape[1]
    assert torch.equal(alone.ids[0], first.ids[2, :width]), "an example does not depend on its batch"


def test_similar_lengths_are_together() -> None:
    made = batches()
    all_sizes = [example.size(made.settings.history) for example in made.examples(0)]
    spread = [max(sizes) - min(sizes) for chosen in made.order(0) for sizes in [[all_sizes[i] for i in chosen]]]
    assert sum(spread) / len(spread) < 0.5 * (max(all_sizes) - min(all_sizes))
    assert made.tensors(made.order(0)[0], 0).ids.shape[1] % 16 == 0


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("accumulation", [1, 2, 5])
@pytest.mark.parametrize("size", [8, 2])
def test_parts_of_a_batch_have_the_same_gradient(world: int, accumulation: int, size: int) -> None:
    whole, parted = batches(), batches({"accumulation": accumulation})
    model = trainer(Path(), SMALL).model.eval()
    chosen = whole.order(0)[0][:size]
    model(whole.tensors(chosen, 0)).total.backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    lengths = set()
    for rank in range(world):
        parts = list(parted.parts(chosen, 0, rank=rank, world=world))
        lengths.add(len(parts))
        for batch, weight in parts:
            (model(batch).total * weight / world).backward()  # processes average their gradients
    assert len(lengths) == 1, "processes with fewer parts would keep the others waiting"
    for name, parameter in model.named_parameters():
        if name in expected:
            torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-3, atol=1e-6, msg=name)


def test_labels_are_derived_against_the_fed_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("somdst.learn.batches.corrupt", partial(corrupt, drop=0.5, swap=0.3, add=1.0))
    made = batches({"wrong_states": 1.0})
    different = 0
    for index, example in enumerate(made.examples(0)):
        rng = random.Random(f"example {made.settings.seed} 0 {index}")
        fed = made._fed_state(example, rng)
        different += fed != example.before
        encoding, labels, _, _ = made._prepare(index, 0)
        assert FOUR.apply(fed, labels.operations, labels.values) == made._goal(example, fed)
        assert [region.slot for region in encoding.regions if region.slot] == [s for s in SYNTHETIC_SCHEMA if s in fed]
    assert different > 0.8 * made.source.turns


def test_only_what_the_input_shows_is_to_be_repaired() -> None:
    before = State({"a-x": "north", "a-y": "thai", "a-z": "old"})
    after = State({"a-x": "north", "a-y": "thai", "a-z": "new"})
    fed = State({"a-w": "made up", "a-y": "greek"})  # x dropped, y replaced, z dropped, w added
    shown = "somewhere in the north please , new"
    reached = repairable(before, after, fed, told=(), shown=shown, complete=False)
    assert reached == State({"a-w": "made up", "a-x": "north", "a-y": "greek", "a-z": "new"})
    assert repairable(before, after, fed, told=(), shown="north thai", complete=True) == after
    assert repairable(before, after, before, told=(), shown="", complete=False) == after


def test_what_was_told_in_other_words_is_repaired_and_a_yes_to_something_else_repairs_nothing() -> None:
    before = State({"hotel-parking": "yes", "hotel-stars": DONTCARE})
    for told, reached in (((), State()), (("hotel-parking",), State({"hotel-parking": "yes"})), (before, before)):
        found = repairable(before, before, State(), told=told, shown="yes please , with a car park", complete=False)
        assert found == reached


def test_the_slots_that_turns_change() -> None:
    states = [State({"a-x": "1"}), State({"a-x": "1", "a-y": "2"}), State({"a-y": "2"}), State({"a-y": "3"})]
    dialogue = Dialogue("d", tuple(Turn("", "hello", state) for state in states))
    schema = Schema([Slot.of("a", "x"), Slot.of("a", "y")])
    example = Examples([dialogue], schema).examples(0)[3]
    assert [example.changed(first, 3) for first in (0, 1, 2, 3)] == [{"a-x", "a-y"}, {"a-x", "a-y"}, {"a-x"}, set()]


def test_typing_never_takes_away_a_value_that_was_said() -> None:
    made = batches({"perturb": 1.0, "normalisation": "lowercase"})
    schema = Schema([Slot.of("taxi", "address"), Slot.of("taxi", "count")])
    said = Turn("", "I am at 12 cedar walk, 2 people", State({"taxi-address": "12 cedar walk", "taxi-count": "2"}))
    [example] = Examples([Dialogue("d", (said,), schema=schema)], schema).examples(0)
    typed = [made._input(example, State(), random.Random(seed)).turn.user.lower() for seed in range(60)]
    assert all("12 cedar walk" in text and "2" in text for text in typed)
    assert len(set(typed)) > 1, "and other words are typed differently"


def test_own_states_of_an_earlier_model() -> None:
    made = trainer(Path(), SMALL | {"own_rate": 1.0})
    own = State({"cafe-food": "thai", "museum-name": "not in the schema"})
    source = Examples(DIALOGUES, made.encoder.schema, {(DIALOGUES[0].id, 1): own})
    found = source.examples(0)
    assert [example.own for example in found[:3]] == [None, State({"cafe-food": "thai"}), None]
    ready = Batches(source, made.encoder, made.settings)
    assert ready._fed_state(found[1], random.Random(0)) == State({"cafe-food": "thai"})
    assert ready._fed_state(found[2], random.Random(0)) == found[2].before


def test_slots_outside_the_schema_are_left_out() -> None:
    fewer = Schema(slot for slot in SYNTHETIC_SCHEMA.slots if slot.domain == "hotel")
    made = trainer(Path(), SMALL, schema=fewer)
    found = Examples(DIALOGUES, made.encoder.schema).examples(0)
    assert len(found) == sum(len(dialogue.turns) for dialogue in DIALOGUES)
    assert all(slot in fewer for example in found for slot in (*example.before, *example.after))


# Wrong memories.


POOL = ValuePool.collect(DIALOGUES, SYNTHETIC_SCHEMA)
STATE = State({"cafe-food": "thai", "hotel-area": DONTCARE, "hotel-nights": "3"})


def corrupted(seed: int, **chances: float) -> State:
    given = {"drop": 0.0, "swap": 0.0, "add": 0.0} | chances
    return corrupt(STATE, POOL, SYNTHETIC_SCHEMA, **given, rng=random.Random(seed))


def possible(slot: str, value: object) -> bool:
    """A value of the slot's list, or one that the slot has in the corpus."""
    return value in (SYNTHETIC_SCHEMA[slot].values or POOL.values[slot])


def copied(slot: str, value: object) -> bool:
    """A value of another slot, which the slot may have too."""
    listed = SYNTHETIC_SCHEMA[slot].values
    return value in STATE.values() and (listed is None or value in listed)


def test_wrong_states() -> None:
    assert corrupted(0) == STATE
    assert corrupted(0, drop=1.0) == State()
    for seed in range(30):
        replaced = corrupted(seed, swap=1.0)
        assert replaced.keys() == STATE.keys()
        assert all(possible(slot, replaced[slot]) for slot in replaced)
        added = corrupted(seed, add=1.0)
        new = added.keys() - STATE.keys()
        assert len(new) <= 1 and all(possible(slot, added[slot]) or copied(slot, added[slot]) for slot in new)
        assert all(added[slot] == STATE[slot] for slot in STATE)
    assert corrupted(1, drop=0.5, swap=0.3, add=0.5) == corrupted(1, drop=0.5, swap=0.3, add=0.5)
    assert len({corrupted(seed, drop=0.5, swap=0.3, add=0.5) for seed in range(30)}) > 5


def test_a_value_may_land_in_a_second_slot_that_can_take_it() -> None:
    added = {(slot, value) for seed in range(3000) for slot, value in corrupted(seed, add=1.0).items()} - {
        *STATE.items()
    }
    open_slots = [slot for slot in SYNTHETIC_SCHEMA if slot not in STATE and SYNTHETIC_SCHEMA[slot].values is None]
    assert all((slot, "thai") in added for slot in open_slots)
    assert all(possible(slot, value) or copied(slot, value) for slot, value in added)


def test_the_pool_holds_what_was_written() -> None:
    assert set(POOL.values) <= set(SYNTHETIC_SCHEMA)
    written = [
        (slot, value)
        for dialogue in DIALOGUES
        for before, after in zip([State(), *dialogue.states()], dialogue.states(), strict=False)
        for slot, value in after.items()
        if before.get(slot) != value
    ]
    assert sum(map(len, POOL.values.values())) == len(written)
    every = {value for values in POOL.values.values() for value in values}
    assert POOL.draw("no-slot", random.Random(0)) in every, "any other slot's value"
    assert ValuePool({}).draw("no-slot", random.Random(0)) is None
    renamed = POOL.renamed({"cafe-food": "bistro-dish", "no-slot": "other"})
    assert renamed.values == {"bistro-dish": POOL.values["cafe-food"]}


@pytest.mark.parametrize("text", ["in the North.", "north", "a north-west one, north!"])
def test_repairs_are_seen_beside_signs(text: str) -> None:
    before = State({"hotel-area": "north"})
    assert repairable(before, before, State(), told=(), shown=text, complete=False) == before
    assert repairable(before, before, State(), told=(), shown="northern", complete=False) == State()
