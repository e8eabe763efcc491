"""Annotating many dialogues: the same as one at a time, in order, resumable, whole or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from scripted import STOP, AnyRules, RuleOpener, RulePredictor
from waiting import until

from somdst import Dialogue, Schema, Slot, State, Tracker, Turn
from somdst.bulk import annotate, annotate_all, annotate_file
from somdst.bulk.annotating import Pretrained
from somdst.bulk.resumable import Listener, Plan
from somdst.corpora.jsonlines import dialogue_to_json, read_dialogues
from somdst.errors import CorpusError, InputError, ModelError

TESTS = Path(__file__).parent


WORDS = (
    "hotel area north",
    "maybe hotel area south",
    "any hotel stars",
    "no hotel area",
    "taxi departure like hotel area",
    "hi 🚕",
)


def dialogues(count: int) -> list[Dialogue]:
    """Of one to seven turns each, all different."""
    return [
        Dialogue(
            f"d{i}",
            tuple(
                Turn("" if t == 0 else f"hotel name house {i}", WORDS[(i * 3 + t * t) % 6])
                for t in range(1 + i * 5 % 7)
            ),
            goal=("hotel",) if i % 2 else None,
        )
        for i in range(count)
    ]


def test_a_dialogue_with_its_own_schema_is_tracked_under_it() -> None:
    pizza = Schema([Slot.of("pizza", "size"), Slot.of("pizza", "name", redact=True)])
    own = Dialogue("own", (Turn("", "pizza size large, pizza name roma"), Turn("", "hotel area north")), schema=pizza)
    other = Dialogue("other", (Turn("", "hotel area north, pizza size large"),))
    reads_any = Tracker(AnyRules())
    first, second = annotate(reads_any, [own, other])
    assert [result.state for result in first.results] == [State({"pizza-size": "large", "pizza-name": "roma"})] * 2
    assert second.results[-1].state == State({"hotel-area": "north"})
    line = first.to_json()
    assert line["schema"] == pizza.content() and line["turns"][0]["state"]["pizza-name"] == "[redacted]"
    assert "schema" not in second.to_json()
    given = Tracker(AnyRules(), schema=Schema([Slot.of("hotel", "area")]))
    for tracker in (given, RuleOpener()()):  # a schema that was asked for, and a model with slots of its own
        (ignored,) = annotate(tracker, [own])
        assert ignored.results[-1].state == State({"hotel-area": "north"}) and "schema" not in ignored.to_json()


def write(path: Path, items: list[Dialogue], *, bad: dict[int, str] | None = None) -> Path:
    lines = [json.dumps(dialogue_to_json(item)) for item in items]
    for place, line in sorted((bad or {}).items()):
        lines.insert(place, line)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def one_at_a_time(items: list[Dialogue]) -> list[dict[str, object]]:
    tracker = RuleOpener()()
    lines = []
    for item in items:
        conversation = tracker.start()
        states = [conversation.update(user=turn.user, system=turn.system).state.to_json() for turn in item.turns]
        lines.append({"id": item.id, "states": states})
    return lines


def states(path: Path) -> list[dict[str, object]]:
    return [{"id": d.id, "states": [s.to_json() for s in d.states()]} for d in read_dialogues(path)]


def test_a_rolling_batch_gives_the_same_as_one_at_a_time() -> None:
    items = dialogues(40)
    predictor = RulePredictor()
    turns: list[int] = []
    done = annotate(Tracker(predictor, threshold=0.5), items, batch=8, progress=turns.append)
    got = [{"id": a.dialogue.id, "states": [r.state.to_json() for r in a.results]} for a in done]
    assert got == one_at_a_time(items)
    assert sum(turns) == sum(len(item.turns) for item in items)
    assert predictor.batches == turns and max(turns) == 8
    full = sum(size for size in turns if size == 8) / sum(turns)
    assert full > 0.9, "the batch stays full"


def test_output_is_the_projects_json_lines_with_changes(tmp_path: Path) -> None:
    items = dialogues(9)
    summary = annotate_file(write(tmp_path / "in.jsonl", items), tmp_path / "out.jsonl", RuleOpener(), workers=1)
    assert states(tmp_path / "out.jsonl") == one_at_a_time(items)
    assert (summary.dialogues, summary.turns, summary.skipped) == (9, sum(len(item.turns) for item in items), 0)
    first = json.loads((tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert first["turns"][0]["changes"][0] == {
        "slot": "hotel-area",
        "operation": "update",
        "before": None,
        "after": "north",
        "probability": 0.95,
        "evidence": {"source": "user", "start": 11, "end": 16, "text": "north", "slot": None, "turns_ago": 0},
    }
    assert "pending" in first["turns"][0] and "refused" in first["turns"][0]
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


def test_processes_give_the_same_in_the_same_order(tmp_path: Path) -> None:
    items = dialogues(50)
    source = write(tmp_path / "in.jsonl", items)
    annotate_file(source, tmp_path / "one.jsonl", RuleOpener(), workers=1)
    heard: list[int] = []
    annotate_file(
        source, tmp_path / "two.jsonl", RuleOpener(), workers=2, batch=4, listener=Listener(turns=heard.append)
    )
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()
    assert sum(heard) == sum(len(item.turns) for item in items)


def test_a_model_that_does_not_open_in_a_worker_is_one_sentence() -> None:
    with pytest.raises(ModelError, match=r"^The model is broken\.$"):
        list(annotate_all(RuleOpener("broken"), dialogues(3), workers=2))


BAD = {
    "no JSON": "{nonsense",
    "no turns": '{"id": "x", "turns": []}',
    "no text": '{"id": "x", "turns": [{"user": 3}]}',
    "an empty turn": '{"id": "x", "turns": [{"user": "hi"}, {"user": " "}]}',
    "too long": json.dumps({"id": "x", "turns": [{"user": "x" * 30_000}]}),
    "half a character": '{"id": "x", "turns": [{"user": "\\ud83d"}]}',
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_named_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    source = write(tmp_path / "in.jsonl", dialogues(5), bad={2: BAD[name]})
    with pytest.raises(CorpusError, match=r"in\.jsonl, line 3.*--keep-going") as refused:
        annotate_file(source, tmp_path / "out.jsonl", RuleOpener(), workers=1)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 400
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_keep_going_names_and_skips(tmp_path: Path) -> None:
    items = dialogues(6)
    source = write(tmp_path / "in.jsonl", items, bad={0: "{", 4: BAD["an empty turn"]})
    found: list[Plan] = []
    listener = Listener(start=found.append)
    summary = annotate_file(source, tmp_path / "out.jsonl", RuleOpener(), keep_going=True, workers=1, listener=listener)
    assert summary.skipped == 2 and summary.dialogues == 6
    assert states(tmp_path / "out.jsonl") == one_at_a_time(items)
    assert ["line 1" in str(found[0].checked.bad[0]), "line 5" in str(found[0].checked.bad[1])] == [True, True]
    (tmp_path / "all-bad.jsonl").write_text("{\n[\n")
    with pytest.raises(CorpusError, match="no line that can be annotated"):
        annotate_file(tmp_path / "all-bad.jsonl", tmp_path / "x.jsonl", RuleOpener(), keep_going=True)


def test_targets_that_are_refused(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", dialogues(2))
    (tmp_path / "there.jsonl").write_text("precious")
    for target, sentence in [
        ("there.jsonl", "already exists"),
        ("out.jsonl.gz", "plain file"),
        ("out.parquet", "--engine ray"),
        ("no/where.jsonl", "folder that exists"),
        ("", "must be a file"),
    ]:
        with pytest.raises(InputError, match=sentence):
            annotate_file(source, tmp_path / target, RuleOpener(), workers=1)
    assert (tmp_path / "there.jsonl").read_text() == "precious"
    annotate_file(source, tmp_path / "there.jsonl", RuleOpener(), workers=1, force=True)
    assert len(states(tmp_path / "there.jsonl")) == 2
    with pytest.raises(CorpusError, match="Cannot read"):
        annotate_file(tmp_path / "none.jsonl", tmp_path / "out.jsonl", RuleOpener())


def stopped(path: Path, place: int, items: list[Dialogue]) -> Path:
    """The dialogues in a file, with one at `place` that stops a predictor."""
    items = [*items[:place], Dialogue("stop", (Turn("", STOP),)), *items[place:]]
    return write(path, items)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_interrupted_run_goes_on_after_its_last_whole_line(tmp_path: Path) -> None:
    source, target = stopped(tmp_path / "in.jsonl", 24, dialogues(30)), tmp_path / "out.jsonl"
    partial = tmp_path / "out.jsonl.partial"
    annotate_file(source, tmp_path / "whole.jsonl", RuleOpener(), workers=1)
    saved: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted = RuleOpener(stop="interrupt")
        annotate_file(source, target, interrupted, workers=1, batch=4, listener=Listener(saved=saved.append))
    assert saved == [8, 8, 8]
    whole = (tmp_path / "whole.jsonl").read_bytes()
    assert partial.read_bytes() == b"".join(whole.splitlines(keepends=True)[:24])
    partial.write_bytes(partial.read_bytes()[:-40])  # the power went while a line was written
    plans: list[Plan] = []
    summary = annotate_file(source, target, RuleOpener(), workers=1, listener=Listener(start=plans.append))
    assert (summary.resumed_dialogues, plans[0].unusable_dialogues) == (23, 0)
    assert target.read_bytes() == whole
    assert names(tmp_path) == ["in.jsonl", "out.jsonl", "whole.jsonl"]


def test_work_that_was_done_in_another_way_is_not_used(tmp_path: Path) -> None:
    source, target = stopped(tmp_path / "in.jsonl", 8, dialogues(12)), tmp_path / "out.jsonl"
    with pytest.raises(KeyboardInterrupt):
        annotate_file(source, target, RuleOpener(stop="interrupt", threshold=0.1), workers=1, batch=4)
    left = (tmp_path / "out.jsonl.partial").read_bytes()
    with pytest.raises(ModelError):  # an opener that fails takes nothing away
        annotate_file(source, target, RuleOpener("broken"), workers=1)
    assert (tmp_path / "out.jsonl.partial").read_bytes() == left
    plans: list[Plan] = []
    summary = annotate_file(source, target, RuleOpener(), workers=1, listener=Listener(start=plans.append))
    assert summary.resumed_dialogues == 0
    assert (plans[0].unusable_dialogues, plans[0].changed) == (8, ("threshold",))
    assert states(target)[0] == one_at_a_time(dialogues(1))[0]


def test_a_run_that_fails_before_it_starts_leaves_nothing(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", dialogues(3))
    for opener in (RuleOpener("broken"), Pretrained(precision="int4"), Pretrained("no/such/model")):
        with pytest.raises((ModelError, InputError)):
            annotate_file(source, tmp_path / "out.jsonl", opener, workers=1)
        assert names(tmp_path) == ["in.jsonl"]


def test_workers_leave_ctrl_c_to_their_parent(tmp_path: Path) -> None:
    source = stopped(tmp_path / "in.jsonl", 5, dialogues(9))
    annotate_file(source, tmp_path / "out.jsonl", RuleOpener(stop="interrupt"), workers=2, batch=2)
    assert len(states(tmp_path / "out.jsonl")) == 10


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("corpus.zip", b"PK\x03\x04....", "is a zip archive.*somdst data convert .*corpus.zip dialogues.jsonl"),
        ("corpus.parquet", b"PAR1....", "is a Parquet file .*--engine ray"),
        ("corpus", None, "is a folder.*somdst data convert"),
    ],
)
def test_an_input_that_is_something_else(tmp_path: Path, name: str, content: bytes | None, sentence: str) -> None:
    source = tmp_path / name
    if content is None:
        source.mkdir()
    else:
        source.write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        annotate_file(source, tmp_path / "out.jsonl", RuleOpener(), workers=1)


KILLED = """
import sys
from scripted import RuleOpener
from somdst.bulk import annotate_file

