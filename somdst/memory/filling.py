"""A state as an instance of a pydantic model: `as_model`.

The memory holds text; a model wants numbers, booleans, dates. Each value is converted and then validated by the model's
own field, so its limits and validators count. A state is hardly ever complete, and people say things that do not fit,
so the answer is a pair: the instance with what fits, and a note for each value that is not in it as the model wants it.
An error instead would lose everything else that is known; notes inside the instance would be fields that the model does
not have.

Unset stays unset: only fields with a value of the state are in `model_fields_set`. A required field without a value is
absent, as with pydantic's `model_construct`. The validators of the whole model run once it is complete, and no date in
it is still text.

Says nothing on what a model's fields are called as slots; see `json_schema.py`. pydantic is imported at the first call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from copy import copy
from datetime import date, datetime, time
from functools import lru_cache
from typing import Any, Final, Generic, NamedTuple, TypeVar, get_args

from somdst.errors import SchemaError
from somdst.memory.json_schema import Property, json_schema_of, read
from somdst.memory.state import DONTCARE, State, Value

M = TypeVar("M")


class Note(NamedTuple):
    """A value of the state that is not in the instance as the model wants it."""

    slot: str | None
    """None where the model as a whole says no."""
    field: str | None
    """Such as "hotel.area"; None where the model has no such field."""
    value: Value | None
    """What the state has."""
    kept: bool
    """Whether the field holds it as text: what is meant as a date or time but not written as one, since "next friday"
    needs to know today."""
    reason: str
    """One sentence."""


class Filled(NamedTuple, Generic[M]):
    """`booking, notes = state.as_model(Booking)`"""

    model: M
    notes: tuple[Note, ...]


def as_model(state: State, model: type[M], *, domain: str | None = None) -> Filled[M]:
    """An instance of a pydantic model with what a state has, and notes on what did not fit.

    `domain` is that of the fields that are not in an object, as in `Schema.from_pydantic`.
    """
    kind: Any = model
    properties = _properties(kind, domain)
    parts: dict[tuple[str, ...], _Part] = {(): _Part(kind)}
    notes = [
        Note(slot, None, state[slot], False, f'{model.__name__} has no field for the slot "{slot}".')
        for slot in state
        if slot not in properties
    ]
    for slot, item in properties.items():
        if slot not in state:
            continue
        place, field, value = item.path[:-1], ".".join(item.path), state[slot]
        if place not in parts:
            parts[place] = _Part(_class_of(kind, place[0]))
        part = parts[place]
        if value is DONTCARE:
            notes.append(Note(slot, field, value, False, f"The user has no preference: `{field}` is unset."))
        elif problem := part.take(item.path[-1], converted := _converted(str(value), item)):
            kept = item.slot.type in _WHEN and not _is_written_as(item.slot.type, converted)
            if kept:
                part.kept[item.path[-1]] = str(value)
                problem = "it stays text, since only the application knows today's date"
            notes.append(Note(slot, field, value, kept, f'"{value}" does not fit `{field}`: {problem}.'))
    instance, problems = _assembled(model, parts)
    notes += [Note(None, None, None, False, problem) for problem in problems]
    return Filled(instance, tuple(notes))


_WHEN: Final = {"date": date, "time": time, "datetime": datetime}


@lru_cache(maxsize=256)
def _properties(model: Any, domain: str | None) -> dict[str, Property]:
    """The model's fields by slot. Fields that cannot be slots are left out: they stay unset."""
    return {str(item.slot): item for item in read(json_schema_of(model), domain=domain).properties}


def _is_written_as(when: str, value: object) -> bool:
    """Whether this is a date or time of its own, so that a limit or a validator of the model said no."""
    from pydantic import ValidationError

    try:
        _plain(when).validate_json(json.dumps(value))
    except ValidationError:
        return False
    return True


@lru_cache(maxsize=3)
def _plain(when: str) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(_WHEN[when])


# Validation, one object at a time


