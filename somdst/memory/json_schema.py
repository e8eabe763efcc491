"""Schemas as builders have them: JSON Schema, pydantic models (as JSON Schema), OpenAI's and Anthropic's tools.

`read` finds the slots; `json_schema_writing.py` is the way back. A property is a slot; a property that is an object is
a domain, so `{"hotel": {"area": ...}}` is the slot "hotel-area". One level of nesting is read. Properties that cannot
be one text, such as lists, are named as problems, and the caller decides whether to stop or to go on without them.

Kept: names, descriptions, `enum` and `const`, types, formats of dates and times, `required`, `x-different`, `x-redact`,
`x-ask`, `x-confirm`.
Not kept: limits such as `minimum` or `pattern`, which your own model checks (`filling.py`), and defaults: a slot that
nobody mentioned stays unset. Nothing is fetched: a `$ref` points into the same document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast, get_args

from somdst.errors import SchemaError
from somdst.memory.schema import Slot, SlotType, read_flag, read_text, value_text

MAX_SLOTS: Final = 1000
"""Most slots of one document: a `$ref` can make far more out of a few lines, and no tracker could use them."""
MAX_VALUES: Final = 20_000
"""Most values of all closed lists of one document together, for the same reason."""
MAX_STEPS: Final = 100_000
"""Most parts of a document that are visited or copied; without it, alternatives of alternatives would never end."""
_FORMATS: Final[dict[str, SlotType]] = {"date": "date", "time": "time", "date-time": "datetime"}
_COMBINED: Final = ("$ref", "allOf", "anyOf", "oneOf", "properties", "required")
_PLAIN: Final = ("const", "description", "enum", "format", "nullable", "title", "type")
_OURS: Final = ("x-ask", "x-confirm", "x-different", "x-redact", "x-type")
"""What is read of a property: what combines it with others, what it says itself, and what JSON Schema has no word for.
Alternatives are copies of it, and anything else would make them large."""
_PARAMETERS: Final = ("parameters", "input_schema", "inputSchema", "schema")
"""Where tool definitions have their JSON Schema: OpenAI, Anthropic, MCP, OpenAI's structured output."""


class Property(NamedTuple):
    """A property that is a slot."""

    path: tuple[str, ...]
    """Its name, after that of the object it is in."""
    slot: Slot
    originals: Mapping[str, Any]
    """For a closed list: each value's text, and what it was in the document."""


@dataclass(slots=True)
class Found:
    """What a document has."""

    properties: list[Property] = field(default_factory=list)
    different: list[list[str]] = field(default_factory=list)
    text_rules: Any = None
    problems: list[str] = field(default_factory=list)
    """One sentence for each property that cannot be a slot."""


def json_schema_of(model: Any) -> dict[str, Any]:
    """The JSON Schema of a pydantic model class. pydantic is not imported here: whoever has a model has it."""
    if not isinstance(model, type) or not callable(getattr(model, "model_json_schema", None)):
        raise SchemaError(f"Expected a pydantic model class (a subclass of BaseModel), not {model!r:.80}.")
    made: dict[str, Any] = model.model_json_schema()  # type: ignore[attr-defined]
    return made


def is_json_schema(data: object) -> bool:
    """Whether this is a JSON Schema or tool definitions, rather than a schema of somdst."""
    if isinstance(data, Mapping) and "domains" in data:
        return False
    return bool(_tools(data)) or (isinstance(data, Mapping) and bool({"properties", "$ref", "$schema"} & set(data)))


def read(data: object, *, domain: str | None = None, skip: Iterable[str] = ()) -> Found:
    """The slots of a JSON Schema or of tool definitions, and what could not be one."""
    try:
        return _Reader(skip).read(data, domain)
    except RecursionError:
        raise SchemaError("The JSON Schema is nested too deeply to be read: make it flatter.") from None


class _Unfit(Exception):
    """A property that cannot be a slot; the text says why, as the rest of a sentence."""


