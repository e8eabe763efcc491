"""MultiWOZ 2.0/2.1: the published layouts, the rules of the paper's preprocessing, and the paper's own counts."""

import dataclasses
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from corpus_files import HOTEL, TRAIN, dialogue, metadata, write_json, write_multiwoz, zipped

from somdst.corpora import Corpus, open_corpus, paper_counts
from somdst.corpora.corpus import SPLIT_NAMES
from somdst.corpora.labels import ANY_SLOT, clean, repair
from somdst.corpora.multiwoz import SCHEMA
from somdst.corpora.statistics import Statistics, count
from somdst.errors import CorpusError
from somdst.memory.dialogue import Dialogue
from somdst.memory.schema import Slot
from somdst.memory.state import DONTCARE, State

CORPUS = {"MUL1.json": HOTEL, "SNG2.json": TRAIN, "PMUL3.json": HOTEL}


def read(tmp_path: Path, *dialogues: dict[str, Any]) -> Corpus:
    return open_corpus(write_json(tmp_path / "some.json", {f"D{i}.json": d for i, d in enumerate(dialogues, start=1)}))


def ids(corpus: Corpus) -> list[str]:
    return [dialogue.id for dialogue in corpus.dialogues]


def test_states_texts_domains_and_goal(tmp_path: Path) -> None:
    corpus = read(tmp_path, HOTEL)
    (hotel,) = corpus.dialogues
    assert (corpus.name, corpus.format, corpus.dropped) == ("some", "MultiWOZ 2.0/2.1", ())
    assert corpus.schema is not None and len(corpus.schema) == 30
    assert (hotel.id, hotel.goal) == ("D1", ("hotel",))
    first, second = hotel.turns
    assert (first.system, first.user, first.domain) == ("", "A B&B in the Town Centre", "hotel")  # raw, as typed
    assert (second.system, second.user) == ("Which day?", "Friday")
    assert first.state == State({"hotel-area": "centre"})
    assert second.state == State({"hotel-area": "centre", "hotel-book day": "friday", "hotel-stars": DONTCARE})


@pytest.mark.parametrize("ending", ["", ".txt", ".json"])
@pytest.mark.parametrize("as_zip", [False, True], ids=["folder", "zip"])
def test_splits(tmp_path: Path, ending: str, as_zip: bool) -> None:
    path = write_multiwoz(
        tmp_path / "MULTIWOZ2 2", CORPUS, ending=ending, valListFile="SNG2.json\n", testListFile="PMUL3\n\n"
    )
    if as_zip:
        path = zipped(path, tmp_path / "MULTIWOZ2.zip")
    assert ids(open_corpus(path)) == ["MUL1", "SNG2", "PMUL3"]
    assert ids(open_corpus(path, split="train")) == ["MUL1"]
    assert ids(open_corpus(path, split="dev")) == ["SNG2"]
    assert ids(open_corpus(path, split="test")) == ["PMUL3"]
    assert open_corpus(path).name == path.name.removesuffix(".zip")
    if not as_zip:
        assert ids(open_corpus(path / "data.json", split="dev")) == ["SNG2"]


def test_a_compressed_file(tmp_path: Path) -> None:
    path = tmp_path / "part.json.xz"
    path.write_bytes(lzma.compress(json.dumps(CORPUS).encode()))
    assert ids(open_corpus(path)) == ["MUL1", "SNG2", "PMUL3"]


def test_the_turn_domain_is_the_first_that_changed(tmp_path: Path) -> None:
    hotel = metadata(hotel_area="north", hotel_name="not mentioned")
    booked = metadata(hotel_area="north", hotel_name="not mentioned")
    booked["hotel"]["book"]["booked"] = [{"reference": "X"}]
    both = metadata(hotel_area="north", train_day="friday")
    turns = [("a", "b", hotel), ("c", "d", hotel), ("e", "f", both), ("g", "h", both), ("i", "j", booked)]
    (read_dialogue,) = read(tmp_path, dialogue(*turns, goal=("train", "hotel"))).dialogues
    # In the third turn both changed: hotel stands before train in the metadata.
    assert [turn.domain for turn in read_dialogue.turns] == ["hotel", "hotel", "hotel", "hotel", "hotel"]
    (other,) = read(tmp_path, dialogue(("a", "b", metadata(hotel_area="north")), goal=("train", "hotel"))).dialogues
    assert other.turns[0].domain == "train"  # nothing is marked as not mentioned: the goal's first


def test_turns_outside_the_five_domains_are_left_out(tmp_path: Path) -> None:
    police = dialogue(("help", "yes", metadata()), goal=("police",))
    mixed = dialogue(
        ("help", "yes", metadata()),
        ("and a hotel", "where?", metadata(hotel_area="north")),
        goal=("police", "hotel"),
    )
    corpus = read(tmp_path, police, mixed)
    (kept,) = corpus.dialogues
    assert [(turn.system, turn.user) for turn in kept.turns] == [("yes", "and a hotel")]
    assert [dropped.id for dropped in corpus.dropped] == ["D1"]


