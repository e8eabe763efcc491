"""The benchmark of many schemas, in small, against a predictor of rules. How fast it is, is not tested."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import many_schemas
import pytest
from processes import Service
from test_bench_service import PROGRAM

from somdst import Client
from somdst.errors import InputError


@pytest.mark.slow
def test_the_whole_measurement() -> None:
    said: list[str] = []
    patient = [*PROGRAM, "--max-turns", "100000"]  # of two, the last one counts
    done = many_schemas.measure(patient, schemas=5, seconds=0.5, conversations=2, notice=said.append)
    assert said == ["what the service can do", "one schema", "5 schemas"]
    assert set(done.statuses) == {"200"} and done.statuses["200"] > 10
    assert done.one_p50_ms <= done.one_p95_ms and done.many_p50_ms <= done.many_p95_ms
    assert json.loads(json.dumps(done.to_json()))["schemas"] == 5
    assert many_schemas.table(done).rows[1][0] == "5 schemas"


def test_one_schema_and_many_get_the_same_load(tmp_path: Path) -> None:
    made = [many_schemas.made(number) for number in range(3)]
    with Service(PROGRAM, str(tmp_path / "schemas.sqlite")) as service, Client(service.url) as client:
        seen: set[str] = set()
        for schemas in (made[:1], made):
            first, then = asyncio.run(many_schemas.talk(service, schemas, conversations=3, rate=1.0, seconds=0.01))
            new = [item for item in client.conversations() if item.id not in seen]
            seen |= {item.id for item in new}
            assert [sample.status for sample in first] == [200] * 3
            assert len(new) == 3 and {item.schema for item in new} == {schema.id for schema in schemas}
            expected = [2 + len(then[seat::3]) for seat in range(3)]
            assert sorted(item.version for item in new) == sorted(expected), "the schema, one turn, those at the rate"


def test_schemas_differ() -> None:
    assert len({many_schemas.made(number).id for number in range(50)}) == 50


def test_a_model_that_cannot_read_them() -> None:
    with pytest.raises(InputError, match="was not trained on the slot"):
        many_schemas.measure([*PROGRAM, "--model", "fixed"], schemas=2, seconds=0.1)
