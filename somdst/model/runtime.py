"""`Runtime`: a trained model as a `Predictor`, on ONNX Runtime, tokenizers and numpy alone.

A turn that comes alone is encoded with all threads; the turns of a batch are dealt out to the threads, which is faster
(docs/experiments.md). One loop of the decoder then writes all slots to update of a thread's turns, ended as soon as
every slot has said [EOS]; a second one only where slots clash (`apart.py`), none where nothing is updated. Making the
files is `learn/export.py`'s concern.
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
from somdst.memory.operations import Operation
from somdst.model.folder import ModelFolder
from somdst.model.prediction import Prediction, TurnInput
from somdst.model.predictor import Arrays, Bools, EncoderRun, GeneratorRun, Ints, ModelPredictor

INPUTS = {"ids", "segments", "slots"}
"""What an encoder's graph may read; `learn/graphs.py` writes it."""


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
        self._inputs = [entry.name for entry in self._encoder.get_inputs()]  # some encoders know no segments
        self._check_graphs()

    @classmethod
    def from_folder(cls, folder: ModelFolder, *, precision: str, threads: int | None) -> Runtime:
        return cls(folder, precision=precision, threads=threads)

    @classmethod
    def open(
        cls, path_or_name: str | Path = "default", *, precision: str = "int8", threads: int | None = None
    ) -> Runtime:
        return cls(ModelFolder.open(path_or_name), precision=precision, threads=threads)

    def _check_graphs(self) -> None:
        """Refuse graphs that read something else, and, as a graph is made for a number of slots, another schema."""
        shapes = {entry.name: entry.shape for entry in self._encoder.get_inputs()}
        if "slots" not in shapes or not shapes.keys() <= INPUTS:
            raise ModelError(
                f"{self.folder.path}: the encoder's graph reads {', '.join(shapes)}, which this version of somdst does "
                "not give it: export the model anew."
            )
        known = shapes["slots"][1]
        if isinstance(known, int) and known != len(self.schema):
            raise ModelError(
                f"{self.folder.path}: the graphs are for {known} slots, and schema.json has {len(self.schema)}: "
                "fetch or export the model anew."
            )

    @cached_property
    def _side_by_side(self) -> onnxruntime.InferenceSession:
        """The encoder for batches: one thread a run, many runs at once."""
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

    def run_encoder(self, arrays: Arrays, *, alone: bool = False) -> EncoderRun:
        """Turn by turn, each without its padding.

        That is faster than one large run, whose activations do not fit the processor's caches, and a turn's result
        cannot depend on its neighbours.
        """
        session = self._encoder if alone else self._side_by_side
        lengths = arrays.mask.sum(1).tolist()
        whole = {"ids": arrays.ids, "segments": arrays.segments, "slots": arrays.slots}
        turns = [
            {name: whole[name][i : i + 1, : None if name == "slots" else n] for name in self._inputs}
            for i, n in enumerate(lengths)
        ]
        runs = [session.run(None, turn) for turn in turns]
        operations, domain, pooled, slot_vectors = (np.concatenate(part) for part in list(zip(*runs, strict=True))[:4])
        tokens = np.zeros((*arrays.ids.shape, pooled.shape[-1]), dtype=np.float32)
        for i, (n, run) in enumerate(zip(lengths, runs, strict=True)):
            tokens[i, :n] = run[4]
        return EncoderRun(operations, domain, (pooled, slot_vectors, tokens))

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
        for step in range(steps):
            token, certainty, looked[going, step], fed["e"], fed["g"] = self._decoder.run(None, fed)
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
    try:
        return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises a dozen kinds, all of them about the file
        why = " ".join(str(error).split())[:160]
        raise ModelError(f"{file} cannot be opened ({why}): fetch or export the model anew.") from error


def cores() -> int:
    """Cores that this process may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