class _Shape(NamedTuple):
    """What a property is, once `$ref`, `allOf`, `anyOf` and `oneOf` are followed."""

    node: Mapping[str, Any]
    """The property itself, with what its references say."""
    leaves: list[Mapping[str, Any]]
    """Everything that it may be, without null."""
    nullable: bool
    seen: frozenset[str]
    """The references that lead to it."""

    @property
    def is_object(self) -> bool:
        return len(self.leaves) == 1 and isinstance(self.leaves[0].get("properties"), Mapping)


class _Reader:
    def __init__(self, skip: Iterable[str]) -> None:
        self.skip = {skip} if isinstance(skip, str) else set(skip)
        self.unused = set(self.skip)
        self.left_out: set[str] = set()  # slots, as `domain-name`, and objects, as `domain-`
        self.found = Found()
        self.paths: dict[str, str] = {}
        self.root: Mapping[str, Any] = {}
        self.steps = self.values = 0

    def read(self, data: object, domain: str | None) -> Found:
        tools = _tools(data)
        if not tools and not isinstance(data, Mapping):
            raise SchemaError(f"A JSON Schema is a mapping, not {type(data).__name__}.")
        for name, root in tools or [("", cast(Mapping[str, Any], data))]:
            self.root = root
            try:
                shape = self._shape(root, frozenset())
            except _Unfit as problem:
                raise SchemaError(f"The JSON Schema {problem}.") from None
            if not shape.is_object:
                raise SchemaError("The JSON Schema is not an object with `properties`: its properties are the slots.")
            title = read_text(shape.leaves[0].get("title"), "`title` of the JSON Schema")
            self._object(shape, _clean(domain or name) or _snake_case(title), ())
            self.found.text_rules = self.found.text_rules or root.get("x-text-rules")
        if self.unused:
            raise SchemaError(f"There is no property `{min(self.unused)}` to skip: give its name, or `object.name`.")
        pairs = [(group, [slot for slot in group if not self._is_left_out(slot)]) for group in self.found.different]
        self.found.different = [kept for group, kept in pairs if len(kept) > 1 or len(kept) == len(group)]
        return self.found

    def _is_left_out(self, slot: str) -> bool:
        return not self.left_out.isdisjoint((slot, f"{slot.partition('-')[0]}-"))

    def _object(self, shape: _Shape, domain: str, path: tuple[str, ...], *, needed: bool = True) -> None:
        """The slots of an object. Where nobody needs the object, nobody needs its properties."""
        node = shape.leaves[0]
        slots: dict[str, str] = {}
        groups: list[Sequence[object]] = list(_list(node.get("x-different")))
        names = {name for name in _list(node.get("required")) if isinstance(name, str)}
        for name, child in node["properties"].items():
            place = (*path, str(name))
            if (dotted := ".".join(place)) in self.skip:
                self.unused.discard(dotted)
                slots[str(name)] = f"{domain}-{str(name).strip()}"
                self.left_out |= {slots[str(name)], f"{_clean(str(name))}-"}
                continue
            required = needed and name in names
            try:
                inner = self._shape(child, shape.seen)
                if inner.is_object and path:
                    raise _Unfit("is an object inside an object, and only one level is read")
                if inner.is_object:
                    self._object(inner, _clean(str(name)), place, needed=required and not inner.nullable)
                    continue
                slot = self._slot(domain, place, inner, required=required)
            except _Unfit as problem:
                self.found.problems.append(
                    f"The property `{dotted}` {problem}: make it one value, or leave it out with `skip`."
                )
                continue
            slots[str(name)] = str(slot)
            if others := inner.node.get("x-different"):
                groups.append([name, *_list(others)])
                self._count(len(groups[-1]))
        self.found.different += [[slots.get(str(name), str(name)) for name in _list(group)] for group in groups]

    def _slot(self, domain: str, path: tuple[str, ...], shape: _Shape, *, required: bool) -> Slot:
        name = path[-1]
        if not domain:
            raise SchemaError(
                f"Nothing names the domain of `{name}`: give the JSON Schema a `title`, or give `domain`."
            )
        type_, originals = _kind(shape.leaves)
        if (given := shape.node.get("x-type", type_)) not in get_args(SlotType):
            raise _Unfit(f"has the `x-type` {given!r}, which is none of {', '.join(get_args(SlotType))}")
        slot = Slot.of(
            domain,
            name.strip(),
            description=_description(name, shape),
            values=None if given == "boolean" or not originals else originals,
            type=cast(SlotType, given),
            required=required and not shape.nullable,
            redact=read_flag(shape.node.get("x-redact"), f"`x-redact` of `{name}`"),
            ask=read_text(shape.node.get("x-ask"), f"`x-ask` of `{name}`"),
            confirm=read_text(shape.node.get("x-confirm"), f"`x-confirm` of `{name}`"),
        )
        self._add(Property(path, slot, originals))
        return slot

    def _add(self, item: Property) -> None:
        dotted = ".".join(item.path)
        if (twin := self.paths.get(item.slot)) is not None:
            raise SchemaError(
                f'The properties `{twin}` and `{dotted}` would both be the slot "{item.slot}": rename or skip one.'
            )
        self.paths[str(item.slot)] = dotted
        self.values += len(item.originals)
        if self.values > MAX_VALUES:
            raise SchemaError(
                f"The closed lists have more than {MAX_VALUES:,} values together: leave the longest open."
            )
        if len(self.paths) > MAX_SLOTS:
            raise SchemaError(f"The JSON Schema has more than {MAX_SLOTS:,} properties: no tracker can use as many.")
        self.found.properties.append(item)

    # References and alternatives

    def _shape(self, node: object, seen: frozenset[str]) -> _Shape:
        top, _ = self._resolved(node, seen)
        leaves = list(self._leaves(node, seen))
        kept = [(leaf, seen) for leaf, seen in leaves if not _is_null(leaf)]
        if not kept:
            raise _Unfit("can only be null")
        nullable = len(kept) < len(leaves) or top.get("nullable") is True or None in _list(top.get("enum"))
        return _Shape(top, [leaf for leaf, _ in kept], nullable, kept[0][1])

    def _leaves(self, node: object, seen: frozenset[str]) -> Iterator[tuple[Mapping[str, Any], frozenset[str]]]:
        """Everything that a property may be."""
        found, seen = self._resolved(node, seen)
        choices = _list(found.get("anyOf")) or _list(found.get("oneOf"))
        if choices and "properties" not in found:
            given = {"type": found["type"]} if "type" in found else {}
            for choice in choices:
                yield from self._leaves({**given, **choice} if isinstance(choice, Mapping) else choice, seen)
        elif isinstance(found.get("type"), list):
            self._count(len(found["type"]))
            yield from (({**found, "type": name}, seen) for name in found["type"])
        else:
            yield found, seen

    def _resolved(self, node: object, seen: frozenset[str]) -> tuple[Mapping[str, Any], frozenset[str]]:
        """A property with what its references and `allOf` say; what it says itself comes first."""
        self._count(1)
        if node is True:
            return {}, seen
        if not isinstance(node, Mapping):
            raise _Unfit(f"is {node!r:.40}, which is not a JSON Schema")
        node = _known(node)
        while "$ref" in node:
            reference = str(node["$ref"])
            if reference in seen:
                raise _Unfit(f"contains itself ({reference})")
            seen |= {reference}
            node = {**_known(self._target(reference)), **{key: value for key, value in node.items() if key != "$ref"}}
        for part in _list(node.get("allOf")):
            more, there = self._resolved(part, seen)
            seen |= there
            both: dict[str, Any] = {"required": [*_list(more.get("required")), *_list(node.get("required"))]}
            if isinstance(more.get("properties"), Mapping) and isinstance(node.get("properties", {}), Mapping):
                both["properties"] = {**more["properties"], **node.get("properties", {})}
            self._count(sum(map(len, both.values())))
            node = {**more, **node, **both}
        return node, seen

    def _count(self, steps: int) -> None:
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise SchemaError("The JSON Schema has too many alternatives to be read: make it simpler.")

    def _target(self, reference: str) -> Mapping[str, Any]:
        target: Any = self.root
        if not reference.startswith("#"):
            raise _Unfit(f"refers to {reference!r:.80}, which is outside the document")
        for part in reference[1:].split("/")[1:]:
            target = target.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(target, Mapping) else None
        if not isinstance(target, Mapping) or not f"{reference}/".startswith("#/"):
            raise _Unfit(f"refers to {reference!r:.80}, which is not there")
        return target


