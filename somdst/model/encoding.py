"""Turns and memory to token ids, and token ids back to values. The one encoder of text, in training and live.

    X_t = [CLS] D_{t-1} [SEP] D_t [SEP] B_{t-1}     (section 3.1)
    D = system ; user        B^j = [SLOT] domain name - value

That is the `paper` layout. In the `compact` layout a slot is a single [SLOT] token, to whose embedding the model adds a
vector made from the slot's own text (`SlotTable.texts`), followed by the pieces of its value if it is filled, and by
":" and the values of its closed list that the turn says (`mentions.py`). That halves the input, and no slot is part of
the weights. With `slot_names`, a slot that the turn names has a "?" after its [SLOT], and then comes its name. Special
tokens are inserted as ids, so a literal "[NULL]" that somebody typed stays text. Does not pad batches or run models;
see `predictor.py` and `learn/`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile
from typing import Literal, NamedTuple, cast

from tokenizers import Tokenizer

from somdst.errors import InputError, ModelError
from somdst.memory.dialogue import Turn
from somdst.memory.schema import Schema, Slot, TextRules
from somdst.memory.state import State, Value
from somdst.model.config import ModelConfig
from somdst.model.mentions import Mentions, NamedSlots
from somdst.model.prediction import Evidence, TurnInput
from somdst.model.text import join_pieces, name_words, normalise, saying, slot_words, source_span, spoken, value_of

ROOM = 0.2
"""Share of an input that is kept for the turns: values in the memory are cut before the memory takes more."""
SLOT_TEXT = 32
"""Most word pieces of a slot's text. Longer descriptions are cut: twice as long costs twice the time to compile."""
VALUES_SHOWN = 8
"""Values of a closed list that are part of the slot's text: enough to tell what kind of list it is."""
VALUE_TEXT = 24
"""Most word pieces of a listed value's text."""
NAMED = 120
"""Most pieces of a schema's slots with their names. A schema that takes more is read without names."""
TRAINED_SLOTS = 60
"""Slots that fit beside the turns within a model's usual input."""
CACHED_TEXT = 500
"""Characters of a text whose pieces are kept for the next turns: thousands of longer ones would fill the memory."""
POSITIONS = 512
"""Positions of a BERT-style encoder: no input can be longer."""


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
    said: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """By slot, the places in its closed list of the values that the turn says."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class SlotTable:
    """A schema as word pieces. Lists are in the schema's order."""

    schema: Schema
    rules: TextRules
    names: list[list[int]]
    """The pieces of "domain name"."""
    heads: list[list[int]]
    """What begins a slot in the input: [SLOT], and its name where names are shown."""
    sign: list[int]
    """Between a head and a value: a dash after a name."""
    texts: list[list[int]]
    """[CLS] domain name : description : values [SEP], what the model makes a slot's vector from."""
    values: dict[int, list[list[int]]]
    """For slots with a closed list: [CLS] value [SEP] for each of its values."""
    mentions: Mentions | None
    """None if no slot has a closed list, or the schema is fixed."""
    named: NamedSlots | None
    """None for a schema whose slots' names are not shown, because the model knows it by heart."""


