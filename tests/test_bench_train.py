"""The benchmark of training measures what it says; how fast that is depends on the machine and is not tested."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import tiny
import train

torch = pytest.importorskip("torch")

from train import Job, TrainingRates, padded, run_job, sample  # noqa: E402

from somdst.corpora.synthetic import SYNTHETIC_SCHEMA, synthetic_dialogues  # noqa: E402
from somdst.errors import InputError  # noqa: E402
from somdst.learn.tensors import Batch  # noqa: E402


def test_medians_and_ratios() -> None:
    rates = TrainingRates({"straightforward": (5.0, 4.0, 90.0), "paper": (15.0, 20.0, 1.0), "compact": (30.0,)})
    assert (rates.median("straightforward"), rates.ratio("paper", "straightforward")) == (5.0, 3.0)
    told = rates.to_json()
    assert (told["paper_over_straightforward"], told["compact_over_paper"]) == (3.0, 2.0)
    assert told["paper"] == {"turns_per_second": 15.0, "repeats": [15.0, 20.0, 1.0]}


def test_a_sample_has_enough_turns() -> None:
    dialogues = synthetic_dialogues(dialogues=30)
    some = sample(dialogues, turns=50)
    assert 50 <= sum(len(dialogue.turns) for dialogue in some) < 80
    assert some == sample(dialogues, turns=50) != list(dialogues[: len(some)])
    assert len(sample(dialogues, turns=10_000)) == 30


def test_padded_to_one_length() -> None:
    encoder = tiny.encoder()
    ids = torch.tensor([[encoder.cls, encoder.sep]])
    batch = padded(Batch(ids, ids * 0, ids > 0, ids[:, :1] * 0, ids[:, :1] >= 0), length=6, pad=encoder.pad)
    assert batch.ids.tolist() == [[encoder.cls, encoder.sep, 0, 0, 0, 0]]
    assert batch.mask.tolist() == [[True, True, False, False, False, False]]
    assert batch.segments.shape == (1, 6)


def test_too_small_a_corpus(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from somdst.corpora.jsonlines import write_dialogues

    write_dialogues(tmp_path / "train.jsonl", synthetic_dialogues(dialogues=2)[:1])
    SYNTHETIC_SCHEMA.save(tmp_path / "schema.json")
    with pytest.raises(InputError, match="less than 32 turns, one batch"):
        run_job(Job("paper", str(tmp_path), "tiny", 1, 0))


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, train.__file__, *arguments], capture_output=True, text=True)


@pytest.mark.slow
def test_the_command() -> None:
    done = command("synthetic:20", "--encoder", "tiny", "--repeats", "1", "--steps", "2", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert all(told[variant]["turns_per_second"] > 0 for variant in ("straightforward", "paper", "compact"))
    ratio = told["paper"]["turns_per_second"] / told["straightforward"]["turns_per_second"]
    assert told["paper_over_straightforward"] == pytest.approx(ratio, rel=0.05), "the rates are rounded"


def test_a_failure_is_one_sentence() -> None:
    done = command("synthetic:20", "--encoder", "/nowhere", "--steps", "1")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "/nowhere" in done.stderr
