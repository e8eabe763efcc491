"""`Trainer`: the training loop. It is plain, runs on accelerate, and can be resumed at any step.

A run's folder holds the best model so far (a model's folder like any other), `checkpoint.pt`, `metrics.jsonl`,
`curve.png` and TensorBoard's files. The loop gets its model and its dialogues ready-made, and asks an `evaluate`
function for the accuracy on dev; `training.py` puts these together.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs, InitProcessGroupKwargs
from accelerate.state import AcceleratorState
from accelerate.utils import broadcast_object_list, send_to_device

from somdst.errors import InputError, ModelError
from somdst.files import make_folder
from somdst.learn.batches import Batches, Examples, ExampleSource, OwnStates
from somdst.learn.checkpoints import (
    check_same_run,
    fingerprint,
    load_checkpoint,
    remove_drafts,
    save_checkpoint,
)
from somdst.learn.journal import Journal
from somdst.learn.kinds import Kind, kind_of
from somdst.learn.machine import precision_in
from somdst.learn.optimisation import (
    CLIP,
    Average,
    averaged,
    blended,
    make_optimizer,
    schedule,
    trained,
    update_average,
)
from somdst.learn.progress import Listener, Meter, Position, Progress, TrainingRecord, silent
from somdst.learn.settings import Settings
from somdst.memory.dialogue import Dialogue
from somdst.model.encoding import Encoder
from somdst.model.prediction import Predictor
from somdst.model.values import Lexicon


@dataclass(frozen=True, slots=True)
class Outcome:
    finished: bool
    step: int
    best: float
    """The best accuracy on dev in percent; -1 where nothing was evaluated."""
    seconds: float


@dataclass(frozen=True, slots=True)
class _Run:
    """What one call of `Trainer.run` works with."""

    accelerator: Accelerator
    model: Any
    """The model as accelerate wraps it."""
    optimizer: Any
    batches: Batches
    average: Average | None
    start: Average | None
    """The weights that it goes on from, if a part of them is kept."""
    journal: Journal

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes and reports."""
        return bool(self.accelerator.is_main_process)


