"""What a write changed, as JSON Patch (RFC 6902) and as JSON Merge Patch (RFC 7386).

Both are for a document with `version`, `state` and `pending`, which `Result.to_json()` and `GET /v1/conversations/{id}`
have. Applied to the document before the write, they give these three as they are after it. In `state`, a slot that is
absent is unset, and "dontcare" means no preference. A deletion is a `remove`, or null in a merge patch.

A JSON Patch begins with a `test` of the version, so that it applies once, and to the right document. Probability and
evidence are members of the operations: RFC 6902 (section 4) says that other members are ignored. A merge patch has no
such place, so it also sets `changes`. Questions are in `pending`. Writes that were refused changed nothing and are in
neither; the entry of the log has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from somdst.memory.filling import Filled
from somdst.memory.state import State, value_to_json
from somdst.model.prediction import Evidence
from somdst.tracking.records import Change, Entry, JsonRecord, Pending, Refused

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class PatchOperation(JsonRecord):
    """An operation of a JSON Patch. Members that are null are left out."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"use_attribute_docstrings": True}

    op: Literal["test", "add", "replace", "remove"]
    path: str
    """`/version`, `/state/` with a slot, or `/pending`; "~" and "/" in a slot are written "~0" and "~1"."""
    value: int | str | tuple[Pending, ...] | None = None
    """The version, the slot's value, or every write that waits for an answer."""
    probability: float | None = None
    """Calibrated probability that the change is right; absent where a person made it."""
    evidence: Evidence | None = None
    """Where the value was copied from."""


@dataclass(frozen=True, slots=True)
class MergePatch(JsonRecord):
    """A JSON Merge Patch."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"use_attribute_docstrings": True}

    version: int
    """The version after the write. A merge patch cannot test: compare it with your own, which must be one less."""
    state: dict[str, str | None]
    """The slots that changed; null deletes."""
    changes: tuple[Change, ...]
    """The same with probability and evidence."""
    pending: tuple[Pending, ...] | None = None
    """Every write that waits for an answer, with its question; absent where none came and none went."""


class Outcome(Protocol):
    """What a write led to: a `Result`, or the service's `Answer`."""

    @property
    def state(self) -> State: ...
    @property
    def entry(self) -> Entry: ...
    @property
    def pending(self) -> tuple[Pending, ...]: ...


class Patches:
    """What every outcome has."""

    __slots__ = ()

    @property
    def changes(self: Outcome) -> tuple[Change, ...]:
        return self.entry.changes

    @property
    def refused(self: Outcome) -> tuple[Refused, ...]:
        return self.entry.refused

    def json_patch(self: Outcome) -> list[dict[str, Any]]:
        """The write as a JSON Patch: what to do with the document before it."""
        entry = self.entry
        changed = [change for change in entry.changes if change.after != change.before]
        operations = [PatchOperation("test", "/version", entry.version - 1), *map(_operation, changed)]
        if entry.held or entry.released:
            operations.append(PatchOperation("add", "/pending", self.pending))
        operations.append(PatchOperation("replace", "/version", entry.version))
        return [_without_null(operation) for operation in operations]

    def merge_patch(self: Outcome) -> dict[str, Any]:
        """The write as a JSON Merge Patch."""
        entry = self.entry
        state = {change.slot: None if change.after is None else value_to_json(change.after) for change in entry.changes}
        pending = self.pending if entry.held or entry.released else None
        return _without_null(MergePatch(entry.version, state, entry.changes, pending))

    def as_model(self: Outcome, model: type[M], *, domain: str | None = None) -> Filled[M]:
        """The state as an instance of a pydantic model, and notes on what did not fit; see `State.as_model`."""
        return self.state.as_model(model, domain=domain)


def _operation(change: Change) -> PatchOperation:
    path = f"/state/{change.slot.replace('~', '~0').replace('/', '~1')}"
    if change.after is None:
        return PatchOperation("remove", path, None, change.probability, change.evidence)
    op: Literal["add", "replace"] = "add" if change.before is None else "replace"
    return PatchOperation(op, path, value_to_json(change.after), change.probability, change.evidence)


def _without_null(record: JsonRecord) -> dict[str, Any]:
    return {key: value for key, value in record.to_json().items() if value is not None}
