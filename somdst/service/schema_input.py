"""The schemas that come in: read from what people have, and limited to what a service can carry for many of them.

A schema is a JSON object, in somdst's own form, as JSON Schema or as tool definitions, or the text of a file with one
of these, as YAML or JSON. Everything that is refused is refused here, before anything is stored, with one sentence.
Does not read the forms itself; see `memory/schema.py` and `memory/json_schema.py`.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from somdst.errors import SchemaError
from somdst.memory.schema import Schema, Slot
from somdst.memory.schema_text import read_yaml

MAX_SLOTS = 200
"""The model reads one token per slot, of the few hundred that it can read at all."""
MAX_VALUES = 500
"""In one closed list. A longer list is a catalogue: leave the slot open and look the value up in your own data."""
MAX_ALL_VALUES = 2_000
MAX_NAME = 100
MAX_DESCRIPTION = 1_000
MAX_VALUE = 200
MAX_QUESTION = 300
"""Characters of a domain or a slot's name, of a description, of a listed value, and of `ask` and `confirm`."""
MAX_PAIRS = 1_000
"""Pairs of slots that must differ; 45 slots together are 990."""


def read_schema(given: Mapping[str, Any] | str) -> Schema:
    """The schema of a request. One that cannot be read, or is too large to serve, is a `SchemaError`.

    >>> read_schema("domains: {pizza: {size: [small, large]}}")
    Schema(1 slots over pizza)
    """
    schema = Schema.from_json(_parse(given) if isinstance(given, str) else given)
    _check_count(len(schema), MAX_SLOTS, "slots")
    for slot in schema.slots:
        _check_slot(slot)
    _check_count(sum(len(slot.values or ()) for slot in schema.slots), MAX_ALL_VALUES, "values in its closed lists")
    _check_count(len(schema.different), MAX_PAIRS, "pairs of slots that must differ")
    if twice := _repeated(schema.slots):
        raise SchemaError(
            f'Two slots have the same name "{_shown(twice)}", apart from capitals, spaces and underscores: rename one.'
        )
    return schema


def _parse(text: str) -> Any:
    """JSON says itself what is a number; every scalar of YAML stays text."""
    if not text.strip():
        raise SchemaError("The schema is empty: write `domains:`, then a domain and its slots under it.")
    try:
        if text.lstrip()[0] in "{[":
            return json.loads(text)
        return read_yaml(text, aliases=False)
    except json.JSONDecodeError as error:
        raise SchemaError(f"The schema is not valid JSON: {error.msg} in line {error.lineno}.") from error
    except yaml.MarkedYAMLError as error:
        place = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise SchemaError(f"The schema is not valid YAML: {error.problem or error.context}{place}.") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise SchemaError(
            "The schema is not valid: it has characters, numbers or a depth that cannot be read."
        ) from error


def _check_count(count: int, most: int, what: str) -> None:
    if count > most:
        raise SchemaError(f"The schema has {count:,} {what}; at most {most:,} can be tracked: leave some out.")


def _check_slot(slot: Slot) -> None:
    where, values = f'The slot "{_shown(slot)}"', slot.values or ()
    if len(values) > MAX_VALUES:
        raise SchemaError(
            f"{where} lists {len(values):,} values and can list {MAX_VALUES:,}: leave `values` out, and look up what "
            "users say in your own data."
        )
    needed = [(slot.domain, MAX_NAME, "domain"), (slot.name, MAX_NAME, "name")]
    needed += [(value, MAX_VALUE, "value") for value in values]
    optional = [(slot.description, MAX_DESCRIPTION, "description")]
    optional += [(slot.ask, MAX_QUESTION, "question `ask`"), (slot.confirm, MAX_QUESTION, "question `confirm`")]
    for text, most, what in (*needed, *optional):
        if len(text) > most:
            raise SchemaError(f"{where} has a {what} of {len(text):,} characters; at most {most:,} are read: cut it.")
        if any(unicodedata.category(letter) in ("Cc", "Cs") and letter not in "\n\t" for letter in text):
            raise SchemaError(f"{where} has a {what} with characters that are not text: write it again.")
    for text, _, what in needed:
        if not text.strip():
            raise SchemaError(f"{where} has an empty {what}: write one, or leave it out.")
    if twice := _repeated(values):
        raise SchemaError(f'{where} lists the value "{_shown(twice)}" twice: remove one of the two.')


def _repeated(texts: Sequence[str]) -> str | None:
    """The first text that was there before, but for capitals, spaces and underscores."""
    seen: set[str] = set()
    for text in texts:
        cleaned = " ".join(unicodedata.normalize("NFKC", text).replace("_", " ").split()).casefold()
        if cleaned in seen:
            return text
        seen.add(cleaned)
    return None


def _shown(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}..."
