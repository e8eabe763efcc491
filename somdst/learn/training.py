"""The training loop: plain, on accelerate, and resumable to the step.

    somdst train CORPUS OUT                                  one process
    torchrun --nproc-per-node 2 -m somdst train CORPUS OUT   several: every batch is shared among them

A run's folder holds the best model so far (a model's folder like any other), `checkpoint.pt`, `metrics.jsonl`,
`curve.png` and TensorBoard's files. The loop asks an `evaluate` function for the dev accuracy: how that is measured is
`evaluate/`'s concern.
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
from torch import Tensor

from somdst.errors import InputError, ModelError
from somdst.learn.batches import Batches, Example, examples
from somdst.learn.checkpoints import fingerprint, load_checkpoint, remove_drafts, save_checkpoint, save_model
from somdst.learn.journal import Journal
from somdst.learn.machine import computes_in_bf16
from somdst.learn.model import SomDst
from somdst.learn.optimisation import Average, averaged, make_optimizer, schedule, trained, update_average
from somdst.learn.settings import Settings
from somdst.learn.torch_predictor import TorchPredictor
from somdst.learn.wrong_states import ValuePool
from somdst.memory.dialogue import Dialogue
from somdst.memory.state import State
from somdst.model.encoding import Encoder
from somdst.model.prediction import Predictor
from somdst.model.values import Lexicon

OwnStates = dict[tuple[str, int], State]


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands; losses are means since the last report."""

    step: int
    steps: int
    epoch: float
    loss: float
    loss_operations: float
    loss_domain: float
    loss_values: float
    turns_per_second: float
    seconds_left: float
    dev_joint_goal_accuracy: float | None = None


@dataclass(slots=True)
class Position:
    """What changes while a run goes on, and is in its checkpoint beside the weights."""

    step: int = 0
    best: float = -1.0
    best_step: int = 0
    looks_without_better: int = 0
    turns: int = 0
    seconds: float = 0.0
    """Of training so far, looks at dev included."""


@dataclass(slots=True)
class Meter:
    """Losses and turns since the last report."""

    losses: Tensor = field(default_factory=lambda: torch.zeros(4))
    steps: int = 0
    turns: int = 0
    started: float = field(default_factory=time.monotonic)

    def add(self, losses: Tensor, turns: int) -> None:
        self.losses, self.steps, self.turns = self.losses + losses, self.steps + 1, self.turns + turns

    @property
    def seconds(self) -> float:
        return max(time.monotonic() - self.started, 1e-9)


@dataclass(frozen=True, slots=True)
class Outcome:
    finished: bool
    step: int
    best: float
    seconds: float


