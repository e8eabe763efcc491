"""A phone call in Pipecat, from its transcriptions: `python examples/pipecat_call.py`.

It needs `pip install 'somdst[pipecat]'` and runs offline: what speech recognition would have heard is written below. In
a real call the transport, speech recognition and the language model are around the tracker.
"""

import asyncio

from hotel import Hotel
from loguru import logger
from pipecat.frames.frames import EndFrame, Frame, TranscriptionFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.workers.runner import WorkerRunner

from somdst import Schema, Tracker
from somdst.integrations.pipecat import StateFrame, TrackerProcessor

HEARD = ("I am looking for a cheap hotel.", "In the north, please.", "On Friday, and with parking.")


class Desk(FrameProcessor):
    """What the hotel's desk sees: the booking so far, as the application's own model."""

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, StateFrame):
            print("heard  ", frame.transcription.text)
            print("booking", frame.result.state.as_model(Hotel).model.model_dump(exclude_unset=True))
        await self.push_frame(frame, direction)


async def main() -> None:
    # threshold=0: write everything; without it, writes that the model is not sure of wait for an answer
    tracker = Tracker.from_pretrained(schema=Schema.from_pydantic(Hotel), threshold=0)
    worker = PipelineWorker(Pipeline([TrackerProcessor(tracker.start()), Desk()]), enable_rtvi=False)
    for text in HEARD:
        await worker.queue_frame(TranscriptionFrame(text=text, user_id="caller", timestamp=""))
    await worker.queue_frame(EndFrame())
    runner = WorkerRunner()
    await runner.add_workers(worker)
    await runner.run()


if __name__ == "__main__":
    logger.remove()  # Pipecat's own log
    asyncio.run(main())
