"""The slots that a tracker fills: `Slot`, a domain-slot pair, and `Schema`, all of them in order.

A schema is a small YAML or JSON file that a person writes by hand:

    domains:
      hotel:
        area: {description: part of town, values: [north, south, centre]}
        name:
      train:
        day: [monday, tuesday]

    different:
      - [train-departure, train-destination]

A slot's entry is empty, a list of allowed values, or a mapping with `description`, `values`, `type` (what applications
convert the text to), `required`, `redact`, and questions in words of your own, `ask` and `confirm`. Slots that never
have the same value are listed together under `different`, which is optional. So is `text_rules`, which says how texts
are made uniform before they are read: `lowercase` unless a corpus needs others. `Schema.slots` is always in
alphabetical order, as in the paper; `Schema.written` keeps the order of whoever wrote it, for files and for questions.
A schema is known by its content (`Schema.id`), whatever the order. It does not say what a state is; see `state.py`.
Pydantic models, JSON Schema and tool definitions are read in `json_schema.py`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from importlib import resources
from itertools import chain, combinations, islice, pairwise
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

import yaml

from somdst.errors import SchemaError, did_you_mean
from somdst.files import reason, write_text
from somdst.memory.schema_text import read_yaml

TextRules = Literal["lowercase", "multiwoz", "everyday"]
"""How text is made uniform before a model reads it; `model/text.py` has the rules."""
SlotType = Literal["text", "integer", "number", "boolean", "date", "time", "datetime"]
"""What an application converts a slot's value to. The memory itself always holds text."""
BOOLEAN: Final = ("yes", "no")
"""The closed list of every boolean slot."""
MAX_FILE: Final = 1_000_000
"""Largest schema file, in bytes. A tracker can use a few hundred slots, which is far less."""
MAX_DIFFERENT = 100_000
"""Most pairs of slots that must differ: a group of a few thousand names would make millions."""


class Slot(str):
    """A domain-slot pair. It is the string "domain-name", so that `state["hotel-area"]` just works.

    >>> slot = Slot.of("hotel", "book day")
    >>> slot, slot.domain, slot.name
    ('hotel-book day', 'hotel', 'book day')
    """

    __slots__ = ("ask", "confirm", "description", "domain", "name", "redact", "required", "type", "values")

    domain: str
    name: str
    description: str
    values: tuple[str, ...] | None
    """The closed list of values, or None where any text may be written."""
    type: SlotType
    required: bool
    """Whether an application cannot go on without it."""
    redact: bool
    """Whether its values are private: they are left out of logs and exports (`tracking/redaction.py`)."""
    ask: str
    """What to ask while it is empty; empty text: `tracking/questions.py` makes a question of the description."""
    confirm: str
    """What to ask about a write that was held back, with `{value}` for the value; empty text: as for `ask`."""

    @classmethod
    def of(
        cls,
        domain: str,
        name: str,
        *,
        description: str = "",
        values: Iterable[str] | None = None,
        type: SlotType = "text",
        required: bool = False,
        redact: bool = False,
        ask: str = "",
        confirm: str = "",
    ) -> Slot:
        for part, what in ((domain, "domain"), (name, "slot name")):
            if not part or part != part.strip():
                raise SchemaError(f"A {what} must be text without spaces at its ends, not {part!r}.")
        if "-" in domain:
            raise SchemaError(f'The domain "{domain}" contains "-", which separates domain and slot: use "_" instead.')
        slot = super().__new__(cls, f"{domain}-{name}")
        slot.domain, slot.name, slot.description = domain, name, description
        slot.values = tuple(values) if values is not None else None
        slot.type, slot.required, slot.redact = type, required, redact
        slot.ask, slot.confirm = " ".join(ask.split()), " ".join(confirm.split())
        if slot.confirm and "{value}" not in slot.confirm:
            raise SchemaError(f'The slot "{slot}" has a `confirm` without {{value}}: write one such as "{{value}}?".')
        if type == "boolean":
            if slot.values is not None and set(slot.values) != set(BOOLEAN):
                raise SchemaError(f'The slot "{slot}" is a boolean: leave out `values`, which are always yes and no.')
            slot.values = BOOLEAN
        return slot

    def to_json(self) -> dict[str, Any]:
        """Its entry in a schema; what is as usual is left out."""
        entry: dict[str, Any] = {"description": self.description} if self.description else {}
        if self.values is not None and self.type != "boolean":
            entry["values"] = list(self.values)
        if self.type != "text":
            entry["type"] = self.type
        return entry | {key: value for key in ("required", "redact", "ask", "confirm") if (value := getattr(self, key))}

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_slot, (self.domain, self.name, self.to_json())

    def __repr__(self) -> str:
        return str.__repr__(self)


