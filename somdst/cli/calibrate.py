"""`somdst calibrate`: make a model's probabilities mean what they say, and choose what it holds back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from somdst.cli import options
from somdst.cli.measure import open_trial
from somdst.cli.output import Bar, notice, print_json, print_tables

if TYPE_CHECKING:
    from somdst.model.config import ModelConfig
    from somdst.model.folder import ModelFolder


def calibrate(
    model: options.ModelArgument,
    corpus: options.CorpusArgument,
    split: options.SplitOption = None,
    engine: options.EngineOption = "auto",
    precision: options.PrecisionOption = "int8",
    limit: options.LimitOption = None,
    batch_size: options.BatchOption = 256,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be written.")] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Fit the temperature of the probabilities of changes, choose the threshold of pending writes, and write both
    into the model's config.json. Of the writes that are held back at least half are wrong on this corpus.

    Use dialogues that the model was not trained on, and another part to measure it with afterwards.

    Example: `somdst calibrate runs/first multiwoz-2.1/dev.jsonl.xz`
    """
    from somdst.evaluate import paper_tables
    from somdst.evaluate.calibration import calibrate as fit
    from somdst.evaluate.calibration import calibrated_config, scored_changes
    from somdst.evaluate.run import run
    from somdst.model.folder import ModelFolder

    folder = ModelFolder.open(model)
    opened = open_trial(model, corpus, split=split, limit=limit, engine=engine, precision=precision)
    with Bar("calibrating", opened.turns) as bar:
        runs = run(opened.predictor, opened.dialogues, batch_size=batch_size, progress=bar.advance)
    measured = fit(scored_changes(runs))
    config = calibrated_config(folder.config, measured)
    if not dry_run:
        _write(folder, config)
    if as_json:
        chosen = {"temperature": config.temperature, "pending_threshold": config.pending_threshold}
        print_json(chosen | {"calibration": measured.to_json()})
        return
    print_tables([paper_tables.calibration(measured)])
    typer.echo(f"temperature {config.temperature}, pending threshold {config.pending_threshold}")


def _write(folder: ModelFolder, config: ModelConfig) -> None:
    from somdst.files import replacing

    with replacing(folder.path / "config.json") as stream:
        stream.write(config.model_dump_json(indent=2).encode() + b"\n")
    notice(f"wrote {folder.path / 'config.json'}")
