"""`Runtime`: a trained model as a `Predictor`, on ONNX Runtime, tokenizers and numpy alone.

A turn that comes alone is encoded with all threads; the turns of a batch are dealt out to the threads, which is faster
(docs/experiments.md). One loop of the decoder then writes all slots to update of a thread's turns and ends as soon as
every slot has said [EOS]; a second one runs only if slots got the same value or words, none without updates. A schema
is compiled by the same encoder graph, text by text, and a small third graph. Does not make the files; see
`learn/exporting.py`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from somdst.errors import InputError, ModelError
from somdst.files import reason
from somdst.memory.operations import Operation
from somdst.model.compiled import Floats, Ints
from somdst.model.folder import ModelFolder
from somdst.model.prediction import Prediction, TurnInput
from somdst.model.predictor import Arrays, Bools, EncoderRun, GeneratorRun, ModelPredictor

INPUTS = {
    "encoder": {"ids", "segments", "slots", "slot_vectors"},
    "decoder": {"e", "g", "tokens", "ids", "mask", "before"},
}
"""What a graph may read; `learn/graphs.py` writes them."""


class Runtime(ModelPredictor):
    def __init__(self, folder: ModelFolder, *, precision: str = "int8", threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise InputError(f"A model runs on at least one thread, not on {threads}.")
        model_id = folder.model_id(f"encoder.{precision}.onnx", f"decoder.{precision}.onnx")
        super().__init__(folder.encoder(), model_id=model_id, lexicon=folder.lexicon())
        self.precision, self.folder = precision, folder
        self.threads = threads or cores()
        self._encoder = _open(folder, f"encoder.{precision}.onnx", self.threads)
        self._decoder = _open(folder, f"decoder.{precision}.onnx", 1)
        self._decoder_inputs = {entry.name: entry.shape for entry in self._decoder.get_inputs()}
        self._inputs = [entry.name for entry in self._encoder.get_inputs()]  # some encoders know no segments
        self._check_graphs()
        self._reader = None if self.fixed_schema else _open(folder, f"reader.{precision}.onnx", 1)

    @classmethod
    def from_folder(cls, folder: ModelFolder, *, precision: str, threads: int | None) -> Runtime:
        return cls(folder, precision=precision, threads=threads)

    @classmethod
    def open(
        cls, path_or_name: str | Path = "default", *, precision: str = "int8", threads: int | None = None
    ) -> Runtime:
        return cls(ModelFolder.open(path_or_name), precision=precision, threads=threads)

    def _check_graphs(self) -> None:
        """Refuse graphs that read something else and, if they are made for a number of slots, another schema."""
        shapes = {entry.name: entry.shape for entry in self._encoder.get_inputs()}
        for graph, inputs in (("encoder", shapes), ("decoder", self._decoder_inputs)):
            if not inputs.keys() <= INPUTS[graph] or (graph == "encoder" and "slots" not in inputs):
                raise ModelError(
                    f"{self.folder.path}: the {graph}'s graph reads {', '.join(inputs)}, which this version of somdst "
                    "does not give it: export the model again."
                )
        known = shapes["slots"][1]
        if isinstance(known, int) and known != len(self.schema):
            raise ModelError(
                f"{self.folder.path}: the graphs are for {known} slots, and schema.json has {len(self.schema)}: "
                "fetch or export the model again."
            )

    @cached_property
    def _side_by_side(self) -> onnxruntime.InferenceSession:
        """The encoder for batches: one thread per run, many runs at once."""
        return self._encoder if self.threads == 1 else _open(self.folder, f"encoder.{self.precision}.onnx", 1)

    @property
    def lanes(self) -> int:
        return self.threads

    def predict(
        self, inputs: Sequence[TurnInput], *, operations: Sequence[Mapping[str, Operation]] | None = None
    ) -> list[Prediction]:
        if len(inputs) > 1:
            _ = self._side_by_side  # opened here, and not by each lane for itself
        return super().predict(inputs, operations=operations)

    def run_texts(self, texts: Sequence[Sequence[int]]) -> Floats:
        pooled = []
        for text in texts:
            ids = np.array([text], dtype=np.int64)
            fed = {
                "ids": ids,
                "segments": np.zeros_like(ids),
                "slots": np.zeros((1, 1), dtype=np.int64),  # one slot, whose vector adds nothing
                "slot_vectors": np.zeros((1, 1, self.width), dtype=np.float32),
            }
            (tokens,) = self._encoder.run(["tokens"], {name: fed[name] for name in self._inputs})
            pooled.append(tokens[0].mean(0))
        return np.stack(pooled)

    @cached_property
    def width(self) -> int:
        """D, the width of the network."""
        shape = next(entry.shape for entry in self._encoder.get_inputs() if entry.name == "slot_vectors")
        return int(shape[2])

    def project(self, pooled: Floats, names: Ints) -> tuple[Floats, Floats]:
        assert self._reader is not None
        slots, values = self._reader.run(["slots", "values"], {"pooled": pooled, "names": names})
        return slots, values

    def run_encoder(self, arrays: Arrays, *, alone: bool = False) -> EncoderRun:
        """Turn by turn, each without its padding.

        That is faster than one large run, whose activations do not fit the processor's caches, and a turn's result
        cannot depend on its neighbours.
        """
        session = self._encoder if alone else self._side_by_side
        lengths, counts = arrays.mask.sum(1).tolist(), arrays.slot_mask.sum(1).tolist()
        runs = [session.run(None, self._one(arrays, i)) for i in range(len(lengths))]
        width, J = runs[0][2].shape[-1], arrays.slots.shape[1]
        tokens = np.zeros((*arrays.ids.shape, width), dtype=np.float32)
        operations = np.zeros((len(runs), J, runs[0][0].shape[-1]), dtype=np.float32)
        slot_vectors, queries = (np.zeros((len(runs), J, width), dtype=np.float32) for _ in range(2))
        domain = np.zeros((len(runs), J if not self.fixed_schema else runs[0][1].shape[-1]), dtype=np.float32)
        for i, (n, j, run) in enumerate(zip(lengths, counts, runs, strict=True)):
            operations[i, :j], slot_vectors[i, :j], tokens[i, :n] = run[0][0], run[3][0], run[4][0]
            if self.fixed_schema:
                domain[i] = run[1][0]
            else:
                domain[i, :j], queries[i, :j] = run[1][0], run[5][0]
        pooled = np.concatenate([run[2] for run in runs])
        context = (pooled, slot_vectors, tokens)
        return EncoderRun(operations, domain, None if self.fixed_schema else queries, context)

    def _one(self, arrays: Arrays, i: int) -> dict[str, Any]:
        """What the encoder's graph reads of one turn."""
        n, j = int(arrays.mask[i].sum()), int(arrays.slot_mask[i].sum())
        fed: dict[str, Any] = {"ids": arrays.ids[i : i + 1, :n], "segments": arrays.segments[i : i + 1, :n]}
        fed["slots"] = arrays.slots[i : i + 1, :j]
        if arrays.slot_vectors is not None:
            fed["slot_vectors"] = arrays.slot_vectors[i : i + 1, :j]
        return {name: fed[name] for name in self._inputs}

    def run_generator(
        self, arrays: Arrays, context: Any, owners: Ints, slots: Ints, *, mask: Bools | None = None
    ) -> GeneratorRun:
        pooled, slot_vectors, tokens = context
        steps = self.config.max_value_length
        said = np.full((len(owners), steps), self.encoder.eos, dtype=np.int64)
        looked = np.zeros((len(owners), steps), dtype=np.int64)
        probability = np.ones(len(owners), dtype=np.float32)
        going = np.arange(len(owners))  # the slots that have not ended; only they are run on
        fed = {
            "e": slot_vectors[owners, slots],  # e^0 = h^[SLOT]j   [U, D]
            "g": pooled[owners],  # g^0 = h^X                      [U, D]
            "tokens": tokens[owners],
            "ids": arrays.ids[owners],
            "mask": arrays.mask[owners] if mask is None else mask,
        }
        if "before" in self._decoder_inputs:  # the last tokens of each value; -1 where there is none yet
            fed["before"] = np.full((len(owners), self._decoder_inputs["before"][1]), -1, dtype=np.int64)
        for step in range(steps):
            token, certainty, looked[going, step], fed["e"], fed["g"] = self._decoder.run(None, fed)
            if "before" in fed:
                fed["before"] = np.concatenate([fed["before"][:, 1:], token[:, None]], 1)
            said[going, step] = token
            probability[going] *= certainty
            kept = token != self.encoder.eos
            if not kept.any():
                break
            if not kept.all():
                going, fed = going[kept], {name: array[kept] for name, array in fed.items()}
        return GeneratorRun(said[:, : step + 1], probability, looked[:, : step + 1])


def _open(folder: ModelFolder, name: str, threads: int) -> onnxruntime.InferenceSession:
    file = folder.file(name)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what goes wrong is said once, below
    options.intra_op_num_threads = threads
    # Threads wait busily for work within a run. Without this they go on after it, for 50 ms or more, and slow down
    # whatever answers the caller.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    try:
        return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises a dozen kinds, all of them about the file
        why = reason(error)
        raise ModelError(f"{file} cannot be opened ({why}): fetch or export the model again.") from error


def cores(limits: Path = Path("/sys/fs/cgroup")) -> int:
    """Cores that this process may use. A container's limit on processor time counts: threads beyond it only wait."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = (limits / "cpu.max").read_text().split()
        return min(own, max(1, -(-int(quota) // int(period))))
    except (OSError, ValueError, ZeroDivisionError):
        return own  # no container, or one without a limit ("max")
