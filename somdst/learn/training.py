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
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from torch import Tensor

from somdst.dialogue import Dialogue
from somdst.encoding import Encoder
from somdst.errors import InputError
from somdst.learn.batches import Batches, examples
from somdst.learn.checkpoints import load_checkpoint, save_checkpoint, save_model
from somdst.learn.journal import Journal
from somdst.learn.model import SomDst
from somdst.learn.predictor import TorchPredictor
from somdst.learn.settings import Settings
from somdst.learn.wrong_states import ValuePool
from somdst.prediction import Predictor
from somdst.state import State

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


@dataclass(frozen=True, slots=True)
class Outcome:
    finished: bool
    step: int
    best: float
    seconds: float


@dataclass(slots=True)
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

    def run(self) -> Outcome:
        torch.manual_seed(self.settings.seed)
        accelerator = Accelerator(
            mixed_precision="bf16" if self.settings.precision == "bf16" else "no",
            cpu=not torch.cuda.is_available(),
            kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
        )
        found = examples(self.dialogues, self.encoder, self.own_states)
        if not found:
            raise InputError("The corpus has no turn to learn from.")
        batches = Batches(found, self.encoder, self.settings, ValuePool.collect(self.dialogues, self.encoder.schema))
        optimizer = make_optimizer(self.model, self.settings)
        average = {n: p.detach().clone() for n, p in trained(self.model)} if self.settings.average else None
        model, optimizer = accelerator.prepare(self.model, optimizer)
        self.out.mkdir(parents=True, exist_ok=True)
        self._resume(optimizer, average)
        with Journal(self.out, self.position.step, active=accelerator.is_main_process) as journal, self._signals():
            return self._loop(accelerator, model, optimizer, batches, average, journal)

    def _loop(
        self,
        accelerator: Accelerator,
        model: Any,
        optimizer: Any,
        batches: Batches,
        average: dict[str, Tensor] | None,
        journal: Journal,
    ) -> Outcome:
        settings, position = self.settings, self.position
        steps = max(1, round(settings.epochs * len(batches)))
        look_every = max(1, round(settings.evaluate_every * len(batches)))
        sums, since, last_checkpoint = torch.zeros(4), 0, time.monotonic()
        turns_before, clock = position.turns, time.monotonic()
        order_epoch, order = -1, []
        while position.step < steps and not self._stopping:
            epoch, index = divmod(position.step, len(batches))
            if epoch != order_epoch:
                order_epoch, order = epoch, batches.order(epoch)
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * schedule(position.step / steps, settings.warmup)
            coin = random.Random(f"coin {settings.seed} {position.step}").random() < settings.teacher_forcing
            self.model.train()
            sums += self._step(accelerator, model, optimizer, batches, order[index], epoch, coin)
            if average is not None:
                _update_average(average, self.model, settings.average, position.step)
            since += 1
            position.step += 1
            position.turns += len(order[index])
            look = position.step % look_every == 0 or position.step == steps
            if since == self.report_every or look:
                seconds = time.monotonic() - clock
                rate = (position.turns - turns_before) / max(seconds, 1e-9)
                left = (steps - position.step) * settings.batch_size / max(rate, 1e-9)
                means = (sums / since).tolist()
                position.seconds += seconds
                accuracy = self._look(accelerator, average) if look else None
                progress = Progress(
                    step=position.step,
                    steps=steps,
                    epoch=position.step / len(batches),
                    loss=means[0],
                    loss_operations=means[1],
                    loss_domain=means[2],
                    loss_values=means[3],
                    turns_per_second=rate,
                    seconds_left=left,
                    dev_joint_goal_accuracy=accuracy,
                )
                journal.write(progress)
                self.report(progress)
                sums, since, turns_before, clock = torch.zeros(4), 0, position.turns, time.monotonic()
                if settings.patience and position.looks_without_better >= settings.patience:
                    steps = position.step
            if self.stop_after is not None and position.step >= self.stop_after:
                self._stopping = True
            due = time.monotonic() - last_checkpoint > 60 * settings.checkpoint_minutes
            if due or look or self._stopping or position.step >= steps:
                self._checkpoint(accelerator, optimizer, average)
                last_checkpoint = time.monotonic()
        return Outcome(position.step >= steps, position.step, position.best, position.seconds)

    def _step(
        self,
        accelerator: Accelerator,
        model: Any,
        optimizer: Any,
        batches: Batches,
        chosen: list[int],
        epoch: int,
        teacher_forcing: bool,
    ) -> Tensor:
        """One step of the optimiser; gives the losses: total, operations, domain, values."""
        world = accelerator.num_processes
        losses = torch.zeros(4)
        if len(chosen) < world * self.settings.accumulation:  # too small to be shared: the same for all processes
            return losses
        for batch, weight in batches.parts(chosen, epoch, rank=accelerator.process_index, world=world):
            result = model(batch, teacher_forcing=teacher_forcing, operation_weight=self.settings.operation_weight)
            accelerator.backward(result.total * weight)
            losses += torch.stack([part.detach().float() for part in result]) * weight
        if self.settings.clip:
            accelerator.clip_grad_norm_(model.parameters(), self.settings.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return losses

    def _look(self, accelerator: Accelerator, average: dict[str, Tensor] | None) -> float | None:
        """Measure on dev, and keep the model where it is the best so far."""
        accuracy = None
        if accelerator.is_main_process:
            with _averaged(self.model, average):
                if self.evaluate:
                    predictor = TorchPredictor(self.model, self.encoder, precision=self.settings.precision)
                    accuracy = self.evaluate(predictor)
                if accuracy is None or accuracy > self.position.best:
                    self.position.best = -1.0 if accuracy is None else accuracy
                    self.position.best_step, self.position.looks_without_better = self.position.step, 0
                    metrics = {"step": self.position.step, "dev_joint_goal_accuracy": accuracy}
                    save_model(self.out, self.model, self.encoder, metrics=metrics)
                else:
                    self.position.looks_without_better += 1
        accelerator.wait_for_everyone()
        return accuracy

    def _checkpoint(self, accelerator: Accelerator, optimizer: Any, average: dict[str, Tensor] | None) -> None:
        if not accelerator.is_main_process:
            return
        save_checkpoint(
            self.out,
            {
                "settings": self.settings.model_dump(mode="json"),
                "position": asdict(self.position),
                "weights": dict(trained(self.model)),
                "average": average,
                "optimizer": optimizer.state_dict(),
                "random": torch.get_rng_state(),
            },
        )

    def _resume(self, optimizer: Any, average: dict[str, Tensor] | None) -> None:
        saved = load_checkpoint(self.out)
        if saved is None:
            return
        before, now = saved["settings"], self.settings.model_dump(mode="json")
        if changed := sorted(key for key in now if before.get(key) != now[key]):
            raise InputError(
                f"The run in {self.out} was started with another {changed[0]} ({before.get(changed[0])!r}, not "
                f"{now[changed[0]]!r}): use the same settings to go on, or another folder to start anew."
            )
        parameters = dict(self.model.named_parameters())
        with torch.no_grad():
            for name, tensor in saved["weights"].items():
                parameters[name].copy_(tensor)
        if average is not None:
            average.update(saved["average"])
        optimizer.load_state_dict(saved["optimizer"])
        torch.set_rng_state(saved["random"])
        self.position = Position(**saved["position"])

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


def trained(model: SomDst) -> Iterator[tuple[str, Tensor]]:
    """The parameters that change in training."""
    return ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)


