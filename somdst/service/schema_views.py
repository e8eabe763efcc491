"""The answers with lists of schemas. One schema is a `SchemaView`, which is in `views.py` with all other answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from somdst.tracking.records import JsonRecord

if TYPE_CHECKING:
    from somdst.store import StoredSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSummary(JsonRecord):
    """A schema in a list."""

    id: str
    created_at: datetime
    domains: tuple[str, ...]
    slots: int
    """How many it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPageView(JsonRecord):
    schemas: tuple[SchemaSummary, ...]
    next: str | None
    """Give it as `cursor` to get the next page; null at the end."""

    @classmethod
    def of(cls, found: Sequence[StoredSchema], *, next: str | None) -> SchemaPageView:
        summaries = (
            SchemaSummary(
                id=item.id,
                created_at=datetime.fromtimestamp(item.created_at, UTC),
                domains=item.schema.domains,
                slots=len(item.schema),
            )
            for item in found
        )
        return cls(schemas=tuple(summaries), next=next)
