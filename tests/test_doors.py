"""The same dialogues through every door lead to the same states, changes and evidence, and no door loses a field.

The doors: a conversation in memory, the service with its client (stored, and with /v1/track), annotation on this
machine and on Ray, evaluation, and a replay under the same model.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from browser import served
from scripted import RuleOpener

from somdst import Client, Dialogue, Schema, Slot, Tracker, Turn
from somdst.bulk import Opener, Pretrained, annotate_file
from somdst.bulk.on_ray import annotate_on_ray, parquet_schema
from somdst.corpora.examples import examples
from somdst.corpora.jsonlines import dialogue_to_json
from somdst.evaluate.run import run as evaluate
from somdst.memory.state import State
from somdst.model.prediction import Evidence
from somdst.service.configuration import Settings
from somdst.service.views import SchemaView
from somdst.tracking.conversation import Conversation
from somdst.tracking.records import Change, Entry, Pending, Refused, TrackedTurn
from somdst.tracking.replays import rerun

TESTS = Path(__file__).parent
Tracked = list[list[dict[str, Any]]]
"""For every dialogue and turn what it led to, as `TrackedTurn.to_json` says it."""

SCHEMA = {
    "domains": {
        "hotel": {
            "area": {"description": "part of town", "values": ["north", "south", "centre"]},
            "stars": ["3", "4"],
            "name": {},
            "pricerange": ["cheap", "expensive"],
        },
        "restaurant": {"area": ["north", "south", "centre"], "name": {}, "food": {}, "book time": {}, "book day": {}},
        "taxi": {"departure": {}, "destination": {}, "arriveby": {}},
        "train": {"departure": {}, "destination": {}, "day": {}},
    },
    "different": [["taxi-departure", "taxi-destination"], ["train-departure", "train-destination"]],
}
SAID = (
    ("", "hotel area north, maybe hotel stars 4"),
    ("So hotel name acorn?", "hotel area city center"),  # in the system's words, and near a value of the list
    ("", "hotel area the moon and any hotel stars"),  # not in the list: refused
    ("", "hotel area as before"),  # refused again, with words of the turn before
    ("", "hotel name worth house"),
    ("", "hotel name as before and taxi departure like hotel name"),
    ("", "maybe hotel name autumn house"),
    ("", "no hotel name, maybe taxi destination 😀 cambridge"),
)
RULED = [
    Dialogue(f"d{number}", tuple(Turn(system, user, state=State()) for system, user in SAID[number:]), goal=("hotel",))
    for number in range(4)
]

SAME_PLACE = [
    Dialogue(f"same place {number}", (Turn("", words, state=State()),))
    for number, words in enumerate(
        (
            "I want a train leaving from norwich to norwich on friday.",
            "I need a taxi to go from the acorn guest house to the acorn.",
            "A train to cambridge from cambridge.",
        )
    )
]
"""Here a model that does not know which slots differ writes one place into two of them."""


@pytest.fixture(scope="module", params=["rules", "shipped"])
def opener(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Opener:
    path = tmp_path_factory.mktemp("doors") / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    if request.param == "rules":
        return RuleOpener(schema=str(path))
    return Pretrained(schema=str(path), threshold=0.5)


@pytest.fixture(scope="module")
def dialogues(opener: Opener) -> list[Dialogue]:
    return RULED if isinstance(opener, RuleOpener) else [*(item.dialogue for item in examples().values()), *SAME_PLACE]


@pytest.fixture(scope="module")
def tracker(opener: Opener) -> Tracker:
    return opener()


@pytest.fixture(scope="module")
def conversations(tracker: Tracker, dialogues: list[Dialogue]) -> list[Conversation]:
    """The first door: everything else is compared with it."""
    found = []
    for dialogue in dialogues:
        found.append(tracker.start())
        for turn in dialogue.turns:
            found[-1].update(user=turn.user, system=turn.system)
    return found


@pytest.fixture(scope="module")
def expected(tracker: Tracker, conversations: list[Conversation]) -> Tracked:
    return [
        [
            TrackedTurn(
                state=(snapshot := conversation.at(number)).state,
                changes=entry.changes,
                pending=tuple(snapshot.pending[slot] for slot in sorted(snapshot.pending)),
                refused=entry.refused,
                domain=entry.domain,
            ).to_json()
            for number, entry in enumerate(conversation.entries, 1)
        ]
        for conversation in conversations
    ]


@pytest.fixture(scope="module")
def client(tracker: Tracker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    settings = Settings(database=str(tmp_path_factory.mktemp("doors") / "conversations.sqlite"))
    with served(settings, tracker) as url, Client(url) as client:
        yield client


def test_the_service(
    client: Client, dialogues: list[Dialogue], conversations: list[Conversation], expected: Tracked
) -> None:
    for dialogue, conversation, wanted in zip(dialogues, conversations, expected, strict=True):
        remote = client.start(subject="doors")
        answers = [remote.update(user=turn.user, system=turn.system) for turn in dialogue.turns]
        got = [
            TrackedTurn(answer.state, answer.changes, answer.pending, answer.refused, answer.entry.domain).to_json()
            for answer in answers
        ]
        assert got == wanted
        assert timeless(remote.log()) == timeless(conversation.entries)
        assert [timeless([answer.entry]) for answer in answers] == [timeless([entry]) for entry in remote.log()]
        assert remote.read().turns == conversation.turns[-16:]


def timeless(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """All fields of `Entry` but the time."""
    names = {field.name for field in dataclasses.fields(Entry)} - {"time"}
    return [{name: value for name, value in entry.to_json().items() if name in names} for entry in entries]


def test_a_whole_dialogue_at_the_service(client: Client, dialogues: list[Dialogue], expected: Tracked) -> None:
    assert [[turn.to_json() for turn in client.track(dialogue.turns)] for dialogue in dialogues] == expected


def test_the_schema_of_the_service(client: Client, tracker: Tracker) -> None:
    assert client.schema() == tracker.schema
    assert client.schema().different == tracker.schema.different != ()
    odd = Schema(
        [Slot.of("a", "b-c", description="d", values=["e"]), Slot.of("a", "f", ask="f?")], different=[["a-f", "a-b-c"]]
    )
    assert SchemaView.from_json(SchemaView.of(odd).to_json()).schema() == odd


def write(path: Path, dialogues: Iterable[Dialogue]) -> Path:
    path.write_text("".join(json.dumps(dialogue_to_json(dialogue)) + "\n" for dialogue in dialogues))
    return path


def tracked(rows: Iterable[dict[str, Any]], dialogues: list[Dialogue]) -> Tracked:
    """What annotated dialogues say; the dialogues themselves must be in them unchanged."""
    found = list(rows)
    for row, dialogue in zip(found, dialogues, strict=True):
        assert (row["id"], row.get("goal")) == (dialogue.id, list(dialogue.goal) if dialogue.goal else None)
        assert [(turn["system"], turn["user"]) for turn in row["turns"]] == [(t.system, t.user) for t in dialogue.turns]
    return [
        [{name: value for name, value in turn.items() if name not in ("system", "user")} for turn in row["turns"]]
        for row in found
    ]


def labelled(expected: Tracked, dialogues: list[Dialogue]) -> Tracked:
    """A domain that a corpus names goes before the model's."""
    return [
        [{**turn, "domain": said.domain or turn["domain"]} for turn, said in zip(turns, dialogue.turns, strict=True)]
        for turns, dialogue in zip(expected, dialogues, strict=True)
    ]