def make_optimizer(model: SomDst, settings: Settings) -> torch.optim.AdamW:
    """AdamW with the paper's two learning rates; the decay touches the encoder's matrices only."""
    if settings.freeze_embeddings:
        model.operation_predictor.word_embeddings.weight.requires_grad_(False)
    matrices: list[Tensor] = []
    others: list[Tensor] = []
    decoder: list[Tensor] = []
    for name, parameter in trained(model):
        if name.startswith("value_generator."):
            decoder.append(parameter)
        else:
            (matrices if parameter.dim() > 1 else others).append(parameter)
    groups = [
        {"params": matrices, "peak": settings.encoder_learning_rate, "weight_decay": settings.weight_decay},
        {"params": others, "peak": settings.encoder_learning_rate, "weight_decay": 0.0},
        {"params": decoder, "peak": settings.decoder_learning_rate, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=0.0, eps=1e-6, fused=True)


def schedule(progress: float, warmup: float) -> float:
    """Rises linearly to 1 over the warm-up, then falls linearly to 0."""
    if progress < warmup:
        return progress / warmup
    return max(0.0, (1 - progress) / (1 - warmup))


@torch.no_grad()
def _update_average(average: dict[str, Tensor], model: SomDst, decay: float, step: int) -> None:
    # Short memory at first, so that the average does not carry the untrained weights along.
    decay = min(decay, (1 + step) / (10 + step))
    names, current = zip(*trained(model), strict=True)
    torch._foreach_lerp_([average[name] for name in names], list(current), 1 - decay)


@contextmanager
def _averaged(model: SomDst, average: dict[str, Tensor] | None) -> Iterator[None]:
    """The model with its averaged weights, for as long as the context lasts."""
    if average is None:
        yield
        return
    kept = {name: parameter.detach().clone() for name, parameter in trained(model)}
    _assign(model, average)
    try:
        yield
    finally:
        _assign(model, kept)


@torch.no_grad()
def _assign(model: SomDst, weights: dict[str, Tensor]) -> None:
    for name, parameter in trained(model):
        parameter.copy_(weights[name])
