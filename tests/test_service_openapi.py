"""docs/openapi.json is what the service says of itself, its examples fit, and nothing it describes answers with 5xx."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from services import Server

from somdst import Client
from somdst.cli.serve import openapi_text
from somdst.service.app import describe

FILE = Path(__file__).parents[1] / "docs" / "openapi.json"
DESCRIPTION: dict[str, Any] = json.loads(FILE.read_text())
CHECKS = ("not_a_server_error", "content_type_conformance", "response_schema_conformance")
OPERATIONS = [(path, method) for path, methods in DESCRIPTION["paths"].items() for method in methods]


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


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address of a service, and the id of a conversation that it has."""
    database = str(tmp_path_factory.mktemp("openapi") / "conversations.sqlite")
    with Server(database, "--other") as server, Client(server.url) as client:
        conversation = client.start()
        conversation.update("hotel area north, maybe hotel stars 4")
        yield server.url, conversation.id


SCHEMA = schemathesis.openapi.from_dict(DESCRIPTION)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
@pytest.mark.parametrize("mode", list(GenerationMode), ids=str)
def test_schemathesis_finds_no_server_error(path: str, method: str, mode: GenerationMode, api: tuple[str, str]) -> None:
    """Requests that fit the description and requests that do not, also to a conversation that exists."""
    url, known = api

    @settings(
        max_examples=40,
        deadline=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(case=SCHEMA[path][method].as_strategy(generation_mode=mode))
    def run(case: schemathesis.Case) -> None:
        _send(case, url)
        if "id" in case.path_parameters and case.method != "DELETE":
            case.path_parameters["id"] = known
            _send(case, url)

    with contextlib.suppress(Unsatisfiable):  # a route without parameters has no request that does not fit
        run()


def _send(case: schemathesis.Case, url: str) -> None:
    answer: dict[str, Any] = case.operation.definition.raw["responses"].get("200", {})
    for form in answer.get("content", ["*/*"]):  # a write has three
        _send_one(case, url, {"Accept": form})


def _send_one(case: schemathesis.Case, url: str, headers: dict[str, str]) -> None:
    response = case.call(base_url=url, headers=headers)
    if response.status_code == 200 and headers["Accept"] != "*/*":
        assert response.headers["content-type"][0].split(";")[0] == headers["Accept"].split(";")[0]
    checks = [schemathesis.checks.CHECKS.get_one(name) for name in CHECKS]
    case.validate_response(response, checks=checks)
    if response.status_code >= 400:
        assert set(response.json()) <= {"error", "version"}
        assert response.json()["error"].endswith((".", "?"))
