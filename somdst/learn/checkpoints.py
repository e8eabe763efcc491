"""Saving and loading weights: a model's folder, and a run's checkpoint. Every file is written whole or not at all.

`checkpoint.pt` holds everything that a run needs to go on as if it had never stopped; the checkpoint before it is kept
beside it. The model's folder holds what is needed to use the model, or to start another training from it. Does not
write graphs; see `exporting.py`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from safetensors.torch import save as to_safetensors
from torch import Tensor

from somdst.errors import FileError, InputError, ModelError
from somdst.files import reason, replacing, write_text
from somdst.learn.encoders import encoder_from_config
from somdst.learn.model import SomDst
from somdst.learn.quantisation import quantise_rows, with_embeddings, without_embeddings
from somdst.learn.settings import Settings
from somdst.learn.torch_predictor import model_options
from somdst.model.config import SOM_DST
from somdst.model.encoding import Encoder
from somdst.model.folder import EMBEDDINGS, WEIGHTS, ModelFolder
from somdst.model.values import FILE as LEXICON
from somdst.model.values import Lexicon

ENCODER = "encoder.json"
CHECKPOINT = "checkpoint.pt"
PREVIOUS = "checkpoint.previous.pt"


def remove_drafts(folder: Path) -> None:
    """Remove what a killed process left half written."""
    for draft in (*folder.glob(f".*-*{CHECKPOINT}"), *folder.glob(f".*-{WEIGHTS}"), folder / f"next.{CHECKPOINT}"):
        draft.unlink(missing_ok=True)


def fingerprint(parts: Iterable[bytes]) -> str:
    """A hash of many parts, in order."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def save_model(
    path: Path,
    model: Any,
    encoder: Encoder,
    *,
    lexicon: Lexicon | None = None,
    metrics: Mapping[str, Any] | None = None,
    dtype: torch.dtype | None = None,
    more: Mapping[str, str] | None = None,
) -> None:
    """Write a model's folder, with `more` files if a system has them. Graphs of other weights are removed from it."""
    path.mkdir(parents=True, exist_ok=True)
    weights = {
        name: tensor.detach().to(dtype or tensor.dtype).contiguous() for name, tensor in model.state_dict().items()
    }
    with replacing(path / WEIGHTS) as stream:
        stream.write(to_safetensors(weights))
    for graph in path.glob("*.onnx"):  # after the weights: if the disk is full, both stay as they were
        graph.unlink()
    shape = model.text_encoder.encoder.config.to_diff_dict()
    files = {
        "config.json": encoder.config.model_dump_json(indent=2),
        ENCODER: json.dumps({"model_type": model.text_encoder.encoder.config.model_type, **shape}, indent=2),
        "schema.json": json.dumps(encoder.schema.to_json(), indent=2, ensure_ascii=False),
        "tokenizer.json": encoder.tokenizer.to_str(),
    }
    if lexicon is not None:
        files[LEXICON] = json.dumps(lexicon.to_json(), ensure_ascii=False)
    if metrics is not None:
        files["metrics.json"] = json.dumps(metrics, indent=2)
    for name, text in (files | dict(more or {})).items():
        write_text(path / name, text + "\n")


def share_embeddings(path: Path) -> None:
    """Store the word embeddings of a folder once, in int8, for weights and graphs. Use it if they were frozen."""
    weights = load_file(path / WEIGHTS)
    (name,) = (name for name in weights if name.endswith("word_embeddings.weight"))
    rows, _ = quantise_rows(weights[name].float().numpy())
    with replacing(path / EMBEDDINGS) as stream:
        stream.write(rows.tobytes())
    with replacing(path / WEIGHTS) as stream:
        stream.write(to_safetensors(without_embeddings(weights, name)))


def read_weights(folder: ModelFolder) -> dict[str, Tensor]:
    file = folder.file(WEIGHTS)
    try:
        return with_embeddings({name: tensor.float() for name, tensor in load_file(file).items()}, folder.path)
    except Exception as error:
        raise ModelError(f"{file} is damaged ({reason(error)}): fetch or train the model again.") from error


def empty_model(
    folder: ModelFolder, encoder: Encoder, *, dropout: float = 0.0, attention_dropout: float = 0.0
) -> SomDst:
    """The model of a folder, without its weights."""
    if folder.config.system != SOM_DST:
        raise ModelError(
            f"{folder.path} is a {folder.config.system}: it can be evaluated, but not exported or trained further."
        )
    network = empty_encoder(folder, hidden_dropout_prob=dropout, attention_probs_dropout_prob=attention_dropout)
    return SomDst(network, model_options(encoder, dropout=dropout))


