"""Turns and memory to token ids, and token ids back to values. The one encoder of text, in training and live.

    X_t = [CLS] D_{t-1} [SEP] D_t [SEP] B_{t-1}     (section 3.1)
    D = system ; user        B^j = [SLOT] domain name - value

That is the `paper` layout. In the `compact` layout a slot is a single [SLOT] token, whose embedding the model sums with
those of the slot's name (`Encoder.name_ids` lists them), followed by its value's pieces only where it is filled. That
halves the input. Special tokens are inserted as ids, so a literal "[NULL]" that somebody typed stays text.
Padding batches and running models are the concern of `predictor.py` and `learn/`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple, cast

from tokenizers import Tokenizer

from somdst.errors import InputError, ModelError
from somdst.memory.dialogue import Turn
from somdst.memory.schema import Schema
from somdst.memory.state import DONTCARE, State, Value
from somdst.model.config import ModelConfig
from somdst.model.prediction import Evidence, TurnInput
from somdst.model.text import normalise, source_span

ROOM = 0.2
"""Share of an input that is kept for the turns: before a memory takes it, its values are cut."""


class Pieces(NamedTuple):
    """A text as word pieces: ids, and the characters of the normalised text that each came from."""

    text: str
    ids: list[int]
    offsets: list[tuple[int, int]]


class Region(NamedTuple):
    """Tokens [start, end) of an input that came from one text: an utterance, or a slot's value."""

    source: str
    start: int
    end: int
    raw: str
    pieces: Pieces
    skip: int = 0
    """How many of the pieces were cut at the left."""
    slot: str | None = None
    turns_ago: int = 0


@dataclass(frozen=True, slots=True)
class Encoding:
    """One model input. `slots[j]` is the position of slot j's [SLOT] token, j in the schema's order."""

    ids: list[int]
    segments: list[int]
    slots: list[int]
    regions: tuple[Region, ...]
    cut: int = 0
    """How many dialogue pieces did not fit and were cut."""

    def __len__(self) -> int:
        return len(self.ids)


