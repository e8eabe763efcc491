"""What can go wrong with stored conversations, told apart because the service answers each with another status."""

from __future__ import annotations

from somdst.errors import StoreError


class NotFound(StoreError):
    """There is no such conversation, or it belongs to another tenant, or it has expired."""


class Conflict(StoreError):
    """Somebody else wrote to the conversation since it was read."""

    def __init__(self, sentence: str, *, version: int | None = None) -> None:
        super().__init__(sentence)
        self.version = version


class KeyReused(StoreError):
    """An idempotency key that was used before, for something else."""


class Full(StoreError):
    """A conversation that has reached its greatest length."""


class Unavailable(StoreError):
    """The database cannot be reached, is locked for too long or has no space left."""
