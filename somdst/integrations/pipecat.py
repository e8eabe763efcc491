"""Pipecat: `TrackerProcessor`, which takes final transcriptions and emits a `StateFrame` for each.

    pipeline = Pipeline([transport.input(), stt, TrackerProcessor(conversation), user_aggregator, llm, ...])

Transcriptions pass on at once. The tracker runs in a thread, one turn after the other, and the state follows. At the
end of the pipeline all states come before the `EndFrame`; a `CancelFrame` drops what is still waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from somdst.integrations import extra
from somdst.tracking.conversation import Conversation
from somdst.tracking.log import Result

with extra("pipecat"):
    from pipecat.frames.frames import CancelFrame, DataFrame, EndFrame, Frame, StopFrame, TranscriptionFrame
    from pipecat.processors.aggregators.llm_context import LLMContext
    from pipecat.processors.frame_processor import FrameDirection, FrameProcessor, FrameProcessorSetup


@dataclass
class StateFrame(DataFrame):
    """The memory after a transcription. An interruption does not drop it: what the user said stays said."""

    result: Result
    """State, changes with evidence, pending questions."""
    transcription: TranscriptionFrame
    """What was tracked."""
    interruptible: bool = field(default=False, init=False)


class TrackerProcessor(FrameProcessor):
    """Tracks one conversation. It can be read, corrected and undone meanwhile: `processor.conversation`."""

    def __init__(self, conversation: Conversation, *, said: Callable[[], str] | None = None, **options: Any) -> None:
        """`said` gives what the assistant said since the user spoke, which a "yes" refers to: `last_said(context)`."""
        super().__init__(**options)
        self.conversation = conversation
        self._said = said
        self._waiting: asyncio.Queue[tuple[TranscriptionFrame, str]] = asyncio.Queue()
        self._worker: asyncio.Task[None] | None = None

    async def setup(self, setup: FrameProcessorSetup) -> None:
        await super().setup(setup)
        self._worker = self.create_task(self._track())

    async def cleanup(self) -> None:
        await self._stop()
        await super().cleanup()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TranscriptionFrame) and direction is FrameDirection.DOWNSTREAM and frame.text.strip():
            self._waiting.put_nowait((frame, self._said() if self._said else ""))
        elif isinstance(frame, EndFrame | StopFrame):
            await self._waiting.join()
        elif isinstance(frame, CancelFrame):
            await self._stop()
        await self.push_frame(frame, direction)

    async def _track(self) -> None:
        """One turn after the other, so that states come in the order of the transcriptions."""
        while True:
            frame, system = await self._waiting.get()
            try:
                result = await self.conversation.update_async(user=frame.text, system=system)
                await self.push_frame(StateFrame(result=result, transcription=frame))
            except Exception as error:  # one bad turn does not end a call
                await self.push_error(str(error), exception=error)
            finally:
                self._waiting.task_done()

    async def _stop(self) -> None:
        if self._worker is not None:
            worker, self._worker = self._worker, None
            await self.cancel_task(worker)


def last_said(context: LLMContext) -> Callable[[], str]:
    """A function that reads what the assistant said since the user spoke, from the context of the pipeline's LLM."""

    def read() -> str:
        said: list[str] = []
        for message in reversed(context.get_messages()):
            role, content = (message.get("role"), message.get("content")) if isinstance(message, dict) else (None, None)
            if role == "user":
                break
            if role == "assistant" and isinstance(content, str):
                said.append(content)
        return " ".join(reversed(said))

    return read
