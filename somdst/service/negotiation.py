"""In which form a client wants the answer to a write: whole, as a JSON Patch or as a JSON Merge Patch.

The form is chosen by `Accept`. Whoever asks for anything else gets the whole answer as JSON, as always. What a patch
says is in `tracking/patches.py`.
"""

from __future__ import annotations

import re
from typing import Any

from fastapi import Response
from fastapi.responses import JSONResponse

from somdst.service.views import Answer
from somdst.tracking.patches import MergePatch, PatchOperation
from somdst.tracking.records import adapter

JSON, JSON_PATCH, MERGE_PATCH = "application/json", "application/json-patch+json", "application/merge-patch+json"

_WEIGHT = re.compile(r"(?:^|;)\s*q=([01](?:\.[0-9]*)?)\s*(?:$|;)")


def preferred(accept: str) -> str:
    """The form that an Accept header likes best; of equals, one that it names, and the first.

    >>> preferred("application/json-patch+json, */*;q=0.5"), preferred("text/html, */*")
    ('application/json-patch+json', 'application/json')
    """
    wishes: list[tuple[float, bool, str]] = [(0.0, True, JSON)]
    for part in accept.lower().split(","):
        name, _, parameters = part.strip().partition(";")
        weight = _WEIGHT.search(parameters)
        named = name.strip() in (JSON, JSON_PATCH, MERGE_PATCH)
        wishes.append((float(weight[1]) if weight else 1.0, named, name.strip() if named else JSON))
    return max(wishes, key=lambda wish: wish[:2])[2]


def reply(answer: Answer, accept: str) -> Answer | Response:
    """The answer in the form that an Accept header asks for."""
    form = preferred(accept)
    if form == JSON:
        return answer
    body: Any = answer.json_patch() if form == JSON_PATCH else answer.merge_patch()
    return JSONResponse(body, media_type=form)


def with_patches(responses: dict[int | str, dict[str, Any]], example: Answer) -> dict[int | str, dict[str, Any]]:
    """For a route's `responses`: the same with both patches. `PATCHES` describes them."""
    operations = {"type": "array", "title": "JSON Patch", "items": {"$ref": f"{_COMPONENTS}PatchOperation"}}
    responses[200]["content"] |= {
        JSON_PATCH: {"schema": operations, "example": example.json_patch()},
        MERGE_PATCH: {"schema": {"$ref": f"{_COMPONENTS}MergePatch"}, "example": example.merge_patch()},
    }
    return responses


def _described(kind: type) -> dict[str, Any]:
    """The JSON Schema of a record; those inside it are in the description already, as parts of `Answer`."""
    made: dict[str, Any] = adapter(kind).json_schema(mode="serialization", ref_template=f"{_COMPONENTS}{{model}}")
    made.pop("$defs", None)
    return made


_COMPONENTS = "#/components/schemas/"
PATCHES = {kind.__name__: _described(kind) for kind in (PatchOperation, MergePatch)}
"""For the `components` of the OpenAPI file."""
