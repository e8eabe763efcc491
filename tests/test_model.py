"""The model against its equations: by hand for a model of width 2, slot by slot for random ones."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import tiny

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from somdst.corpora.synthetic import synthetic_dialogues  # noqa: E402
from somdst.learn.batches import Batches, Examples  # noqa: E402
from somdst.learn.losses import choice_loss, slots_to_write  # noqa: E402
from somdst.learn.model import CONTEXT, NOTHING, ModelOptions, SomDst, goes_on, last_tokens, similar_lengths  # noqa: E402
from somdst.learn.naive import generate_one, slot_by_slot_loss  # noqa: E402
from somdst.learn.settings import Settings  # noqa: E402
from somdst.learn.tensors import Batch, ValueTargets  # noqa: E402
from somdst.memory.dialogue import Dialogue, Turn  # noqa: E402
from somdst.memory.state import State  # noqa: E402

DIALOGUES = synthetic_dialogues(dialogues=4)
KINDS = pytest.mark.parametrize("layout", ["paper", "compact"])


class Identity(nn.Module):
    """An encoder that says of a token what its embedding says: H_t = E[X_t]."""

    def __init__(self, embeddings: list[list[float]]) -> None:
        super().__init__()
        self.config = SimpleNamespace(hidden_size=len(embeddings[0]), type_vocab_size=2)
        self.words = nn.Embedding.from_pretrained(torch.tensor(embeddings), freeze=False)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.words

    def forward(self, *, inputs_embeds: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Any:
        return SimpleNamespace(last_hidden_state=inputs_embeds)


# By hand. Vocabulary: [PAD] [SLOT] [NULL] [EOS] north; the input is "north [SLOT] north" and a [PAD].

E = [[0.0, 0.0], [1.0, 0.0], [0.5, -0.5], [-1.0, 1.0], [0.0, 2.0]]
SLOT, EOS, NORTH = 1, 3, 4
IDS = [NORTH, SLOT, NORTH]
W_POOL, B_POOL = [[1.0, 0.5], [0.0, 0.25]], [0.0, 0.1]
W_OPR, B_OPR = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [2.0, 1.0]], [0.0, 0.0, 0.5, 0.0]
W_DOM, B_DOM = [[1.0, 1.0], [-1.0, 0.0]], [0.0, 0.2]
W_IH = [[0.5, 0.0], [0.0, 0.5], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, -1.0]]  # reset, update, new: two rows each
W_HH = [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
W_1, B_1 = [0.5, -0.5, 1.0, 0.0, 0.0, 1.0], 0.25


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def softmax(scores: list[float]) -> list[float]:
    total = sum(math.exp(score) for score in scores)
    return [math.exp(score) / total for score in scores]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def gru(e: list[float], g: list[float]) -> list[float]:
    inner, outer = [dot(row, e) for row in W_IH], [dot(row, g) for row in W_HH]
    r = [sigmoid(inner[i] + outer[i]) for i in (0, 1)]
    z = [sigmoid(inner[i] + outer[i]) for i in (2, 3)]
    n = [math.tanh(inner[4 + i] + r[i] * outer[4 + i]) for i in (0, 1)]
    return [(1 - z[i]) * n[i] + z[i] * g[i] for i in (0, 1)]


class Step:
    """One step of the generator, worked out with plain numbers."""

    def __init__(
        self, e: list[float], g: list[float], *, scale: float = 1.0, previous: int = NOTHING, bonus: float = 0.0
    ) -> None:
        H = [E[token] for token in IDS]
        self.g = gru(e, g)
        self.P_vcb = softmax([scale * dot(row, self.g) for row in E])
        scores = [scale * dot(row, self.g) for row in H]
        for position in range(1, len(IDS)):  # what follows the token before
            scores[position] += bonus if IDS[position - 1] == previous else 0.0
        self.P_ctx = softmax(scores)
        c = [sum(p * row[i] for p, row in zip(self.P_ctx, H, strict=True)) for i in (0, 1)]
        self.alpha = sigmoid(dot(W_1, self.g + e + c) + B_1)
        self.P_val = [self.alpha * p for p in self.P_vcb]
        for token, p in zip(IDS, self.P_ctx, strict=True):
            self.P_val[token] += (1 - self.alpha) * p


def by_hand(*, scaled: bool = False) -> SomDst:
    model = SomDst(Identity(E), ModelOptions(operations=4, domains=2, eos=EOS, fixed_schema=True, scaled_logits=scaled))
    predictor, generator = model.operation_predictor, model.value_generator
    with torch.no_grad():
        for layer, weight, bias in (
            (predictor.W_pool, W_POOL, B_POOL),
            (predictor.W_opr, W_OPR, B_OPR),
            (predictor.W_dom, W_DOM, B_DOM),
            (generator.W_1, [W_1], [B_1]),
        ):
            layer.weight.copy_(torch.tensor(weight))
            layer.bias.copy_(torch.tensor(bias))
        generator.gru.weight_ih_l0.copy_(torch.tensor(W_IH))
        generator.gru.weight_hh_l0.copy_(torch.tensor(W_HH))
        generator.gru.bias_ih_l0.zero_()
        generator.gru.bias_hh_l0.zero_()
    return model.eval()


BATCH = Batch(
    ids=torch.tensor([[*IDS, 0]]),
    segments=torch.tensor([[0, 1, 1, 0]]),
    mask=torch.tensor([[True, True, True, False]]),
    slots=torch.tensor([[1]]),
    slot_mask=torch.tensor([[True]]),
    operations=torch.tensor([[3]]),
    domain=torch.tensor([0]),
    values=ValueTargets(
        torch.tensor([0]), torch.tensor([0]), torch.tensor([[NORTH, EOS]]), torch.tensor([[True, True]])
    ),
)
H_X = [math.tanh(dot(row, E[NORTH]) + bias) for row, bias in zip(W_POOL, B_POOL, strict=True)]


def test_operations_and_domain_by_hand() -> None:
    encoded = by_hand().encode(BATCH)
    assert encoded.pooled[0].tolist() == pytest.approx([math.tanh(1.0), math.tanh(0.6)])  # W_pool (0, 2) + (0, 0.1)
    P_opr = softmax([dot(row, E[SLOT]) + bias for row, bias in zip(W_OPR, B_OPR, strict=True)])  # 1, 0, -0.5, 2
    assert encoded.operations[0, 0].softmax(-1).tolist() == pytest.approx(P_opr)
    assert P_opr == pytest.approx([0.23206, 0.08537, 0.05178, 0.63080], abs=1e-5)
    P_dom = softmax([dot(row, H_X) + bias for row, bias in zip(W_DOM, B_DOM, strict=True)])
    assert encoded.domain[0].softmax(-1).tolist() == pytest.approx(P_dom)


@pytest.mark.parametrize("scaled", [False, True])
def test_a_value_by_hand(scaled: bool) -> None:
    model = by_hand(scaled=scaled)
    scale = math.e if scaled else 1.0  # scales are logarithms that start at 1
    first = Step(E[SLOT], H_X, scale=scale)
    second = Step(E[NORTH], first.g, scale=scale, previous=NORTH, bonus=math.e if scaled else 0.0)
    generator, encoded = model.value_generator, model.encode(BATCH)
    weight = model.operation_predictor.word_embeddings.weight
    e, g, before = torch.tensor([E[SLOT]]), torch.tensor([H_X]), torch.full((1, CONTEXT), NOTHING)
    for step, next_token in ((first, NORTH), (second, EOS)):
        P_val, P_ctx, g_next = generator.step(e, g, encoded.tokens, BATCH.ids, BATCH.mask, weight, before)
        assert g_next[0].tolist() == pytest.approx(step.g)
        assert P_ctx[0].tolist() == pytest.approx([*step.P_ctx, 0.0])
        assert generator.gate(g_next[:, None], e[:, None], P_ctx[:, None], encoded.tokens).item() == pytest.approx(
            step.alpha
        )
        assert P_val[0].tolist() == pytest.approx(step.P_val)
        assert sum(step.P_val) == pytest.approx(1.0)
        e, g, before = weight[next_token][None], g_next, last_tokens(torch.tensor([[next_token]]))[:, 1]


def test_what_goes_on_with_a_value() -> None:
    ids = torch.tensor([[3, 7, 30, 9, 4, 7, 15, 9]])  # 3:30 or 4:15 or
    mask = torch.ones_like(ids, dtype=torch.bool)

    def positions(*tokens: int, mask: torch.Tensor = mask) -> list[int]:
        before = last_tokens(torch.tensor([tokens], dtype=torch.long).reshape(1, -1))[:, -1:]
        return goes_on(ids, mask, before)[0, 0].nonzero().flatten().tolist()

    assert positions() == []
    assert positions(7) == [2, 6]
    assert positions(4, 7) == [6]  # and not the 30 of 3:30
    assert positions(5, 7) == [2, 6]
    assert positions(9, 4, 7, 15) == [7]
    assert positions(5) == positions(9, 5) == []
    assert positions(4, 7, mask=mask & (ids != 15)) == [2]  # what is covered has no words to go on with


def test_the_losses_by_hand() -> None:
    losses = by_hand()(BATCH)
    first = Step(E[SLOT], H_X)
    second = Step(E[NORTH], first.g)
    L_opr = -math.log(softmax([1.0, 0.0, -0.5, 2.0])[3])
    L_dom = -math.log(softmax([dot(row, H_X) + bias for row, bias in zip(W_DOM, B_DOM, strict=True)])[0])
    L_svg = -(math.log(first.P_val[NORTH]) + math.log(second.P_val[EOS])) / 2
    assert [loss.item() for loss in losses] == pytest.approx([L_opr + L_dom + L_svg, L_opr, L_dom, L_svg])


# Random tiny models.


def batch_of(
    text: Any, dialogues: tuple[Dialogue, ...] = DIALOGUES, indices: range | None = None, **settings: Any
) -> Batch:
    source = Examples(dialogues, text.schema)
    config = Settings.model_validate(
        {"layout": text.config.layout, "operation_set": text.config.operation_set, "word_dropout": 0.0} | settings
    )
    return Batches(source, text, config).tensors(indices or range(source.turns), 0)


@KINDS
@pytest.mark.parametrize("scaled", [False, True])
def test_all_slots_at_once_are_as_one_by_one(layout: str, scaled: bool) -> None:
    model, text = tiny.model(layout=layout, scaled_logits=scaled)
    batch = batch_of(text, indices=range(6))
    B, J = batch.slots.shape
    owners, slots = (t.flatten() for t in torch.meshgrid(torch.arange(B), torch.arange(J), indexing="ij"))
    with torch.no_grad():
        encoded = model.encode(batch)
        generated = model.generate(batch, encoded, owners, slots, steps=5)
        said = set()
        for u, (owner, slot) in enumerate(zip(owners.tolist(), slots.tolist(), strict=True)):
            tokens = generate_one(model, batch, encoded, owner, slot, steps=5)
            assert generated.tokens[u].tolist()[: len(tokens)] == tokens
            assert set(generated.tokens[u].tolist()[len(tokens) :]) <= {text.eos}
            said.add(tuple(tokens))
    assert len(said) > 5, "a model that always says the same shows nothing"
    assert ((generated.probability > 0) & (generated.probability <= 1)).all()


@KINDS
def test_the_loss_in_one_pass_is_that_of_slot_by_slot(layout: str) -> None:
    model, text = tiny.model(layout=layout)
    batch = batch_of(text)
    assert batch.values is not None and batch.values.tokens.shape[1] > 2
    assert int(torch.bincount(batch.values.owners).max()) > 1
    fast, slow = model(batch), slot_by_slot_loss(model, batch)
    assert [loss.item() for loss in fast] == pytest.approx([loss.item() for loss in slow], rel=1e-4)
    fast.total.backward()
    gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    slow.total.backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-3, atol=1e-5, msg=name)


def test_the_models_own_words_are_fed_without_teacher_forcing() -> None:
    model, text = tiny.model()
    batch = batch_of(text)
    targets = batch.values
    assert targets is not None
    K = targets.tokens.shape[1]
    with torch.no_grad():
        encoded = model.encode(batch)
        own = model.generate(batch, encoded, targets.owners, targets.slots, steps=K).tokens
        own = torch.nn.functional.pad(own, (0, K - own.shape[1]), value=text.eos)
        e, g, nll = encoded.slots[targets.owners, targets.slots], encoded.pooled[targets.owners], 0.0
        weight, owners = model.operation_predictor.word_embeddings.weight, targets.owners
        before = last_tokens(own[:, :-1])
        for k in range(K):
            P_val, _, g = model.value_generator.step(
                e, g, encoded.tokens[owners], batch.ids[owners], batch.mask[owners], weight, before[:, k]
            )
            P_target = P_val.gather(1, targets.tokens[:, k, None]).squeeze(1)
            nll = nll - torch.log(P_target + 1e-9) * targets.mask[:, k]
            e = weight[own[:, k]]
        per_slot = nll / targets.mask.sum(1)
        each = slots_to_write(batch)[targets.owners]
        free = model(batch, teacher_forcing=False)
        forced = model(batch, teacher_forcing=True)
    chosen = choice_loss(batch, encoded).item()
    generated = ((per_slot / each).sum() / len(batch.ids)).item()
    assert free.values.item() == pytest.approx(generated + chosen, rel=1e-4)
    assert free.values.item() != pytest.approx(forced.values.item(), rel=1e-3)


@KINDS
def test_padding_changes_nothing(layout: str) -> None:
    model, text = tiny.model(layout=layout)
    whole = batch_of(text)
    assert (~whole.mask).any()
    with torch.no_grad():
        together = model.encode(whole)
        for row in range(len(whole.ids)):
            length = int(whole.mask[row].sum())
            one = Batch(
                whole.ids[row : row + 1, :length],
                whole.segments[row : row + 1, :length],
                whole.mask[row : row + 1, :length],
                whole.slots[row : row + 1],
                whole.slot_mask[row : row + 1],
                texts=whole.texts,
                slot_rows=None if whole.slot_rows is None else whole.slot_rows[row : row + 1],
            )
            alone = model.encode(one)
            torch.testing.assert_close(alone.operations[0], together.operations[row], rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(alone.tokens[0], together.tokens[row, :length], rtol=1e-4, atol=1e-5)
            slots = torch.arange(3)
            values = model.generate(one, alone, torch.zeros(3, dtype=torch.long), slots, steps=4)
            same = model.generate(whole, together, torch.full((3,), row), slots, steps=4)
            assert values.tokens.tolist() == same.tokens.tolist()
            torch.testing.assert_close(values.probability, same.probability, rtol=1e-3, atol=1e-6)


@KINDS
@pytest.mark.parametrize("teacher_forcing", [True, False])
def test_a_batch_that_updates_nothing(layout: str, teacher_forcing: bool) -> None:
    model, text = tiny.model(layout=layout)
    thanks = Dialogue("thanks", (Turn("", "hello", State(), "hotel"), Turn("yes ?", "no", State(), "hotel")))
    batch = batch_of(text, (thanks,))
    assert batch.values is None
    losses = model(batch, teacher_forcing=teacher_forcing)
    assert losses.values.item() == 0.0 and losses.total.isfinite()
    losses.total.backward()
    assert model.operation_predictor.W_opr.weight.grad.abs().sum() > 0
    assert model.operation_predictor.word_embeddings.weight.grad.abs().sum() > 0
    assert all(parameter.grad is None for parameter in model.value_generator.parameters())


def test_the_joint_loss_is_the_sum() -> None:
    model, text = tiny.model()
    batch = batch_of(text)
    losses = model(batch)
    assert losses.total.item() == pytest.approx((losses.operations + losses.domain + losses.values).item())
    weighted = model(batch, operation_weight=3.0)
    assert (weighted.total - losses.total).item() == pytest.approx(2 * losses.operations.item(), rel=1e-4)


def test_turns_without_a_domain_count_as_nothing() -> None:
    model, text = tiny.model()
    labelled = batch_of(text, indices=range(4))
    half = labelled._replace(domain=torch.where(torch.arange(4) < 2, labelled.domain, -100))
    nothing = labelled._replace(domain=torch.full((4,), -100))
    rest = labelled._replace(domain=torch.where(torch.arange(4) < 2, -100, labelled.domain))
    assert (model(half).domain + model(rest).domain).item() == pytest.approx(model(labelled).domain.item(), rel=1e-5)
    assert model(nothing).domain.item() == 0.0


def test_before_training_a_slot_carries_the_sum_of_its_name() -> None:
    model, text = tiny.model(layout="compact")
    batch = batch_of(text, shuffle_slots=1.0)
    weight = model.operation_predictor.word_embeddings.weight
    assert batch.texts is not None and batch.slot_rows is not None
    vectors, _ = model.operation_predictor.describe(batch.texts)
    embedded = model.operation_predictor.embed(batch, vectors[batch.slot_rows])
    plain = weight[batch.ids]
    assert batch.slots[0].tolist() != sorted(batch.slots[0].tolist()), "slots should be shuffled here"
    for row in range(len(batch.ids)):
        for j, ids in enumerate(text.table().names):
            at = batch.slots[row, j]
            torch.testing.assert_close(embedded[row, at], weight[text.slot] + weight[torch.tensor(ids)].sum(0))
            plain[row, at] = embedded[row, at]
    torch.testing.assert_close(embedded, plain)  # no other token is touched


def test_before_training_a_listed_value_is_scored_by_the_words_that_the_slot_looks_at() -> None:
    model, text = tiny.model(layout="compact")
    batch, predictor = batch_of(text), model.operation_predictor
    with torch.no_grad():
        encoded = model.eval().encode(batch)
        looked = predictor.mentions(encoded.slots, encoded.tokens, batch.mask)
        for layer in (predictor.W_query.weight, predictor.W_query.bias):
            layer.zero_()
        queries = model.encode(batch).queries
        row, slot = 1, 2
        scores = [float(predictor.W_attend(encoded.slots[row, slot]) @ h) for h in encoded.tokens[row, batch.mask[row]]]
        weights = softmax([score / encoded.tokens.shape[-1] ** 0.5 for score in scores])
        by_hand = sum(w * h for w, h in zip(weights, encoded.tokens[row, batch.mask[row]], strict=True))
    torch.testing.assert_close(looked[row, slot], by_hand)
    torch.testing.assert_close(queries, looked / encoded.tokens.shape[-1] ** 0.5)


@pytest.mark.parametrize("tokens", [1, 10_000])
def test_rows_that_run_together_by_length_give_what_a_padded_batch_gives(
    monkeypatch: pytest.MonkeyPatch, tokens: int
) -> None:
    model, text = tiny.model(layout="compact")
    batch = batch_of(text)
    monkeypatch.setattr("somdst.learn.model.similar_lengths", partial(similar_lengths, tokens=tokens))
    grouped, padded = model.train().encode(batch), model.eval().encode(batch)
    torch.testing.assert_close(grouped.operations, padded.operations)
    torch.testing.assert_close(grouped.tokens[batch.mask], padded.tokens[batch.mask])
    torch.testing.assert_close(grouped.value_vectors, padded.value_vectors)


def test_rows_are_grouped_by_length_when_there_is_enough_to_do() -> None:
    assert similar_lengths([300, 900, 100, 880]) == [([1, 3], 900), ([0, 2], 300)]
    assert similar_lengths([30, 4, 28, 5], tokens=50) == [([0, 2], 30), ([3, 1], 5)]
    assert similar_lengths([30, 4, 28, 5], tokens=100) == [([0, 2, 3, 1], 30)]
    assert similar_lengths([]) == []


def test_the_papers_layout_embeds_words_alone() -> None:
    model, text = tiny.model(layout="paper")
    batch = batch_of(text)
    weight = model.operation_predictor.word_embeddings.weight
    assert batch.texts is None
    assert torch.equal(model.operation_predictor.embed(batch, None), weight[batch.ids])


def test_scaled_logits() -> None:
    plain, _ = tiny.model(scaled_logits=False)
    scaled, _ = tiny.model(scaled_logits=True)
    assert plain.value_generator.scales is None and plain.value_generator.scale(0) == 1.0
    assert plain.value_generator.W_1.bias.item() == 0.0
    assert scaled.value_generator.scale(1).item() == pytest.approx(math.e)
    assert scaled.value_generator.W_1.bias.item() == -1.0  # the gate starts in favour of copying
    assert {name for name, _ in scaled.named_parameters()} - {name for name, _ in plain.named_parameters()} == {
        "value_generator.scales",
        "value_generator.follow",
    }


@pytest.mark.parametrize("operation_set", ["2", "3-without-delete", "3-without-dontcare", "4", "6"])
def test_every_operation_set_is_learned_from(operation_set: str) -> None:
    model, text = tiny.model(operation_set=operation_set)
    batch = batch_of(text)
    assert model(batch).total.isfinite()
    assert model.encode(batch).operations.shape[-1] == int(operation_set[0])
    assert batch.operations is not None and batch.operations.max() < int(operation_set[0])


@KINDS
def test_fused_attention_is_the_plain_one(layout: str) -> None:
    model, text = tiny.model(layout=layout)
    batch = batch_of(text)
    plain = model(batch).total
    plain.backward()
    gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    model.operation_predictor.fuse_attention()
    assert model.operation_predictor.encoder.config._attn_implementation == "sdpa"
    fused = model(batch).total
    fused.backward()
    assert fused.item() == pytest.approx(plain.item(), rel=1e-5)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-3, atol=1e-5, msg=name)


@KINDS
def test_mixed_precision_is_near_the_whole_one(layout: str) -> None:
    """The encoder runs in bfloat16 throughout; its weights, and their gradients, stay float32."""
    model, text = tiny.model(layout=layout)
    batch = batch_of(text)
    whole = model(batch)
    whole.total.backward()
    gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        mixed = model(batch)
        assert model.encode(batch).tokens.dtype is torch.bfloat16
    mixed.total.backward()
    assert mixed.total.item() == pytest.approx(whole.total.item(), rel=0.02)
    for name, parameter in model.named_parameters():
        expected = gradients[name]
        assert parameter.grad.dtype is torch.float32
        assert (parameter.grad - expected).norm() <= 0.1 * expected.norm() + 1e-3, name
