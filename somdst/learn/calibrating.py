"""`calibrate`: make a model's probabilities mean what they say, and choose which writes it holds back.

The temperature and the threshold go into the model's config.json. How they are fitted is in `evaluate/calibration.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from somdst.corpora import Split
from somdst.errors import InputError
from somdst.evaluate.calibration import Calibration, calibrated_config, scored_changes
from somdst.evaluate.calibration import calibrate as fit
from somdst.evaluate.run import run
from somdst.evaluate.trial import Trial, open_trial
from somdst.files import write_text
from somdst.learn.progress import Listener, Phase, silent
from somdst.model.config import ModelConfig
from somdst.model.folder import ModelFolder, shipped_path


@dataclass(frozen=True, slots=True)
class Calibrated:
    before: ModelConfig
    after: ModelConfig
    measured: Calibration
    """Of the probabilities before; its temperature is relative to the one that the model had."""
    file: Path | None
    """The config.json that was written; None if nothing was."""


def calibrate(
    model: str | Path,
    corpus: str | Path | Trial,
    *,
    split: Split | None = None,
    limit: int | None = None,
    engine: str = "auto",
    precision: str = "int8",
    batch_size: int = 256,
    dry_run: bool = False,
    progress: Listener = silent,
) -> Calibrated:
    """Fit the temperature and the threshold on a corpus, and write them into the model's config.json.

    Use dialogues that the model was not trained on. A `Trial` is the model with dialogues that were opened before.
    """
    folder = ModelFolder.open(model)
    if not dry_run and folder.path.resolve() == shipped_path().resolve():
        raise InputError(
            "The model `default` is part of the installed package and is never written to: copy it with `somdst export "
            "default --out DIR` and calibrate DIR, or use --dry-run."
        )
    trial = (
        corpus
        if isinstance(corpus, Trial)
        else open_trial(str(model), str(corpus), split=split, limit=limit, engine=engine, precision=precision)
    )
    phase = Phase("calibrating", trial.turns, progress)
    runs = run(trial.predictor, trial.dialogues, batch_size=batch_size, progress=phase.advance)
    measured = fit(scored_changes(runs))
    config = calibrated_config(folder.config, measured)
    file = None if dry_run else folder.path / "config.json"
    if file:
        write_text(file, config.model_dump_json(indent=2) + "\n")
    return Calibrated(folder.config, config, measured, file)