def empty_encoder(folder: ModelFolder, **changes: float) -> Any:
    """The pretrained encoder of a folder's model, without its weights."""
    file = folder.file(ENCODER)
    try:
        return encoder_from_config({**json.loads(file.read_text(encoding="utf-8")), **changes})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{file} does not describe an encoder ({reason(error)}): fetch the model again.") from error


def load_model(folder: ModelFolder, encoder: Encoder) -> SomDst:
    model = empty_model(folder, encoder)
    weights, whole = upgraded(read_weights(folder), model)
    if "value_generator.follow" not in weights:  # a model from before 0.2 copies without the bonus
        model.value_generator.follow = None
    fill(model, weights, folder, strict=whole)
    return model.eval()


def upgraded(weights: dict[str, Tensor], model: SomDst) -> tuple[dict[str, Tensor], bool]:
    """Weights for a model of the present format, and whether they have all of it.

    Those of a compact model of format 1 lack what reads a schema, and have a classifier of fixed domains instead. Those
    from before 0.2 have no bonus on copying what follows."""
    if model.options.fixed_schema or any(".reader." in name for name in weights):
        return weights, model.value_generator.follow is None or "value_generator.follow" in weights
    return {name: tensor for name, tensor in weights.items() if ".W_dom." not in name}, False


def fill(model: torch.nn.Module, weights: Mapping[str, Tensor], folder: ModelFolder, *, strict: bool = True) -> None:
    """Put a folder's weights into a model. If not strict, weights that the folder lacks stay as they are."""
    try:
        model.load_state_dict(dict(weights), strict=strict)
    except RuntimeError as error:
        raise ModelError(
            f"The weights in {folder.path} do not fit its schema and configuration: put back the schema.json and "
            "config.json that they came with, or fetch the model again."
        ) from error


def save_checkpoint(run: Path, content: Mapping[str, Any]) -> None:
    """Write a run's checkpoint. The checkpoint before it stays until the new one is complete."""
    path = run / CHECKPOINT
    draft = run / f"next.{CHECKPOINT}"
    try:
        with replacing(draft) as stream:
            torch.save(dict(content), stream)
    except RuntimeError as error:  # what torch.save raises if the disk is full
        raise FileError(f"Cannot write {path}: {reason(error)}. What was there before is intact.") from error
    if path.exists():
        path.replace(run / PREVIOUS)
    draft.replace(path)


def load_checkpoint(run: Path) -> dict[str, Any] | None:
    """The last checkpoint of a run, or None if there is none yet."""
    path = run / CHECKPOINT
    if not path.exists():
        path = run / PREVIOUS  # stopped between the two renames of save_checkpoint
        if not path.exists():
            return None
    try:
        loaded: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        return loaded
    except Exception as error:
        other = run / PREVIOUS
        before = other.exists() and other != path
        hint = (
            f"rename {other.name} to {path.name} to go on from the checkpoint before it"
            if before
            else "start again in another folder"
        )
        raise ModelError(f"The checkpoint {path} is damaged ({reason(error)}): {hint}.") from error


MAY_CHANGE = {"epochs", "evaluate_every", "dev_limit", "patience", "checkpoint_minutes"}
"""Settings that may change when a run is resumed: how long it lasts, when it is evaluated and saved. With another
number of epochs the learning rate goes on from where the new length has it."""


def check_same_run(run: Path, saved: Mapping[str, Any], settings: Settings, start: Mapping[str, str]) -> None:
    """Refuse to go on from a checkpoint with other settings, another corpus, schema or first weights."""
    before, now = saved["settings"], settings.model_dump(mode="json")
    for key in now:
        if key not in MAY_CHANGE and before.get(key, Settings.model_fields[key].default) != now[key]:
            raise InputError(
                f"The run in {run} was started with another {key} ({before.get(key)!r}, not {now[key]!r}): use the "
                "same settings to go on, or another folder to start again."
            )
    for what, value in start.items():
        if saved.get("start", start).get(what) != value:
            raise InputError(
                f"The run in {run} was started with another {what}: give the same one to go on, or another folder to "
                "start again."
            )
