"""The errors that somdst raises on purpose.

Each has one sentence that says what came, what was expected and what to do next. The command line prints that sentence
and exits with code 2; the service sends it with a 4xx or 5xx status. Anything else that is raised is a bug.
"""

from __future__ import annotations

from collections.abc import Iterable


class SomdstError(Exception):
    """Base of all: catch this to catch everything that somdst raises on purpose."""


def sentence(error: SomdstError) -> str:
    """What an error says, as one line that any encoding can write, whatever it quotes."""
    return " ".join(str(error).split()).encode("utf-8", "backslashreplace").decode()


class SchemaError(SomdstError):
    """A schema file that cannot be used, or a slot that is not in the schema."""


class StateError(SomdstError):
    """Something that is not a dialogue state, or an operation that cannot be applied to it."""


class CorpusError(SomdstError):
    """A corpus, a line or a dialogue that cannot be read."""


class NoSplit(CorpusError):
    """A corpus that lacks the part that is asked for. What it has can be read."""


class ModelError(SomdstError):
    """A model folder that is missing, damaged, too new, or does not fit what it is asked to do."""


class InputError(SomdstError):
    """A turn or an option that cannot be processed."""


class FileError(SomdstError):
    """A file that cannot be written."""


class StoreError(SomdstError):
    """A conversation that cannot be stored or read, or a database that cannot be used."""


class NotFound(StoreError):
    """There is no such conversation, or it belongs to another tenant, or it has expired."""


class Conflict(StoreError):
    """Somebody else wrote to the conversation since it was read."""

    def __init__(self, sentence: str, *, version: int | None = None) -> None:
        super().__init__(sentence)
        self.version = version


class KeyReused(StoreError):
    """An idempotency key that was used before, for something else."""


class Unavailable(StoreError):
    """The database cannot be reached, is locked for too long or has no space left."""


class Overloaded(SomdstError):
    """Too much is going on. Nothing was written: the same request can be sent again."""


class TooMuch(SomdstError):
    """More than a tenant may do or store. Nothing was written."""

    def __init__(self, sentence: str, *, retry_after: int) -> None:
        super().__init__(sentence)
        self.retry_after = retry_after
        """Seconds after which it may be allowed."""


class RequestRefused(SomdstError):
    """A request that is refused before its content is read."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def no_such(what: str, given: str, known: Iterable[str]) -> str:
    """What to say about a name that does not exist.

    >>> no_such("preset", "papper", ["cpu", "paper"])
    'There is no preset "papper"; there are cpu, paper. Did you mean "paper"?'
    """
    names = list(known)
    return f'There is no {what} "{given}"; there are {", ".join(names)}.{did_you_mean(given, names)}'


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint such as ` Did you mean "hotel-area"?`, with a leading space, or nothing.

    >>> did_you_mean("hotel-aera", ["hotel-area", "train-day"])
    ' Did you mean "hotel-area"?'
    """
    from rapidfuzz import fuzz, process  # at the first mistake, not at every start

    near = process.extractOne(word, list(known), scorer=fuzz.ratio, score_cutoff=60)
    return f' Did you mean "{near[0]}"?' if near else ""
