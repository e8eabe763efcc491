"""`check`: every kind of finding in a corpus made for it, with its line and turn, and silence on a sound corpus."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from somdst.corpora.check import Problem, Source, check, open_to_check
from somdst.corpora.findings import Finding, Findings, Kind, Place, Severity
from somdst.corpora.jsonlines import read_lines
from somdst.corpora.spelling import two_spellings
from somdst.corpora.synthetic import SYNTHETIC_SCHEMA, synthetic_dialogues
from somdst.errors import SchemaError
from somdst.memory.operations import OPERATION_SETS
from somdst.memory.schema import Schema, Slot
from somdst.memory.state import Value
from somdst.model.prediction import TurnInput

SCHEMA = Schema.from_json({"domains": {"hotel": {"area": ["north", "centre"], "name": None, "nights": None}}})
Said = tuple[str, dict[str, str] | None]


def written(path: Path, dialogues: Iterable[list[Said]]) -> Path:
    lines = [
        {"id": f"d{i}", "turns": [{"system": "", "user": user} | ({"state": state} if state is not None else {})
                                  for user, state in turns]}
        for i, turns in enumerate(dialogues, start=1)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def checked(path: Path, **options: object) -> Findings:
    sources = (Source(Place(path.name, number), dialogue) for number, dialogue in read_lines(path))
    return check(sources, **{"schema": SCHEMA, **options})  # type: ignore[arg-type]


def found(report: Findings, kind: Kind) -> list[Finding]:
    return [finding for finding in report.findings if finding.kind is kind]


GOOD: list[Said] = [
    ("A hotel in the north", {"hotel-area": "north"}),
    ("Call it Bell Tower, 2 nights", {"hotel-area": "north", "hotel-name": "bell tower", "hotel-nights": "2"}),
]


def test_sound_corpus(tmp_path: Path) -> None:
    report = checked(written(tmp_path / "own.jsonl", [GOOD, GOOD]))
    assert report.findings == () and not report.harmful
    assert (report.dialogues, report.turns) == (2, 4)


class TestSchemasOfDialogues:
    """Dialogues may bring their own schemas, as those of SGD do."""

    @staticmethod
    def corpus(path: Path, *, bare: bool = False) -> Path:
        cafe = {"domains": {"cafe": {"drink": ["tea", "coffee"]}}}
        bar = {"domains": {"bar": {"drink": ["beer", "wine"]}}}
        lines = [
            {"id": "a", "turns": [{"user": "A tea", "state": {"cafe-drink": "tea"}}], "schema": cafe},
            {"id": "b", "turns": [{"user": "A tea", "state": {"bar-drink": "tea"}}], "schema": bar},
            {"id": "c", "turns": [{"user": "A beer", "state": {"bar-drink": "beer"}}]}
            | ({} if bare else {"schema": cafe}),
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    def test_each_is_checked_against_its_own(self, tmp_path: Path) -> None:
        sources, schema = open_to_check(str(self.corpus(tmp_path / "own.jsonl")))
        assert list(schema) == ["bar-drink", "cafe-drink"]
        harm = [item for item in check(sources, schema=schema).findings if item.kind.severity is Severity.HARM]
        assert [(item.kind, item.place.dialogue) for item in harm] == [
            (Kind.CLOSED_LIST, "b"),
            (Kind.UNKNOWN_SLOT, "c"),
        ]

    def test_a_schema_that_is_given_counts_for_all(self, tmp_path: Path) -> None:
        Schema([Slot.of("bar", "drink"), Slot.of("cafe", "drink")]).save(tmp_path / "given.yaml")
        path = str(self.corpus(tmp_path / "own.jsonl"))
        sources, schema = open_to_check(path, schema=str(tmp_path / "given.yaml"))
        assert not check(sources, schema=schema).harmful

    def test_one_dialogue_without_a_schema(self, tmp_path: Path) -> None:
        with pytest.raises(SchemaError, match="give a schema with --schema"):
            open_to_check(str(self.corpus(tmp_path / "own.jsonl", bare=True)))


def test_synthetic_corpus_is_harmless() -> None:
    sources = [Source(Place("synthetic"), dialogue) for dialogue in synthetic_dialogues(dialogues=300)]
    report = check(sources, schema=SYNTHETIC_SCHEMA)
    assert not report.harmful
    assert set(report.counts) <= {Kind.RETURNS}  # a value that was taken back may be given again


@pytest.mark.parametrize(
    ("turns", "kind", "turn", "words"),
    [
        ([("in the north", {"hotel-aera": "north"})], Kind.UNKNOWN_SLOT, 1, 'Did you mean "hotel-area"?'),
        ([("in the south", {"hotel-area": "south"})], Kind.CLOSED_LIST, 1, '"south" is not in the list'),
        ([("hi", {}), ("in the north", None)], Kind.UNLABELLED, 2, 'no "state"'),
        ([("Bell Tower", {"hotel-name": "Bell Tower"})], Kind.UNREACHABLE, 1, 'only "bell tower" can be written'),
        ([("hello", {"hotel-name": ""})], Kind.UNREACHABLE, 1, "an empty value is never written"),
        ([("bell tower", {"hotel-name": " bell  tower"})], Kind.UNREACHABLE, 1, 'only "bell tower"'),
        ([*GOOD, ("hm", {}), ("ok", {"hotel-area": "north"})], Kind.RETURNS, 4, "after it was dropped"),
        ([("a hotel", {"hotel-name": "bell tower"})], Kind.NOWHERE, 1, "nowhere in the dialogue"),
        ([("a", {"hotel-nights": "2"}), ("2", {"hotel-nights": "2"})], Kind.NOWHERE, 1, "nowhere before turn 2"),
        ([("at 12:30", {"hotel-nights": "2"})], Kind.NOWHERE, 1, "nowhere in the dialogue"),
        ([("none", {"hotel-name": "none"})], Kind.NULL_WORD, 1, "leave the slot out"),
        ([("any", {"hotel-name": "any"})], Kind.NULL_WORD, 1, 'write "dontcare"'),
        ([("hi", {}), (" ", {})], Kind.NO_TEXT, 2, "says nothing"),
    ],
)
def test_each_kind(tmp_path: Path, turns: list[Said], kind: Kind, turn: int, words: str) -> None:
    report = checked(written(tmp_path / "own.jsonl", [GOOD, turns, GOOD]))
    [finding] = found(report, kind)
    assert finding.place == Place("own.jsonl", 2, "d2", turn)
    assert words in finding.message
    assert report.harmful is (kind.severity is Severity.HARM)


def test_a_listed_value_is_written_as_in_its_list(tmp_path: Path) -> None:
    schema = Schema([Slot.of("hotel", "area", values=["North", "South"])])
    report = checked(written(tmp_path / "own.jsonl", [[("in the north", {"hotel-area": "North"})]]), schema=schema)
    assert not report.harmful, report.findings


def test_slots_that_are_different(tmp_path: Path) -> None:
    pair = ["hotel-area", "hotel-name"]
    both: list[Said] = [
        ("north", {"hotel-area": "north"}),
        ("north", dict.fromkeys(pair, "north")),
        ("ok", dict.fromkeys(pair, "north")),
    ]
    report = checked(written(tmp_path / "own.jsonl", [GOOD, both]), schema=Schema(SCHEMA.slots, different=[pair]))
    [finding] = found(report, Kind.SAME_VALUE)
    assert finding.place == Place("own.jsonl", 2, "d2", 2), "said once, where it comes about"
    assert 'are both "north"' in finding.message and not report.harmful


def test_spellings_name_the_rare_one(tmp_path: Path) -> None:
    odd: list[Said] = [("Bel Tower please", {"hotel-name": "bel tower"})]
    report = checked(written(tmp_path / "own.jsonl", [GOOD] * 6 + [odd]))
    [finding] = found(report, Kind.SPELLINGS)
    assert finding.place == Place("own.jsonl", 7, "d7", 1)
    assert '"bel tower" here and "bell tower" elsewhere (1 against 6)' in finding.message
    assert not report.harmful


def test_references_and_yes_are_no_surprise(tmp_path: Path) -> None:
    turns: list[Said] = [
        ("the Bell Tower", {"hotel-name": "bell tower"}),
        ("sure", {"hotel-name": "bell tower", "hotel-nights": "yes"}),
    ]
    assert not found(checked(written(tmp_path / "own.jsonl", [turns])), Kind.NOWHERE)


def test_bad_lines_are_findings_and_the_rest_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "own.jsonl", [GOOD])
    path.write_bytes(path.read_bytes() + b'{"id": "x", "turns": [{"user": 3}]}\n\xff\n{"id": 7}\n')
    sources = (Source(Place(str(path), number), dialogue) for number, dialogue in read_lines(path))
    report = check(sources, schema=SCHEMA)
    assert [finding.place.line for finding in found(report, Kind.UNREADABLE)] == [2, 3, 4]
    assert report.dialogues == 1 and report.harmful
    assert report.findings[0].message.startswith("this line (dialogue x), turn 1")


def test_same_id_domain_and_never_filled(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    line = {"id": "a", "turns": [{"user": "north", "domain": "hotels", "state": {"hotel-area": "north"}}]}
    path.write_text((json.dumps(line) + "\n") * 2)
    report = checked(path)
    assert [finding.place.line for finding in found(report, Kind.SAME_ID)] == [2]
    assert 'Did you mean "hotel"?' in found(report, Kind.UNKNOWN_DOMAIN)[0].message
    assert {finding.slot for finding in found(report, Kind.NEVER_FILLED)} == {"hotel-name", "hotel-nights"}


@pytest.mark.parametrize("name", OPERATION_SETS)
def test_every_operation_set_reaches_sound_states(name: str) -> None:
    sources = [Source(Place("synthetic"), dialogue) for dialogue in synthetic_dialogues(dialogues=50)]
    report = check(sources, schema=SYNTHETIC_SCHEMA, operation_set=OPERATION_SETS[name])
    assert not found(report, Kind.UNREACHABLE)


def test_input_check_is_asked_about_every_turn(tmp_path: Path) -> None:
    asked: list[dict[str, Value | None]] = []

    def long(input: TurnInput, values: dict[str, Value | None]) -> list[Problem]:
        asked.append(values)
        return [Problem(Kind.TRUNCATED, "cut")] if input.previous_turn else []

    report = checked(written(tmp_path / "own.jsonl", [GOOD]), input_check=long)
    assert asked == [{"hotel-area": "north"}, {"hotel-name": "bell tower", "hotel-nights": "2"}]
    assert [(finding.kind, finding.place.turn) for finding in report.findings] == [(Kind.TRUNCATED, 2)]


def test_report_as_json(tmp_path: Path) -> None:
    report = checked(written(tmp_path / "own.jsonl", [[("in the north", {"hotel-aera": "north"})]]))
    data = json.loads(json.dumps(report.to_json()))
    assert data["harm"] == 1 and data["counts"]["unknown-slot"] == 1
    assert data["findings"][0] == {
        "kind": "unknown-slot", "severity": "harm", "file": "own.jsonl", "line": 1, "dialogue": "d1", "turn": 1,
        "slot": "hotel-aera", "message": 'The slot "hotel-aera" is not in the schema. Did you mean "hotel-area"?',
    }  # fmt: skip
    assert next(iter(report.counts)).severity is Severity.HARM


def test_spellings() -> None:
    assert two_spellings({"east": 9, "west": 1, "10:15": 50, "10:45": 1, "north": 20, "south": 1}) == []
    assert [pair.rare for pair in two_spellings({"the slug": 9, "Slug": 2, "sulg and": 1, "slug and": 9})] == [
        "sulg and",
        "Slug",
    ]
