"""`Journal`: what a run writes for people to read: `metrics.jsonl`, TensorBoard's files, and the learning curve."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from somdst.errors import ModelError
from somdst.evaluate.pictures import METRICS, read_metrics
from somdst.files import reason, write_text
from somdst.learn.progress import TrainingRecord

CURVE = "curve.png"


class Journal:
    """Writes the records of a run. Records after the resumed step are dropped; they will be written again."""

    def __init__(self, out: Path, step: int, *, active: bool = True) -> None:
        self.path, self.curve, self.active = out / METRICS, out / CURVE, active
        if not active:
            return
        with self._writing():
            kept = [record for record in read_metrics(self.path) if record["step"] <= step]
            lines = "".join(json.dumps(record) + "\n" for record in kept)
            write_text(self.path, lines)
            self._board = _Board(out / "tensorboard", step)

    def write(self, record: TrainingRecord) -> None:
        if not self.active:
            return
        fields = {key: value for key, value in asdict(record).items() if value is not None}
        with self._writing():
            with self.path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(fields) + "\n")
            self._board.write(record.step, {key: fields[key] for key in fields if key not in ("step", "steps")})
            if record.dev_joint_goal_accuracy is not None or record.step == record.steps:
                draw_curve(self.path, self.curve)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ModelError(
                f"Cannot write into {self.path.parent}: {reason(error)}. The last checkpoint is intact."
            ) from error


class _Board:
    """TensorBoard's file. Written at once, because torch's own writer is a thread whose errors nobody can catch."""

    def __init__(self, folder: Path, step: int) -> None:
        folder.mkdir(exist_ok=True)
        self.path = folder / f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}.{os.getpid()}"
        self._append(file_version="brain.Event:2")
        self._append(step=step + 1, session_log=SessionLog(status=SessionLog.START))  # drops later steps

    def write(self, step: int, scalars: dict[str, float]) -> None:
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        self._append(step=step, summary=Summary(value=values))

    def _append(self, **fields: Any) -> None:
        with self.path.open("ab") as stream:
            RecordWriter(stream).write(Event(wall_time=time.time(), **fields).SerializeToString())


def draw_curve(metrics: Path, picture: Path) -> None:
    """Losses and dev accuracy over the epochs."""
    from matplotlib.figure import Figure

    records = read_metrics(metrics)
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    losses = figure.add_subplot()
    for key, label in (("loss_operations", "operations"), ("loss_domain", "domain"), ("loss_values", "values")):
        losses.plot([r["epoch"] for r in records], [max(r[key], 1e-4) for r in records], label=label, linewidth=1)
    losses.set(xlabel="epoch", ylabel="loss", yscale="log")
    evaluations = [r for r in records if "dev_joint_goal_accuracy" in r]
    accuracy = losses.twinx()
    accuracy.plot(
        [r["epoch"] for r in evaluations],
        [r["dev_joint_goal_accuracy"] for r in evaluations],
        "k.-",
        label="dev joint goal accuracy",
    )
    accuracy.set(ylabel="dev joint goal accuracy, percent")
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(picture, dpi=120)