def test_annotation(opener: Opener, dialogues: list[Dialogue], expected: Tracked, tmp_path: Path) -> None:
    annotate_file(write(tmp_path / "in.jsonl", dialogues), tmp_path / "out.jsonl", opener, workers=1, batch=3)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert_alike(tracked(rows, dialogues), labelled(expected, dialogues))


@pytest.mark.slow
def test_annotation_on_ray(
    opener: Opener, dialogues: list[Dialogue], expected: Tracked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    import pyarrow.parquet as pq

    monkeypatch.setenv("PYTHONPATH", f"{TESTS}:{TESTS.parent}")
    source = str(write(tmp_path / "in.jsonl", dialogues))
    annotate_on_ray(source, str(tmp_path / "out.parquet"), opener, workers=1, batch=3)
    rows = pq.read_table(tmp_path / "out.parquet").to_pylist(maps_as_pydicts="strict")
    assert [row.pop("error") for row in rows] == [None] * len(rows)
    assert_alike(tracked(rows, dialogues), labelled(expected, dialogues))


def assert_alike(found: Any, wanted: Any) -> None:
    """Equal but for rounding: a batch, or a worker with one thread, adds numbers in another order."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for key in wanted:
            assert_alike(found[key], wanted[key])
    elif isinstance(wanted, list):
        for one, other in zip(found, wanted, strict=True):
            assert_alike(one, other)
    else:
        assert found == (pytest.approx(wanted, abs=1e-4) if isinstance(wanted, float) else wanted)


def test_parquet_keeps_every_field(dialogues: list[Dialogue], expected: Tracked) -> None:
    pa = pytest.importorskip("pyarrow")
    rows = [
        {"id": dialogue.id, "turns": [{"system": "", "user": "", **turn} for turn in turns]}
        for dialogue, turns in zip(dialogues, expected, strict=True)
    ]
    back = pa.Table.from_pylist(rows, schema=parquet_schema()).to_pylist(maps_as_pydicts="strict")
    assert [{name: row[name] for name in ("id", "turns")} for row in back] == rows


def test_evaluation(tracker: Tracker, dialogues: list[Dialogue], expected: Tracked) -> None:
    runs = evaluate(tracker.predictor, dialogues, schema=tracker.schema, threshold=tracker.threshold, batch_size=3)
    for run, turns in zip(runs, expected, strict=True):
        assert [turn.predicted.to_json() for turn in run.turns] == [turn["state"] for turn in turns]
        for got, wanted in zip(run.turns, turns, strict=True):
            for change in wanted["changes"]:
                evidence = got.prediction.slots[change["slot"]].evidence
                assert (dataclasses.asdict(evidence) if evidence else None) == change["evidence"]


def test_a_replay_under_the_same_model(tracker: Tracker, conversations: list[Conversation]) -> None:
    logs = {str(number): conversation.entries for number, conversation in enumerate(conversations)}
    assert rerun(tracker, logs) == {id: [] for id in logs}


def test_the_schema_decides(opener: Opener, tracker: Tracker, dialogues: list[Dialogue], expected: Tracked) -> None:
    """Closed lists, and for a model also slots that differ: without them some state would be another."""
    parts = ["different", "lists"] if isinstance(opener, Pretrained) else ["lists"]
    for part in parts:
        slots = [
            Slot.of(
                slot.domain, slot.name, description=slot.description, values=None if part == "lists" else slot.values
            )
            for slot in tracker.schema.slots
        ]
        looser = Schema(slots, different=() if part == "different" else tracker.schema.different)
        runs = evaluate(tracker.predictor, dialogues, schema=looser, threshold=tracker.threshold)
        states = [[turn.predicted.to_json() for turn in run.turns] for run in runs]
        assert states != [[turn["state"] for turn in turns] for turns in expected], part


def test_these_dialogues_use_the_rules_and_every_field(opener: Opener, conversations: list[Conversation]) -> None:
    """A field that is never filled could be lost by a door unnoticed."""
    if not isinstance(opener, RuleOpener):
        return
    entries = [entry for conversation in conversations for entry in conversation.entries]
    changes = [change for entry in entries for change in (*entry.changes, *entry.held, *entry.refused)]
    seen: dict[type, list[Any]] = {
        Change: changes,
        Pending: [item for entry in entries for item in entry.held],
        Refused: [item for entry in entries for item in entry.refused],
        Evidence: [change.evidence for change in changes if change.evidence is not None],
    }
    for kind, records in seen.items():
        for field in dataclasses.fields(kind):
            values = {getattr(record, field.name) for record in records}
            assert len(values - {None, 0, ""}) > 0, f"{kind.__name__}.{field.name} is always empty"
    assert {change.evidence.source for change in changes if change.evidence} == {"user", "system", "slot"}
    assert any(change.after == "centre" for change in changes), "a near value became the one of the closed list"
