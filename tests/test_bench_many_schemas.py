"""The benchmark of many schemas, in small, against a predictor of rules. How fast it is, is not tested."""

from __future__ import annotations

import json

import many_schemas
import pytest
from test_bench_service import PROGRAM

from somdst.errors import InputError


@pytest.mark.slow
def test_the_whole_measurement() -> None:
    said: list[str] = []
    done = many_schemas.measure(PROGRAM, schemas=5, seconds=0.5, conversations=2, notice=said.append)
    assert said == ["one schema", "the first turn of 5 schemas", "5 schemas"]
    assert set(done.statuses) == {"200"} and done.statuses["200"] > 5
    assert done.one_p50_ms <= done.one_p95_ms and done.many_p50_ms <= done.many_p95_ms
    assert json.loads(json.dumps(done.to_json()))["schemas"] == 5
    assert many_schemas.table(done).rows[1][0] == "5 schemas"


def test_schemas_differ() -> None:
    assert len({many_schemas.made(number).id for number in range(50)}) == 50


def test_a_model_that_cannot_read_them() -> None:
    with pytest.raises(InputError, match="was not trained on the slot"):
        many_schemas.measure([*PROGRAM, "--model", "fixed"], schemas=2, seconds=0.1)
