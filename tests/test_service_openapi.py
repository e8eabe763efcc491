"""docs/openapi.json is what the service says of itself, its examples fit, and nothing it describes answers with 5xx."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import httpx
import jsonschema
import pytest
import schemathesis
from bad_schemas import BAD
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from services import Server
from waiting import LIMIT

from somdst import Client, Schema, Slot
from somdst.cli.serve import openapi_text
from somdst.memory.schema import SlotType
from somdst.service.app import describe

FILE = Path(__file__).parents[1] / "docs" / "openapi.json"
DESCRIPTION: dict[str, Any] = json.loads(FILE.read_text())
CHECKS = ("not_a_server_error", "content_type_conformance", "response_schema_conformance")
OPERATIONS = [(path, method) for path, methods in DESCRIPTION["paths"].items() for method in methods]
STEADY = settings(
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    database=None,
)


def test_the_file_is_up_to_date() -> None:
    assert FILE.read_text() == openapi_text(describe()), "run: somdst serve --openapi > docs/openapi.json"


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_route_has_sentences_and_examples_that_fit(path: str, method: str) -> None:
    operation = DESCRIPTION["paths"][path][method]
    assert operation["description"].endswith((".", "?"))
    contents = [answer["content"] for answer in operation["responses"].values() if "content" in answer]
    assert contents or "204" in operation["responses"]
    for content in contents:
        for kind, media in content.items():
            assert "example" in media, (path, method, kind)
            if kind.endswith("json") and "ndjson" not in kind:
                _check(media["example"], media["schema"])
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        for name in {part["$ref"].split("/")[-1] for part in schema.get("anyOf", [schema]) if "$ref" in part}:
            model = DESCRIPTION["components"]["schemas"][name]
            _check(model["example"], {"$ref": f"#/components/schemas/{name}"})
    for parameter in operation.get("parameters", []):
        assert parameter["in"] != "path" or parameter["schema"].get("examples") or parameter.get("example")


def _check(example: object, schema: dict[str, Any]) -> None:
    jsonschema.validate(example, {**schema, "components": DESCRIPTION["components"]})


class Api(NamedTuple):
    """The address of a service, and the ids of a conversation and of a schema that it has."""

    url: str
    conversation: str
    schema: str


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    database = str(tmp_path_factory.mktemp("openapi") / "conversations.sqlite")
    with Server(database, "--other") as server, Client(server.url) as client:
        conversation = client.start()
        conversation.update("hotel area north, maybe hotel stars 4")
        yield Api(server.url, conversation.id, client.add_schema(Schema([Slot.of("pizza", "size")])))


SCHEMA = schemathesis.openapi.from_dict(DESCRIPTION)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
@pytest.mark.parametrize("mode", list(GenerationMode), ids=str)
def test_schemathesis_finds_no_server_error(path: str, method: str, mode: GenerationMode, api: Api) -> None:
    """Requests that fit the description and requests that do not, also to a conversation or a schema that exists."""
    url, known = api.url, api.schema if path.startswith("/v1/schemas/") else api.conversation

    @settings(STEADY, max_examples=40)
    @given(case=SCHEMA[path][method].as_strategy(generation_mode=mode))
    def run(case: schemathesis.Case) -> None:
        _send(case, url)
        if "id" in case.path_parameters and case.method != "DELETE":
            case.path_parameters["id"] = known
            _send(case, url)

    with contextlib.suppress(Unsatisfiable):  # a route without parameters has no request that does not fit
        run()


def test_the_known_ids_are_those_of_things_that_exist(api: Api) -> None:
    for path in (f"/v1/schemas/{api.schema}", f"/v1/conversations/{api.conversation}"):
        assert httpx.get(api.url + path, timeout=LIMIT).status_code == 200


PLAIN = st.text("abcdeö", min_size=1, max_size=4)
TEXT = st.text(st.characters(), max_size=5) | st.text(st.sampled_from("\ud800\udc00\0 -a"), max_size=3)
"""Also with half a surrogate pair, which JSON can write."""
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=3,
)
ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "description": PLAIN,
        "values": st.lists(PLAIN | st.integers(), min_size=1, max_size=4, unique_by=str),
        "type": st.sampled_from([name for name in get_args(SlotType) if name != "boolean"]),
        "required": st.booleans() | st.sampled_from(["yes", "no"]),
        "redact": st.booleans(),
        "ask": PLAIN,
        "confirm": PLAIN.map("{{value}} {}".format),
    },
)
DOMAINS = st.dictionaries(
    PLAIN, st.dictionaries(PLAIN, st.none() | ENTRY, min_size=1, max_size=3), min_size=1, max_size=2
)


@st.composite
def nearly_valid(draw: st.DrawFn) -> Any:
    """A schema in somdst's own form, in which up to two parts are replaced or renamed by something odd."""
    domains = draw(DOMAINS)
    schema: dict[str, Any] = {"domains": domains, "text_rules": draw(st.sampled_from([None, "everyday"]))}
    names = [f"{domain}-{name}" for domain, slots in domains.items() for name in slots]
    if len(names) > 1:
        schema["different"] = [names[:2]]
    parts = [schema, domains, *domains.values(), *(entry for slots in domains.values() for entry in slots.values())]
    places = [(part, key) for part in parts if part for key in part]
    for part, key in draw(st.lists(st.sampled_from(places), max_size=2, unique_by=lambda place: place[1])):
        if draw(st.booleans()):
            part[key] = draw(ODD)
        else:
            part[draw(TEXT)] = part.pop(key)
    return schema


def test_a_nearly_valid_schema_is_stored_or_refused_in_a_sentence(api: Api) -> None:
    stored = refused = 0

    with httpx.Client(base_url=api.url, headers={"content-type": "application/json"}, timeout=LIMIT) as http:

        @settings(STEADY, max_examples=200)
        @given(schema=nearly_valid())
        @example(schema=BAD["half a character in a name"][0])
        @example(schema=BAD["half a character in `ask`"][0])
        def run(schema: Any) -> None:
            nonlocal stored, refused
            answer = http.post("/v1/schemas", content=json.dumps({"schema": schema}))
            if answer.status_code == 201:
                stored += 1
                id = answer.json()["id"]
                assert Schema.from_json(http.get(f"/v1/schemas/{id}").json()["definition"]).id == id
            else:
                refused += 1
                assert answer.status_code == 422, answer.text
                assert answer.json()["error"].endswith((".", "?")) and "\n" not in answer.json()["error"]

        run()
    assert stored > 20 and refused > 20, "both kinds were tried"


def _send(case: schemathesis.Case, url: str) -> None:
    answer: dict[str, Any] = case.operation.definition.raw["responses"].get("200", {})
    for form in answer.get("content", ["*/*"]):  # a write has three
        _send_one(case, url, {"Accept": form})


def _send_one(case: schemathesis.Case, url: str, headers: dict[str, str]) -> None:
    response = case.call(base_url=url, headers=headers, timeout=LIMIT)
    if response.status_code == 200 and headers["Accept"] != "*/*":
        assert response.headers["content-type"][0].split(";")[0] == headers["Accept"].split(";")[0]
    checks = [schemathesis.checks.CHECKS.get_one(name) for name in CHECKS]
    case.validate_response(response, checks=checks)
    if response.status_code >= 400:
        assert set(response.json()) <= {"error", "version"}
        assert response.json()["error"].endswith((".", "?"))
