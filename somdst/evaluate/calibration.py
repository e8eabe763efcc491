"""Whether a probability means what it says: reliability, expected calibration error, temperature, threshold.

What is judged is every change that a predictor made to the memory: its probability, and whether the slot then had its
gold value. Slots that were carried over are left out: nearly all of them are right, and would hide the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import exp, isfinite, log1p
from typing import Any

from somdst.evaluate.run import DialogueRun
from somdst.model.config import ModelConfig
from somdst.model.values import logit, soften


@dataclass(frozen=True, slots=True)
class Scored:
    """One change, as predicted."""

    probability: float
    correct: bool


@dataclass(frozen=True, slots=True)
class Bin:
    """The changes whose probability lies in [low, high); the last bin has its upper end too."""

    low: float
    high: float
    count: int
    probability: float
    """Mean of what was said."""
    accuracy: float
    """Share that was right."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """Writes less probable than `value` are held back; `wrong` of those `held_back` would have been wrong."""

    value: float
    held_back: int
    wrong: int


@dataclass(frozen=True, slots=True)
class Calibration:
    changes: int
    accuracy: float
    """Percent of changes that were right."""
    expected_calibration_error: float
    """In percentage points: the mean distance between probability and accuracy."""
    temperature: float
    """Divides the logit of the probability; above 1 the predictor is too sure of itself."""
    error_with_temperature: float
    """The expected calibration error after that."""
    threshold: Threshold
    bins: tuple[Bin, ...]

    @property
    def pending_threshold(self) -> float:
        """The threshold for probabilities that the temperature has softened: it holds back the same writes."""
        return soften(self.threshold.value, self.temperature) if self.threshold.held_back else 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def scored_changes(runs: Iterable[DialogueRun]) -> list[Scored]:
    """Every change of these runs. An UPDATE that wrote nothing, or what was there already, is not a change."""
    scored = []
    for run in runs:
        for turn in run.turns:
            for slot, predicted in turn.prediction.slots.items():
                after = turn.predicted.get(slot)
                if after != turn.fed.get(slot):
                    right = after == turn.gold.get(slot)
                    scored.append(Scored(predicted.probability, right))
    return scored


def calibrate(scored: Sequence[Scored], *, bins: int = 10) -> Calibration:
    probabilities = [change.probability for change in scored]
    correct = [change.correct for change in scored]
    temperature = fit_temperature([logit(p) for p in probabilities], correct)
    softened = [soften(p, temperature) for p in probabilities]
    return Calibration(
        changes=len(scored),
        accuracy=100.0 * sum(correct) / len(scored) if scored else 0.0,
        expected_calibration_error=expected_calibration_error(probabilities, correct, bins=bins),
        temperature=temperature,
        error_with_temperature=expected_calibration_error(softened, correct, bins=bins),
        threshold=choose_threshold(probabilities, correct),
        bins=tuple(reliability(probabilities, correct, bins=bins)),
    )


def calibrated_config(config: ModelConfig, measured: Calibration) -> ModelConfig:
    """The model's configuration with what was measured of it; its probabilities had its own temperature already."""
    temperature = config.temperature * measured.temperature
    return config.model_copy(
        update={
            "temperature": round(temperature, 4),
            "pending_threshold": round(measured.pending_threshold, 4),
        }
    )


def reliability(probabilities: Sequence[float], correct: Sequence[bool], *, bins: int = 10) -> list[Bin]:
    """Bins of equal width; an empty one is there with count 0."""
    inside: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    for probability, right in zip(probabilities, correct, strict=True):
        inside[min(int(probability * bins), bins - 1)].append((probability, right))
    return [
        Bin(
            low=i / bins,
            high=(i + 1) / bins,
            count=len(pairs),
            probability=sum(probability for probability, _ in pairs) / len(pairs) if pairs else 0.0,
            accuracy=sum(right for _, right in pairs) / len(pairs) if pairs else 0.0,
        )
        for i, pairs in enumerate(inside)
    ]


def expected_calibration_error(probabilities: Sequence[float], correct: Sequence[bool], *, bins: int = 10) -> float:
    """In points of a hundred.

    >>> expected_calibration_error([0.9, 0.9, 0.9, 0.9], [True, True, False, False])
    40.0
    """
    if not probabilities:
        return 0.0
    gaps = sum(
        row.count * abs(row.probability - row.accuracy) for row in reliability(probabilities, correct, bins=bins)
    )
    return round(100.0 * gaps / len(probabilities), 10)


def fit_temperature(logits: Sequence[float], correct: Sequence[bool]) -> float:
    """The temperature that makes what happened most likely; 1 if nothing can be learned.

    The negative log-likelihood has one minimum in 1/T, which a golden-section search finds.
    """
    pairs = [(x, right) for x, right in zip(logits, correct, strict=True) if isfinite(x)]
    if not pairs or all(right for _, right in pairs) or not any(right for _, right in pairs):
        return 1.0  # all right or all wrong: the best temperature would be 0 or endless
    low, high, golden = 0.05, 10.0, (5**0.5 - 1) / 2
    for _ in range(50):
        left, right_end = high - golden * (high - low), low + golden * (high - low)
        if _loss(pairs, left) < _loss(pairs, right_end):
            high = right_end
        else:
            low = left
    return 2.0 / (low + high)


def choose_threshold(probabilities: Sequence[float], correct: Sequence[bool]) -> Threshold:
    """The threshold that decides most writes rightly: wrong ones below it, right ones above; 0 if there is none.

    So a write is held back if it is more likely wrong than right: little is lost where nobody answers, and most
    questions save an error.

    >>> choose_threshold([0.2, 0.6, 0.9], [False, True, True]).value
    0.4
    """
    pairs = sorted(zip(probabilities, correct, strict=True))
    best, wrong = Threshold(0.0, 0, 0), 0
    for held, (probability, right) in enumerate(pairs, start=1):
        wrong += not right
        following = pairs[held][0] if held < len(pairs) else 1.0
        gained = wrong - (held - wrong)
        if following > probability and gained > 2 * best.wrong - best.held_back:  # equal ones are held back together
            best = Threshold((probability + following) / 2, held, wrong)
    return best


def _loss(pairs: Sequence[tuple[float, bool]], inverse: float) -> float:
    return sum(_softplus(-x * inverse if right else x * inverse) for x, right in pairs)


def _softplus(x: float) -> float:
    return log1p(exp(-abs(x))) + max(x, 0.0)