def _restore_slot(domain: str, name: str, entry: Mapping[str, Any]) -> Slot:
    return Slot.of(domain, name, **entry)


class Schema(Mapping[str, Slot]):
    """All slots, alphabetically; a mapping from "domain-name" to `Slot`."""

    def __init__(
        self,
        slots: Iterable[Slot],
        *,
        different: Iterable[Iterable[str]] = (),
        text_rules: TextRules | None = None,
    ) -> None:
        given = tuple(slots)
        self.slots: tuple[Slot, ...] = tuple(sorted(given))
        places = {domain: place for place, domain in enumerate(dict.fromkeys(slot.domain for slot in given))}
        self.written: tuple[Slot, ...] = tuple(sorted(given, key=lambda slot: places[slot.domain]))
        """The slots as they were written, one domain after the other."""
        self.text_rules = text_rules
        self._by_name = {str(slot): slot for slot in self.slots}
        if not self.slots:
            raise SchemaError("A schema needs at least one slot: write one under `domains:`.")
        if len(self._by_name) < len(self.slots):
            twice = next(slot for slot, following in pairwise(self.slots) if slot == following)
            raise SchemaError(f'The slot "{twice}" is in the schema twice: remove one of the two.')
        self.domains: tuple[str, ...] = tuple(sorted({slot.domain for slot in self.slots}))
        self.index: dict[str, int] = {str(slot): j for j, slot in enumerate(self.slots)}
        pairs = chain.from_iterable(self._pairs(names) for names in different)
        self.different = tuple(islice(pairs, MAX_DIFFERENT + 1))
        """Pairs of slots that never have the same value."""
        if len(self.different) > MAX_DIFFERENT:
            raise SchemaError(f"`different` stands for more than {MAX_DIFFERENT:,} pairs of slots: make it shorter.")

    def _pairs(self, names: Iterable[str]) -> Iterator[tuple[str, str]]:
        together = sorted({str(self[name]) for name in names})
        if len(together) < 2:
            only = f"only `{together[0]}`" if together else "none"
            raise SchemaError(f"Each group under `different` needs at least two slots; this one has {only}.")
        return combinations(together, 2)

    def __getitem__(self, name: str) -> Slot:
        try:
            return self._by_name[name]
        except KeyError:
            raise SchemaError(f'There is no slot "{name}" in the schema.{did_you_mean(name, self._by_name)}') from None

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self.slots)

    def __len__(self) -> int:
        return len(self.slots)

    @cached_property
    def redacted(self) -> tuple[str, ...]:
        """The slots whose values are private."""
        return tuple(str(slot) for slot in self.slots if slot.redact)

    @cached_property
    def id(self) -> str:
        """A hash of the content: two schemas with the same id are the same."""
        content = json.dumps(self.to_json(), sort_keys=True).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(content, digest_size=12).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"Schema({len(self.slots)} slots over {', '.join(self.domains)})"

    @classmethod
    def multiwoz(cls) -> Schema:
        """The thirty slots of the paper's experiments, over five domains."""
        return cls.load(Path(str(resources.files("somdst") / "memory" / "schemas" / "multiwoz.yaml")))

    @classmethod
    def load(cls, path: str | Path, *, domain: str | None = None, skip: Iterable[str] = ()) -> Schema:
        """Read a schema file, YAML or JSON: a schema of somdst, a JSON Schema, or tool definitions.

        `domain` and `skip` are as in `from_json_schema`.
        """
        path = Path(path)
        try:
            content = path.read_bytes()
            if len(content) > MAX_FILE:
                raise SchemaError(f"The schema {path} has {len(content):,} bytes; at most {MAX_FILE:,} are read.")
            text = content.decode("utf-8")
            data = json.loads(text) if path.suffix == ".json" else read_yaml(text)
        except OSError as error:
            raise SchemaError(f"Cannot read the schema {path}: {reason(error)}.") from error
        except UnicodeDecodeError as error:
            raise SchemaError(f"The schema {path} is not UTF-8 text: save it as UTF-8.") from error
        # ValueError: Python's json has no error of its own for 10^5000
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            problem = " ".join(str(error).split())
            raise SchemaError(f"The schema {path} is not valid YAML or JSON: {problem}.") from error
        try:
            return cls.from_json_schema(data, domain=domain, skip=skip) if domain or skip else cls.from_json(data)
        except SchemaError as error:
            raise SchemaError(f"{path}: {error}") from error

    def save(self, path: str | Path) -> None:
        """Write the schema, so that `load` reads it: as YAML, as JSON, or as JSON Schema if the name ends in
        `.schema.json`."""
        path = Path(path)
        data = self.to_json_schema() if path.name.endswith(".schema.json") else self.to_json()
        if path.suffix in (".yaml", ".yml"):
            odd = any(line_break in json.dumps(data, ensure_ascii=False) for line_break in "\x85\u2028\u2029")
            # PyYAML reads these line breaks back as others unless it escapes them.
            text = yaml.safe_dump(data, sort_keys=False, allow_unicode=not odd, width=120)
        else:
            text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
        try:
            write_text(path, text)
        except UnicodeEncodeError as error:
            raise SchemaError("The schema has half a surrogate pair, which is not valid Unicode: remove it.") from error

    @classmethod
    def from_pydantic(cls, model: Any, *, domain: str | None = None, skip: Iterable[str] = ()) -> Schema:
        """The fields of a pydantic model class as slots; see `from_json_schema`."""
        from somdst.memory.json_schema import json_schema_of

        return cls.from_json_schema(json_schema_of(model), domain=domain, skip=skip)

    @classmethod
    def from_json_schema(cls, data: object, *, domain: str | None = None, skip: Iterable[str] = ()) -> Schema:
        """The properties of a JSON Schema, or the parameters of OpenAI or Anthropic tools, as slots.

        A property that is an object is a domain; the others are slots of `domain`, by default the title or the name of
        the tool. `skip` names the properties to leave out, such as "toppings" or "hotel.rooms".
        """
        from somdst.memory.json_schema import read

        found = read(data, domain=domain, skip=skip)
        if found.problems:
            more = f" ({len(found.problems) - 1} more like this)" if len(found.problems) > 1 else ""
            raise SchemaError(f"{found.problems[0]}{more}")
        slots = (item.slot for item in found.properties)
        return cls(slots, different=found.different, text_rules=_read_rules(found.text_rules))

    def to_json_schema(self) -> dict[str, Any]:
        """The schema as JSON Schema, an object per domain. `from_json_schema` reads it back."""
        from somdst.memory.json_schema_writing import write

        return write(self)

    @classmethod
    def from_json(cls, data: object) -> Schema:
        """What `to_json` gave, or a JSON Schema, or tool definitions."""
        from somdst.memory.json_schema import is_json_schema

        if is_json_schema(data):
            return cls.from_json_schema(data)
        if not isinstance(data, Mapping) or not isinstance(data.get("domains"), Mapping):
            raise SchemaError("A schema is a mapping with the key `domains`, which maps each domain to its slots.")
        slots = (
            _read_slot(str(domain), str(name), entry)
            for domain, names in data["domains"].items()
            for name, entry in _names(str(domain), names).items()
        )
        return cls(
            slots, different=_read_different(data.get("different")), text_rules=_read_rules(data.get("text_rules"))
        )

    def to_json(self) -> dict[str, Any]:
        """What a schema file has, in the order in which it was written."""
        return self._json(self.written)

    def content(self) -> dict[str, Any]:
        """The same in alphabetical order: it is one text for equal schemas, to make a hash of."""
        return self._json(sorted(self.slots, key=lambda slot: slot.domain))

    def _json(self, slots: Iterable[Slot]) -> dict[str, Any]:
        domains: dict[str, dict[str, Any]] = {}
        for slot in slots:
            domains.setdefault(slot.domain, {})[slot.name] = slot.to_json()
        different = {"different": [list(pair) for pair in self.different]} if self.different else {}
        rules = {"text_rules": self.text_rules} if self.text_rules else {}
        return {"domains": domains, **different, **rules}


