"""What the systems are made of: feeding, ontology and heads, against numbers worked out by hand or a plain version."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import tiny

torch = pytest.importorskip("torch")

from small_systems import DIALOGUES, untrained  # noqa: E402

from somdst.baselines import feeding  # noqa: E402
from somdst.baselines.catalogue import SYSTEMS, find, listing  # noqa: E402
from somdst.baselines.ds_dst import hinge as cosine_hinge  # noqa: E402
from somdst.baselines.heads import (  # noqa: E402
    LONGEST,
    SlotQueries,
    SoftmaxOverValues,
    Spans,
    ValueVectors,
    last_mention,
    sample_slots,
    span_said,
    value_tokens,
)
from somdst.baselines.hyst import hinge as candidate_hinge  # noqa: E402
from somdst.baselines.ml_bst import MlBst  # noqa: E402
from somdst.baselines.nadst import ParallelTokens, lay_out  # noqa: E402
from somdst.baselines.ontology import FILE, Ontology  # noqa: E402
from somdst.baselines.system import Asking  # noqa: E402
from somdst.errors import InputError, ModelError  # noqa: E402
from somdst.learn.encoders import tiny_encoder  # noqa: E402
from somdst.learn.model import TextEncoder  # noqa: E402
from somdst.learn.torch_predictor import model_options  # noqa: E402
from somdst.memory.dialogue import Dialogue, Turn  # noqa: E402
from somdst.memory.state import DONTCARE, State  # noqa: E402

AREA, NAME, DAY = "hotel-area", "hotel-name", "train-day"
STATES = [{AREA: "north", NAME: "tex mex"}, {AREA: "south", DAY: DONTCARE}]
LABELLED = Dialogue("one", tuple(Turn("", "hello", State(state)) for state in STATES))
ONTOLOGY = Ontology.collect([LABELLED], tiny.SCHEMA)


# The catalogue.


def test_every_system_of_the_paper_is_there_and_loads() -> None:
    from somdst.evaluate.paper_results import JOINT_GOAL_ACCURACY

    titles = {entry.title for entry in SYSTEMS.values()}
    assert titles == {name.removesuffix(" (BERT-base)").removesuffix(" (BERT-large)") for name in JOINT_GOAL_ACCURACY}
    for entry in SYSTEMS.values():
        if entry.home:
            assert entry.load().__doc__ is not None or entry.load().__module__.startswith("somdst.baselines.")
    rows = {row[0]: row for row in listing().rows}
    assert rows["trade"][5:] == ("Ω(J)", "O(J)", 48.60, 45.60) and rows["sumbt"][4] is True
    with pytest.raises(InputError, match=r'There is no system "trad".*Did you mean'):
        find("trad")


# Feeding.


def test_the_four_ways_of_feeding() -> None:
    encoder = tiny.encoder()
    turns = [Turn("", "i want the north"), Turn("which day", "friday please")]
    shown = lambda encoding: tiny.tokens(encoder, encoding.ids)  # noqa: E731
    assert shown(feeding.history(encoder, turns)) == ("[CLS] ; i want the north [SEP] which day ; friday please [SEP]")
    assert shown(feeding.one_turn(encoder, turns[1])) == "[CLS] which day ; friday please [SEP]"
    assert shown(feeding.turn_with_state(encoder, turns[1], State({AREA: "north", DAY: DONTCARE}))) == (
        "[CLS] which day ; friday please [SEP] hotel area - north ; train day - dont care ;"
    )
    slots = feeding.slots_with_history(encoder, turns)
    assert shown(slots).endswith("friday please [SEP] [SLOT] [SLOT] [SLOT]")
    assert [slots.ids[place] for place in slots.slots] == [encoder.slot] * 3
    assert slots.segments == [0] * 7 + [1] * (len(slots) - 7), "the current turn and the slots have segment 1"


def test_what_does_not_fit_is_cut_at_the_left_and_evidence_still_fits() -> None:
    encoder = tiny.encoder(max_length=16)
    turns = [Turn("", "i want the north"), Turn("which day", "friday please to the south")]
    encoding = feeding.history(encoder, turns)
    assert len(encoding) == 16
    for region in encoding.regions:
        assert encoding.ids[region.start : region.end] == region.pieces.ids[region.skip :]
    said = span_said(encoder, encoding, *last_mention(encoding, encoder.pieces("south").ids), 1.0)
    assert said.value == "south" and said.evidence is not None and said.evidence.turns_ago == 0
    empty = feeding.history(encoder, [Turn("", "")])
    assert tiny.tokens(encoder, empty.ids) == "[CLS] ; [SEP]" and empty.regions == ()


def test_turns_that_are_read() -> None:
    one, two = Turn("", "one"), Turn("", "two")
    given = tiny.turn_input("three", previous=two, older=(one,))
    assert [turn.user for turn in feeding.turns_of(given, 1)] == ["two", "three"]
    assert [turn.user for turn in feeding.turns_of(given, 0)] == ["three"]
    assert [turn.user for turn in feeding.turns_of(tiny.turn_input("three"), 9)] == ["three"]


# The ontology.


def test_the_ontology_has_what_training_has(tmp_path: Path) -> None:
    assert ONTOLOGY.values == {AREA: ("north", "south"), NAME: ("tex mex",), DAY: ()}
    assert ONTOLOGY.indices(State(STATES[0])) == [2, 2, 0] and ONTOLOGY.indices(State(STATES[1])) == [3, 0, 1]
    for slot in (AREA, NAME, DAY):
        for number in range(len(ONTOLOGY.texts(slot))):
            assert ONTOLOGY.index(slot, ONTOLOGY.value(slot, number)) == number
    (tmp_path / FILE).write_text(ONTOLOGY.to_json())
    assert Ontology.load(tmp_path, tiny.SCHEMA).values == ONTOLOGY.values
    (tmp_path / FILE).write_text("[")
    with pytest.raises(ModelError, match=r"ontology.json is missing or damaged"):
        Ontology.load(tmp_path, tiny.SCHEMA)


def test_a_value_that_the_ontology_lacks_is_named() -> None:
    with pytest.raises(InputError, match='The ontology has no value "east" for "hotel-area"'):
        ONTOLOGY.index(AREA, "east")
    other = Dialogue("two", (Turn("", "", State({AREA: "east"})), Turn("", "", State({AREA: "north"}))))
    missing = ONTOLOGY.missing([other])
    assert (missing.values, missing.turns, missing.all_turns) == (1, 1, 2)
    assert str(missing).endswith("1 of 2 turns (50.0%) cannot be right")


# Choices.


def test_a_softmax_over_each_slots_own_values() -> None:
    torch.manual_seed(0)
    head = SoftmaxOverValues(4, ONTOLOGY)
    x = torch.randn(2, 3, 4)
    logits = head(x)
    assert logits.shape == (2, 3, 3, 4)
    for b, t, j in product(range(2), range(3), range(3)):
        for m in range(4):
            possible = m < len(ONTOLOGY.texts((AREA, NAME, DAY)[j]))
            by_hand = float(head.weight[j, m] @ x[b, t] + head.bias[j, m]) if possible else -1e4
            assert float(logits[b, t, j, m]) == pytest.approx(by_hand, abs=1e-5)


def test_distance_and_cosine_to_value_vectors() -> None:
    head = ValueVectors(2, ONTOLOGY)
    head.vectors[0] = torch.tensor([[0.0, 0.0], [3.0, 4.0], [1.0, 0.0], [0.0, 2.0]])
    x = torch.tensor([[[3.0, 0.0], [1.0, 1.0], [1.0, 0.0]]])  # [1, J, D]
    assert head.distance(x)[0, 0].tolist() == pytest.approx([-3.0, -4.0, -2.0, -(13**0.5)])
    assert head.cosine(x)[0, 0].tolist() == pytest.approx([0.0, 0.6, 1.0, 0.0])
    assert (head.distance(x)[0, 2, 2:] == -1e4).all(), "a slot without values has only none and dontcare"


def test_value_vectors_come_from_the_encoder_and_stay() -> None:
    torch.manual_seed(0)
    encoder = tiny.encoder()
    text = TextEncoder(tiny_encoder(encoder.vocabulary_size, width=8)).eval()
    head = ValueVectors(8, ONTOLOGY)
    head.spell(text, encoder, ONTOLOGY)
    ids = torch.tensor([encoder.value_text("south")])
    assert torch.allclose(head.vectors[0, 3], text.pool(ids, torch.ones_like(ids, dtype=torch.bool))[0])
    assert not head.vectors[2, 2:].any() and not list(head.parameters())


def test_hinge_on_cosines() -> None:
    cosines = torch.tensor([[[9.0, 9.0, 0.5, 0.25], [9.0, 9.0, 0.9, -0.5]]])
    right = torch.tensor([[3, 2]])  # margin 0.5: 0.5 - 0.25 + 0.5, and 0.5 - 0.9 - 0.5 < 0
    assert float(cosine_hinge(cosines, right)) == pytest.approx((0.75 + 0.0) / 2)
    assert float(cosine_hinge(cosines, torch.full_like(right, -100))) == 0.0


def test_hinge_on_candidates() -> None:
    scores = torch.tensor([[[2.0], [0.5]]])  # one turn, two candidates, one slot
    first, second, none = (torch.tensor([[[a], [b]]]) for a, b in ((True, False), (False, True), (False, False)))
    assert float(candidate_hinge(scores, first)) == 0.0  # 2 is above 0.5 and 0 by more than 1
    assert float(candidate_hinge(scores, second)) == pytest.approx(1 + 2.0 - 0.5)
    assert float(candidate_hinge(scores, none)) == pytest.approx(1 + 2.0 - 0.0)


# Spans.


def test_the_best_span_is_that_of_a_plain_search() -> None:
    torch.manual_seed(1)
    T = LONGEST + 6
    logits = torch.randn(2, 3, T), torch.randn(2, 3, T)
    first, last, probability = Spans.best(logits)
    start, end = (one.softmax(-1) for one in logits)
    for b, j in product(range(2), range(3)):
        pairs = ((s, e) for s in range(T) for e in range(s, min(T, s + LONGEST)))
        s, e = max(pairs, key=lambda pair: float(start[b, j, pair[0]] * end[b, j, pair[1]]))
        assert (int(first[b, j]), int(last[b, j])) == (s, e)
        assert float(probability[b, j]) == pytest.approx(float(start[b, j, s] * end[b, j, e]))


def test_the_loss_of_spans_leaves_out_what_is_not_there() -> None:
    uniform = torch.zeros(1, 2, 4), torch.zeros(1, 2, 4)
    labels = torch.tensor([[[1, 2], [-100, -100]]])
    assert float(Spans.loss(uniform, labels)) == pytest.approx(2 * torch.log(torch.tensor(4.0)).item())
    assert float(Spans.loss(uniform, torch.full_like(labels, -100))) == 0.0


def test_the_last_mention_counts() -> None:
    encoder = tiny.encoder()
    encoding = feeding.turn_with_state(encoder, Turn("the north to the south", "the north"), State({AREA: "south"}))
    north, south = (last_mention(encoding, encoder.pieces(word).ids) for word in ("north", "south"))
    assert north == (encoding.regions[1].start + 1,) * 2, "what the user said last"
    assert south == (encoding.regions[0].start + 4,) * 2, "the memory is no text to answer from"
    assert last_mention(encoding, encoder.pieces("east").ids) is None and last_mention(encoding, []) is None


# Generated values.


def test_slot_queries_start_from_the_names() -> None:
    encoder = tiny.encoder()
    embeddings = torch.nn.Embedding(encoder.vocabulary_size, 4)
    queries = SlotQueries(encoder, embeddings)()
    hotel, area = (embeddings(torch.tensor(encoder.pieces(word).ids)).mean(0) for word in ("hotel", "area"))
    assert torch.allclose(queries[0], hotel + area)


def test_values_as_tokens() -> None:
    encoder = tiny.encoder()
    found = value_tokens(encoder, STATES)
    as_text = [[tiny.tokens(encoder, row.tolist()) for row in turn] for turn in found.tokens]
    assert as_text[0] == ["north [EOS] [EOS]", "tex mex [EOS]", "[NULL] [EOS] [EOS]"]
    assert as_text[1] == ["south [EOS] [EOS]", "[NULL] [EOS] [EOS]", "dont care [EOS]"]
    assert found.mask.sum(-1).tolist() == [[2, 3, 2], [2, 2, 3]]


def test_sampled_slots_weigh_as_much_as_all() -> None:
    torch.manual_seed(0)
    filled = torch.zeros(8, 30, dtype=torch.bool)
    filled[:, :5] = True
    chosen = sample_slots(filled)
    is_filled = filled[chosen.owners, chosen.slots]
    assert int(is_filled.sum()) == int(chosen.filled) == 40 and 0 < int((~is_filled).sum()) < 100
    assert float(chosen.weights[is_filled].sum()) == 40
    assert float(chosen.weights[~is_filled].sum()) == pytest.approx(200)
    nothing = sample_slots(torch.zeros(2, 3, dtype=torch.bool))
    assert bool((nothing.weights > 0).all())


def test_parallel_tokens_mix_as_the_generator_does() -> None:
    """The probability of a target is the one of the whole distribution, position by position."""
    torch.manual_seed(2)
    encoder = tiny.encoder()
    head = ParallelTokens(8, model_options(encoder)).eval()
    E = torch.randn(encoder.vocabulary_size, 8)
    x, y, H = torch.randn(1, 3, 8), torch.randn(1, 3, 8), torch.randn(1, 5, 8)
    ids, mask = torch.tensor([[7, 8, 9, 8, 0]]), torch.tensor([[True, True, True, True, False]])
    targets = torch.tensor([[8, 9, 20]])
    found = head.target_probabilities(x, y, H, ids, mask, E, targets, targets)[0]
    for k in range(3):
        whole, _, _ = head.step(x[:, k], y[:, k], H, ids, mask, E, targets[:, k])
        assert float(whole.sum()) == pytest.approx(1.0, abs=1e-5)
        assert float(found[k]) == pytest.approx(float(whole[0, targets[0, k]]), abs=1e-6)


def test_fertility_lays_out_positions() -> None:
    layout = lay_out(torch.tensor([[2, 0, 1], [0, 0, 0]]))
    assert layout.slots[0].tolist() == [0, 0, 2] and layout.places[0].tolist() == [0, 1, 0]
    assert layout.mask.tolist() == [[True] * 3, [False] * 3]


def test_late_fusion_is_the_product_of_domain_and_slot() -> None:
    system = untrained("ml-bst")
    assert isinstance(system, MlBst)
    given = tiny.turn_input("a cheap hotel please")
    fed = system.pad([system.read(given)])
    H, _ = system.encode(fed)
    pairs = system.fused(fed, H)
    queries = system.queries
    slots = system.slot_path(queries.names[None], H)[0]
    domains = system.domain_path(queries.domains[None], H)[0]
    j = system.slot_names.index("hotel-price")
    by_hand = system.normalisation(domains[queries.domain_of[j]] * slots[queries.name_of[j]])
    assert torch.allclose(pairs[0, j], by_hand, atol=1e-5)


def test_the_three_levels_write_what_is_in_the_state() -> None:
    system = untrained("comer")
    state = {"hotel-area": "north", "hotel-name": "bell tower", "taxi-leave at": "09:15"}
    one, two, three = system.sequences([state, {}])
    domains = system.schema.domains
    assert one.items[0].tolist()[:2] == [domains.index("hotel"), domains.index("taxi")]
    assert one.mask.tolist() == [[True, True, True], [True, False, False]], "an empty state is only the end"
    assert two.parents.tolist() == [[0, 0], [0, 1]] and two.owners.tolist() == [0, 0]
    slots = [system.slot_at[int(two.groups[s]), int(name)] for s in range(2) for name in two.items[s][two.mask[s]][:-1]]
    assert slots == list(state)
    assert three.parents.tolist() == [[0, 0], [0, 1], [1, 0]]
    assert [system.encoder.decode(row.tolist()) for row in three.items] == ["north", "bell tower", "09:15"]


def test_greedy_decoding_takes_the_steps_of_the_forced_one() -> None:
    """What COMER writes freely has the outputs and probabilities of the same items given from outside."""
    system = untrained("comer", max_value_length=4)
    inputs = [tiny.turn_input("a cheap hotel please"), tiny.turn_input("to the bell tower", "where to")]
    fed = system.pad([system.read(one) for one in inputs])
    H, h = system.encode(fed)
    free = system.greedy(0, fed, H, h, [0, 1], None, None)
    stop = system.stop(0)
    rows = [(b, (0, 0), 0, [*one.items, stop][: len(one.probability)]) for b, one in enumerate(free)]
    outputs, logits = system.forced(fed, H, h, 0, system._padded(0, rows), None)
    for b, one in enumerate(free):
        assert len(set(one.items)) == len(one.items), "no domain twice"
        for k, vector in enumerate(one.outputs):
            assert torch.allclose(outputs[b, k], vector, atol=1e-5)
        assert one.probability[0] == pytest.approx(float(logits[b, 0].softmax(-1).max()), abs=1e-5)


def test_a_turn_is_read_once_by_a_recurrent_system() -> None:
    """With what is remembered, the same is decided as from all turns at once."""
    system = untrained("sumbt")
    turns = DIALOGUES[0].turns
    given = tiny.turn_input(turns[2].user, turns[2].system, previous=turns[1], older=(turns[0],))
    seen: dict[object, torch.Tensor] = {}
    first = tiny.turn_input(turns[1].user, turns[1].system, previous=turns[0])
    with torch.inference_mode():
        system.decide(Asking([first], [system.read(first)], None, seen))
        assert len(seen) == 2
        remembered = system.decide(Asking([given], [system.read(given)], None, seen))
        at_once = system.decide(Asking([given], [system.read(given)]))
    assert len(seen) == 3
    for slot, said in remembered[0].items():
        assert said.value == at_once[0][slot].value
        assert said.probability == pytest.approx(at_once[0][slot].probability, abs=1e-5)
