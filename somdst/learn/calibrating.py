"""`calibrate`: make a model's probabilities mean what they say, and choose which writes it holds back.

The temperature and the threshold go into the model's config.json. How they are fitted is in `evaluate/calibration.py`.
A model that reads schemas is calibrated on several corpora together: each is then reported by itself too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from somdst.corpora import Split
from somdst.errors import InputError
from somdst.evaluate.calibration import (
    Calibration,
    Scored,
    calibrated_config,
    expected_calibration_error,
    scored_changes,
)
from somdst.evaluate.calibration import calibrate as fit
from somdst.evaluate.run import run
from somdst.evaluate.trial import Trial, open_trial
from somdst.files import write_text
from somdst.learn.progress import Listener, Phase, silent
from somdst.model.config import ModelConfig
from somdst.model.folder import ModelFolder, shipped_path
from somdst.model.values import soften


@dataclass(frozen=True, slots=True)
class OnCorpus:
    """What the temperature and the threshold that were fitted on all corpora do on one of them."""

    corpus: str
    changes: int
    accuracy: float
    """Percent of changes that were right."""
    expected_calibration_error: float
    held_back: int
    wrong: int
    """Of those held back."""

    @classmethod
    def of(cls, corpus: str, scored: Sequence[Scored], fitted: Calibration) -> OnCorpus:
        right = [change.correct for change in scored]
        softened = [soften(change.probability, fitted.temperature) for change in scored]
        held = [correct for p, correct in zip(softened, right, strict=True) if p < fitted.pending_threshold]
        accuracy = 100.0 * sum(right) / len(right) if right else 0.0
        error = expected_calibration_error(softened, right)
        return cls(corpus, len(scored), accuracy, error, len(held), held.count(False))


@dataclass(frozen=True, slots=True)
class Calibrated:
    before: ModelConfig
    after: ModelConfig
    measured: Calibration
    """Of the probabilities before; its temperature is relative to the one that the model had."""
    corpora: tuple[OnCorpus, ...]
    file: Path | None
    """The config.json that was written; None if nothing was."""


def calibrate(
    model: str | Path,
    corpora: str | Path | Sequence[str | Path | Trial],
    *,
    split: Split | None = None,
    limit: int | None = None,
    engine: str = "auto",
    precision: str = "int8",
    batch_size: int = 256,
    dry_run: bool = False,
    progress: Listener = silent,
) -> Calibrated:
    """Fit the temperature and the threshold on corpora, and write them into the model's config.json.

    Use dialogues that the model was not trained on. A `Trial` is the model with dialogues that were opened before.
    """
    folder = ModelFolder.open(model)
    if not dry_run and folder.path.resolve() == shipped_path().resolve():
        raise InputError(
            "The model `default` is part of the installed package and is never written to: copy it with `somdst export "
            "default --out DIR` and calibrate DIR, or use --dry-run."
        )
    trials = [
        one
        if isinstance(one, Trial)
        else open_trial(str(model), str(one), split=split, limit=limit, engine=engine, precision=precision)
        for one in ([corpora] if isinstance(corpora, (str, Path)) else corpora)
    ]
    scored: list[tuple[str, list[Scored]]] = []
    for trial in trials:
        phase = Phase(f"calibrating on {trial.corpus}", trial.turns, progress)
        runs = run(trial.predictor, trial.dialogues, schema=trial.schema, batch_size=batch_size, progress=phase.advance)
        scored.append((trial.corpus, scored_changes(runs)))
    measured = fit([change for _, changes in scored for change in changes])
    config = calibrated_config(folder.config, measured)
    file = None if dry_run else folder.path / "config.json"
    if file:
        write_text(file, config.model_dump_json(indent=2) + "\n")
    on = tuple(OnCorpus.of(corpus, changes, measured) for corpus, changes in scored)
    return Calibrated(folder.config, config, measured, on, file)
