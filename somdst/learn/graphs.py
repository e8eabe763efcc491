"""A trained model as three ONNX graphs, in float32: one run of the encoder, one step of the generator, and what makes
a slot's vector of its text.

    encoder   ids, segments [B, T], slots [B, J], slot_vectors [B, J, D]
                                                        -> operations, domain, pooled, slot_states, tokens, queries
    decoder   e, g [U, D], tokens [U, T, D], ids, mask [U, T], before [U, CONTEXT]
                                                        -> token, probability, position [U], next_e, next_g [U, D]
    reader    pooled [N, D], names [N, P]               -> slots, values [N, D]

Nothing in them depends on the number or names of slots, except in the paper's layout, which has no reader and no slot
vectors. The encoder's graph reads turns without padding (the runtime gives it one turn per run), so it has no mask, and
its attention is a single operator. `quantisation.py` turns the products into int8, `exporting.py` writes them,
`evaluate/agreement.py` compares them with torch, `model/runtime.py` runs them.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import onnx
import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from somdst.learn.model import CONTEXT, SomDst
from somdst.learn.tensors import Batch

OPSET = 18
ATTENTION_OPSET = 23
"""The first that has attention as one operator."""
FUSED = "somdst_onnx"


class Attention(torch.autograd.Function):
    """Attention as one operator. q, k, v [B, T, heads, width of a head], without padding."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, heads: int, width: int, scale: float) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return ((q @ k.transpose(-1, -2) * scale).softmax(-1) @ v).transpose(1, 2)

    @staticmethod
    def symbolic(g: Any, q: Any, k: Any, v: Any, heads: int, width: int, scale: float) -> Any:
        joined, split = (g.op("Constant", value_t=torch.tensor(shape)) for shape in ([0, 0, -1], [0, 0, heads, width]))
        flat = [g.op("Reshape", x, joined) for x in (q, k, v)]  # `fuse`, below, takes the reshapes out again
        out = g.op("Attention", *flat, q_num_heads_i=heads, kv_num_heads_i=heads, scale_f=scale)
        return g.op("Reshape", out, split).setType(q.type())


def _fused_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    """As transformers calls attention: query, key, value [B, heads, T, width] -> [B, T, heads, width]"""
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    heads: int = module.config.num_attention_heads  # while a graph is traced, shapes are not plain numbers
    width = module.config.hidden_size // heads
    return Attention.apply(q, k, v, heads, width, float(scaling)), None


AttentionInterface.register(FUSED, _fused_attention)