def _tools(data: object) -> list[tuple[str, Mapping[str, Any]]]:
    """The names and parameters of tool definitions; empty where this is something else."""
    if isinstance(data, Mapping) and isinstance(data.get("tools"), list):
        data = data["tools"]
    items = data if isinstance(data, list) else [data]
    tools = [item.get("function", item.get("json_schema", item)) for item in items if isinstance(item, Mapping)]
    if len(tools) < len(items) or not all(isinstance(tool, Mapping) and _is_tool(tool) for tool in tools):
        return []
    found = [(tool["name"], tool[key]) for tool in tools for key in _PARAMETERS if isinstance(tool.get(key), Mapping)]
    return [(name, schema) for name, schema in found if "properties" in schema or "$ref" in schema]


def _is_tool(data: Mapping[str, Any]) -> bool:
    return isinstance(data.get("name"), str) and "properties" not in data and "domains" not in data


def _kind(leaves: Sequence[Mapping[str, Any]]) -> tuple[SlotType, dict[str, Any]]:
    """A slot's type, and its closed list by the text of each value; empty where any text may be written."""
    lists = [
        _list(leaf.get("enum")) if "enum" in leaf else [leaf["const"]] if "const" in leaf else None for leaf in leaves
    ]
    if sum(len(values or ()) for values in lists) > MAX_VALUES:
        raise _Unfit(f"has more than {MAX_VALUES:,} values")
    types = {_type(leaf, values) for leaf, values in zip(leaves, lists, strict=True)}
    rest = types - {"text"}
    if rest == {"integer", "number"}:
        chosen: SlotType = "number"
    elif len(rest) == 1 and ("boolean" not in rest or len(types) == 1):
        [chosen] = rest  # pydantic says "number or text" for a Decimal
    else:
        chosen = "text"
    if None in lists:
        return chosen, {}
    values = [value for values in lists for value in values or () if value is not None]
    return chosen, {} if chosen == "boolean" else {value_text(value): value for value in values}


