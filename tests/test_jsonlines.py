"""The project's own format: there and back, and each kind of damage in one sentence."""

import gzip
import json
import lzma
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from somdst.corpora import open_corpus, read_dialogues, write_dialogues
from somdst.corpora.jsonlines import MAX_LINE, dialogue_from_json, dialogue_to_json, read_lines
from somdst.errors import CorpusError, FileError
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.schema import Schema, Slot
from somdst.memory.state import DONTCARE, State

ONE = Dialogue(
    "d1",
    (
        Turn("", "Ein Hotel im Süden", State({"hotel-area": "süd", "hotel-stars": DONTCARE}), "hotel"),
        Turn("Which?", "any"),
    ),
    ("hotel",),
)
GOOD = '{"id": "a", "turns": [{"user": "hi"}]}'
TEXTS = st.text(max_size=8)
VALUES = st.one_of(st.just(DONTCARE), TEXTS.filter(lambda text: text != "dontcare"))
TURNS = st.builds(Turn, TEXTS, TEXTS, st.none() | st.dictionaries(TEXTS, VALUES).map(State), st.none() | TEXTS)
DIALOGUES = st.builds(
    Dialogue,
    st.text(min_size=1),
    st.lists(TURNS, min_size=1, max_size=3).map(tuple),
    st.none() | st.lists(TEXTS).map(tuple),
)


@given(DIALOGUES)
def test_from_json_undoes_to_json(dialogue: Dialogue) -> None:
    assert dialogue_from_json(json.loads(json.dumps(dialogue_to_json(dialogue)))) == dialogue


def test_a_dialogue_keeps_its_schema_its_spellings_and_its_frames() -> None:
    schema = Schema([Slot.of("taxi", "to", description="where to", values=["rome", "paris"])], text_rules="lowercase")
    turn = Turn("", "to NYC", State({"taxi-to": "rome"}), spellings={"taxi-to": ("rome", "roma")}, frames=("taxi",))
    back = dialogue_from_json(json.loads(json.dumps(dialogue_to_json(Dialogue("d", (turn,), schema=schema)))))
    assert back.schema is not None and back.schema.id == schema.id  # none of these takes part in ==
    assert (back.turns[0].spellings, back.turns[0].frames) == (turn.spellings, turn.frames)


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.jsonl.xz"])
def test_read_undoes_write(tmp_path: Path, name: str) -> None:
    odd = Dialogue("\ud800", (Turn("", "half a character: \udfff"),))
    assert write_dialogues(tmp_path / name, [ONE, odd]) == 2
    assert list(read_dialogues(tmp_path / name)) == [ONE, odd]
    corpus = open_corpus(tmp_path / name)
    assert (corpus.name, corpus.format, corpus.turns, corpus.schema) == ("x", "JSON lines", 3, None)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_files_are_what_their_ending_says(tmp_path: Path) -> None:
    for name, opened in (("x.jsonl.gz", gzip.open), ("x.jsonl.xz", lzma.open)):
        write_dialogues(tmp_path / name, [ONE])
        with opened(tmp_path / name) as stream:
            assert json.loads(stream.read()) == dialogue_to_json(ONE)


def test_writing_is_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    write_dialogues(path, [ONE])
    before = path.read_bytes()

    def breaks() -> Iterator[Dialogue]:
        yield ONE
        raise CorpusError("The source is damaged.")

    with pytest.raises(CorpusError, match="source"):
        write_dialogues(path, breaks())
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileError, match="Cannot write"):
        write_dialogues(tmp_path / "nowhere" / "x.jsonl", [ONE])


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_a_folder_of_splits(tmp_path: Path, split: str) -> None:
    for name in ("train.jsonl", "valid.jsonl.gz", "test.jsonl.xz"):
        write_dialogues(tmp_path / name, [Dialogue(name[0], ONE.turns)])
    assert [d.id for d in open_corpus(tmp_path, split=split).dialogues] == [{"dev": "v"}.get(split, "t")]  # type: ignore[arg-type]
    assert [d.id for d in open_corpus(tmp_path).dialogues] == ["t", "v", "t"]


