"""The four ways of feeding the encoder, as token ids.

    history             [CLS] system ; user [SEP] system ; user [SEP] ...     no state
    turns               [CLS] system ; user [SEP]                             each turn by itself; a recurrence follows
    turn with state     [CLS] system ; user [SEP] domain name - value ; ...   filled slots only
    slots with history  [CLS] system ; user [SEP] ... [SLOT] [SLOT] ...       one [SLOT] per slot

The texts are normalised and split by the project's own encoder of text, and each token remembers where it came from,
so values have evidence. Too long an input loses its oldest text. Does not add vectors to [SLOT]; see `system.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from somdst.memory.dialogue import Turn
from somdst.memory.state import State
from somdst.model.encoding import Encoder, Encoding, Region, shift, turns_before
from somdst.model.prediction import TurnInput
from somdst.model.text import spoken

STATE_SHARE = 0.6
"""Most of the input that a state may take."""


def turns_of(input: TurnInput, history: int) -> tuple[Turn, ...]:
    """The turns that are read, the current one last."""
    return (*turns_before(input, history), input.turn)


def history(encoder: Encoder, turns: Sequence[Turn]) -> Encoding:
    return _encode(encoder, turns)


def one_turn(encoder: Encoder, turn: Turn) -> Encoding:
    return _encode(encoder, [turn])


def turn_with_state(encoder: Encoder, turn: Turn, state: State) -> Encoding:
    return _encode(encoder, [turn], state=state)


def slots_with_history(encoder: Encoder, turns: Sequence[Turn]) -> Encoding:
    return _encode(encoder, turns, slots=len(encoder.schema))


def _encode(encoder: Encoder, turns: Sequence[Turn], *, state: State | None = None, slots: int = 0) -> Encoding:
    memory, memory_regions = _state(encoder, state or State())
    room = encoder.config.max_length - 1 - len(memory) - slots
    rules = encoder.table().rules
    said, regions = encoder.utterances(turns, rules)
    current, _ = encoder.utterances(turns[-1:], rules)
    cut = max(0, len(said) - room)
    start = 1 + len(said) - cut
    end = start + len(memory)
    ids = [encoder.cls, *said[cut:], *memory, *[encoder.slot] * slots]
    boundary = max(1, start - len(current))
    return Encoding(
        ids=ids,
        segments=[0] * boundary + [1] * (len(ids) - boundary),
        slots=list(range(end, end + slots)),
        regions=(*shift(regions, 1, cut), *shift(memory_regions, start, 0)),
        cut=cut,
    )


def _state(encoder: Encoder, state: State) -> tuple[list[int], list[Region]]:
    """The filled slots with their names, as words."""
    table, ids, regions = encoder.table(), list[int](), list[Region]()
    dash, semicolon = (encoder.tokenizer.encode(sign, add_special_tokens=False).ids for sign in "-;")
    for j, slot in enumerate(table.schema.slots):
        if (value := state.get(slot)) is None:
            continue
        text = spoken(value)
        pieces, head = encoder.pieces(text, table.rules), [*table.names[j], *dash]
        if len(ids) + len(head) + len(pieces.ids) + 1 > STATE_SHARE * encoder.config.max_length:
            break  # nobody fills that much; what is left out cannot be read
        start = len(ids) + len(head)
        regions.append(Region("slot", start, start + len(pieces.ids), text, pieces, slot=str(slot)))
        ids += [*head, *pieces.ids, *semicolon]
    return ids, regions
