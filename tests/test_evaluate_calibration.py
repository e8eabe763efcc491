"""Calibration on probabilities whose truth is known."""

import random
from dataclasses import replace

import pytest

from somdst.evaluate.calibration import (
    Scored,
    calibrate,
    calibrated_config,
    choose_threshold,
    expected_calibration_error,
    fit_temperature,
    reliability,
    scored_changes,
)
from somdst.evaluate.run import run
from somdst.model.config import ModelConfig
from somdst.model.values import logit, soften

from .noisy import NoisyPredictor, dialogues


def drawn(count: int, *, temperature: float) -> tuple[list[float], list[bool]]:
    """What a predictor says that is too sure by this temperature, and what then happens."""
    rng = random.Random(0)
    true = [rng.uniform(0.3, 0.97) for _ in range(count)]
    return [soften(p, 1 / temperature) for p in true], [rng.random() < p for p in true]


@pytest.mark.parametrize("temperature", [0.6, 1.0, 2.5])
def test_the_temperature_is_found_and_mends_the_error(temperature: float) -> None:
    said, correct = drawn(8_000, temperature=temperature)
    found = fit_temperature([logit(p) for p in said], correct)
    assert found == pytest.approx(temperature, rel=0.08)
    assert expected_calibration_error([soften(p, found) for p in said], correct) < 2.0
    if temperature == 2.5:
        assert expected_calibration_error(said, correct) > 10.0


def test_temperature_without_anything_to_learn() -> None:
    assert fit_temperature([], []) == 1.0
    assert fit_temperature([1.0, 2.0], [True, True]) == 1.0
    assert fit_temperature([1.0, 2.0], [False, False]) == 1.0


def test_bins_hold_every_change_once() -> None:
    said, correct = [0.0, 0.05, 0.1, 0.95, 1.0], [False, True, True, True, True]
    bins = reliability(said, correct)
    assert [row.count for row in bins] == [2, 1, 0, 0, 0, 0, 0, 0, 0, 2]
    assert bins[0].accuracy == 0.5 and bins[0].probability == pytest.approx(0.025)


def test_the_threshold_holds_back_what_is_more_likely_wrong_than_right() -> None:
    said, correct = drawn(5_000, temperature=1.0)
    threshold = choose_threshold(said, correct)
    below = [right for p, right in zip(said, correct, strict=True) if p < threshold.value]
    assert len(below) == threshold.held_back > 100
    assert below.count(False) == threshold.wrong > 0.5 * len(below)
    assert threshold.value == pytest.approx(0.5, abs=0.05)  # what is drawn is right as often as it says

    def rightly_decided(value: float) -> int:
        return sum(right == (p >= value) for p, right in zip(said, correct, strict=True))

    assert all(rightly_decided(value / 100) <= rightly_decided(threshold.value) for value in range(101))
    assert choose_threshold([0.9, 0.8], [True, True]).value == 0.0
    assert choose_threshold([0.5, 0.5, 0.5], [True, True, False]).held_back == 0  # equal ones cannot be told apart


def test_a_calibrated_configuration_holds_back_the_same_writes() -> None:
    said, correct = drawn(5_000, temperature=2.0)
    scored = [Scored(p, right) for p, right in zip(said, correct, strict=True)]
    measured = calibrate(scored)
    config = calibrated_config(ModelConfig(temperature=1.5), measured)
    assert config.temperature == pytest.approx(1.5 * measured.temperature, abs=1e-3)
    softened = [soften(p, measured.temperature) for p in said]
    assert sum(p < config.pending_threshold for p in softened) == pytest.approx(measured.threshold.held_back, abs=3)
    again = calibrate([replace(change, probability=p) for change, p in zip(scored, softened, strict=True)])
    assert again.temperature == pytest.approx(1.0, abs=0.01)
    assert calibrated_config(ModelConfig(), calibrate([])).pending_threshold == 0.0


def test_changes_of_runs_are_scored_by_the_value_that_was_written() -> None:
    some = dialogues(60)
    perfect = scored_changes(run(NoisyPredictor(some), some))
    assert perfect and all(change.correct for change in perfect)
    noisy = calibrate(scored_changes(run(NoisyPredictor(some, noise=0.4), some)))
    assert 30.0 < noisy.accuracy < 95.0
    assert noisy.changes == sum(row.count for row in noisy.bins)
    assert set(noisy.to_json()) >= {"expected_calibration_error", "temperature", "threshold", "bins"}
