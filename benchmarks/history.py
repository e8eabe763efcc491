"""What the clients of a conversation store saw, and whether a store that keeps its contract could have shown it.

`check` takes a history (every call with its answer, and what the database holds at the end) and gives the violations of
docs/contract.md. It is a pure function over plain JSON and imports nothing of somdst: what the store says is compared
with a replay of its own. Does not send anything (`torture.py`) and breaks nothing (`nemesis.py`).
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = Mapping[str, Any]
WRITES = frozenset({"turn", "correction", "undo", "redo"})
READS = frozenset({"read", "log", "version"})


@dataclass(frozen=True, slots=True)
class Call:
    """One request and what came back. Times are ticks of one counter, so that they order all calls of all clients."""

    kind: str
    """turn, correction, undo, redo, read, log (from its start), version (a past one), create or erase."""
    conversation: str
    """Its id; empty for a create that was not acknowledged."""
    began: int
    ended: int
    status: int | None
    """Of the answer; None if there was none: the connection was lost, the client hung up or lost its patience."""
    request: str = ""
    """What was asked for, as text: the same text and key are the same request."""
    key: str | None = None
    mark: str | None = None
    """For a turn what the user says, for a correction the value, for a create the subject: text that no other request
    has."""
    named: int | None = None
    """The version that the request named."""
    answer: Json = field(default_factory=dict)
    clock: float | None = None
    """The earliest that the service's clock can have been, in seconds since 1970."""
    expires: float | None = None
    """When the conversation in the answer expires."""

    @property
    def acknowledged(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def unknown(self) -> bool:
        """It was done, or will be, or was not: the client cannot tell."""
        return self.status is None or self.status >= 500


@dataclass(frozen=True, slots=True)
class Stored:
    """A conversation as the database has it at the end."""

    version: int
    state: Mapping[str, str]
    entries: Sequence[Json]


@dataclass(frozen=True, slots=True)
class History:
    calls: Sequence[Call]
    stored: Mapping[str, Stored]
    """By id. What was erased is not there."""
    remains: Sequence[str] = ()
    """Where text of erased or expired conversations was found at the end."""
    complete: bool = False
    """Only these clients used the database, and `stored` is all of it."""


@dataclass(frozen=True, slots=True)
class Violation:
    promise: str
    """As docs/contract.md names it."""
    conversation: str
    problem: str


@dataclass(frozen=True, slots=True)
class Operation:
    """What a client wanted to be done once: all calls with the same key and the same request."""

    calls: Sequence[Call]

    @property
    def first(self) -> Call:
        return self.calls[0]

    @property
    def answers(self) -> list[Call]:
        return [call for call in self.calls if call.acknowledged]

    @property
    def unknown(self) -> bool:
        return any(call.unknown for call in self.calls)

    @property
    def may_be_done(self) -> bool:
        """A conflict is final: the named version is gone for ever."""
        return bool(self.answers) or (self.unknown and not any(call.status == 409 for call in self.calls))


def check(history: History) -> list[Violation]:
    """Everything that contradicts the contract; nothing if all of it can be true."""
    calls: dict[str, list[Call]] = defaultdict(list)
    for call in sorted(history.calls, key=lambda call: call.began):
        calls[call.conversation].append(call)
    found = [*_keys(history.calls), *_unseen(history)]
    found += [Violation("erased", "", f"text that was erased is in {place}") for place in history.remains]
    calls.pop("", None)  # conversations that were never acknowledged
    for id, made in calls.items():
        stored = history.stored.get(id)
        operations = list(_operations(call for call in made if call.kind in WRITES))
        checks = [_order(made, operations), _named(operations), _erased(made, stored), _expired(made)]
        if stored is not None:
            states = _replayed(stored.entries)
            checks += [_versions(stored), _durable(operations, stored), _once(operations, stored)]
            checks += [_states(made, stored, states), _prefixes(made, stored)]
        found += [Violation(promise, id, problem) for one in checks for promise, problem in one]
    return found


Found = Iterator[tuple[str, str]]
"""Promises that were broken, and how."""


def _operations(calls: Iterable[Call]) -> Iterator[Operation]:
    groups: dict[object, list[Call]] = defaultdict(list)
    for call in calls:
        groups[(call.key, call.kind, call.request) if call.key else id(call)].append(call)
    yield from map(Operation, groups.values())


def _keys(calls: Sequence[Call]) -> Iterator[Violation]:
    """One key, one request, one answer; over all conversations, because a key belongs to a tenant. It is forgotten when
    its conversation is erased."""
    erasures = _erasures(calls)
    answered: dict[str, dict[str, Call]] = defaultdict(dict)  # by key and conversation
    for call in calls:
        if call.key is None or not call.acknowledged:
            continue
        firsts = answered[call.key]
        first = firsts.setdefault(call.conversation, call)
        same = (first.kind, first.request) == (call.kind, call.request)
        if same and first.answer != call.answer:
            yield Violation("keys", call.conversation, f"two answers to the key {call.key} differ")
        if not same or any(not _follows(erasures, call, other) for other in firsts.values() if other is not first):
            yield Violation("keys", call.conversation, f"the key {call.key} was accepted for two different requests")


def _erasures(calls: Iterable[Call]) -> dict[str, int]:
    """When each conversation may have been erased at the earliest."""
    began: dict[str, int] = {}
    for call in calls:
        if call.kind == "erase":
            began[call.conversation] = min(call.began, began.get(call.conversation, call.began))
    return began


def _follows(erasures: Mapping[str, int], one: Call, other: Call) -> bool:
    """Whether the conversation of one of two calls may have been erased before the other call was done."""
    ends = (erasures.get(one.conversation), other.ended), (erasures.get(other.conversation), one.ended)
    return any(began is not None and began < ended for began, ended in ends)


def _unseen(history: History) -> Iterator[Violation]:
    """Conversations that no client was told of. A key whose create got no answer explains one of them, unless another
    call with that key was answered: then that one is what it made, until it is erased."""
    if not history.complete:
        return
    erasures = _erasures(history.calls)
    creates: dict[object, list[Call]] = defaultdict(list)
    for call in history.calls:
        if call.kind == "create":
            creates[call.key or id(call)].append(call)
    told = {call.conversation for made in creates.values() for call in made if call.acknowledged}
    lost = sum(
        any(call.unknown for call in made) and all(call.conversation in erasures for call in made if call.acknowledged)
        for made in creates.values()
    )
    for conversation in sorted(history.stored.keys() - told)[lost:]:
        problem = f"it is in the database and nobody was told of it; {lost} creates got no answer"
        yield Violation("keys", conversation, problem)


def _versions(stored: Stored) -> Found:
    numbers = [entry["version"] for entry in stored.entries]
    if numbers != list(range(1, stored.version + 1)):
        yield "versions", f"its version is {stored.version} and its log has the versions {numbers}"


def _order(calls: Sequence[Call], operations: Sequence[Operation]) -> Found:
    """What begins after an answer is after it: a later version for a write, at least the same for a read."""
    seen: list[tuple[int, int, int, bool]] = []  # began, ended, version, is a write
    for operation in operations:
        if answers := operation.answers:
            ended = min(call.ended for call in answers)
            seen.append((operation.first.began, ended, answers[0].answer["version"], True))
    for call in calls:
        reads = call.acknowledged and call.kind in READS - {"version"}
        if (reads or call.status == 409) and "version" in call.answer:
            seen.append((call.began, call.ended, call.answer["version"], False))
    given = Counter(version for _, _, version, write in seen if write)
    yield from (
        ("versions", f"version {version} was given {times} times") for version, times in given.items() if times > 1
    )
    by_end = sorted((ended, version) for _, ended, version, _ in seen)
    ends, newest = [ended for ended, _ in by_end], 0
    highest = [newest := max(newest, version) for _, version in by_end]
    for began, _, version, write in seen:
        before = bisect_left(ends, began)
        known = highest[before - 1] if before else 0
        if version < known or (write and version == known):
            what = "a write got" if write else "a read saw"
            yield "order", f"{what} version {version} after version {known} had been answered"


def _named(operations: Sequence[Operation]) -> Found:
    for operation in operations:
        for call in operation.calls:
            version = call.answer.get("version")
            if call.named is None:
                if call.status == 409:
                    yield "named versions", f"a {call.kind} that named no version was refused with 409"
            elif call.acknowledged and version != call.named + 1:
                yield "named versions", f"a {call.kind} from version {call.named} became version {version}"
            elif call.status == 409 and version == call.named:
                yield "named versions", f"a {call.kind} from version {call.named} was refused at that version"


def as_text(record: object) -> str:
    """A record as one string. A long run keeps the entries of its answers so: as objects they take twenty times the
    memory."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"))


def _durable(operations: Sequence[Operation], stored: Stored) -> Found:
    for operation in operations:
        for call in operation.answers[:1]:
            version = call.answer["version"]
            entry = stored.entries[version - 1] if version <= len(stored.entries) else None
            shown = call.answer["entry"]
            if shown != (as_text(entry) if isinstance(shown, str) else entry):
                yield "durable", f"the {call.kind} acknowledged as version {version} is not in the log there"


def _once(operations: Sequence[Operation], stored: Stored) -> Found:
    """Every entry was asked for, every acknowledged request has one, and no request has two."""
    entries = Counter((entry["kind"], _mark(entry)) for entry in stored.entries)
    asked: dict[tuple[str, str | None], list[Operation]] = defaultdict(list)
    for operation in operations:
        asked[operation.first.kind, operation.first.mark].append(operation)
    for what, times in entries.items():
        most = sum(operation.may_be_done for operation in asked.get(what, ()))
        if times > most:
            kind, mark = what
            name = f"the {kind} {mark!r}" if mark else f"{kind}"
            if any(operation.may_be_done for operation in asked.get(what, ())):
                yield "keys", f"{name} is in the log {times} times and was to be done {most} times"
            elif what in asked:
                yield "refusals", f"{name} was refused and is in the log"
            else:
                yield "versions", f"{name} is in the log and nobody asked for it"
    for what, wanted in asked.items():
        least = sum(bool(operation.answers) for operation in wanted)
        if entries[what] < least:
            yield (
                "durable",
                f"{what[0]} {what[1] or ''} was acknowledged {least} times and is there {entries[what]} times",
            )


def _mark(entry: Json) -> str | None:
    if entry["kind"] == "turn":
        return str(entry["turn"]["user"])
    return str(entry["changes"][0]["after"]) if entry["kind"] == "correction" else None


@dataclass(frozen=True, slots=True)
class _Memory:
    state: Mapping[str, str]
    pinned: frozenset[str]
    turns: int


def _replayed(entries: Sequence[Json]) -> list[_Memory]:
    """The memory at every version, from the start. Written by hand: the store's own replay is what is being checked."""
    state: dict[str, str] = {}
    pinned: frozenset[str] = frozenset()
    turns = 0
    memories = [_Memory({}, pinned, 0)]
    for entry in entries:
        for change in entry["changes"]:
            if change["after"] is None:
                state.pop(change["slot"], None)
            else:
                state[change["slot"]] = change["after"]
        pinned = pinned.union(entry["pinned"]).difference(entry["unpinned"])
        if entry["turn"] is not None:
            turns += -1 if entry["kind"] == "undo" else 1
        memories.append(_Memory(dict(state), pinned, turns))
    return memories


def _states(calls: Sequence[Call], stored: Stored, memories: Sequence[_Memory]) -> Found:
    if stored.state != memories[-1].state:
        yield "replay", "the stored memory is not what the log adds up to"
    for call in calls:
        if not call.acknowledged or "state" not in call.answer:
            continue
        version = call.answer["version"]
        if call.kind == "version" and version != call.named:
            yield "replay", f"version {call.named} was asked for and version {version} was shown"
        if version >= len(memories):
            if call.kind not in WRITES:  # a write is reported as lost
                yield "prefixes", f"a {call.kind} showed version {version}, which is not in the log"
            continue
        memory = memories[version]
        shown = call.answer["state"], frozenset(call.answer["pinned"]), call.answer.get("turn_count", memory.turns)
        if shown != (memory.state, memory.pinned, memory.turns):
            yield "replay", f"a {call.kind} showed another memory at version {version} than the log adds up to"


def _prefixes(calls: Sequence[Call], stored: Stored) -> Found:
    for call in calls:
        if call.kind == "log" and call.acknowledged:
            shown, version = call.answer["entries"], call.answer["version"]
            if len(shown) != version or shown != list(stored.entries[:version]):
                yield (
                    "prefixes",
                    f"the log at version {version} was shown with {len(shown)} entries, not its own",
                )


def _erased(calls: Sequence[Call], stored: Stored | None) -> Found:
    erasures = [call for call in calls if call.kind == "erase"]
    began = min((call.began for call in erasures), default=None)
    ended = min((call.ended for call in erasures if call.acknowledged), default=None)
    last = max((call.expires for call in calls if call.expires is not None), default=None)
    if ended is not None and stored is not None:
        yield "erased", "it was erased and is in the database"
    if began is None and stored is None:
        yield "durable", "the conversation is gone and nobody erased it"
    for call in calls:
        if ended is not None and call.began > ended and call.acknowledged:
            yield "erased", f"a {call.kind} succeeded after it was erased"
        expired = call.clock is not None and last is not None and last <= call.clock
        if call.status == 404 and not expired and (began is None or call.ended < began):
            yield "durable", f"a {call.kind} did not find the conversation, which nobody had erased"


def _expired(calls: Sequence[Call]) -> Found:
    for call in calls:
        if call.acknowledged and call.expires is not None and call.clock is not None and call.expires <= call.clock:
            yield "expired", f"a {call.kind} showed it {call.clock - call.expires:g} s after its time was over"


def count(history: History) -> dict[str, int]:
    """What happened, in numbers."""
    calls = history.calls
    operations = list(_operations(call for call in calls if call.kind in WRITES))
    asked = _operations(call for call in calls if call.kind in WRITES | {"create"})
    requests = Counter(operation.first.key for operation in asked)
    return {
        "calls": len(calls),
        "writes": len(operations),
        "acknowledged": sum(bool(operation.answers) for operation in operations),
        "repeated": sum(len(operation.calls) - 1 for operation in operations),
        "conflicts": sum(call.status == 409 for call in calls),
        "reused keys refused": sum(call.status == 422 and requests[call.key] > 1 for call in calls),
        "503": sum(call.status == 503 for call in calls),
        "without an answer": sum(call.status is None for call in calls),
        "reads": sum(call.kind in READS and call.acknowledged for call in calls),
        "erased": sum(call.kind == "erase" and call.acknowledged for call in calls),
        "entries": sum(len(stored.entries) for stored in history.stored.values()),
    }
