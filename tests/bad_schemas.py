"""Schemas that nobody can track, each with what the sentence that refuses it has to say (a regular expression)."""

from __future__ import annotations

from typing import Any


def wide(count: int) -> dict[str, Any]:
    return {"domains": {"d": {f"slot {n}": None for n in range(count)}}}


def listing(values: list[Any], **more: Any) -> dict[str, Any]:
    return {"domains": {"d": {"s": {"values": values, **more}}}}


BAD: dict[str, tuple[Any, str]] = {
    "an enum of 10,000 values": (listing([str(n) for n in range(10_000)]), "lists 10,000 values and can list 500"),
    "300 slots": (wide(300), "has 300 slots; at most 200"),
    "lists of 3,000 values": (
        {"domains": {"d": {f"s{n}": [f"v{i}" for i in range(300)] for n in range(10)}}},
        "has 3,000 values in its closed lists; at most 2,000",
    ),
    "duplicate names after cleaning": (
        {"domains": {"d": {"Book Day": None, "book_day": None}}},
        'Two slots have the same name "d-book_day", apart from capitals, spaces and underscores',
    ),
    "duplicate values after cleaning": (listing(["red", "Red "]), 'lists the value "Red " twice'),
    "every slot differs from every other": (
        wide(60) | {"different": [[f"d-slot {n}" for n in range(60)]]},
        "has 1,770 pairs of slots that must differ",
    ),
    "a long name": ({"domains": {"d": {"n" * 101: None}}}, "has a name of 101 characters"),
    "a long description": (listing(["x"], description="d" * 1001), "has a description of 1,001 characters"),
    "a long value": (listing(["v" * 201]), "has a value of 201 characters"),
    "an empty value": (listing(["  "]), "has an empty value"),
    "half a character": (listing(["x"], description="\ud800"), "characters that are not text"),
    "half a character in a name": ({"domains": {"d": {"\ud800": None}}}, r'"d-\\ud800" has a name with characters'),
    "half a character in a domain": ({"domains": {"\ud800": {"s": None}}}, "has a domain with characters that are no"),
    "half a character in a key": (listing(["x"], **{"\ud800": 1}), r"has the unknown key `\\ud800`"),
    "half a character in `different`": (wide(2) | {"different": [["d-\ud800", "d-s"]]}, r'no slot "d-\\ud800"'),
    "half a character in `ask`": (listing(["x"], ask="\ud800"), "has a question `ask` with characters that are no"),
    "half a character in `confirm`": (listing(["x"], confirm="{value}\ud800"), "question `confirm` with characters"),
    "a long `ask`": (listing(["x"], ask="a" * 301), "has a question `ask` of 301 characters; at most 300"),
    "a long `confirm`": (listing(["x"], confirm="{value}" * 43), "has a question `confirm` of 301 characters"),
    "an object as `ask`": (listing(["x"], ask={"en": "What?"}), "`ask` is text, not {'en'"),
    "a list as `confirm`": (listing(["x"], confirm=["{value}?"]), "`confirm` is text, not"),
    "an object as a description": (listing(["x"], description={"en": "x"}), "`description` is text, not"),
    "an object as a value": (listing(["x", {"en": "x"}]), "neither text nor numbers nor booleans"),
    "nothing as a value": (listing(["x", None]), "neither text nor numbers nor booleans"),
    "an object that contains itself": (
        {"title": "d", "type": "object", "properties": {"s": {"type": "string"}, "child": {"$ref": "#"}}},
        r"The property `child.child` contains itself \(#\)",
    ),
    "a definition that contains itself": (
        {"title": "d", "properties": {"s": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}},
        "The property `s` contains itself",
    ),
    "an object as a question of a JSON Schema": (
        {"title": "d", "properties": {"s": {"type": "string", "x-ask": {"en": "What?"}}}},
        "`x-ask` of `s` is text",
    ),
    "pairs that would fill the memory": (
        {"domains": {"d": [f"s{i}" for i in range(2_000)]}, "different": [[f"d-s{i}" for i in range(2_000)]]},
        "more than 100,000 pairs of slots",
    ),
    "names that are the same as numbers": ({"domains": {"d": ["1", 1]}}, 'slot "d-1" is in the schema twice'),
    "a zero": ({"domains": {"d\0": {"s": None}}}, "characters that are not text"),
    "no slot": ({"domains": {}}, "at least one slot"),
    "something else": ({"title": "no schema"}, "`domains`"),
    "empty text": ("  \n", "The schema is empty"),
    "half a JSON": ('{"domains": {', "not valid JSON"),
    "a tab in YAML": ("domains:\n\tpizza: x", "not valid YAML: found character .* in line 2"),
    "an alias": ("domains: {a: &a {x: }, b: *a}", r"`\*a` repeats another part"),
    "too deep for a C stack": ("domains: " + "[" * 60_000 + "]" * 60_000, "not valid YAML: more than 100 levels"),
    "a list": ("- pizza", "`domains`"),
}
