"""The text of a schema file as plain data: YAML whose scalars stay the text that they were written as.

Does not know what a schema has; see `schema.py`.
"""

from __future__ import annotations

from typing import Any

import yaml

MAX_DEPTH = 100
"""Levels of lists and mappings. No schema is near it, and PyYAML's fast loader crashes the process at some 50,000."""


def read_yaml(text: str, *, aliases: bool = True) -> Any:
    """The data of a YAML text. One that cannot be read, or repeats a part without `aliases`, is a `yaml.YAMLError`.

    >>> read_yaml("taxi: {leave at: 17:15, pets: no, note: }")
    {'taxi': {'leave at': '17:15', 'pets': 'no', 'note': None}}
    """
    depth = 0
    for event in yaml.parse(text, Loader=_PlainText):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise _problem(f"more than {MAX_DEPTH} levels", event)
        if isinstance(event, yaml.AliasEvent) and not aliases:
            raise _problem(f"`*{event.anchor}` repeats another part; write it out", event)
    return yaml.load(text, Loader=_PlainText)


def _problem(problem: str, event: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


class _PlainText(getattr(yaml, "CBaseLoader", yaml.BaseLoader)):  # type: ignore[misc]
    """17:15 is no number of minutes, and no is a word. Only a key with nothing behind it, `~` or `null` gets None."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        for key, value in node.value:
            if isinstance(value, yaml.ScalarNode) and not value.style and value.value in ("", "~", "null"):
                mapping[self.construct_object(key)] = None
        return mapping
