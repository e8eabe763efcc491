"""Stored conversations under another model: what would be different. Nothing is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from somdst.store import Store
from somdst.tracking.log import replay
from somdst.tracking.replays import Difference, rerun
from somdst.tracking.tracker import Tracker


@dataclass(frozen=True, slots=True)
class Replayed:
    """What would be different, by conversation."""

    model: str
    turns: Mapping[str, int]
    differences: Mapping[str, Sequence[Difference]]


def replayed(
    store: Store, tenant: str, tracker: Tracker, *, conversations: Sequence[str] | None, limit: int
) -> Replayed:
    """The named conversations of a tenant, or the newest ones, under another tracker."""
    ids = conversations or [record.id for record in store.page(tenant, limit=limit).records]
    logs = {id: store.log(tenant, id) for id in ids}
    turns = {id: replay(log).turn_count for id, log in logs.items()}
    named = {entry.schema.after for log in logs.values() for entry in log if entry.schema}
    schemas = {id: store.schemas.of_conversation(tenant, id) for id in named if id}
    return Replayed(tracker.predictor.model_id, turns, rerun(tracker, logs, schemas=schemas))
