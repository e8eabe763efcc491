"""The results that the SOM-DST paper publishes (Kim et al., ACL 2020), to compare ours with. Figures only.

Unless noted otherwise: MultiWOZ 2.1, test set, percent, SOM-DST with BERT-base, mean of ten runs. The paper's counts of
its data are in `corpora/paper_counts.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

JOINT_GOAL_ACCURACY: Final[Mapping[str, tuple[float | None, float | None]]] = {
    "HJST": (38.40, 35.55),
    "FJST": (40.20, 38.00),
    "SUMBT": (42.40, None),
    "HyST": (42.33, 38.10),
    "DS-DST": (None, 51.21),
    "DST-picklist": (None, 53.30),
    "DST Reader": (39.41, 36.40),
    "TRADE": (48.60, 45.60),
    "COMER": (48.79, None),
    "NADST": (50.52, 49.04),
    "ML-BST": (None, 50.91),
    "SOM-DST (BERT-base)": (51.72, 53.01),
    "SOM-DST (BERT-large)": (52.32, 53.68),
}
"""MultiWOZ 2.0 and 2.1. Down to DST-picklist with a predefined ontology, from DST Reader on with an open vocabulary."""

DOMAINS: Final[Mapping[str, tuple[float, float]]] = {
    "attraction": (69.83, 98.86),
    "hotel": (49.53, 97.35),
    "restaurant": (65.72, 98.56),
    "taxi": (59.96, 98.01),
    "train": (70.36, 98.67),
}
"""Joint and slot accuracy."""

OPERATION_SETS: Final[Mapping[str, float]] = {
    "4": 53.01,
    "2": 52.06,
    "3-without-delete": 52.63,
    "3-without-dontcare": 52.64,
    "6": 52.97,
}
"""Joint goal accuracy of the ablation."""

ORACLES: Final[Mapping[frozenset[str], float]] = {
    frozenset(): 53.01,
    frozenset({"values"}): 56.37,
    frozenset({"operations"}): 89.85,
    frozenset({"operations", "values"}): 100.0,
    frozenset({"state"}): 81.00,
    frozenset({"state", "values"}): 82.80,
    frozenset({"state", "operations"}): 96.27,
    frozenset({"state", "operations", "values"}): 100.0,
}
"""Joint goal accuracy with the truth in place of a part of the prediction."""

OPERATION_F1: Final[Mapping[str, float]] = {"carryover": 98.66, "update": 80.10, "dontcare": 32.51, "delete": 2.86}

SLOTS_GENERATED: Final[Mapping[str, tuple[int, float, int]]] = {
    "TRADE": (30, 30.0, 30),
    "ML-BST": (30, 30.0, 30),
    "COMER": (0, 5.72, 18),
    "SOM-DST": (0, 1.14, 9),
}
"""Fewest, mean and most per turn."""

LATENCY: Final[Mapping[str, tuple[float, float]]] = {
    "TRADE": (45.60, 340.0),
    "NADST": (49.04, 26.0),
    "SOM-DST (BERT-base)": (53.01, 27.0),
    "SOM-DST (BERT-large)": (53.68, 40.0),
}
"""Joint goal accuracy, and milliseconds per turn on a Tesla V100, one turn at a time, without tokenisation."""

COMPLEXITY: Final[Mapping[str, tuple[str, str]]] = {
    "SUMBT": ("JM", "JM"),
    "DS-DST": ("J", "JM"),
    "DST-picklist": ("JM", "JM"),
    "DST Reader": ("1", "J"),
    "TRADE": ("J", "J"),
    "COMER": ("1", "J"),
    "NADST": ("1", "1"),
    "ML-BST": ("J", "J"),
    "SOM-DST": ("1", "J"),
}
"""Inference time complexity in the best and in the worst case; J slots with M values each."""
