"""Products in int8: every matrix of a float32 graph becomes int8 with one scale per column, activations are quantised
as they come (dynamic quantisation).

The encoder, which runs one turn at a time, gives most activations one scale, in ONNX Runtime's fused operator; those of
the feed-forward layers have the widest range, and get one scale per row. The decoder runs the slots of many
turns at once, and always gives each row its own scale, so that a slot's value does not depend on the others in its
batch. There the left side of a product is unsigned with the zero at 128, the right side signed: only for
that pair is there a fast kernel. The word embeddings [V, D] are stored once for both graphs; the vocabulary product
needs their transpose, which ONNX Runtime makes when it opens the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

from somdst.model.folder import EMBEDDINGS

SMALLEST = 64
"""Matrices with fewer columns stay float32: there is nothing to win."""


@dataclass(slots=True)
class Quantiser:
    """Rewrites one graph."""

    model: onnx.ModelProto
    table: NDArray[np.float32]
    """The word embeddings [V, D]; wherever the graph has them, or their transpose, it points to the shared file."""
    shared: str
    """Name of the file with the embeddings, relative to the graph's."""
    by_row: Callable[[tuple[int, ...]], bool]
    """Whether the activations of a product with a matrix of this shape get one scale per row; else they get one in all,
    in a single fused operator, which is faster."""
    _nodes: list[onnx.NodeProto] = field(default_factory=list)
    _new: list[TensorProto] = field(default_factory=list)
    _rows: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Activations that were quantised already: name to (uint8, scale of each row)."""
    _matrices: dict[str, tuple[str, str]] = field(default_factory=dict)
    _biased: dict[str, onnx.NodeProto] = field(default_factory=dict)
    """Products that are only used in a sum with a vector, which the fused operator adds itself: name to sum."""
    _done: list[onnx.NodeProto] = field(default_factory=list)
    """Sums that were taken into a product."""

    def run(self) -> onnx.ModelProto:
        graph = self.model.graph
        matrices = {t.name: numpy_helper.to_array(t) for t in graph.initializer if len(t.dims) == 2}
        rows = {name for name, matrix in matrices.items() if np.array_equal(matrix, self.table)}
        columns = {name for name, matrix in matrices.items() if np.array_equal(matrix, self.table.T)}
        self._share()
        self._find_biases()
        for node in graph.node:
            weight = matrices.get(node.input[1]) if node.op_type == "MatMul" else None
            if node.op_type == "Gather" and node.input[0] in rows:
                self._gather(node)
            elif weight is not None and node.input[1] in columns:
                transposed = self._add("Transpose", ["embeddings"], "embeddings_transposed", perm=[1, 0])
                self._product(node, transposed, "embedding_scales", weight.shape)
            elif weight is not None and weight.shape[1] >= SMALLEST:
                self._product(node, *self._matrix(node.input[1], weight), weight.shape)
            elif any(node is done for done in self._done):
                continue
            else:
                self._nodes.append(node)
        del graph.node[:]
        graph.node.extend(self._nodes)
        used = {name for node in graph.node for name in node.input}
        kept = [tensor for tensor in graph.initializer if tensor.name in used]
        del graph.initializer[:]
        graph.initializer.extend([*kept, *(tensor for tensor in self._new if tensor.name in used)])
        self.model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        return self.model

    def _find_biases(self) -> None:
        graph = self.model.graph
        vectors = {tensor.name for tensor in graph.initializer if len(tensor.dims) == 1}
        users: dict[str, list[onnx.NodeProto]] = {}
        for node in graph.node:
            for name in node.input:
                users.setdefault(name, []).append(node)
        for node in graph.node:
            after = users.get(node.output[0], [])
            if (
                node.op_type == "MatMul"
                and len(after) == 1
                and after[0].op_type == "Add"
                and vectors & {*after[0].input}
            ):
                self._biased[node.output[0]] = after[0]

    def _share(self) -> None:
        """The embeddings, int8 with one scale per word: a reference to the shared file, and the scales."""
        _, scales = quantise_rows(self.table)
        tensor = TensorProto(name="embeddings", data_type=TensorProto.INT8, dims=self.table.shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", self.shared), ("offset", "0"), ("length", str(self.table.size))):
            tensor.external_data.add(key=key, value=value)
        self._new += [tensor, numpy_helper.from_array(scales, "embedding_scales")]
        self._new += [numpy_helper.from_array(np.array(1 / 127, np.float32), "one_127th")]
        self._new += [numpy_helper.from_array(np.array(1e-8, np.float32), "least_scale")]
        self._new += [numpy_helper.from_array(np.array([-1], np.int64), "last_axis")]
        self._new += [numpy_helper.from_array(np.array(128, np.uint8), "middle")]
        self._new += [numpy_helper.from_array(np.array([128], np.uint8), "one_middle")]

    def _add(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self._nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def _gather(self, node: onnx.NodeProto) -> None:
        ids, out = node.input[1], node.output[0]
        rows = self._add("Gather", ["embeddings", ids], f"{out}_int8")  # [..., D]
        scales = self._add("Gather", ["embedding_scales", ids], f"{out}_scale")
        floats = self._add("Cast", [rows], f"{out}_float", to=TensorProto.FLOAT)
        column = self._add("Unsqueeze", [scales, "last_axis"], f"{out}_scale_column")
        self._add("Mul", [floats, column], out)

    def _quantise(self, name: str, width: int) -> tuple[str, str]:
        """An activation [..., width] as uint8 [rows, width], and the scale of each row."""
        if name not in self._rows:
            self._new.append(numpy_helper.from_array(np.array([-1, width], np.int64), f"{name}_flat_shape"))
            flat = self._add("Reshape", [name, f"{name}_flat_shape"], f"{name}_flat")
            largest = self._add(
                "ReduceMax", [self._add("Abs", [flat], f"{name}_abs"), "last_axis"], f"{name}_max", keepdims=0
            )
            scale = self._add("Mul", [largest, "one_127th"], f"{name}_scale_raw")
            scale = self._add("Max", [scale, "least_scale"], f"{name}_scale")
            shape = self._add("Shape", [scale], f"{name}_rows")
            zero = self._add("Expand", ["one_middle", shape], f"{name}_zero")
            self._rows[name] = self._add("QuantizeLinear", [flat, scale, zero], f"{name}_int8", axis=0), scale
        return self._rows[name]

    def _matrix(self, name: str, weight: NDArray[np.float32]) -> tuple[str, str]:
        """A weight [K, N] as int8, and the scale of each column."""
        if name not in self._matrices:
            quantised, scales = quantise_rows(np.ascontiguousarray(weight.T))
            self._new.append(numpy_helper.from_array(np.ascontiguousarray(quantised.T), f"{name}_int8"))
            self._new.append(numpy_helper.from_array(scales, f"{name}_scale"))
            self._matrices[name] = f"{name}_int8", f"{name}_scale"
        return self._matrices[name]

    def _product(self, node: onnx.NodeProto, matrix: str, columns: str, shape: tuple[int, ...]) -> None:
        activation, out = node.input[0], node.output[0]
        if not self.by_row(shape):
            inputs = [activation, matrix, columns]
            if (sum_ := self._biased.get(out)) is not None:
                inputs += ["", next(name for name in sum_.input if name != out)]
                out = sum_.output[0]
                self._done.append(sum_)
            self._nodes.append(helper.make_node("DynamicQuantizeMatMul", inputs, [out], domain="com.microsoft"))
            return
        rows, scale = self._quantise(activation, shape[0])
        product = self._add("MatMulInteger", [rows, matrix, "middle"], f"{out}_int32")
        self._rescale(product, columns, scale, activation, shape[1], out)

    def _rescale(self, product: str, columns: str, rows: str, activation: str, width: int, out: str) -> None:
        floats = self._add("Cast", [product], f"{out}_float", to=TensorProto.FLOAT)
        column = self._add("Unsqueeze", [rows, "last_axis"], f"{out}_row_scale")
        scaled = self._add("Mul", [self._add("Mul", [floats, columns], f"{out}_columns"), column], f"{out}_flat")
        self._new.append(numpy_helper.from_array(np.array([width], np.int64), f"{out}_width"))
        shape = self._add("Shape", [activation], f"{out}_shape_before", end=-1)
        self._add("Reshape", [scaled, self._add("Concat", [shape, f"{out}_width"], f"{out}_shape", axis=0)], out)


# Word embeddings, stored once for weights and graphs

SCALES = ".int8_scales"
"""Put behind a tensor's name: its scales are stored, its rows are in the shared file."""


def quantise_rows(matrix: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """int8 with one scale per row: matrix is about quantised * scale."""
    scales = np.maximum(np.abs(matrix).max(1) / 127, 1e-12).astype(np.float32)
    return np.round(matrix / scales[:, None]).astype(np.int8), scales


def without_embeddings(weights: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    """Weights with scales in place of the embeddings called `name`, whose rows the shared file has."""
    _, scales = quantise_rows(weights[name].float().numpy())
    return {key: tensor for key, tensor in weights.items() if key != name} | {name + SCALES: torch.from_numpy(scales)}


def with_embeddings(weights: dict[str, Tensor], folder: Path) -> dict[str, Tensor]:
    """The weights with the embeddings put back, where they were taken out."""
    for name in [name for name in weights if name.endswith(SCALES)]:
        scales = weights.pop(name)
        rows = np.fromfile(folder / EMBEDDINGS, dtype=np.int8).reshape(len(scales), -1)
        weights[name.removesuffix(SCALES)] = torch.from_numpy(rows.astype(np.float32)) * scales[:, None]
    return weights
