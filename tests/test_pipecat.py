"""The Pipecat processor in real pipelines under the real runner: order, no blocking, end and cancellation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from pipecat.frames.frames import (
    CancelFrame,
    EndFrame,
    ErrorFrame,
    Frame,
    InterimTranscriptionFrame,
    InterruptionFrame,
    TextFrame,
    TranscriptionFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.workers.runner import WorkerRunner
from scripted import RulePredictor
from waiting import LIMIT

from somdst import Tracker
from somdst.integrations.pipecat import StateFrame, TrackerProcessor, last_said
from somdst.memory.operations import Operation
from somdst.model.prediction import Prediction, TurnInput


class GatedPredictor(RulePredictor):
    """Waits until the gate is open, and says that it waits."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.gate = threading.Event(), threading.Event()

    def predict(
        self, inputs: Sequence[TurnInput], *, operations: Sequence[Mapping[str, Operation]] | None = None
    ) -> list[Prediction]:
        self.entered.set()
        assert self.gate.wait(LIMIT)
        return super().predict(inputs, operations=operations)


class Sink(FrameProcessor):
    """The end of the pipeline: keeps what arrives, and says so."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[Frame] = []
        self.arrived = asyncio.Condition()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        async with self.arrived:
            self.frames.append(frame)
            self.arrived.notify_all()
        await self.push_frame(frame, direction)

    def of(self, *kinds: type) -> list[Any]:
        return [frame for frame in self.frames if isinstance(frame, kinds)]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT), self.arrived:
            await self.arrived.wait_for(condition)


Script = Callable[[PipelineWorker, Sink], Awaitable[None]]


def run(processor: TrackerProcessor, script: Script) -> Sink:
    """A pipeline of the processor and a sink, under the real runner, while the script sends frames."""

    async def main() -> Sink:
        sink = Sink()
        limits = {f"{what}_timeout_secs": LIMIT for what in ("setup", "start", "cancel", "idle")}
        worker = PipelineWorker(Pipeline([processor, sink]), enable_rtvi=False, **limits)
        started = asyncio.Event()

        @worker.event_handler("on_pipeline_started")
        async def on_pipeline_started(_worker: Any, _frame: Any) -> None:
            started.set()

        async def send() -> None:
            await started.wait()
            await script(worker, sink)

        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(worker)
        async with asyncio.timeout(LIMIT):
            await asyncio.gather(runner.run(), send())
        return sink

    return asyncio.run(main())


def heard(text: str) -> TranscriptionFrame:
    return TranscriptionFrame(text=text, user_id="caller", timestamp="2026-01-01T00:00:00Z")


def processor(predictor: RulePredictor | None = None, **options: Any) -> TrackerProcessor:
    return TrackerProcessor(Tracker(predictor or RulePredictor(), threshold=0.5).start(), **options)


def test_every_final_transcription_gives_a_state_and_the_end_comes_last() -> None:
    said = ["hotel area north", "maybe hotel stars 4", "hotel area south"]

    async def script(worker: PipelineWorker, sink: Sink) -> None:
        for text in said:
            await worker.queue_frame(InterimTranscriptionFrame(text="hotel name", user_id="caller", timestamp=""))
            await worker.queue_frame(heard(text))
        await worker.queue_frame(EndFrame())

    sink = run(processor(), script)
    states = sink.of(StateFrame)
    assert [dict(frame.result.state) for frame in states] == [
        {"hotel-area": "north"},
        {"hotel-area": "north"},
        {"hotel-area": "south"},
    ]
    assert [frame.transcription.text for frame in states] == [
        "hotel area north",
        "maybe hotel stars 4",
        "hotel area south",
    ]
    assert states[1].result.pending[0].question == "Did you mean 4 for the number of stars of the hotel?"
    assert len(sink.of(TranscriptionFrame)) == 3 and len(sink.of(InterimTranscriptionFrame)) == 3
    assert isinstance(sink.frames[-1], EndFrame)


def test_the_pipeline_goes_on_while_the_model_runs() -> None:
    predictor = GatedPredictor()

    async def script(worker: PipelineWorker, sink: Sink) -> None:
        await worker.queue_frame(heard("hotel area north"))
        await worker.queue_frame(TextFrame("meanwhile"))
        await sink.until(lambda: any(type(frame) is TextFrame for frame in sink.frames))
        assert sink.of(TranscriptionFrame) and not sink.of(StateFrame)
        predictor.gate.set()
        await sink.until(lambda: bool(sink.of(StateFrame)))
        await worker.queue_frame(EndFrame())

    assert dict(run(processor(predictor), script).of(StateFrame)[0].result.state) == {"hotel-area": "north"}


def test_the_end_waits_for_the_states() -> None:
    predictor = GatedPredictor()

    async def script(worker: PipelineWorker, sink: Sink) -> None:
        await worker.queue_frames([heard("hotel area north"), heard("hotel stars 4"), EndFrame()])
        await asyncio.to_thread(predictor.entered.wait, LIMIT)
        assert not sink.of(EndFrame)
        predictor.gate.set()

    sink = run(processor(predictor), script)
    assert [type(frame) for frame in sink.of(StateFrame, EndFrame)] == [StateFrame, StateFrame, EndFrame]


def test_an_interruption_drops_no_state() -> None:
    predictor = GatedPredictor()

    async def script(worker: PipelineWorker, sink: Sink) -> None:
        await worker.queue_frame(heard("hotel area north"))
        await asyncio.to_thread(predictor.entered.wait, LIMIT)
        await worker.queue_frame(InterruptionFrame())
        await sink.until(lambda: bool(sink.of(InterruptionFrame)))
        predictor.gate.set()
        await worker.queue_frames([heard("hotel stars 4"), EndFrame()])

    sink = run(processor(predictor), script)
    assert [dict(frame.result.state) for frame in sink.of(StateFrame)] == [
        {"hotel-area": "north"},
        {"hotel-area": "north", "hotel-stars": "4"},
    ]


def test_a_cancelled_pipeline_does_not_wait_for_the_model() -> None:
    predictor = GatedPredictor()

    async def script(worker: PipelineWorker, sink: Sink) -> None:
        await worker.queue_frames([heard("hotel area north"), heard("hotel stars 4")])
        await asyncio.to_thread(predictor.entered.wait, LIMIT)
        await worker.cancel()
        await sink.until(lambda: bool(sink.of(CancelFrame)))
        predictor.gate.set()  # after the cancellation came through: only the thread is still there

    sink = run(processor(predictor), script)
    assert not sink.of(StateFrame) and sink.of(CancelFrame)


def test_a_turn_that_cannot_be_tracked_is_an_error_frame_and_the_next_one_is_tracked() -> None:
    errors: list[ErrorFrame] = []

    async def script(worker: PipelineWorker, sink: Sink) -> None:
        @worker.event_handler("on_pipeline_error")
        async def on_pipeline_error(_worker: Any, frame: ErrorFrame) -> None:
            errors.append(frame)

        await worker.queue_frames([heard("x" * 20_001), heard("   "), heard("hotel area north"), EndFrame()])

    states = run(processor(), script).of(StateFrame)
    assert [dict(frame.result.state) for frame in states] == [{"hotel-area": "north"}]
    assert len(errors) == 1 and "20,001 characters" in errors[0].error


def test_what_the_assistant_said_is_part_of_the_turn() -> None:
    context = LLMContext([{"role": "system", "content": "Be kind."}])

    async def script(worker: PipelineWorker, sink: Sink) -> None:
        for message in (
            None,
            {"role": "assistant", "content": "So hotel area north?"},
            {"role": "user", "content": "yes"},
        ):
            if message:
                context.add_message(message)
            await worker.queue_frame(heard("yes"))
            done = len(sink.of(StateFrame)) + 1
            await sink.until(lambda done=done: len(sink.of(StateFrame)) == done)
        await worker.queue_frame(EndFrame())

    states = run(processor(said=last_said(context)), script).of(StateFrame)
    assert [frame.result.entry.turn.system for frame in states] == ["", "So hotel area north?", ""]
    assert [dict(frame.result.state) for frame in states] == [{}, {"hotel-area": "north"}, {"hotel-area": "north"}]


def test_the_shipped_model_in_a_pipeline() -> None:
    async def script(worker: PipelineWorker, sink: Sink) -> None:
        await worker.queue_frames([heard("I need a cheap hotel in the north."), EndFrame()])

    tracker = TrackerProcessor(Tracker.from_pretrained(threshold=0).start())
    state = run(tracker, script).of(StateFrame)[0].result.state
    assert state["hotel-area"] == "north" and state["hotel-pricerange"] == "cheap"
    assert tracker.conversation.state == state
