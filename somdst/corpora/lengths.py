"""Which part of a turn does not fit into a model's input, for `check.py`; and where the tokenizer comes from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer

from somdst.corpora.check import Problem
from somdst.corpora.findings import Kind
from somdst.errors import InputError, ModelError
from somdst.memory.schema import Schema
from somdst.memory.state import Value
from somdst.model.encoding import Encoder, Encoding
from somdst.model.folder import minilm_path
from somdst.model.prediction import TurnInput


class LengthCheck:
    """An `InputCheck`: encodes every turn as a model would."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    def __call__(self, input: TurnInput, values: dict[str, Value | None]) -> Iterator[Problem]:
        most = self.encoder.config.max_length
        try:
            encoding = self.encoder.encode(input)
        except InputError as error:
            yield Problem(Kind.CURRENT_TRUNCATED, str(error))
        else:
            if encoding.cut and (lost := self._lost_now(input, encoding)):
                yield Problem(Kind.CURRENT_TRUNCATED, f"{lost} word pieces of this turn do not fit into {most}.")
            elif encoding.cut:
                yield Problem(Kind.TRUNCATED, f"{encoding.cut} word pieces of the turn before do not fit into {most}.")
        yield from self._long_values(values, input.schema or self.encoder.schema)

    def _lost_now(self, input: TurnInput, encoding: Encoding) -> int:
        """How many word pieces of the current turn were cut."""
        texts = (input.turn.system, input.turn.user)
        whole = sum(len(self.encoder.pieces(text).ids) for text in texts if text)
        now = (region for region in encoding.regions if region.slot is None and region.turns_ago == 0)
        return whole - sum(region.end - region.start for region in now)

    def _long_values(self, values: dict[str, Value | None], schema: Schema) -> Iterator[Problem]:
        room = self.encoder.config.max_value_length - 1  # the last place is for [EOS]
        for slot, value in values.items():
            if not self.encoder.fixed_schema and slot in schema and schema[slot].values is not None:
                continue  # chosen from its list, not generated
            pieces = 0 if value is None else len(self.encoder.pieces(str(value)).ids)
            if pieces > room:
                message = f'"{slot}" becomes "{value}", {pieces} word pieces: at most {room} can be generated.'
                yield Problem(Kind.LONG_VALUE, message, slot)


def find_tokenizer(path: Path | None) -> Tokenizer | None:
    """The tokenizer in this file or model folder; without one that of the encoder `minilm`, if it is installed."""
    path = path or minilm_path()
    if path is None:
        return None
    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the tokenizers package raises plain Exception
        problem = "it does not exist" if not file.is_file() else " ".join(str(error).split())
        raise ModelError(f"Cannot read the tokenizer {file}: {problem}.") from error