def test_blank_lines_and_a_byte_order_mark_are_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + f"{GOOD}\r\n\r\n  \n{GOOD}".encode())
    assert [number for number, _ in read_lines(path)] == [1, 4]


BAD_LINES = {
    "[1]": "not a JSON object",
    '{"id": "a"': "not valid JSON",
    "[" * 100_000: "not valid JSON",
    '{"turns": []}': '"id" that is text',
    '{"id": 7, "turns": []}': '"id" that is text, not 7',
    '{"id": "a", "turns": []}': "(dialogue a) needs",
    '{"id": "a", "turns": [1]}': "turn 1: it is not a JSON object",
    '{"id": "a", "turns": [{"user": "x"}, {"user": 5}]}': 'turn 2: "user" must be text, not 5',
    '{"id": "a", "turns": [{"user": "x", "system": null}]}': '"system" must be text',
    '{"id": "a", "turns": [{"user": "x", "domain": 1}]}': '"domain" must be text or null',
    '{"id": "a", "turns": [{"user": "x", "state": ["hotel-area"]}]}': "must be a mapping",
    '{"id": "a", "turns": [{"user": "x", "state": {"hotel-area": null}}]}': 'The slot "hotel-area" must have text',
    '{"id": "a", "turns": [{"user": "x", "spellings": {"hotel-area": "north"}}]}': '"spellings" must have a list',
    '{"id": "a", "turns": [{"user": "x", "frames": "hotel"}]}': '"frames" must be a list of services',
    '{"id": "a", "schema": {"slots": []}, "turns": [{"user": "x"}]}': "(dialogue a) has a bad schema: ",
    '{"id": "a", "goal": "hotel", "turns": [{"user": "x"}]}': "not a list of domains",
}


@pytest.mark.parametrize("line", BAD_LINES, ids=lambda line: line[:30])
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(f"{GOOD}\n{line}\n{GOOD}\n", encoding="utf-8")
    with pytest.raises(CorpusError) as raised:
        open_corpus(path)
    sentence = str(raised.value)
    assert sentence.startswith(f"{path}, line 2")
    assert BAD_LINES[line] in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert [isinstance(result, Dialogue) for _, result in read_lines(path)] == [True, False, True]


def test_invalid_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(GOOD.encode() + b'\n{"id": "\xff"}\n')
    with pytest.raises(CorpusError, match=r"x\.jsonl, line 2 is not UTF-8"):
        open_corpus(path)


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    for name, content in (("x.jsonl", b""), ("y.jsonl", b"\n \n"), ("z.jsonl.gz", gzip.compress(b""))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(CorpusError, match=f"{name} is empty"):
            open_corpus(tmp_path / name)


@pytest.mark.parametrize("size", [10_000_000, MAX_LINE, MAX_LINE + 1])
def test_a_line_of_ten_megabytes_is_refused(tmp_path: Path, size: int) -> None:
    path = tmp_path / "x.jsonl.gz"
    long = '{"id": "' + "x" * (size - 10) + '"}'
    path.write_bytes(gzip.compress(f"{GOOD}\n{long}\n{GOOD}\n".encode(), compresslevel=1))
    with pytest.raises(CorpusError, match=f"line 2 is longer than {MAX_LINE >> 20} MB"):
        open_corpus(path)
    assert [(number, isinstance(result, Dialogue)) for number, result in read_lines(path)] == [
        (1, True),
        (2, False),
        (3, True),
    ]


def test_a_long_line_may_end_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"x" * (2 * MAX_LINE + 2))
    assert [number for number, _ in read_lines(path)] == [1]


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.jsonl.xz"])
def test_a_file_cut_short_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_dialogues(path, [ONE] * 100)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CorpusError, match=f"{name} is cut short or damaged"):
        open_corpus(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="There is no"):
        open_corpus(tmp_path / "x.jsonl")
    with pytest.raises(CorpusError, match="Cannot read"):
        list(read_dialogues(tmp_path / "x.jsonl"))
