"""What `check` finds: kinds of findings and how bad they are, findings with their place, and all findings together.

Does not look for them; see `check.py`. Does not print them; see `cli/data.py`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple


class Severity(StrEnum):
    HARM = "harm"
    SUSPICIOUS = "suspicious"


class Kind(StrEnum):
    """What can be found. The value is the name in JSON; `WORDS` has the words for people."""

    UNREADABLE = "unreadable"
    UNLABELLED = "unlabelled"
    UNKNOWN_SLOT = "unknown-slot"
    CLOSED_LIST = "outside-closed-list"
    SAME_VALUE = "same-value"
    UNREACHABLE = "unreachable"
    TRUNCATED = "truncated"
    CURRENT_TRUNCATED = "current-turn-truncated"
    LONG_VALUE = "value-too-long"
    RETURNS = "drops-and-returns"
    SPELLINGS = "two-spellings"
    NOWHERE = "value-nowhere"
    NULL_WORD = "word-for-nothing"
    UNKNOWN_DOMAIN = "unknown-domain"
    NO_TEXT = "empty-user-text"
    SAME_ID = "same-id"
    NEVER_FILLED = "never-filled"
    LEFT_OUT = "left-out"

    @property
    def severity(self) -> Severity:
        return Severity.HARM if self in _HARMFUL else Severity.SUSPICIOUS

    @property
    def words(self) -> str:
        return WORDS[self]


_HARMFUL = frozenset(
    {Kind.UNREADABLE, Kind.UNLABELLED, Kind.UNKNOWN_SLOT, Kind.CLOSED_LIST, Kind.UNREACHABLE}
    | {Kind.CURRENT_TRUNCATED, Kind.LONG_VALUE}
)
WORDS = {
    Kind.UNREADABLE: "lines that cannot be read",
    Kind.UNLABELLED: "turns without a state",
    Kind.UNKNOWN_SLOT: "slots outside the schema",
    Kind.CLOSED_LIST: "values outside a closed list",
    Kind.SAME_VALUE: "slots with the same value that the schema calls different",
    Kind.UNREACHABLE: "states that no operation can write",
    Kind.TRUNCATED: "inputs whose previous turn is cut",
    Kind.CURRENT_TRUNCATED: "inputs whose current turn is cut",
    Kind.LONG_VALUE: "values too long to be generated",
    Kind.RETURNS: "slots dropped and brought back",
    Kind.SPELLINGS: "values in two spellings",
    Kind.NOWHERE: "values that nobody said in the dialogue",
    Kind.NULL_WORD: "words that seem to mean nothing or anything",
    Kind.UNKNOWN_DOMAIN: "turn domains outside the schema",
    Kind.NO_TEXT: "turns in which the user says nothing",
    Kind.SAME_ID: "dialogues with the same id",
    Kind.NEVER_FILLED: "slots that no dialogue fills",
    Kind.LEFT_OUT: "dialogues left out by the rules of the corpus",
}


class Place(NamedTuple):
    """Where something was found; lines and turns count from 1. None: not known."""

    file: str
    line: int | None = None
    dialogue: str | None = None
    turn: int | None = None

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        where += f", dialogue {self.dialogue}" if self.dialogue is not None else ""
        return where + (f", turn {self.turn}" if self.turn is not None else "")


@dataclass(frozen=True, slots=True)
class Finding:
    kind: Kind
    place: Place
    message: str
    slot: str | None = None

    def to_json(self) -> dict[str, Any]:
        about = {"kind": str(self.kind), "severity": str(self.kind.severity), **self.place._asdict()}
        return about | {"slot": self.slot, "message": self.message}


@dataclass(frozen=True, slots=True)
class Findings:
    dialogues: int
    turns: int
    findings: tuple[Finding, ...]

    @property
    def counts(self) -> dict[Kind, int]:
        """Every kind that was found, with its number, the harmful first."""
        found = Counter(finding.kind for finding in self.findings)
        return {kind: found[kind] for kind in sorted(found, key=lambda kind: (kind.severity, -found[kind]))}

    def number(self, severity: Severity) -> int:
        return sum(finding.kind.severity is severity for finding in self.findings)

    @property
    def harmful(self) -> bool:
        return self.number(Severity.HARM) > 0

    def to_json(self) -> dict[str, Any]:
        return {
            "dialogues": self.dialogues,
            "turns": self.turns,
            "harm": self.number(Severity.HARM),
            "suspicious": self.number(Severity.SUSPICIOUS),
            "counts": {str(kind): number for kind, number in self.counts.items()},
            "findings": [finding.to_json() for finding in self.findings],
        }