@dataclass
class Trainer:
    """One run. `evaluate` gives dev accuracy in percent; `report` hears how it goes."""

    model: SomDst
    encoder: Encoder
    settings: Settings
    dialogues: Sequence[Dialogue]
    out: Path
    evaluate: Callable[[Predictor], float] | None = None
    report: Callable[[Progress], None] = lambda progress: None
    own_states: OwnStates | None = None
    report_every: int = 20
    stop_after: int | None = None
    """Stop at this step, as a signal would: for tests and for runs cut into pieces."""
    position: Position = field(default_factory=Position)
    _stopping: bool = False
    _start: dict[str, str] = field(default_factory=dict)

    @cached_property
    def lexicon(self) -> Lexicon:
        """The values of the dialogues that are learned from."""
        return Lexicon.collect(self.dialogues, self.encoder.schema, cutoff=self.settings.lexicon_cutoff)

    @cached_property
    def precision(self) -> str:
        """bf16 or fp32: the setting, or what is faster here."""
        if self.settings.precision == "auto":
            return "bf16" if computes_in_bf16() else "fp32"
        return self.settings.precision

    def run(self) -> Outcome:
        accelerator = _accelerator(self.precision)
        if self.precision == "fp32":
            self.model.operation_predictor.fuse_attention()
        found = examples(self.dialogues, self.encoder, self.own_states)
        if not found:
            raise InputError("The corpus has no turn to learn from: give one with labelled turns.")
        batches = Batches(found, self.encoder, self.settings, ValuePool.collect(self.dialogues, self.encoder.schema))
        optimizer = make_optimizer(self.model, self.settings)
        self._start = _start_of_run(found, self.encoder, self.model)
        model, optimizer = accelerator.prepare(self.model, optimizer)
        average = {n: p.detach().clone() for n, p in trained(self.model)} if self.settings.average else None
        self._open_folder(accelerator)
        self._resume(optimizer, average)
        journal = Journal(self.out, self.position.step, active=accelerator.is_main_process)
        with self._signals():
            outcome = self._loop(accelerator, model, optimizer, batches, average, journal)
        accelerator.wait_for_everyone()  # the others may go on from what the first process has just written
        return outcome

    def _open_folder(self, accelerator: Accelerator) -> None:
        try:
            self.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"Cannot make the run's folder {self.out}: {error.strerror}.") from error
        if accelerator.is_main_process:
            remove_drafts(self.out)

    def _loop(
        self,
        accelerator: Accelerator,
        model: Any,
        optimizer: Any,
        batches: Batches,
        average: Average | None,
        journal: Journal,
    ) -> Outcome:
        settings, position = self.settings, self.position
        clock = time.monotonic() - position.seconds
        steps = max(1, round(settings.epochs * len(batches)))
        look_every = max(1, round(settings.evaluate_every * len(batches)))
        meter, last_checkpoint = Meter(), time.monotonic()
        order_epoch, order = -1, []
        while position.step < steps and not self._gave_up and not self._agree_to_stop(accelerator):
            epoch, index = divmod(position.step, len(batches))
            if epoch != order_epoch:
                order_epoch, order = epoch, batches.order(epoch)
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * schedule(position.step / steps, settings.warmup)
            losses = self._step(accelerator, model, optimizer, batches, order[index], epoch)
            if average is not None:
                update_average(average, self.model, settings.average, position.step)
            position.step += 1
            position.turns += len(order[index])
            meter.add(losses, len(order[index]))
            look = position.step % look_every == 0 or position.step == steps
            if meter.steps == self.report_every or look:
                self._report(accelerator, average, journal, meter, steps=steps, epoch_steps=len(batches), look=look)
                meter = Meter()
            if self.stop_after is not None and position.step >= self.stop_after:
                self._stopping = True
            position.seconds = time.monotonic() - clock
            due = time.monotonic() - last_checkpoint > 60 * settings.checkpoint_minutes
            if due or look:
                self._checkpoint(accelerator, optimizer, average)
                last_checkpoint = time.monotonic()
        finished = position.step >= steps or self._gave_up
        if not finished:
            self._checkpoint(accelerator, optimizer, average)
        return Outcome(finished, position.step, position.best, position.seconds)

    @property
    def _gave_up(self) -> bool:
        """Dev accuracy has not become better for as long as the patience lasts."""
        return 0 < self.settings.patience <= self.position.looks_without_better

    def _agree_to_stop(self, accelerator: Accelerator) -> bool:
        """Whether any process was told to stop: all leave at the same step, or the others would wait for it."""
        if accelerator.num_processes == 1:
            return self._stopping
        told = torch.tensor([float(self._stopping)], device=accelerator.device)
        return bool(accelerator.reduce(told, reduction="sum").item() > 0)

    def _step(
        self, accelerator: Accelerator, model: Any, optimizer: Any, batches: Batches, chosen: list[int], epoch: int
    ) -> Tensor:
        """One step of the optimiser; gives the losses: total, operations, domain, values."""
        settings, step = self.settings, self.position.step
        rank, world = accelerator.process_index, accelerator.num_processes
        teacher_forcing = random.Random(f"coin {settings.seed} {step}").random() < settings.teacher_forcing
        # Dropout is drawn anew at each step, so that a resumed run draws what the uninterrupted one does.
        torch.manual_seed(random.Random(f"dropout {settings.seed} {step} {rank}").getrandbits(63))
        self.model.train()
        losses = torch.zeros(4)
        for batch, weight in batches.parts(chosen, epoch, rank=rank, world=world):
            batch = send_to_device(batch, accelerator.device)
            result = model(batch, teacher_forcing=teacher_forcing, operation_weight=settings.operation_weight)
            accelerator.backward(result.total * weight)
            losses += torch.stack([part.detach().float() for part in result]).cpu() * weight
        if not losses.isfinite().all():
            raise ModelError(
                f"The loss is no longer a number at step {step + 1}: start anew with lower learning rates, or go on "
                "from the last checkpoint with another seed."
            )
        if settings.clip:
            accelerator.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return losses

    def _report(
        self,
        accelerator: Accelerator,
        average: Average | None,
        journal: Journal,
        meter: Meter,
        *,
        steps: int,
        epoch_steps: int,
        look: bool,
    ) -> None:
        rate = meter.turns / meter.seconds
        losses = accelerator.reduce(meter.losses.to(accelerator.device), reduction="mean")  # each knows its share only
        total, operations, domain, values = (losses / meter.steps).tolist()
        progress = Progress(
            step=self.position.step,
            steps=steps,
            epoch=self.position.step / epoch_steps,
            loss=total,
            loss_operations=operations,
            loss_domain=domain,
            loss_values=values,
            turns_per_second=rate,
            seconds_left=(steps - self.position.step) * self.settings.batch_size / rate,
            dev_joint_goal_accuracy=self._look(accelerator, average) if look else None,
        )
        if accelerator.is_main_process:
            journal.write(progress)
            self.report(progress)

    def _look(self, accelerator: Accelerator, average: Average | None) -> float | None:
        """Measure on dev, and keep the model where it is the best so far."""
        position = self.position
        with averaged(self.model, average):
            measured: list[float | None] = [None]
            if self.evaluate and accelerator.is_main_process:
                predictor = TorchPredictor(self.model, self.encoder, precision=self.precision, lexicon=self.lexicon)
                measured = [self.evaluate(predictor)]
            (accuracy,) = broadcast_object_list(measured)
            if accuracy is not None and accuracy <= position.best:
                position.looks_without_better += 1
                return accuracy
            position.best = -1.0 if accuracy is None else accuracy
            position.best_step, position.looks_without_better = position.step, 0
            if accelerator.is_main_process:
                metrics = {"step": position.step, "dev_joint_goal_accuracy": accuracy}
                save_model(self.out, self.model, self.encoder, lexicon=self.lexicon, metrics=metrics)
        return accuracy

    def _checkpoint(self, accelerator: Accelerator, optimizer: Any, average: Average | None) -> None:
        if not accelerator.is_main_process:
            return
        save_checkpoint(
            self.out,
            {
                "settings": self.settings.model_dump(mode="json"),
                "start": self._start,
                "position": asdict(self.position),
                "weights": dict(trained(self.model)),
                "average": average,
                "optimizer": optimizer.state_dict(),
            },
        )

    def _resume(self, optimizer: Any, average: Average | None) -> None:
        saved = load_checkpoint(self.out)
        if saved is None:
            return
        try:
            self._check_same_run(saved)
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
                "use the same somdst and settings to go on, or another folder to start anew."
            ) from error

    def _check_same_run(self, saved: dict[str, Any]) -> None:
        before, now = saved["settings"], self.settings.model_dump(mode="json")
        for key in now:
            if before.get(key, Settings.model_fields[key].default) != now[key]:
                raise InputError(
                    f"The run in {self.out} was started with another {key} ({before.get(key)!r}, not {now[key]!r}): "
                    "use the same settings to go on, or another folder to start anew."
                )
        for what, value in self._start.items():
            if saved.get("start", self._start).get(what) != value:
                raise InputError(
                    f"The run in {self.out} was started with another {what}: give the same one to go on, or another "
                    "folder to start anew."
                )

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
    AcceleratorState._reset_state(
        reset_partial_state=False
    )  # an earlier run in this process may have had another precision
    return Accelerator(
        mixed_precision="bf16" if precision == "bf16" else "no",
        cpu=not torch.cuda.is_available(),
        kwargs_handlers=[
            DistributedDataParallelKwargs(find_unused_parameters=True),
            InitProcessGroupKwargs(timeout=timedelta(hours=6)),  # the others wait while the first looks at dev
        ],
    )


def _start_of_run(found: Sequence[Example], encoder: Encoder, model: SomDst) -> dict[str, str]:
    """What a run starts from besides its settings: a resumed run must have the same, or it would be another one."""
    turns = (
        (
            *(example.dialogue.id, str(example.number), turn.system, turn.user, str(turn.domain)),
            *map(str, sorted(example.after.items())),
            *("own", *map(str, sorted((example.own or {}).items()))),
        )
        for example in found
        for turn in [example.dialogue.turns[example.number]]
    )
    frozen = (parameter for parameter in model.parameters() if not parameter.requires_grad)
    return {
        "schema": fingerprint([str(encoder.schema.to_json()).encode()]),
        "corpus": fingerprint("\0".join(turn).encode(errors="surrogatepass") for turn in turns),
        "encoder or model to start from": fingerprint(parameter.numpy().tobytes() for parameter in frozen),
    }
