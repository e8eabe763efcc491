"""Attention in the encoder's graph, fed directly.

A tracing exporter writes every split into heads as a reshape whose target shape is computed anew. ONNX's attention
operator splits by itself, so all of that can go. Nothing here changes a result.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx

OPSET = 23
"""The first that has attention."""


def fuse(model: onnx.ModelProto) -> onnx.ModelProto:
    """The graph with attention fed directly; in place."""
    _feed_attention_directly(model.graph)
    _drop_unused(model.graph)
    model.opset_import[0].version = OPSET  # all else means the same in it as in the exporter's
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
