"""The answers about schemas that are checked or listed. One schema is a `SchemaView`, in `views.py` with all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from somdst.memory.schema import Schema
from somdst.service.views import SchemaView
from somdst.tracking.records import JsonRecord

if TYPE_CHECKING:
    from somdst.store import StoredSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSchemaView(SchemaView):
    """A schema that could be stored, and what would make it easier to track."""

    remarks: tuple[str, ...]
    """One sentence each: slots without a description, slots or values that are easily confused."""

    @classmethod
    def checked(cls, schema: Schema) -> CheckedSchemaView:
        from somdst.model.schema_check import check_schema  # not for a client, which only reads answers

        view = SchemaView.of(schema)
        same = {field.name: getattr(view, field.name) for field in fields(SchemaView)}
        return cls(**same, remarks=tuple(remark.message for remark in check_schema(schema)))


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