if __name__ == "__main__":
    annotate_file(sys.argv[1], sys.argv[2], RuleOpener(stop="hang"), workers=2, batch=2)
"""


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    items = dialogues(60)
    source, target = stopped(tmp_path / "in.jsonl", 30, items), tmp_path / "out.jsonl"
    (tmp_path / "run.py").write_text(KILLED)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    process = subprocess.Popen([sys.executable, str(tmp_path / "run.py"), str(source), str(target)], env=environment)
    partial = tmp_path / "out.jsonl.partial"
    # The chunk after these never ends.
    until(lambda: process.poll() is not None or (partial.exists() and partial.read_bytes().count(b"\n") == 28))
    assert process.poll() is None
    children = _children(process.pid)
    process.kill()
    process.wait()
    assert not target.exists()
    assert annotate_file(source, target, RuleOpener(), workers=1).resumed_dialogues == 28
    assert [line["id"] for line in states(target)] == [
        *(f"d{i}" for i in range(30)),
        "stop",
        *(f"d{i}" for i in range(30, 60)),
    ]
    assert children
    until(lambda: not any(map(_alive, children)), what="the end of the workers with their parent")


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_ray_gives_the_same_as_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    import pyarrow.parquet as pq

    from somdst.bulk.on_ray import annotate_on_ray

    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    items = dialogues(60)
    source = write(tmp_path / "in.jsonl", items)
    annotate_file(source, tmp_path / "local.jsonl", RuleOpener(), workers=1)
    expected = (tmp_path / "local.jsonl").read_bytes()

    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        summary = annotate_on_ray(str(source), str(tmp_path / "ray.jsonl"), RuleOpener(), workers=2, batch=4)
        assert (tmp_path / "ray.jsonl").read_bytes() == expected
        assert (summary.dialogues, summary.turns) == (60, sum(len(item.turns) for item in items))

        annotate_on_ray(str(source), str(tmp_path / "out.parquet"), RuleOpener(), workers=2, batch=4)
        rows = pq.read_table(tmp_path / "out.parquet").to_pylist(maps_as_pydicts="strict")
        got = [{"id": row["id"], "states": [turn["state"] for turn in row["turns"]]} for row in rows]
        assert got == states(tmp_path / "local.jsonl")

        # Parquet in, and a folder of parts out
        parts = annotate_on_ray(
            str(tmp_path / "out.parquet"), str(tmp_path / "parts"), RuleOpener(), workers=2, batch=4
        )
        again = pq.read_table(tmp_path / "parts").to_pylist(maps_as_pydicts="strict")
        assert sorted(again, key=lambda row: row["id"]) == sorted(rows, key=lambda row: row["id"])
        assert parts.turns == summary.turns

        with pytest.raises(CorpusError, match=r"bad\.jsonl, line 8"):
            annotate_on_ray(str(write(tmp_path / "bad.jsonl", items, bad={7: "{"})), str(tmp_path / "x"), RuleOpener())
        (tmp_path / "many").mkdir()
        write(tmp_path / "many" / "a.jsonl", items, bad={7: "{"})
        with pytest.raises(CorpusError, match=r"the line that begins with '\{'.*--keep-going"):
            annotate_on_ray(str(tmp_path / "many"), str(tmp_path / "x.jsonl"), RuleOpener())
        assert not (tmp_path / "x").exists() and not (tmp_path / "x.jsonl").exists()
        kept = annotate_on_ray(str(tmp_path / "many"), str(tmp_path / "kept.jsonl"), RuleOpener(), keep_going=True)
        assert kept.skipped == 1 and (tmp_path / "kept.jsonl").read_bytes() == expected
    finally:
        ray.shutdown()


def test_an_input_is_never_overwritten(tmp_path: Path) -> None:
    source = write(tmp_path / "out.jsonl.partial", dialogues(3))
    content = source.read_bytes()
    for target, force in (("out.jsonl", False), ("out.jsonl.partial", True)):
        with pytest.raises(InputError, match="would be overwritten"):
            annotate_file(source, tmp_path / target, RuleOpener(), force=force, workers=1)
    assert source.read_bytes() == content


def test_what_can_be_read_once_is_no_input(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="read only once"):
        annotate_file(tmp_path / "pipe", tmp_path / "out.jsonl", RuleOpener(), workers=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pipe"]


def test_two_runs_do_not_write_one_output(tmp_path: Path) -> None:
    source, target = write(tmp_path / "in.jsonl", dialogues(6)), tmp_path / "out.jsonl"
    said: list[str] = []

    def second(*_: object) -> None:
        try:
            annotate_file(source, target, RuleOpener(), workers=1)
        except InputError as error:
            said.append(str(error))

    annotate_file(source, target, RuleOpener(), workers=1, listener=Listener(start=second))
    assert len(said) == 1 and "Another run is writing" in said[0]
    assert states(target) == one_at_a_time(dialogues(6))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


def test_an_output_behind_a_link_is_written_where_it_is(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", dialogues(2))
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "out.jsonl").write_text("old\n")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real" / "out.jsonl")
    annotate_file(source, tmp_path / "link.jsonl", RuleOpener(), force=True, workers=1)
    assert (tmp_path / "link.jsonl").is_symlink()
    assert states(tmp_path / "real" / "out.jsonl") == one_at_a_time(dialogues(2))
