"""`export`: write a trained model as ONNX, in int8 and float32, so that it runs without torch.

    encoder.float32.onnx  decoder.float32.onnx  reader.float32.onnx
    encoder.int8.onnx     decoder.int8.onnx     reader.int8.onnx     embeddings.int8.bin

A model with a fixed schema has no reader. The graphs go into the model's own folder, or with everything else that a
model needs into another one. How a graph is built is in `graphs.py`, and how it is compared with torch in
`evaluate/agreement.py`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx

from somdst.corpora.opening import open_part
from somdst.errors import InputError, ModelError
from somdst.evaluate.agreement import Agreement, agreement
from somdst.files import make_folder, replacing, write_text
from somdst.learn.checkpoints import ENCODER, load_model
from somdst.learn.graphs import decoder_graph, encoder_graph, reader_graph
from somdst.learn.progress import Listener, Phase, silent
from somdst.learn.quantisation import Quantiser, quantise_rows
from somdst.learn.task import Source
from somdst.learn.torch_predictor import TorchPredictor
from somdst.memory.dialogue import Dialogue
from somdst.model.folder import EMBEDDINGS, PRECISIONS, WEIGHTS, ModelFolder, shipped_path
from somdst.model.runtime import Runtime
from somdst.model.values import FILE as LEXICON

LARGEST_LOSS = 0.5
"""Points of joint goal accuracy that int8 may cost. With more, nothing is written."""
BESIDES_GRAPHS = (
    *("schema.json", "tokenizer.json", LEXICON, "metrics.json", "README.md"),
    *(ENCODER, WEIGHTS, EMBEDDINGS),
)
"""What a complete model folder holds besides its graphs and config.json; not every model has all of it."""


@dataclass(frozen=True, slots=True)
class Exported:
    folder: Path
    files: tuple[Path, ...]
    """The graphs that were written."""
    agreement: Mapping[str, Agreement]
    """How far each precision agrees with torch, if it was checked."""


def export(
    model: str | Path,
    out: str | Path | None = None,
    *,
    precisions: Sequence[str] = PRECISIONS,
    check: Source | None = None,
    limit: int = 200,
    progress: Listener = silent,
) -> Exported:
    """Export a model into its own folder, or as a complete model into the folder `out`.

    With `check`, the graphs are compared with torch on the first `limit` of these labelled dialogues, and nothing is
    written if int8 costs more than half a point of joint goal accuracy.
    """
    folder = ModelFolder.open(model).upgraded()
    target = _target(folder, Path(out) if out is not None else None)
    dialogues = _dialogues(check, limit)
    with _draft(target) as draft:
        graphs = write_graphs(folder, draft, precisions)
        found = _compare(folder, draft, precisions, dialogues, progress) if dialogues else {}
        if "int8" in found and found["int8"].change < -LARGEST_LOSS:
            raise ModelError(
                f"int8 costs {-found['int8'].change:.2f} points of joint goal accuracy, more than {LARGEST_LOSS}: "
                "nothing was written."
            )
        if target != folder.path:
            _copy(folder, target)
        _write_config(folder, target)  # graphs are always of the present format
        for file in graphs:
            file.replace(target / file.name)
    return Exported(target, tuple(target / file.name for file in graphs), found)


def write_graphs(folder: ModelFolder, out: Path, precisions: Sequence[str] = PRECISIONS) -> list[Path]:
    """Write the graphs of a model, and nothing else, into the folder `out`; gives the files."""
    folder = folder.upgraded()
    model = load_model(folder, folder.encoder())
    graphs = {"encoder": encoder_graph(model, len(folder.schema)), "decoder": decoder_graph(model)}
    if not model.options.fixed_schema:
        graphs["reader"] = reader_graph(model)
    written = []
    if "float32" in precisions:
        written += [_write(out / f"{name}.float32.onnx", graph) for name, graph in graphs.items()]
    if "int8" in precisions:
        table = model.operation_predictor.word_embeddings.weight.detach().numpy()
        with replacing(out / EMBEDDINGS) as stream:
            stream.write(quantise_rows(table)[0].tobytes())
        by_row = {"encoder": lambda shape: shape[0] != shape[1]}
        for name, graph in graphs.items():  # the quantiser changes the graph itself, so int8 comes last
            quantiser = Quantiser(graph, table, EMBEDDINGS, by_row.get(name, lambda shape: True))
            written.append(_write(out / f"{name}.int8.onnx", quantiser.run()))
        written.append(out / EMBEDDINGS)
    return written


def _write(path: Path, graph: onnx.ModelProto) -> Path:
    with replacing(path) as stream:
        stream.write(graph.SerializeToString())
    return path


def _write_config(folder: ModelFolder, path: Path) -> None:
    write_text(path / "config.json", folder.config.model_dump_json(indent=2) + "\n")


def _target(folder: ModelFolder, out: Path | None) -> Path:
    """The folder to write to: never the installed package, and never over another model."""
    target = out if out is not None else folder.path
    if target.resolve() == shipped_path().resolve():
        raise InputError(
            "The model `default` is part of the installed package and is never written to: name a folder for the "
            "exported model with --out."
        )
    if target.resolve() == folder.path.resolve():
        return folder.path
    if (target / "config.json").exists() and not _same_weights(folder.path / WEIGHTS, target / WEIGHTS):
        raise InputError(f"There is another model in {target}: name another folder.")
    return target


def _same_weights(one: Path, other: Path) -> bool:
    return other.exists() and one.stat().st_size == other.stat().st_size and one.read_bytes() == other.read_bytes()


@contextmanager
def _draft(target: Path) -> Iterator[Path]:
    """A temporary folder inside the target; if nothing comes of it, a target that was not there is removed again."""
    there = target.exists()
    make_folder(target)
    try:
        with tempfile.TemporaryDirectory(dir=target, prefix=".export-") as name:
            yield Path(name)
    finally:
        if not there and not any(target.iterdir()):
            target.rmdir()


def _copy(folder: ModelFolder, target: Path) -> None:
    for name in BESIDES_GRAPHS:
        if (folder.path / name).exists():
            with (folder.path / name).open("rb") as stream, replacing(target / name) as copied:
                shutil.copyfileobj(stream, copied)


def _dialogues(check: Source | None, limit: int) -> tuple[Dialogue, ...]:
    if check is None:
        return ()
    found = open_part(check, "dev").dialogues if isinstance(check, (str, Path)) else tuple(check)
    if not found:
        raise InputError("There is no dialogue to compare with torch on.")
    return found[:limit]


def _compare(
    folder: ModelFolder,
    draft: Path,
    precisions: Sequence[str],
    dialogues: Sequence[Dialogue],
    progress: Listener,
) -> dict[str, Agreement]:
    folder.link_text(draft)
    _write_config(folder, draft)
    torch = TorchPredictor.from_folder(folder)
    phase = Phase("comparing with torch", len(precisions), progress, unit="precisions")
    found = {}
    for precision in precisions:
        found[precision] = agreement(torch, Runtime(ModelFolder.open(draft), precision=precision), dialogues)
        phase.advance(1)
    return found
