"""Opening a model by name or folder for a command: on ONNX Runtime, or on torch."""

from __future__ import annotations

from somdst.errors import InputError, ModelError, did_you_mean
from somdst.prediction import Predictor
from somdst.tracker import PRECISIONS

ENGINES = ("onnx", "torch")


def open_predictor(name: str = "default", *, engine: str = "onnx", precision: str = "int8") -> Predictor:
    """The model as a predictor. `precision` is the ONNX runtime's; torch has its own."""
    _check("engine", engine, ENGINES)
    _check("precision", precision, PRECISIONS)
    if engine == "onnx":
        from somdst.runtime import Runtime

        return Runtime.open(name, precision=precision)
    try:
        from somdst.learn.predictor import TorchPredictor
    except ImportError as error:
        missing = f"The torch engine needs packages that are not installed ({error.name})"
        raise ModelError(f"{missing}: install `somdst[train]`, or leave out `--engine torch`.") from error
    return TorchPredictor.open(name)


def _check(what: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise InputError(f'There is no {what} "{given}"; there are {", ".join(known)}.{did_you_mean(given, known)}')
