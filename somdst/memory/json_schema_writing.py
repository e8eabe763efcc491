"""A schema as JSON Schema, which `json_schema.py` reads back: an object per domain, a property per slot."""

from __future__ import annotations

import re
from typing import Any, Final

from somdst.memory.schema import Schema, Slot

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_OURS: Final = ("redact", "ask", "confirm")
"""What JSON Schema has no word for: `x-redact` and so on."""


def write(schema: Schema) -> dict[str, Any]:
    domains: dict[str, Any] = {}
    for name in dict.fromkeys(slot.domain for slot in schema.written):
        slots = [slot for slot in schema.written if slot.domain == name]
        required = [slot.name for slot in slots if slot.required]
        domains[name] = {"type": "object", "properties": {slot.name: _written(slot) for slot in slots}}
        domains[name] |= {"required": required} if required else {}
    made: dict[str, Any] = {"$schema": DIALECT, "type": "object", "properties": domains}
    needed = [name for name, domain in domains.items() if "required" in domain]
    made |= {"required": needed} if needed else {}
    made |= {"x-different": [list(pair) for pair in schema.different]} if schema.different else {}
    return made | ({"x-text-rules": schema.text_rules} if schema.text_rules else {})


def _written(slot: Slot) -> dict[str, Any]:
    entry: dict[str, Any] = {"description": slot.description} if slot.description else {}
    if slot.type in ("integer", "number", "boolean"):
        entry["type"] = slot.type
    else:
        entry["type"] = "string"
        entry |= {"format": slot.type.replace("datetime", "date-time")} if slot.type != "text" else {}
    if slot.values is not None and slot.type != "boolean":
        entry["enum"] = list(slot.values)
        if slot.type in ("integer", "number"):
            numbers = [_number(text, whole=slot.type == "integer") for text in slot.values]
            # "four" is not a JSON number: then the list is one of texts.
            entry |= {"type": "string", "x-type": slot.type} if None in numbers else {"enum": numbers}
    return entry | {f"x-{key}": value for key in _OURS if (value := getattr(slot, key))}


def _number(text: str, *, whole: bool) -> int | float | None:
    """The number that JSON writes as exactly this text."""
    if re.fullmatch(r"-?[0-9]{1,15}", text):
        made: int | float = int(text)
    elif not whole and re.fullmatch(r"-?[0-9]{1,15}\.[0-9]{1,15}", text):
        made = float(text)
    else:
        return None
    return made if str(made) == text else None