@pytest.mark.parametrize(
    ("text", "kept"),
    [("word " * 50, True), ("word " * 51, False), ("word, " * 26, False), ("it’s fine", True), ("café", False)],
)
def test_drop_rules(tmp_path: Path, text: str, kept: bool) -> None:
    corpus = read(tmp_path, dialogue((text, "ok", metadata(hotel_name="not mentioned"))))
    assert (len(corpus.dialogues), len(corpus.dropped)) == (kept, not kept)


def test_several_spellings_of_a_value(tmp_path: Path) -> None:
    several = metadata(hotel_name="not mentioned")
    several["hotel"]["semi"]["area"] = ["Town Centre", "centre"]
    several["hotel"]["semi"]["type"] = []
    (read_dialogue,) = read(tmp_path, dialogue(("a", "b", several))).dialogues
    assert read_dialogue.turns[0].state == State({"hotel-area": "centre"})


@pytest.mark.parametrize(
    ("slot", "raw", "value"),
    [
        ("hotel-area", "Center", "centre"),
        ("hotel-area", "no", "north"),
        ("hotel-parking", "no", "no"),
        ("hotel-book day", "we", "wednesday"),
        ("train-day", "t", None),
        ("hotel-internet", "free", "yes"),
        ("hotel-internet", "free internet", "yes"),
        ("hotel-parking", "free parking", "free"),
        ("hotel-stars", "4 stars", "4"),
        ("hotel-type", "guesthouse", "guest house"),
        ("hotel-type", "4 stars", "hotel"),
        ("hotel-type", "bed and breakfast", None),
        ("hotel-name", "bed and breakfast", "bed and breakfast"),
        ("attraction-type", "science", None),
        ("attraction-type", "sports", "multiple sports"),
        ("restaurant-pricerange", "moderately", "moderate"),
        ("restaurant-food", "any", DONTCARE),
        ("restaurant-food", "don't care", DONTCARE),
        ("restaurant-name", "not mentioned", None),
        ("restaurant-name", "none", None),
        ("taxi-destination", "restaurant two two", "restaurant 2 two"),
        ("taxi-departure", "alexander b&b", "alexander bed and breakfast"),
    ],
)
def test_labels(slot: str, raw: str, value: object) -> None:
    assert clean(SCHEMA[slot], raw) == value


def test_repaired_labels_need_no_repair() -> None:
    name = Slot.of("taxi", "destination")
    for spelling in ANY_SLOT:
        value = repair(name, spelling)
        assert not isinstance(value, str) or repair(name, value) == value


BAD = {
    "odd number of entries (3)": lambda d: d["log"].pop(),
    "Its log is empty": lambda d: d["log"].clear(),
    "Its log should be a list": lambda d: d.pop("log"),
    "Log entry 2 should be a JSON object, not text": lambda d: d["log"].__setitem__(1, "x"),
    "The text of log entry 1 should be text, not missing": lambda d: d["log"][0].pop("text"),
    'In the metadata of log entry 2 the domain "hotel" is missing': lambda d: d["log"][1]["metadata"].pop("hotel"),
    "The metadata of log entry 4 should be a JSON object, not a list": lambda d: d["log"][3].update(metadata=[]),
    '`semi` of "taxi" in the metadata of log entry 2': lambda d: d["log"][1]["metadata"]["taxi"].update(semi="x"),
    'fills the slot "pool" of hotel': lambda d: d["log"][1]["metadata"]["hotel"]["semi"].update(pool="yes"),
    'The slot "area" in log entry 2 should be text, not 5': lambda d: d["log"][1]["metadata"]["hotel"]["semi"].update(
        area=5
    ),
    "The goal should be a JSON object": lambda d: d.update(goal=None),
}


@pytest.mark.parametrize("reason", BAD)
def test_a_corrupt_dialogue_is_counted_and_named(tmp_path: Path, reason: str) -> None:
    bad = json.loads(json.dumps(HOTEL))
    BAD[reason](bad)
    corpus = read(tmp_path, TRAIN, bad, TRAIN)
    assert ids(corpus) == ["D1", "D3"]
    (dropped,) = corpus.dropped
    assert dropped.id == "D2"
    assert str(dropped).startswith(f"{tmp_path / 'some.json'}, dialogue D2: ")
    assert reason in dropped.reason and dropped.reason.endswith(".")


def test_a_listed_dialogue_that_is_absent_is_named(tmp_path: Path) -> None:
    path = write_multiwoz(tmp_path / "mw", CORPUS, valListFile="SNG2\nSNG9\n", testListFile="PMUL3")
    corpus = open_corpus(path, split="dev")
    assert ids(corpus) == ["SNG2"]
    assert [(dropped.id, dropped.reason) for dropped in corpus.dropped] == [
        ("SNG9", "valListFile lists it, and it is not there.")
    ]