def _type(leaf: Mapping[str, Any], values: Sequence[Any] | None) -> SlotType:
    name = leaf.get("type")
    if values is not None and not values:
        raise _Unfit("has an empty `enum`")
    kinds = {type(value) for value in values or ()} - {type(None)}
    if not kinds <= {str, bool, int, float}:
        raise _Unfit("has values that are neither text nor numbers nor booleans")
    if values and name is None:
        name = "boolean" if kinds == {bool} else "integer" if kinds == {int} else "string"
        name = "number" if kinds in ({float}, {int, float}) else name
    if name == "array":
        raise _Unfit("is a list, and a slot holds one value")
    if name == "object" or "properties" in leaf:
        raise _Unfit("is an object without fixed properties, or an object or something else")
    if name in ("integer", "number", "boolean"):
        return cast(SlotType, name)
    if name not in ("string", None):
        raise _Unfit(f"has the unknown type {name!r:.40}")
    return _FORMATS.get(str(leaf.get("format")), "text")


def _is_null(leaf: Mapping[str, Any]) -> bool:
    return leaf.get("type") == "null" or ("const" in leaf and leaf["const"] is None) or leaf.get("enum") == [None]


def _description(name: str, shape: _Shape) -> str:
    """The description; without one, the title, if it says more than the name."""
    nodes = [shape.node, *(shape.leaves if len(shape.leaves) == 1 else ())]
    for key in ("description", "title"):
        for node in nodes:
            text = read_text(node.get(key), f"`{key}` of `{name}`")
            if text and (key == "description" or _letters(text) != _letters(name)):
                return text
    return ""


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()


def _clean(name: str) -> str:
    """The name of an object or a tool as a domain, in which "-" has another meaning."""
    return name.strip().replace("-", "_")


def _snake_case(title: str) -> str:
    """
    >>> _snake_case("HotelBooking"), _snake_case("Hotel booking")
    ('hotel_booking', 'hotel_booking')
    """
    return re.sub(r"[\W_]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", title)).strip("_").lower()


def _known(node: Mapping[str, Any]) -> dict[str, Any]:
    return {key: node[key] for key in (*_COMBINED, *_PLAIN, *_OURS) if key in node}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
