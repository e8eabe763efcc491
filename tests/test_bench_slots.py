"""`benchmarks/slots.py`, `slot_texts.py`, `few_dialogues.py` measure what they say; how well it does is not tested."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import few_dialogues
import slot_texts
import slots
from test_bench_turns import output

from somdst.corpora import open_corpus


def test_schemas_of_every_size() -> None:
    made = {size: slots.written_slots(size) for size in slots.SIZES}
    assert {size: len(schema) for size, schema in made.items()} == {size: size for size in slots.SIZES}
    assert slots.written_slots(30).id == made[30].id, "the same every time"


def test_a_turn_by_the_number_of_slots() -> None:
    found = output("benchmarks/slots.py", "--turns", "4", "--rounds", "1")
    names = {"its own schema", "5 slots", "30 slots", "100 slots", "300 slots"}
    assert set(found["turn_ms"]) == set(found["compile_ms"]) == names  # type: ignore[call-overload]


def test_a_dialogue_under_another_schema() -> None:
    dialogue = open_corpus("domains", split="dev").dialogues[0]
    assert dialogue.schema is not None and slot_texts.rewritten(dialogue, slot_texts.WAYS["as written"]) == dialogue
    bare = slot_texts.rewritten(dialogue, slot_texts.WAYS["names say nothing, no descriptions"])
    assert bare.schema is not None and len(bare.schema) == len(dialogue.schema)
    assert {slot.name for slot in bare.schema.slots} == {f"field {n}" for n in range(1, len(bare.schema) + 1)}
    assert not any(slot.description for slot in bare.schema.slots)
    for old, new in zip(dialogue.turns, bare.turns, strict=True):
        assert sorted(map(str, (old.state or {}).values())) == sorted(map(str, (new.state or {}).values()))
        assert all(slot in bare.schema.index for slot in new.state or ())


def test_the_words_of_a_schema() -> None:
    found = output("benchmarks/slot_texts.py", "domains", "--limit", "2")
    assert found["dialogues"] == 2 and set(found["turns_right"]) == set(slot_texts.WAYS)  # type: ignore[call-overload]


def test_a_dialogue_about_one_service() -> None:
    dialogue = open_corpus("domains", split="dev").dialogues[0]
    assert dialogue.schema is not None
    service = dialogue.schema.domains[0]
    alone = few_dialogues.about_service(dialogue, service)
    assert alone.schema is not None and alone.schema.domains == (service,)
    assert all(slot.startswith(f"{service}-") for turn in alone.turns for slot in turn.state or ())


def test_a_few_dialogues(tmp_path: Path) -> None:
    picture = tmp_path / "curve.svg"
    arguments = ["--sizes", "0,1", "--turns", "30", "--measured", "1", "--picture", str(picture)]
    found = output("benchmarks/few_dialogues.py", str(tmp_path / "runs"), "synthetic", *arguments)
    points: list[dict[str, float]] = found["points"]  # type: ignore[assignment]
    assert [point["dialogues"] for point in points] == [0, 1]
    assert points[0]["epochs"] == 0 < points[1]["epochs"] <= few_dialogues.MOST_EPOCHS
    assert picture.read_text().count("<svg") == 1
    again = [sys.executable, "benchmarks/few_dialogues.py", str(tmp_path / "runs"), "synthetic", *arguments]
    done = subprocess.run([*again, "--turns", "31"], capture_output=True, text=True)
    assert done.returncode == 2 and "was measured with other options: give another folder." in done.stderr