class EncoderGraph(nn.Module):
    def __init__(self, model: SomDst) -> None:
        super().__init__()
        self.predictor = model.operation_predictor

    def forward(
        self, ids: Tensor, segments: Tensor, slots: Tensor, slot_vectors: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        every, each = torch.ones_like(ids, dtype=torch.bool), torch.ones_like(slots, dtype=torch.bool)
        encoded = self.predictor(Batch(ids, segments, every, slots, each, slot_vectors))
        found = (encoded.operations, encoded.domain, encoded.pooled, encoded.slots, encoded.tokens)
        return found if encoded.queries is None else (*found, encoded.queries)


class ReaderGraph(nn.Module):
    """`SchemaReader`, with the word embeddings."""

    def __init__(self, model: SomDst) -> None:
        super().__init__()
        self.reader, self.embeddings = model.operation_predictor.reader, model.operation_predictor.word_embeddings

    def forward(self, pooled: Tensor, names: Tensor) -> tuple[Tensor, Tensor]:
        return self.reader(pooled, names, self.embeddings)


class DecoderGraph(nn.Module):
    """`SlotValueGenerator.step`, with the GRU as plain products, the greedy choice, and the next input."""

    def __init__(self, model: SomDst) -> None:
        super().__init__()
        self.generator = model.value_generator
        gru: Any = self.generator.gru
        self.W_ih, self.b_ih = nn.Parameter(gru.weight_ih_l0.t().contiguous()), gru.bias_ih_l0
        self.W_hh, self.b_hh = nn.Parameter(gru.weight_hh_l0.t().contiguous()), gru.bias_hh_l0
        self.E = model.operation_predictor.word_embeddings.weight

    def forward(
        self, e: Tensor, g: Tensor, tokens: Tensor, ids: Tensor, mask: Tensor, before: Tensor
    ) -> tuple[Tensor, ...]:
        g = self.gru(e, g)
        P_val, P_ctx = self.generator.mix(g, e, tokens, ids, mask, self.E, before)
        probability, token = P_val.max(-1)
        return token, probability, P_ctx.argmax(-1), self.E[token], g

    def gru(self, e: Tensor, g: Tensor) -> Tensor:
        r_in, z_in, n_in = (e @ self.W_ih + self.b_ih).chunk(3, -1)
        r_hid, z_hid, n_hid = (g @ self.W_hh + self.b_hh).chunk(3, -1)
        r, z = torch.sigmoid(r_in + r_hid), torch.sigmoid(z_in + z_hid)
        return (1 - z) * torch.tanh(n_in + r * n_hid) + z * g


def encoder_graph(model: SomDst, slots: int) -> onnx.ModelProto:
    """`slots` is the number of slots in the paper's layout, whose graph has it built in."""
    length, width = max(24, slots + 2), model.operation_predictor.W_pool.in_features
    inputs: tuple[Tensor, ...] = (
        torch.ones(2, length, dtype=torch.long),
        torch.ones(2, length, dtype=torch.long),
        torch.arange(slots).expand(2, -1).contiguous(),
    )
    names, outputs = ["ids", "segments", "slots"], ["operations", "domain", "pooled", "slot_states", "tokens"]
    axes = {name: {0: "B", 1: "T"} for name in ("ids", "segments", "tokens")} | {"pooled": {0: "B"}}
    by_slot = {0: "B"}
    if not model.options.fixed_schema:
        inputs, by_slot = (*inputs, torch.zeros(2, slots, width)), {0: "B", 1: "J"}
        names, outputs = [*names, "slot_vectors"], [*outputs, "queries"]
    rows = ("slots", "slot_vectors", "operations", "domain", "slot_states", "queries")
    axes |= {name: by_slot for name in rows if name in (*names, *outputs)}
    encoder = model.operation_predictor.encoder
    attention = encoder.config._attn_implementation
    encoder.set_attn_implementation(FUSED)
    try:
        return fuse(_export(EncoderGraph(model), inputs, names=names, outputs=outputs, axes=axes))
    finally:
        encoder.set_attn_implementation(attention)


def reader_graph(model: SomDst) -> onnx.ModelProto:
    width = model.operation_predictor.W_pool.in_features
    return _export(
        ReaderGraph(model),
        (torch.zeros(2, width), torch.ones(2, 3, dtype=torch.long)),
        names=["pooled", "names"],
        outputs=["slots", "values"],
        axes={"names": {0: "N", 1: "P"}, **{name: {0: "N"} for name in ("pooled", "slots", "values")}},
    )


def decoder_graph(model: SomDst) -> onnx.ModelProto:
    width = model.operation_predictor.W_pool.in_features
    inputs = (
        torch.zeros(2, width),
        torch.zeros(2, width),
        torch.zeros(2, 24, width),
        torch.ones(2, 24, dtype=torch.long),
        torch.ones(2, 24, dtype=torch.bool),
        torch.zeros(2, CONTEXT, dtype=torch.long),
    )
    rows = {name: {0: "U"} for name in ("e", "g", "before", "token", "probability", "position", "next_e", "next_g")}
    return _export(
        DecoderGraph(model),
        inputs,
        names=["e", "g", "tokens", "ids", "mask", "before"],
        outputs=["token", "probability", "position", "next_e", "next_g"],
        axes={**rows, **{name: {0: "U", 1: "T"} for name in ("tokens", "ids", "mask")}},
    )


def _export(
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    *,
    names: list[str],
    outputs: list[str],
    axes: dict[str, dict[int, str]],
) -> onnx.ModelProto:
    buffer = io.BytesIO()
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval(),
            inputs,
            buffer,  # type: ignore[arg-type]  # the exporter without dynamo writes to streams too
            input_names=names,
            output_names=outputs,
            dynamic_axes=axes,
            opset_version=OPSET,
            dynamo=False,
        )
    return onnx.load_from_string(buffer.getvalue())


# Attention in the encoder's graph, fed directly
#
# A tracing exporter writes every split into heads as a reshape whose target shape is computed again. ONNX's attention
# operator splits by itself, so all of that can go. Nothing here changes a result.


def fuse(model: onnx.ModelProto) -> onnx.ModelProto:
    """The graph with attention fed directly; in place."""
    _feed_attention_directly(model.graph)
    _drop_unused(model.graph)
    model.opset_import[0].version = ATTENTION_OPSET  # all else means the same in it as in the exporter's
    return model


def _feed_attention_directly(graph: onnx.GraphProto) -> None:
    """Attention takes and gives [B, T, D], as the products around it do: the reshapes between go."""
    made_by = {name: node for node in graph.node for name in node.output}
    for node in [node for node in graph.node if node.op_type == "Attention"]:
        for i, name in enumerate(node.input):
            while made_by[name].op_type == "Reshape":
                name = made_by[name].input[0]
            node.input[i] = name
        for reshape in list(_reshapes_of(graph, node.output[0])):
            for user in graph.node:
                for i, name in enumerate(user.input):
                    if name == reshape.output[0] and user.op_type != "Reshape":
                        user.input[i] = node.output[0]


def _reshapes_of(graph: onnx.GraphProto, name: str) -> Iterator[onnx.NodeProto]:
    """The reshapes of a tensor, and those of them."""
    for node in graph.node:
        if node.op_type == "Reshape" and node.input[0] == name:
            yield node
            yield from _reshapes_of(graph, node.output[0])


def _drop_unused(graph: onnx.GraphProto) -> None:
    wanted = {output.name for output in graph.output}
    kept: list[onnx.NodeProto] = []
    for node in reversed(graph.node):  # nodes stand in the order in which they run
        if wanted & {*node.output}:
            wanted |= {*node.input}
            kept.append(node)
    del graph.node[:]
    graph.node.extend(reversed(kept))
