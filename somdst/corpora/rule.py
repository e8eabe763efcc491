"""`Rule`: one step in making text uniform."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple


class Rule(NamedTuple):
    """Every match of `pattern` is replaced by what `replacement` makes of it."""

    pattern: re.Pattern[str]
    replacement: Callable[[re.Match[str]], str]