class Encoder:
    """Encodes turns for one schema, tokenizer and configuration."""

    def __init__(self, tokenizer: Tokenizer, schema: Schema, config: ModelConfig) -> None:
        self.tokenizer, self.schema, self.config = tokenizer, schema, config
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True  # "[SEP]" typed by a user is text
        self.cls, self.sep = self._special("[CLS]", "<s>"), self._special("[SEP]", "</s>")
        self.unk, self.pad = self._special("[UNK]", "<unk>"), self._special("[PAD]", "<pad>")
        # The first three unused rows of a BERT vocabulary.
        self.slot, self.null, self.eos = (self._special(f"[unused{i}]") for i in range(3))
        self.pieces = lru_cache(maxsize=1 << 15)(self._pieces)
        # Not through the text rules, which drop the very signs that separate here.
        self._semicolon, dash = self._raw_ids(";"), self._raw_ids("-")
        self.name_ids: list[list[int]] = [self._raw_ids(f"{slot.domain} {slot.name}".lower()) for slot in schema.slots]
        compact = config.layout == "compact"
        self._heads = [[self.slot] if compact else [self.slot, *ids, *dash] for ids in self.name_ids]
        self._null_value = [] if compact else [self.null]
        self._order = list(range(len(schema)))

    def _special(self, *names: str) -> int:
        for name in names:
            found = self.tokenizer.token_to_id(name)
            if found is not None:
                return int(found)
        raise ModelError(f"The tokenizer has no token {names[0]}: use the tokenizer.json of a BERT-style encoder.")

    def _raw_ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    @property
    def vocabulary_size(self) -> int:
        return int(self.tokenizer.get_vocab_size())

    def _pieces(self, text: str) -> Pieces:
        clean = normalise(text, self.config.normalisation)
        encoded = self.tokenizer.encode(clean, add_special_tokens=False)
        return Pieces(clean, encoded.ids, encoded.offsets)

    def encode(self, input: TurnInput, *, order: Sequence[int] | None = None) -> Encoding:
        """Encode one turn; `order` is the order of the slots, alphabetical where it is not given."""
        turns = (*input.older, input.previous_turn) if input.previous_turn else ()
        history = turns[max(0, len(turns) - self.config.history) :]
        state_ids, slot_offsets, value_regions = self._encode_state(input.state, order or self._order)
        most = int((1 - ROOM) * self.config.max_length)
        if len(state_ids) > most and input.state:  # a person wrote more than a model ever would
            heads = sum(map(len, self._heads)) + len(self._null_value) * len(self._heads)
            longest = max(1, (most - heads) // len(input.state))
            state_ids, slot_offsets, value_regions = self._encode_state(input.state, order or self._order, longest)
        room = self.config.max_length - 1 - len(state_ids)
        if room < 8:
            raise InputError(
                f"The state alone takes {len(state_ids)} word pieces, and the model reads {self.config.max_length} at "
                "most, the turn included: shorten the values, or train with a larger max_length."
            )
        current, current_regions = self._utterances([input.turn])
        past, past_regions = self._utterances(history, last_turns_ago=1)
        past = past or [self.sep]
        cut_current = max(0, len(current) - room)
        cut_past = max(0, len(past) - (room - (len(current) - cut_current)))
        current, past = current[cut_current:], past[cut_past:]
        ids = [self.cls, *past, *current, *state_ids]
        boundary, state_start = 1 + len(past), 1 + len(past) + len(current)
        return Encoding(
            ids=ids,
            segments=[0] * boundary + [1] * (len(ids) - boundary),
            slots=[state_start + offset for offset in slot_offsets],
            regions=(
                *_shift(past_regions, 1, cut_past),
                *_shift(current_regions, boundary, cut_current),
                *(
                    region._replace(start=region.start + state_start, end=region.end + state_start)
                    for region in value_regions
                ),
            ),
            cut=_lost(past_regions, cut_past) + _lost(current_regions, cut_current),
        )

    def _utterances(self, turns: Sequence[Turn], *, last_turns_ago: int = 0) -> tuple[list[int], list[Region]]:
        """system ; user [SEP], for every turn."""
        ids: list[int] = []
        regions: list[Region] = []
        for number, turn in enumerate(turns, start=1):
            ago = len(turns) - number + last_turns_ago
            for name, text, end in (("system", turn.system, self._semicolon), ("user", turn.user, [self.sep])):
                if text:
                    pieces = self.pieces(text)
                    regions.append(Region(name, len(ids), len(ids) + len(pieces.ids), text, pieces, turns_ago=ago))
                    ids += pieces.ids
                ids += end
        return ids, regions

    def _encode_state(
        self, state: State, order: Sequence[int], longest: int | None = None
    ) -> tuple[list[int], list[int], list[Region]]:
        """The memory; of each value not more than `longest` pieces, where that is given."""
        ids: list[int] = []
        offsets = [0] * len(order)
        regions: list[Region] = []
        for j in order:
            offsets[j] = len(ids)
            ids += self._heads[j]
            value = state.get(self.schema.slots[j])
            if value is None:
                ids += self._null_value
                continue
            text, value_ids, places = self.pieces(_spoken(value))
            pieces = Pieces(text, value_ids[:longest], places[:longest])
            slot = self.schema.slots[j]
            regions.append(Region("slot", len(ids), len(ids) + len(pieces.ids), _spoken(value), pieces, slot=slot))
            ids += pieces.ids
        return ids, offsets, regions

    def encode_value(self, value: Value | None) -> list[int]:
        """What the generator has to say for a value: its pieces, then [EOS]. NULL is the token [NULL]."""
        pieces = [self.null] if value is None else self.pieces(_spoken(value)).ids
        return [*pieces[: self.config.max_value_length - 1], self.eos]

    def decode(self, ids: Sequence[int]) -> Value | None:
        """The value that these ids say; None where they say nothing, or [NULL]."""
        words = [self._token(token) for token in self.until_end(ids) if token != self.unk]
        return _value(_join(" ".join(words).replace(" ##", "").removeprefix("##")))

    def _token(self, token: int) -> str:
        return str(self.tokenizer.id_to_token(token) or "")

    def until_end(self, ids: Sequence[int]) -> list[int]:
        """The word pieces of a generated value: up to [EOS], without special tokens."""
        kept = []
        for token in ids:
            if token == self.eos:
                break
            if token not in (self.null, self.pad, self.slot, self.cls, self.sep):
                kept.append(int(token))
        return kept

    def decode_copied(
        self, encoding: Encoding, ids: Sequence[int], positions: Sequence[int]
    ) -> tuple[Value | None, Evidence | None]:
        """The value, and where it was copied from: `positions[k]` is where the model looked at step k.

        Where the ids stand word for word in one text, that text's own spelling is taken, so that "a-b" stays "a-b".
        """
        wanted = self.until_end(ids)
        value = self.decode(ids)
        if not wanted or not positions:
            return value, None
        found = self._locate(encoding, wanted, positions[0])
        if found is None:
            return value, None
        region, first = found
        start, end = region.pieces.offsets[first][0], region.pieces.offsets[first + len(wanted) - 1][1]
        value = _value(region.pieces.text[start:end])
        return value, _evidence(region, start, end)

    def _locate(self, encoding: Encoding, wanted: list[int], position: int) -> tuple[Region, int] | None:
        """The region and the piece in it where `wanted` stands; the place the model looked at comes first."""
        unknown = self.unk in wanted  # stands for any unknown word, so only the place that was looked at counts
        for region in sorted(encoding.regions, key=lambda region: not region.start <= position < region.end):
            if unknown and not region.start <= position < region.end:
                return None
            ids = region.pieces.ids
            looked_at = position - region.start + region.skip
            starts = [i for i in range(region.skip, len(ids) - len(wanted) + 1) if ids[i : i + len(wanted)] == wanted]
            if starts:
                return region, min(starts, key=lambda i: abs(i - looked_at))
        return None


def _evidence(region: Region, start: int, end: int) -> Evidence:
    if region.slot is not None:
        return Evidence("slot", 0, len(region.raw), region.raw, slot=str(region.slot))
    raw_start, raw_end = source_span(region.raw, region.pieces.text, start, end)
    source = cast(Literal["user", "system"], region.source)
    return Evidence(source, raw_start, raw_end, region.raw[raw_start:raw_end], turns_ago=region.turns_ago)


def _shift(regions: list[Region], by: int, cut: int) -> list[Region]:
    """Regions of a text whose first `cut` tokens were cut, and that starts at token `by`."""
    shifted = []
    for region in regions:
        if region.end > cut:
            start = max(region.start, cut)
            shifted.append(
                region._replace(start=start - cut + by, end=region.end - cut + by, skip=start - region.start)
            )
    return shifted


def _lost(regions: list[Region], cut: int) -> int:
    """How many pieces of these regions are among the first `cut` tokens; separators are not counted."""
    return sum(max(0, min(region.end, cut) - region.start) for region in regions) if cut else 0


def _spoken(value: Value) -> str:
    """DONTCARE as words that a pretrained encoder knows."""
    return "dont care" if value is DONTCARE else str(value)


def _value(text: str) -> Value | None:
    text = text.strip()
    return DONTCARE if text in ("dont care", "dontcare") else text or None


_JOINTS = [  # word pieces forget where spaces were; these are the spellings of the normalised labels
    (re.compile(r"(?<=\d) ([:.,]) (?=\d)"), r"\1"),
    (re.compile(r" ' s\b"), " 's"),
    (re.compile(r"(?<!\S)- (s|er|ly)\b"), r"-\1"),
    (re.compile(r" \| "), "|"),
    (re.compile(r"(?<!\S)([$£€]) (?=\d)"), r"\1"),
]


def _join(text: str) -> str:
    for pattern, replacement in _JOINTS:
        text = pattern.sub(replacement, text)
    return text


def shuffled_order(slots: int, *, rate: float, rng: random.Random) -> list[int] | None:
    """With probability `rate` a random order of the slots, else None: the alphabetical one."""
    if rng.random() >= rate:
        return None
    order = list(range(slots))
    rng.shuffle(order)
    return order


def drop_words(
    encoding: Encoding, *, rate: float, unk: int, rng: random.Random, spared: Collection[int] = ()
) -> Encoding:
    """Replace dialogue pieces (never the state, never special tokens) by [UNK] with probability `rate`.

    Pieces that are `spared` stay: a value that is to be written must be there to be read.
    """
    ids = list(encoding.ids)
    for region in encoding.regions:
        if region.slot is None:
            for position in range(region.start, region.end):
                if rng.random() < rate and ids[position] not in spared:
                    ids[position] = unk
    return replace(encoding, ids=ids)
