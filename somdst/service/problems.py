"""What the service refuses on its own account; everything else that goes wrong is another module's `SomdstError`."""

from __future__ import annotations

from somdst.errors import (
    InputError,
    ModelError,
    SchemaError,
    SomdstError,
    StateError,
)
from somdst.store import Conflict, Full, KeyReused, NotFound, Unavailable


class Overloaded(SomdstError):
    """Too much is under way. Nothing was written: the same request can be sent again."""


class Refused(SomdstError):
    """A request that is refused before anything looks at its content."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


RETRY_AFTER = 1
"""Seconds after which a 503 suggests to try again."""

_STATUS: tuple[tuple[type[SomdstError], int], ...] = (
    (NotFound, 404),
    (Conflict, 409),
    (KeyReused, 422),
    (Full, 422),
    (Overloaded, 503),
    (Unavailable, 503),
    (ModelError, 503),
    (InputError, 422),
    (SchemaError, 422),
    (StateError, 422),
)


def status_of(error: SomdstError) -> int:
    """The HTTP status that goes with an error."""
    if isinstance(error, Refused):
        return error.status
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
