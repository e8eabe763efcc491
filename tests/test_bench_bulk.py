"""The benchmark of many dialogues does every kind of work; how fast that is depends on the machine."""

from __future__ import annotations

import bulk

from somdst.bulk.annotating import Pretrained
from somdst.corpora.synthetic import synthetic_dialogues
from somdst.model.folder import ModelFolder


def test_every_way_is_measured() -> None:
    heard: list[bulk.Way] = []
    torch = ModelFolder.open("default").predictor(engine="torch")
    rates = bulk.measure_bulk(
        Pretrained(),
        synthetic_dialogues(dialogues=2),
        repeats=2,
        torch=torch,
        progress=lambda way, rate: heard.append(way),
    )
    assert tuple(rates) == bulk.WAYS
    assert heard == [*bulk.WAYS, *bulk.WAYS]
    assert all(rate > 0 for rate in rates.values())