class _Part:
    """The fields of one object of the model, as far as they are known."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.fitting: dict[str, object] = {}
        self.kept: dict[str, str] = {}

    def take(self, name: str, value: object) -> str | None:
        """Add a value if the model takes it; else say why not, as the rest of a sentence."""
        try:
            self._validated({**self.fitting, name: value})
        except Exception as error:  # a validator of the model may raise anything
            return _reason(error)
        self.fitting[name] = value
        return None

    def values(self) -> dict[str, object]:
        """What is known, by the names of the fields."""
        made = self._validated(self.fitting)
        found = {name: getattr(made, name) for name in made.model_fields_set}
        return found | {_field_name(self.model, name): text for name, text in self.kept.items()}

    def _validated(self, values: Mapping[str, object]) -> Any:
        # As JSON, where a date is text even for a strict model.
        return _stand_in(self.model).model_validate_json(json.dumps(values))


@lru_cache(maxsize=256)
def _stand_in(model: Any) -> Any:
    """A model with the same fields and their validators. All are optional, and nothing is said on the whole."""
    from pydantic import create_model, field_validator

    fields: dict[str, Any] = {}
    for name, info in model.model_fields.items():
        field = copy(info)
        field.default, field.default_factory, field.validate_default = None, None, False
        fields[name] = (info.annotation, field)
    decorate: Any = field_validator
    validators = {
        key: decorate(*found.info.fields, mode=found.info.mode, check_fields=False)(staticmethod(found.func))
        for key, found in model.__pydantic_decorators__.field_validators.items()
    }
    return create_model(model.__name__, __config__=model.model_config, __validators__=validators, **fields)


def _assembled(model: Any, parts: Mapping[tuple[str, ...], _Part]) -> tuple[Any, list[str]]:
    """The instance, and what the model as a whole says against it."""
    from pydantic import ValidationError

    root = parts[()]
    problems: list[str] = []
    inner = {place[0]: part for place, part in parts.items() if place and (part.fitting or part.kept)}
    if not any(part.kept for part in parts.values()):
        whole = root.fitting | {name: part.fitting for name, part in inner.items()}
        try:
            return model.model_validate_json(json.dumps(whole)), []
        except ValidationError as error:
            if not any(problem["type"] == "missing" for problem in error.errors(include_url=False)):
                problems = [f"{model.__name__} as a whole is not valid: {_reason(error)}."]
        except Exception as error:  # a validator of the model may raise anything
            problems = [f"{model.__name__} as a whole could not be checked: {_reason(error)}."]
    values = root.values()
    for name, part in inner.items():
        known = part.values()
        values[_field_name(model, name)] = part.model.model_construct(_fields_set=set(known), **known)
    return model.model_construct(_fields_set=set(values), **values), problems


def _reason(error: Exception) -> str:
    """Why, as the rest of a sentence."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return f"{type(error).__name__}: {error}".rstrip(".: ")
    said = str(error.errors(include_url=False)[0]["msg"]).removeprefix("Value error, ").rstrip(".")
    return f"{said[:1].lower()}{said[1:]}"


def _class_of(model: Any, name: str) -> Any:
    """The model class of a field that is an object."""
    found = _model_in(model.model_fields[_field_name(model, name)].annotation)
    if found is None:
        raise SchemaError(f"The field `{name}` of {model.__name__} is an object but not a pydantic model: make it one.")
    return found


def _model_in(annotation: Any) -> Any:
    if isinstance(annotation, type) and hasattr(annotation, "model_fields"):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part)) is not None), None)


def _field_name(model: Any, name: str) -> str:
    """The field that JSON calls so: its name, or an alias of it."""
    for field, info in model.model_fields.items():
        if name in (info.validation_alias, info.alias, *getattr(info.validation_alias, "choices", ())):
            return str(field)
    return name


# From text to what JSON has

_ONES_TEXT = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
ONES: Final = tuple(_ONES_TEXT.split())
_TENS_TEXT = "twenty thirty forty fifty sixty seventy eighty ninety"
TENS: Final = tuple(_TENS_TEXT.split())
BOOLEANS: Final = {"yes": True, "no": False, "true": True, "false": False}


def _converted(text: str, item: Property) -> object:
    """The value that the text means; the text itself where it means none, for the model to judge."""
    if item.originals:
        near = {known.casefold(): value for known, value in item.originals.items()}
        return item.originals.get(text, near.get(text.casefold(), text))
    if item.slot.type in _WHEN and re.fullmatch(r"[+-]?[0-9.]+", text):
        return {"number": text}  # fits no date: pydantic would count seconds since 1970
    if item.slot.type == "boolean":
        return BOOLEANS.get(text.casefold(), text)
    if item.slot.type in ("integer", "number"):
        found = number(text)
        return text if found is None else found
    return text


def number(text: str) -> int | float | None:
    """The number that is written as digits or in words, up to 999.

    >>> number("three"), number("twenty-five"), number("1,200"), number("a hundred and four"), number("3 or 4")
    (3, 25, 1200, 104, None)
    """
    digits = text.replace(",", "") if re.fullmatch(r"-?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?", text) else text
    if re.fullmatch(r"-?[0-9]{1,30}", digits):
        return int(digits)
    if re.fullmatch(r"-?[0-9]{1,30}\.[0-9]{1,30}", digits):
        return float(digits)
    words = re.sub(r"[\s-]+", " ", text.casefold()).strip().replace(" and ", " ")
    return _in_words().get(re.sub(r"^an? ", "one ", words))


@lru_cache(maxsize=1)
def _in_words() -> dict[str, int]:
    return {_spoken(n): n for n in range(1000)} | {"one dozen": 12, "dozen": 12, "hundred": 100}


def _spoken(n: int) -> str:
    if n < 20:
        return ONES[n]
    if n < 100:
        return f"{TENS[n // 10 - 2]} {ONES[n % 10]}".removesuffix(" zero")
    return f"{ONES[n // 100]} hundred {_spoken(n % 100)}".removesuffix(" zero")
