"""Writes a trained model as ONNX into its folder, in float32 and int8, for `runtime.py`.

    encoder.float32.onnx  decoder.float32.onnx
    encoder.int8.onnx     decoder.int8.onnx      embeddings.int8.bin

Comparing the result with torch is `evaluate/agreement.py`'s concern.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx

from somdst.folder import ModelFolder
from somdst.learn.checkpoints import load_model, write_whole
from somdst.learn.graphs import decoder_graph, encoder_graph
from somdst.learn.quantisation import Quantiser, embedding_bytes

EMBEDDINGS = "embeddings.int8.bin"


def export(
    folder: ModelFolder, precisions: Sequence[str] = ("int8", "float32"), *, out: Path | None = None
) -> list[Path]:
    """Write the graphs into the model's folder, or into `out`; gives the files."""
    out = out or folder.path
    model = load_model(folder, folder.encoder())
    graphs = {"encoder": encoder_graph(model, len(folder.schema)), "decoder": decoder_graph(model)}
    written = []
    for precision in precisions:
        for name, graph in graphs.items():
            written.append(_write(out / f"{name}.{precision}.onnx", _in_precision(graph, precision)))
        if precision == "int8":
            table = model.operation_predictor.word_embeddings.weight.detach().numpy()
            write_whole(out / EMBEDDINGS, lambda stream, table=table: stream.write(embedding_bytes(table)))  # type: ignore[misc]
            written.append(out / EMBEDDINGS)
    return written


def _in_precision(graph: onnx.ModelProto, precision: str) -> onnx.ModelProto:
    if precision == "float32":
        return graph
    copy = onnx.ModelProto()
    copy.CopyFrom(graph)
    return Quantiser(copy, EMBEDDINGS).run()


def _write(path: Path, graph: onnx.ModelProto) -> Path:
    write_whole(path, lambda stream: stream.write(graph.SerializeToString()))
    return path
