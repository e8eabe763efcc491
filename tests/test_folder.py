"""A model's folder: opened whole, or refused with one sentence that says what is wrong with it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny

pytest.importorskip("torch")

from somdst.errors import ModelError
from somdst.learn.torch_predictor import TorchPredictor
from somdst.model.config import FORMAT_VERSION
from somdst.model.folder import WEIGHTS, ModelFolder
from somdst.model.prediction import Predictor


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.model_folder(tmp_path_factory.mktemp("models") / "good", name="mine")


@pytest.fixture
def folder(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "model"))


def test_a_folder_is_opened(good: Path) -> None:
    opened = ModelFolder.open(good)
    assert (opened.path, opened.config.name, len(opened.schema)) == (good, "mine", 13)
    assert opened.encoder().config == opened.config
    assert opened.metrics() == {}
    predictor = TorchPredictor.open(str(good))
    assert isinstance(predictor, Predictor)
    assert predictor.model_id.startswith("mine-")
    assert (predictor.history, predictor.operation_set.name) == (1, "4")


def test_two_models_never_share_an_id(good: Path, folder: Path) -> None:
    assert ModelFolder.open(good).model_id(WEIGHTS) == ModelFolder.open(folder).model_id(WEIGHTS)
    with (folder / WEIGHTS).open("r+b") as stream:
        stream.seek(-1, 2)
        last = stream.read(1)
        stream.seek(-1, 2)
        stream.write(bytes([last[0] ^ 1]))
    assert ModelFolder.open(good).model_id(WEIGHTS) != ModelFolder.open(folder).model_id(WEIGHTS)


def refused(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        TorchPredictor.open(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_no_such_model(tmp_path: Path) -> None:
    assert (
        refused(tmp_path / "none") == f'There is no model at "{tmp_path}/none": give a model\'s folder, or `default`.'
    )
    (tmp_path / "file").write_text("")
    assert refused(tmp_path / "file").startswith("There is no model at")
    assert refused(tmp_path).endswith(
        "is not a model's folder: it has no readable config.json (No such file or directory)."
    )


MISSING = {
    "schema.json": "Cannot read the schema",
    "tokenizer.json": "tokenizer.json is missing: the model's folder is incomplete",
    "encoder.json": "encoder.json is missing: the model's folder is incomplete",
    "model.safetensors": "model.safetensors is missing: the model's folder is incomplete",
}


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_file(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert MISSING[name] in refused(folder)


@pytest.mark.parametrize("name", ["config.json", *MISSING])
@pytest.mark.parametrize("keep", [0.0, 0.5, 0.999])
def test_a_truncated_file(folder: Path, name: str, keep: float) -> None:
    content = (folder / name).read_bytes().rstrip()
    (folder / name).write_bytes(content[: int(keep * len(content))])
    sentence = refused(folder)
    assert name in sentence and ("fetch" in sentence.casefold() or name == "schema.json")


@pytest.mark.parametrize("name", ["config.json", *MISSING])
@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"[]", b"3", b"{}", b'{"what": 1}', b"null"])
def test_a_file_with_something_else_in_it(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    if name == "config.json" and content == b"{}":
        assert TorchPredictor.open(folder).config.name == "somdst", "every field has a default"
    else:
        assert str(folder) in refused(folder)


def config(**change: object) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | change))

    return apply


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            config(format_version=FORMAT_VERSION + 1),
            f"has the format {FORMAT_VERSION + 1}, and this somdst reads up to",
        ),
        (config(layout="wide"), "layout: Input should be 'paper' or 'compact'"),
        (config(operation_set="7"), 'operation_set: There is no operation set "7"'),
        (config(max_length=1), "max_length: Input should be greater than or equal to 16"),
        (config(colour="blue"), "colour: Extra inputs are not permitted"),
        (config(scaled_logits=False), "do not fit its schema and configuration"),
        (config(operation_set="2"), "do not fit its schema and configuration"),
    ],
)
def test_a_configuration_that_cannot_be_used(folder: Path, change: Callable[[Path], None], sentence: str) -> None:
    change(folder)
    assert sentence in refused(folder)


def test_the_schema_of_a_folder_is_only_a_default(folder: Path) -> None:
    schema = json.loads((folder / "schema.json").read_text())
    del schema["domains"]["taxi"]
    (folder / "schema.json").write_text(json.dumps(schema))
    assert "taxi" not in TorchPredictor.open(folder).schema.domains, "no slot is part of the weights"


def test_metrics(folder: Path) -> None:
    (folder / "metrics.json").write_text('{"dev": 1.5}')
    assert ModelFolder.open(folder).metrics() == {"dev": 1.5}
    (folder / "metrics.json").write_text("{")
    with pytest.raises(ModelError, match=r"metrics.json is not valid JSON"):
        ModelFolder.open(folder).metrics()