class Encoder:
    """Encodes turns for one tokenizer and configuration. `schema` is used for inputs that name no other."""

    def __init__(self, tokenizer: Tokenizer, schema: Schema, config: ModelConfig) -> None:
        self.tokenizer, self.schema, self.config = tokenizer, schema, config
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True  # "[SEP]" typed by a user is text
        self.cls, self.sep = self._special("[CLS]", "<s>"), self._special("[SEP]", "</s>")
        self.unk, self.pad = self._special("[UNK]", "<unk>"), self._special("[PAD]", "<pad>")
        # The first three unused rows of a BERT vocabulary.
        self.slot, self.null, self.eos = (self._special(f"[unused{i}]") for i in range(3))
        # Not through the text rules, which drop the very signs that separate here.
        self._semicolon, self._dash, self._colon, self._asked = (self._raw_ids(sign) for sign in (";", "-", ":", "?"))
        self.fixed_schema = config.fixed_schema
        self._null_value = [*self._dash, self.null] if config.layout == "paper" else []
        self._cached_pieces = lru_cache(maxsize=1 << 12)(self._pieces_uncached)
        self._table = lru_cache(maxsize=256)(self._table_uncached)

    def _special(self, *names: str) -> int:
        for name in names:
            if (found := self.tokenizer.token_to_id(name)) is not None:
                return int(found)
        raise ModelError(f"The tokenizer has no token {names[0]}: use the tokenizer.json of a BERT-style encoder.")

    def _raw_ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    @property
    def vocabulary_size(self) -> int:
        return int(self.tokenizer.get_vocab_size())

    # Schemas

    def table(self, schema: Schema | None = None) -> SlotTable:
        """A schema as word pieces; of the encoder's own schema where none is given."""
        return self._table(schema or self.schema)

    def _table_uncached(self, schema: Schema) -> SlotTable:
        names = [self._raw_ids(slot_words(slot, plain=self.config.format_version > 1)) for slot in schema.slots]
        heads = self._heads(schema, names)
        listed = {
            j: [self.value_text(value) for value in slot.values]
            for j, slot in enumerate(schema.slots)
            if slot.values is not None
        }
        return SlotTable(
            schema=schema,
            rules=self._rules(schema),
            names=names,
            heads=heads,
            sign=self._dash if any(len(head) > 1 for head in heads) else [],
            texts=[self.slot_text(slot, name) for slot, name in zip(schema.slots, names, strict=True)],
            values=listed,
            mentions=Mentions(schema, self._raw_ids) if listed and not self.fixed_schema else None,
            named=NamedSlots(schema) if self._shows_names(schema) else None,
        )

    def _shows_names(self, schema: Schema) -> bool:
        shown = self.config.slot_names
        return self.config.layout == "compact" and (shown == "all" or (shown == "others" and schema != self.schema))

    def _heads(self, schema: Schema, names: Sequence[Sequence[int]]) -> list[list[int]]:
        if self.config.layout == "paper":
            return [[self.slot, *name] for name in names]
        if self._shows_names(schema):
            heads = [[self.slot, *self._raw_ids(name_words(slot))] for slot in schema.slots]
            if sum(map(len, heads)) <= NAMED:
                return heads
        return [[self.slot]] * len(names)

    def _rules(self, schema: Schema) -> TextRules:
        """The schema's text rules; a model with a fixed schema has its own, those it was trained with."""
        own = self.config.normalisation
        return own if self.fixed_schema else schema.text_rules or own

    def slot_text(self, slot: Slot, name: Sequence[int]) -> list[int]:
        """What describes a slot: its name (word pieces), its description and, for a closed list, its first values."""
        ids = list(name)
        if slot.description:
            ids += self._colon + self._raw_ids(slot.description.lower())
        if slot.values is not None:
            ids += self._colon + self._raw_ids(", ".join(slot.values[:VALUES_SHOWN]).lower())
        return [self.cls, *ids[: SLOT_TEXT - 2], self.sep]

    def value_text(self, value: str) -> list[int]:
        return [self.cls, *self._raw_ids(value.lower())[: VALUE_TEXT - 2], self.sep]

    # Turns

    def pieces(self, text: str, rules: TextRules | None = None) -> Pieces:
        """A text as word pieces, by these rules or by those of the encoder's own schema."""
        return self._pieces(text, rules or self._rules(self.schema))

    def _pieces(self, text: str, rules: TextRules) -> Pieces:
        return (self._cached_pieces if len(text) <= CACHED_TEXT else self._pieces_uncached)(text, rules)

    def _pieces_uncached(self, text: str, rules: TextRules) -> Pieces:
        clean = normalise(text, rules)
        encoded = self.tokenizer.encode(clean, add_special_tokens=False)
        return Pieces(clean, encoded.ids, encoded.offsets)

    def encode(self, input: TurnInput, *, order: Sequence[int] | None = None) -> Encoding:
        """Encode one turn; `order` is the order of the slots, alphabetical where it is not given."""
        table = self.table(input.schema)
        order = order if order is not None else range(len(table.schema))
        length = self._length(table)
        texts = [self._pieces(text, table.rules) for text in (input.turn.system, input.turn.user) if text]
        said = table.mentions.find(texts) if table.mentions else {}
        named = table.named.find(text.text for text in texts) if table.named else set()
        state_ids, slot_offsets, value_regions = self._encode_state(input.state, table, order, said, named)
        most = int((1 - ROOM) * length)
        if len(state_ids) > most:  # lists with long values, or a person wrote more than a model ever would
            heads = sum(map(len, table.heads)) + max(len(self._null_value), len(table.sign)) * len(table.heads)
            longest = max(1, (most - heads) // max(1, len(input.state)))
            state_ids, slot_offsets, value_regions = self._encode_state(input.state, table, order, {}, (), longest)
        room = length - 1 - len(state_ids)
        if room < 8:
            raise InputError(
                f"The {len(table.schema)} slots and their values take {len(state_ids)} pieces, and the model reads "
                f"{length} with the turn: use fewer slots, or shorter values."
            )
        current, current_regions = self.utterances([input.turn], table.rules)
        past, past_regions = self.utterances(turns_before(input, self.config.history), table.rules, last_turns_ago=1)
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
                *shift(past_regions, 1, cut_past),
                *shift(current_regions, boundary, cut_current),
                *shift(value_regions, state_start),
            ),
            cut=_lost(past_regions, cut_past) + _lost(current_regions, cut_current),
            said=said,
        )

    def _length(self, table: SlotTable) -> int:
        """The longest input for a schema. A schema with more slots than models are trained on gets more room, up to
        the 512 positions that BERT-style encoders have."""
        extra = max(0, len(table.schema) - TRAINED_SLOTS) if self.config.layout == "compact" else 0
        return max(self.config.max_length, min(POSITIONS, self.config.max_length + extra))

    def utterances(
        self, turns: Sequence[Turn], rules: TextRules, *, last_turns_ago: int = 0
    ) -> tuple[list[int], list[Region]]:
        """system ; user [SEP], for every turn."""
        ids: list[int] = []
        regions: list[Region] = []
        for number, turn in enumerate(turns, start=1):
            ago = len(turns) - number + last_turns_ago
            for name, text, end in (("system", turn.system, self._semicolon), ("user", turn.user, [self.sep])):
                if text:
                    pieces = self._pieces(text, rules)
                    regions.append(Region(name, len(ids), len(ids) + len(pieces.ids), text, pieces, turns_ago=ago))
                    ids += pieces.ids
                ids += end
        return ids, regions

    def _encode_state(
        self,
        state: State,
        table: SlotTable,
        order: Sequence[int],
        said: Mapping[int, Sequence[int]],
        named: Collection[int],
        longest: int | None = None,
    ) -> tuple[list[int], list[int], list[Region]]:
        """The memory; at most `longest` pieces of each value, where that is given."""
        ids: list[int] = []
        offsets = [0] * len(order)
        regions: list[Region] = []
        for j in order:
            offsets[j] = len(ids)
            sign, *name = table.heads[j]
            ids += [sign, *(self._asked if j in named else ()), *name]
            slot = table.schema.slots[j]
            value = state.get(slot)
            if value is None:
                ids += self._null_value
            else:
                text, value_ids, places = self._pieces(spoken(value), table.rules)
                pieces = Pieces(text, value_ids[:longest], places[:longest])
                ids += table.sign
                regions.append(Region("slot", len(ids), len(ids) + len(pieces.ids), spoken(value), pieces, slot=slot))
                ids += pieces.ids
            if table.mentions and j in said:
                ids += self._colon + table.mentions.shown(j, said[j])
        return ids, offsets, regions

    # Values

    def encode_value(self, value: Value | None, rules: TextRules | None = None) -> list[int]:
        """What the generator has to say for a value: its pieces, then [EOS]. NULL is the token [NULL]."""
        pieces = [self.null] if value is None else self.pieces(spoken(value), rules).ids
        return [*pieces[: self.config.max_value_length - 1], self.eos]

    def decode(self, ids: Sequence[int]) -> Value | None:
        """The value of these ids; None if they are empty, or [NULL]."""
        words = [self.tokenizer.id_to_token(token) or "" for token in self.until_end(ids) if token != self.unk]
        return value_of(join_pieces(" ".join(words).replace(" ##", "").removeprefix("##")))

    def until_end(self, ids: Sequence[int]) -> list[int]:
        """The word pieces of a generated value: up to [EOS], without special tokens."""
        special = (self.null, self.pad, self.slot, self.cls, self.sep)
        return [int(token) for token in takewhile(lambda token: token != self.eos, ids) if token not in special]

    def decode_copied(
        self, encoding: Encoding, ids: Sequence[int], positions: Sequence[int]
    ) -> tuple[Value | None, Evidence | None]:
        """The value, and where it was copied from: `positions[k]` is where the model looked at step k.

        If the ids occur word for word in one text, that text's own spelling is used, so that "a-b" stays "a-b".
        """
        wanted = self.until_end(ids)
        found = self._locate(encoding, wanted, positions[0]) if wanted and positions else None
        if found is None:
            return self.decode(ids), None
        region, first = found
        start, end = region.pieces.offsets[first][0], region.pieces.offsets[first + len(wanted) - 1][1]
        return value_of(region.pieces.text[start:end]), _evidence(region, start, end)

    def _locate(self, encoding: Encoding, wanted: list[int], position: int) -> tuple[Region, int] | None:
        """The region and the piece in it where `wanted` occurs; the place the model looked at comes first, then the
        newest turn."""
        unknown = self.unk in wanted  # could be any unknown word, so only the place that was looked at counts

        def order(region: Region) -> tuple[bool, bool, int]:
            return not region.start <= position < region.end, region.slot is not None, region.turns_ago

        for region in sorted(encoding.regions, key=order):
            if unknown and not region.start <= position < region.end:
                return None
            ids = region.pieces.ids
            looked_at = position - region.start + region.skip
            starts = [i for i in range(region.skip, len(ids) - len(wanted) + 1) if ids[i : i + len(wanted)] == wanted]
            if starts:
                return region, min(starts, key=lambda i: abs(i - looked_at))
        return None


