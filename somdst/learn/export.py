"""Writes a trained model as ONNX into its folder, in float32 and int8, for `runtime.py`.

    encoder.float32.onnx  decoder.float32.onnx
    encoder.int8.onnx     decoder.int8.onnx      embeddings.int8.bin

Comparing the result with torch is `evaluate/agreement.py`'s concern.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx

from somdst.files import replacing
from somdst.learn.checkpoints import load_model
from somdst.learn.graphs import decoder_graph, encoder_graph
from somdst.learn.quantisation import Quantiser, quantise_rows
from somdst.model.folder import EMBEDDINGS, ModelFolder


def export(
    folder: ModelFolder, precisions: Sequence[str] = ("int8", "float32"), *, out: Path | None = None
) -> list[Path]:
    """Write the graphs into the model's folder, or into `out`; gives the files."""
    out = out or folder.path
    model = load_model(folder, folder.encoder())
    graphs = {"encoder": encoder_graph(model, len(folder.schema)), "decoder": decoder_graph(model)}
    written = []
    if "float32" in precisions:
        written += [_write(out / f"{name}.float32.onnx", graph) for name, graph in graphs.items()]
    if "int8" in precisions:
        table = model.operation_predictor.word_embeddings.weight.detach().numpy()
        with replacing(out / EMBEDDINGS) as stream:
            stream.write(quantise_rows(table)[0].tobytes())
        by_row = {"encoder": lambda shape: shape[0] != shape[1], "decoder": lambda shape: True}
        for name, graph in graphs.items():  # rewritten in place, so they come last
            written.append(_write(out / f"{name}.int8.onnx", Quantiser(graph, table, EMBEDDINGS, by_row[name]).run()))
        written.append(out / EMBEDDINGS)
    return written


def _write(path: Path, graph: onnx.ModelProto) -> Path:
    with replacing(path) as stream:
        stream.write(graph.SerializeToString())
    return path
