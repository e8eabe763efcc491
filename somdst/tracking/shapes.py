"""How records become JSON and come back: `JsonRecord`, a dataclass that pydantic reads and writes.

A record is a frozen dataclass. Its fields, their types and the docstrings under them are the only definition: the JSON
in the database, the HTTP answers, the OpenAPI file, the client and the Parquet schema are all derived from it. Types
that pydantic does not know, such as `State`, are annotated with `AsJson`.

Does not define any record; see `records.py`. pydantic is imported when the first record becomes JSON, so that tracking
without JSON starts without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self

from somdst.errors import StateError


@dataclass(frozen=True, slots=True)
class AsJson:
    """Annotates a type with the JSON that it becomes: `Annotated[State, AsJson(State, dict[str, str], ...)]`."""

    kind: type
    """Values of this type are taken as they are."""
    shape: Any
    """The type that pydantic knows: what is in the JSON."""
    read: Callable[[Any], Any]
    """From the shape to the value."""
    write: Callable[[Any], Any]
    """From the value to the shape."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        shape = handler.generate_schema(self.shape)
        writer = core_schema.plain_serializer_function_ser_schema(self.write, return_schema=shape)
        return core_schema.no_info_wrap_validator_function(self._validate, shape, serialization=writer)

    def _validate(self, value: object, shaped: Callable[[object], object]) -> object:
        return value if isinstance(value, self.kind) else self.read(shaped(value))


class JsonRecord:
    """Base of the dataclasses that leave the process. Unknown keys are ignored, so that a newer log still reads."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, Any]] = {
        "use_attribute_docstrings": True,
        "json_schema_serialization_defaults_required": True,
    }

    def to_json(self, *, defaults: bool = True) -> dict[str, Any]:
        """Every field; with `defaults=False`, as in storage, only those that differ from their default."""
        kind: Any = type(self)
        data: dict[str, Any] = adapter(kind).dump_python(self, mode="json", exclude_defaults=not defaults)
        return data

    @classmethod
    def from_json(cls, data: object) -> Self:
        """What `to_json` gave, with or without defaults. Anything else is a `StateError` of one sentence."""
        from pydantic import ValidationError

        kind: Any = cls
        try:
            record: Self = adapter(kind).validate_python(data)
        except ValidationError as error:
            raise StateError(_sentence(cls, error.errors(include_url=False)[0])) from error
        return record

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        """Inherited fields keep their descriptions: pydantic reads docstrings from the class's own body only."""
        found: dict[str, Any] = handler(schema)
        parent = cls.__mro__[1]
        if parent is not JsonRecord:
            above = adapter(parent).json_schema()["properties"]
            for name, field in handler.resolve_ref_schema(found)["properties"].items():
                if "description" in above.get(name, {}):
                    field.setdefault("description", above[name]["description"])
        return found


@cache
def adapter(kind: Any) -> Any:
    """The `TypeAdapter` of a record's class."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _sentence(kind: type, problem: Any) -> str:
    name = re.sub(r"(?<!^)(?=[A-Z])", " ", kind.__name__).lower()
    name = f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
    if not problem["loc"]:
        return f"Expected {name} as a JSON object, not {type(problem['input']).__name__}."
    place = ".".join(map(str, problem["loc"]))
    if problem["type"] == "missing":
        return f"This is not {name}: the key `{place}` is missing."
    shown = repr(problem["input"])
    shown = shown if len(shown) <= 60 else f"{shown[:60]}..."
    reason = problem["msg"].removeprefix("Value error, ")
    return f"This is not {name}: `{place}` is {shown}; {reason[:1].lower()}{reason[1:].rstrip('.')}."
