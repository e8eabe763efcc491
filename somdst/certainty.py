"""Probabilities and their logits: how a temperature makes a predictor less sure, or surer, of what it says."""

from __future__ import annotations

from math import exp, log, log1p


def logit(probability: float) -> float:
    clipped = min(max(probability, 1e-7), 1 - 1e-7)
    return log(clipped) - log1p(-clipped)


def soften(probability: float, temperature: float) -> float:
    """The probability whose logit is divided by the temperature.

    >>> round(soften(0.9, 2.0), 3), soften(0.5, 2.0)
    (0.75, 0.5)
    """
    x = logit(probability) / temperature
    return 1.0 / (1.0 + exp(-x)) if x >= 0 else exp(x) / (1.0 + exp(x))