def test_bad_files(tmp_path: Path) -> None:
    path = write_multiwoz(tmp_path / "mw", CORPUS, valListFile=" \n")
    archive = zipped(path, tmp_path / "mw.zip")
    with pytest.raises(CorpusError, match=r"mw has no testListFile"):
        open_corpus(path, split="test")
    with pytest.raises(CorpusError, match=r"valListFile.txt is empty"):
        open_corpus(path, split="dev")
    (path / "valListFile.txt").write_bytes(b"\xff")
    with pytest.raises(CorpusError, match=r"valListFile.txt is not UTF-8"):
        open_corpus(path, split="train")
    archive.write_bytes(archive.read_bytes()[:-30])
    with pytest.raises(CorpusError, match=r"mw.zip is not a zip, or was cut short"):
        open_corpus(archive)
    for content, sentence in (
        (b"", "is empty"),
        (b'{"a": ', "not valid JSON"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b"{}", "at least one"),
        (b"[]", "should be a JSON object"),
    ):
        (path / "data.json").write_bytes(content)
        with pytest.raises(CorpusError, match=sentence):
            open_corpus(path)


def test_a_zip_with_a_damaged_file(tmp_path: Path) -> None:
    archive = zipped(write_multiwoz(tmp_path / "mw", CORPUS), tmp_path / "mw.zip")
    content = bytearray(archive.read_bytes())
    content[content.index(b"MUL1.json")] ^= 1  # the checksum no longer fits
    archive.write_bytes(content)
    with pytest.raises(CorpusError, match=r"mw/data.json in .*mw.zip is cut short or damaged"):
        open_corpus(archive)


def test_paths_without_a_corpus(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="holds no corpus"):
        open_corpus(tmp_path)
    with pytest.raises(CorpusError, match="holds no corpus"):
        open_corpus(write_json(tmp_path / "x.json", [1]))
    with pytest.raises(CorpusError, match="without splits"):
        open_corpus(write_json(tmp_path / "y.json", CORPUS), split="dev")
    with pytest.raises(CorpusError, match='no split "valid"; there are train, dev, test'):
        open_corpus(tmp_path, split="valid")  # type: ignore[arg-type]


def original(data: Path, split: str) -> Corpus:
    return open_corpus(data / "multiwoz-2.1" / f"original-{split}.json.xz")


def complete(corpus: Corpus, converted: Corpus) -> list[Dialogue]:
    """With the dialogues that are only in the converted corpus; their goal is what they talk about."""
    known = set(ids(corpus))
    lacking = [dialogue for dialogue in converted.dialogues if dialogue.id not in known]
    return [
        *corpus.dialogues,
        *(
            dataclasses.replace(d, goal=tuple({turn.domain for turn in d.turns if turn.domain is not None}))
            for d in lacking
        ),
    ]


def columns(counted: Statistics) -> tuple[dict[str, int], ...]:
    return (
        dict(counted.operations),
        {row.domain: row.dialogues for row in counted.domains},
        {row.domain: row.turns for row in counted.domains},
        dict(counted.vocabulary),
    )


@pytest.mark.data
@pytest.mark.parametrize("split", ["dev", "test"])
def test_the_papers_tables_to_the_digit(data: Path, split: str) -> None:
    corpus = original(data, split)
    converted = open_corpus(data / "multiwoz-2.1", split=split)  # type: ignore[arg-type]
    dialogues = complete(corpus, converted)
    counted = count(dialogues, schema=SCHEMA)
    column = list(SPLIT_NAMES).index(split)
    tables = (paper_counts.OPERATIONS, paper_counts.DIALOGUES, paper_counts.TURNS, paper_counts.VOCABULARY)
    assert columns(counted) == tuple({name: row[column] for name, row in table.items()} for table in tables)
    assert (counted.dialogues, counted.turns) == {"dev": (1000, 7371), "test": (999, 7368)}[split]
    if split == "test":
        assert [dropped.id for dropped in corpus.dropped] == ["PMUL1455"]
        generated = counted.generated
        assert (generated.min, round(generated.mean, 2), generated.max) == paper_counts.GENERATED
        assert {" ".join(row.domains): row.dialogues for row in counted.transitions} == paper_counts.TRANSITIONS
        assert (len(counted.transitions), counted.complicated, counted.complicated_ending("taxi")) == (50, 175, 140)


@pytest.mark.data
@pytest.mark.parametrize("split", ["dev", "test"])
def test_original_and_converted_files_agree(data: Path, split: str) -> None:
    converted = {d.id: d.turns for d in open_corpus(data / "multiwoz-2.1" / f"{split}.jsonl.xz").dialogues}
    corpus = original(data, split)
    assert len(corpus.dialogues) == 999
    for read_dialogue in corpus.dialogues:
        assert read_dialogue.turns == converted[read_dialogue.id]
