"""`lines_run`: how many lines a call runs. Tests compare work by it, never by time."""

import sys
from collections.abc import Callable
from types import CodeType, FrameType


def lines_run(call: Callable[[], object], *, of: CodeType | None = None) -> int:
    """Lines of one function, or of the whole package."""
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., object] | None:
        nonlocal lines
        if frame.f_code is not of if of else "somdst" not in frame.f_code.co_filename:
            return None
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return lines