def _read_different(data: object) -> list[list[str]]:
    if data is None:
        return []
    if not isinstance(data, list) or not all(isinstance(names, list) for names in data):
        raise SchemaError("`different` is a list of lists of slots, such as `- [train-departure, train-destination]`.")
    return [[str(name) for name in names] for names in data]


def _read_rules(data: object) -> TextRules | None:
    if data is None:
        return None
    if data not in get_args(TextRules):
        raise SchemaError(f"`text_rules` is one of {', '.join(get_args(TextRules))}, not {data!r:.80}.")
    return cast(TextRules, data)


def _names(domain: str, names: object) -> Mapping[Any, object]:
    if names and isinstance(names, list) and all(isinstance(name, (str, int, float)) for name in names):
        return dict.fromkeys(names)  # a plain list of slot names is enough for a first draft
    if not isinstance(names, Mapping) or not names:
        raise SchemaError(f'The domain "{domain}" needs at least one slot, written as `{domain}: {{name: }}`.')
    return names


def _read_slot(domain: str, name: str, entry: object) -> Slot:
    where = f'The slot "{domain}-{name}"'
    if entry is None or isinstance(entry, list):
        entry = {"values": entry}
    if not isinstance(entry, Mapping):
        raise SchemaError(f"{where} must be empty, a list of values or a mapping, not {entry!r:.80}.")
    if unknown := set(entry) - set(_ENTRY):
        wanted = ", ".join(f"`{key}`" for key in _ENTRY)
        raise SchemaError(f"{where} has the unknown key `{sorted(map(str, unknown))[0]}`: use {wanted}.")
    values = entry.get("values")
    if values is not None and (not isinstance(values, list) or not values):
        raise SchemaError(f"{where} has `values` that are not a list with at least one value.")
    if any(not isinstance(value, (str, int, float)) for value in values or ()):
        raise SchemaError(f"{where} lists values that are neither text nor numbers nor booleans: write them as text.")
    if (type_ := entry.get("type") or "text") not in get_args(SlotType):
        raise SchemaError(f"{where} has the type {type_!r:.80}: use one of {', '.join(get_args(SlotType))}.")
    return Slot.of(
        domain,
        name,
        description=read_text(entry.get("description"), f"{where}: `description`"),
        values=None if values is None else tuple(value_text(value) for value in values),
        type=cast(SlotType, type_),
        required=read_flag(entry.get("required"), f"{where}: `required`"),
        redact=read_flag(entry.get("redact"), f"{where}: `redact`"),
        ask=read_text(entry.get("ask"), f"{where}: `ask`"),
        confirm=read_text(entry.get("confirm"), f"{where}: `confirm`"),
    )


_ENTRY = ("description", "values", "type", "required", "redact", "ask", "confirm")
"""What an entry may have."""


def read_flag(value: object, what: str) -> bool:
    """True or false; YAML is read as text, so the words too."""
    known = {None: False, "": False, False: False, True: True, "false": False, "true": True, "no": False, "yes": True}
    if not isinstance(value, (str, bool, type(None))) or value not in known:
        raise SchemaError(f"{what} is true or false, not {value!r:.80}.")
    return known[value]


def read_text(value: object, what: str) -> str:
    """A text, or a number, as text; empty where there is none."""
    if isinstance(value, (Mapping, list)):
        raise SchemaError(f"{what} is text, not {value!r:.80}.")
    return str(value or "")


def value_text(value: object) -> str:
    """A value of a closed list as text: JSON may have true and 4; a person who wrote them meant the words."""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