@dataclass
class Trainer:
    """One run. `evaluate` gives the accuracy on dev in percent; `report` is called first and after every step."""

    model: Any
    """Of the system that the settings name."""
    encoder: Encoder
    settings: Settings
    dialogues: Sequence[Dialogue]
    out: Path
    evaluate: Callable[[Predictor], float] | None = None
    report: Listener = silent
    own_states: OwnStates | None = None
    source: ExampleSource | None = None
    """Where examples come from, if not from the dialogues."""
    report_every: int = 20
    """Steps between two records of the losses."""
    stop_after: int | None = None
    """Stop at this step, as a signal would: for tests and for measuring the speed."""
    position: Position = field(default_factory=Position)
    _stopping: bool = False
    _start: dict[str, str] = field(default_factory=dict)

    @cached_property
    def kind(self) -> Kind:
        return kind_of(self.settings.system)

    @cached_property
    def lexicon(self) -> Lexicon:
        """The values in the dialogues that are learned from."""
        return Lexicon.collect(self.dialogues, self.encoder.schema, cutoff=self.settings.lexicon_cutoff)

    @cached_property
    def precision(self) -> str:
        """bf16 or fp32: the setting, or what is faster on this machine."""
        return precision_in(self.settings.precision)

    def run(self) -> Outcome:
        """Train, or go on where the run in the folder was stopped."""
        accelerator = _accelerator(self.precision)
        if self.precision == "fp32":
            self.model.text_encoder.fuse_attention()
        source = self.source or Examples(self.dialogues, self.encoder.schema, self.own_states)
        if not source.turns:
            raise InputError("The corpus has no turn to learn from: give one with labelled turns.")
        batches = self.kind.batches(source, self.encoder, self.settings, self.model)
        optimizer = make_optimizer(self.model, self.settings)
        self._start = _start_of_run(source, self.encoder, self.model, whole=bool(self.settings.keep_start))
        model, optimizer = accelerator.prepare(self.model, optimizer)
        average, start = (
            {name: parameter.detach().clone() for name, parameter in trained(self.model)} if wanted else None
            for wanted in (self.settings.average, self.settings.keep_start)
        )
        self._open_folder(accelerator)
        self._resume(optimizer, average)
        journal = Journal(self.out, self.position.step, active=accelerator.is_main_process)
        with self._signals():
            outcome = self._loop(_Run(accelerator, model, optimizer, batches, average, start, journal))
        accelerator.wait_for_everyone()  # the others may go on from what the first process has just written
        return outcome

    def _open_folder(self, accelerator: Accelerator) -> None:
        make_folder(self.out)
        if accelerator.is_main_process:
            remove_drafts(self.out)

    def _loop(self, run: _Run) -> Outcome:
        settings, position, batches = self.settings, self.position, run.batches
        clock = time.monotonic() - position.seconds
        steps = max(1, round(settings.epochs * len(batches)))
        evaluate_every = max(1, round(settings.evaluate_every * len(batches)))
        meter, last_checkpoint = Meter(), time.monotonic()
        order_epoch, order = -1, []
        if run.is_first and position.step < steps:
            self.report(Progress("training", position.step, steps, "steps"))
        while position.step < steps and not self._out_of_patience and not self._agree_to_stop(run.accelerator):
            epoch, index = divmod(position.step, len(batches))
            if epoch != order_epoch:
                order_epoch, order = epoch, batches.order(epoch)
            for group in run.optimizer.param_groups:
                group["lr"] = group["peak"] * schedule(position.step / steps, settings.warmup)
            losses = self._step(run, order[index], epoch)
            if run.average is not None:
                update_average(run.average, self.model, settings.average, position.step)
            position.step += 1
            position.turns += len(order[index])
            meter.add(losses, len(order[index]))
            evaluation = position.step % evaluate_every == 0 or position.step == steps
            record = None
            if meter.steps == self.report_every or evaluation:
                record = self._record(run, meter, steps, evaluation=evaluation)
                meter = Meter()
            if run.is_first:
                self.report(Progress("training", position.step, steps, "steps", record))
            if self.stop_after is not None and position.step >= self.stop_after:
                self._stopping = True
            position.seconds = time.monotonic() - clock
            due = time.monotonic() - last_checkpoint > 60 * settings.checkpoint_minutes
            if due or evaluation:
                self._checkpoint(run)
                last_checkpoint = time.monotonic()
        finished = position.step >= steps or self._out_of_patience
        if not finished:
            self._checkpoint(run)
        return Outcome(finished, position.step, position.best, position.seconds)

    @property
    def _out_of_patience(self) -> bool:
        return 0 < self.settings.patience <= self.position.evaluations_without_improvement

    def _agree_to_stop(self, accelerator: Accelerator) -> bool:
        """Whether any process was told to stop: all leave at the same step, or the others would wait for it."""
        if accelerator.num_processes == 1:
            return self._stopping
        told = torch.tensor([float(self._stopping)], device=accelerator.device)
        return bool(accelerator.reduce(told, reduction="sum").item() > 0)

    def _step(self, run: _Run, chosen: list[int], epoch: int) -> list[float]:
        """One step of the optimiser. Gives the losses: total, operations, domain, values."""
        settings, step, accelerator = self.settings, self.position.step, run.accelerator
        rank, world = accelerator.process_index, accelerator.num_processes
        teacher_forcing = random.Random(f"coin {settings.seed} {step}").random() < settings.teacher_forcing
        # Seeded at every step, so that a resumed run draws the same dropout as an uninterrupted one.
        torch.manual_seed(random.Random(f"dropout {settings.seed} {step} {rank}").getrandbits(63))
        self.model.train()
        losses = torch.zeros(4)
        for batch, weight in run.batches.parts(chosen, epoch, rank=rank, world=world):
            batch = send_to_device(batch, accelerator.device)
            result = run.model(batch, teacher_forcing=teacher_forcing, operation_weight=settings.operation_weight)
            accelerator.backward(result.total * weight)
            losses += torch.stack([part.detach().float() for part in result]).cpu() * weight
        if not losses.isfinite().all():
            raise ModelError(
                f"The loss is not a number at step {step + 1}: start again with lower learning rates, or go on from "
                "the last checkpoint with another seed."
            )
        accelerator.clip_grad_norm_(run.model.parameters(), CLIP)
        run.optimizer.step()
        run.optimizer.zero_grad(set_to_none=True)
        return losses.tolist()

    def _record(self, run: _Run, meter: Meter, steps: int, *, evaluation: bool) -> TrainingRecord:
        """Write down how the run is doing; with `evaluation`, after evaluating it on dev."""
        rate = meter.rate
        mine = torch.tensor(meter.losses, device=run.accelerator.device)
        losses = run.accelerator.reduce(mine, reduction="mean")  # each process has the losses of its share only
        total, operations, domain, values = (losses / meter.steps).tolist()
        record = TrainingRecord(
            step=self.position.step,
            steps=steps,
            epoch=self.position.step / len(run.batches),
            loss=total,
            loss_operations=operations,
            loss_domain=domain,
            loss_values=values,
            turns_per_second=rate,
            seconds_left=(steps - self.position.step) * self.settings.batch_size / rate,
            dev_joint_goal_accuracy=self._evaluate(run) if evaluation else None,
        )
        run.journal.write(record)
        return record

    def _evaluate(self, run: _Run) -> float | None:
        """Measure the model on dev, and save it if it is the best so far."""
        position = self.position
        with averaged(self.model, self._result(run)):
            measured: list[float | None] = [None]
            if self.evaluate and run.is_first:
                predictor = self.kind.predictor(
                    self.model, self.encoder, precision=self.precision, lexicon=self.lexicon
                )
                measured = [self.evaluate(predictor)]
            (accuracy,) = broadcast_object_list(measured)
            if accuracy is not None and accuracy <= position.best:
                position.evaluations_without_improvement += 1
                return accuracy
            position.best = -1.0 if accuracy is None else accuracy
            position.best_step, position.evaluations_without_improvement = position.step, 0
            if run.is_first:
                metrics = {"step": position.step, "dev_joint_goal_accuracy": accuracy}
                self.kind.save(self.out, self.model, self.encoder, lexicon=self.lexicon, metrics=metrics)
        return accuracy

    def _result(self, run: _Run) -> Average | None:
        """The weights to measure and to save; None for those that the model has."""
        if run.start is None:
            return run.average
        return blended(run.average or dict(trained(self.model)), run.start, self.settings.keep_start)

    def _checkpoint(self, run: _Run) -> None:
        if not run.is_first:
            return
        save_checkpoint(
            self.out,
            {
                "settings": self.settings.model_dump(mode="json"),
                "start": self._start,
                "position": asdict(self.position),
                "weights": dict(trained(self.model)),
                "average": run.average,
                "optimizer": run.optimizer.state_dict(),
            },
        )

    def _resume(self, optimizer: Any, average: Average | None) -> None:
        saved = load_checkpoint(self.out)
        if saved is None:
            return
        try:
            check_same_run(self.out, saved, self.settings, self._start)
            parameters = dict(self.model.named_parameters())
            with torch.no_grad():
                for name, tensor in saved["weights"].items():
                    parameters[name].copy_(tensor)
                for name in average or ():
                    average[name].copy_(saved["average"][name])  # type: ignore[index]
            optimizer.load_state_dict(saved["optimizer"])
            self.position = Position(**saved["position"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ModelError(
                f"The checkpoint in {self.out} does not fit this model ({' '.join(str(error).split())[:120]}): "
                "use the same somdst and settings to go on, or another folder to start again."
            ) from error

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGINT and SIGTERM stop the run after the step it is in, with a checkpoint."""

        def stop(number: int, frame: object) -> None:
            self._stopping = True

        handled = (signal.SIGINT, signal.SIGTERM)
        try:
            before = [signal.signal(number, stop) for number in handled]
        except ValueError:  # not in the main thread: the caller handles signals
            yield
            return
        try:
            yield
        finally:
            for number, handler in zip(handled, before, strict=True):
                signal.signal(number, handler)


def _accelerator(precision: str) -> Accelerator:
    # An earlier run in this process may have had another precision.
    AcceleratorState._reset_state(reset_partial_state=False)
    return Accelerator(
        mixed_precision="bf16" if precision == "bf16" else "no",
        cpu=not torch.cuda.is_available(),
        kwargs_handlers=[
            DistributedDataParallelKwargs(find_unused_parameters=True),
            InitProcessGroupKwargs(timeout=timedelta(hours=6)),  # the others wait while the first one evaluates
        ],
    )


def _start_of_run(source: ExampleSource, encoder: Encoder, model: Any, *, whole: bool) -> dict[str, str]:
    """What a run starts from besides its settings. A resumed run must start from the same: with `whole`, from the same
    weights, else from the same frozen ones, which the checkpoint does not hold."""
    turns = (
        (
            *(example.dialogue.id, str(example.number), turn.system, turn.user, str(turn.domain)),
            *map(str, sorted(example.after.items())),
            *("own", *map(str, sorted((example.own or {}).items()))),
        )
        for example in source.examples(0)
        for turn in [example.dialogue.turns[example.number]]
    )
    needed = (parameter.detach() for parameter in model.parameters() if whole or not parameter.requires_grad)
    return {
        "schema": fingerprint([str(encoder.schema.content()).encode()]),
        "corpus": fingerprint("\0".join(turn).encode(errors="surrogatepass") for turn in turns),
        "encoder or model to start from": fingerprint(parameter.numpy().tobytes() for parameter in needed),
    }