def mention(encoding: Encoding, value: str) -> Evidence | None:
    """Where the current turn says a value in its own words, the user's first; None if it does not."""
    pattern = saying(value)
    now = [region for region in encoding.regions if region.slot is None and region.turns_ago == 0]
    for region in sorted(now, key=lambda region: region.source != "user"):
        if found := pattern.search(region.pieces.text):
            return _evidence(region, *found.span())
    return None


def _evidence(region: Region, start: int, end: int) -> Evidence:
    if region.slot is not None:
        return Evidence("slot", 0, len(region.raw), region.raw, slot=str(region.slot))
    raw_start, raw_end = source_span(region.raw, region.pieces.text, start, end)
    source = cast(Literal["user", "system"], region.source)
    return Evidence(source, raw_start, raw_end, region.raw[raw_start:raw_end], turns_ago=region.turns_ago)


def shift(regions: list[Region], by: int, cut: int = 0) -> list[Region]:
    """Regions of a text whose first `cut` tokens were cut, and that starts at token `by`."""
    return [
        one._replace(start=max(one.start - cut, 0) + by, end=one.end - cut + by, skip=max(cut - one.start, 0))
        for one in regions
        if one.end > cut
    ]


def _lost(regions: list[Region], cut: int) -> int:
    """How many pieces of these regions are among the first `cut` tokens; separators are not counted."""
    return sum(max(0, min(region.end, cut) - region.start) for region in regions) if cut else 0


def turns_before(input: TurnInput, history: int) -> tuple[Turn, ...]:
    """The turns before the current one that a model with such a history reads, oldest first."""
    turns = (*input.older, input.previous_turn) if input.previous_turn else ()
    return turns[max(0, len(turns) - history) :]
