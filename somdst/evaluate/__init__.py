"""Measuring a predictor: run it over dialogues, count what the paper counts, draw the report.

Everything here works with any `Predictor` and knows nothing of tensors.
"""
