"""What a run leaves to look at: `metrics.jsonl`, TensorBoard's files, and the learning curve as a picture."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

METRICS = "metrics.jsonl"
CURVE = "curve.png"


class Journal:
    """Writes progress. Records after the step that a run is resumed from are dropped: they are lived through again."""

    def __init__(self, out: Path, step: int, *, active: bool = True) -> None:
        self.path, self.curve, self.active = out / METRICS, out / CURVE, active
        self._board: Any = None
        if active:
            kept = [record for record in read_metrics(self.path) if record["step"] <= step]
            self.path.write_text("".join(json.dumps(record) + "\n" for record in kept), encoding="utf-8")
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(out / "tensorboard"), purge_step=step)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._board is not None:
            self._board.close()

    def write(self, progress: Any) -> None:
        if not self.active:
            return
        record = {key: value for key, value in asdict(progress).items() if value is not None}
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")
        for key in record.keys() - {"step", "steps"}:
            self._board.add_scalar(key, record[key], progress.step)
        if progress.dev_joint_goal_accuracy is not None:
            draw_curve(self.path, self.curve)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records of a run, a last line that was cut short left out."""
    records = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records


def draw_curve(metrics: Path, picture: Path) -> None:
    """Losses and dev accuracy over the epochs."""
    from matplotlib.figure import Figure

    records = read_metrics(metrics)
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    losses = figure.add_subplot()
    for key, label in (("loss_operations", "operations"), ("loss_domain", "domain"), ("loss_values", "values")):
        losses.plot([r["epoch"] for r in records], [max(r[key], 1e-4) for r in records], label=label, linewidth=1)
    losses.set(xlabel="epoch", ylabel="loss", yscale="log")
    looks = [r for r in records if "dev_joint_goal_accuracy" in r]
    accuracy = losses.twinx()
    accuracy.plot(
        [r["epoch"] for r in looks],
        [r["dev_joint_goal_accuracy"] for r in looks],
        "k.-",
        label="dev joint goal accuracy",
    )
    accuracy.set(ylabel="dev joint goal accuracy, percent")
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(picture, dpi=120)
