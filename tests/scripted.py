"""Predictors for tests: one whose answers come from a function, one that reads "hotel area north" out of the text."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from somdst.errors import ModelError
from somdst.memory.dialogue import Dialogue
from somdst.memory.operations import FOUR, Operation, OperationSet
from somdst.memory.schema import Schema
from somdst.memory.state import Value
from somdst.model.prediction import Evidence, Prediction, SlotPrediction, TurnInput
from somdst.tracking.tracker import Tracker

Script = Callable[[TurnInput], Prediction]


class ScriptedPredictor:
    """A predictor whose answers come from a function. It remembers the sizes of the batches it was asked for."""

    def __init__(
        self,
        schema: Schema,
        script: Script,
        *,
        operation_set: OperationSet = FOUR,
        history: int = 1,
        model_id: str = "scripted",
    ) -> None:
        self.schema = schema
        self.script = script
        self.operation_set = operation_set
        self.history = history
        self.model_id = model_id
        self.batches: list[int] = []

    def predict(
        self, inputs: Sequence[TurnInput], *, operations: Sequence[Mapping[str, Operation]] | None = None
    ) -> list[Prediction]:
        self.batches.append(len(inputs))
        predictions = [self.script(item) for item in inputs]
        if operations is None:
            return predictions
        return [_forced(prediction, chosen) for prediction, chosen in zip(predictions, operations, strict=True)]


def _forced(prediction: Prediction, chosen: Mapping[str, Operation]) -> Prediction:
    slots: dict[str, SlotPrediction] = {}
    for slot, operation in chosen.items():
        if operation is not Operation.CARRYOVER:
            said = prediction.slots.get(slot)
            value = said.value if said and operation is Operation.UPDATE else None
            slots[slot] = SlotPrediction(operation, 1.0, value, said.evidence if said else None)
    return Prediction(slots, domain=prediction.domain)


def update(
    value: Value,
    *,
    user: str | None = None,
    system: str | None = None,
    slot: str | None = None,
    probability: float = 0.9,
) -> SlotPrediction:
    """An UPDATE whose evidence is where `value` stands in `user` or `system`, or another slot."""
    evidence = None
    if slot is not None:
        evidence = Evidence("slot", text=str(value), slot=slot)
    for source, text in (("user", user), ("system", system)):
        if text is not None:
            start = text.lower().index(str(value).lower())
            end = start + len(str(value))
            evidence = Evidence(source, start, end, text[start:end])  # type: ignore[arg-type]
    return SlotPrediction(Operation.UPDATE, probability, value, evidence)


class RulePredictor(ScriptedPredictor):
    """Reads the rules below out of both utterances, the user's last; a slot is written as "hotel area".

    "hotel area north"                   UPDATE, with the characters of "north" as evidence
    "hotel area like restaurant area"    UPDATE, copied from another slot
    "hotel area as before"               UPDATE, with what the user said of it in the turn before
    "any hotel area"                     DONTCARE
    "no hotel area"                      DELETE
    "maybe" before any of them           with probability 0.3 instead of 0.95

    A value ends at a comma, full stop, semicolon, question or exclamation mark, a line's end or the word "and".
    """

    fixed_schema = True

    def __init__(self, schema: Schema | None = None, *, history: int = 1, model_id: str = "rules") -> None:
        super().__init__(schema or Schema.multiwoz(), self._read, history=history, model_id=model_id)

    def __reduce__(self) -> tuple[object, ...]:
        return RulePredictor, (self.schema,)

    def _read(self, item: TurnInput) -> Prediction:
        slots: dict[str, SlotPrediction] = {}
        schema = self.schema if self.fixed_schema else item.schema or self.schema
        for source, text in (("system", item.turn.system), ("user", item.turn.user)):
            for slot in schema.slots:
                if found := self._find(slot, f"{slot.domain} {slot.name}", source, text, item):
                    slots[slot] = found
        return Prediction(slots, domain=next(iter(slots)).split("-")[0] if slots else None)

    def _find(self, slot: str, words: str, source: str, text: str, item: TurnInput) -> SlotPrediction | None:
        match = re.search(
            rf"(?i)\b(maybe )?(no |any )?{re.escape(words)}\b(?: ([^,.;?!\n]+?))?(?= and |[,.;?!\n]|$)", text
        )
        if match is None:
            return None
        probability = 0.3 if match[1] else 0.95
        if match[2]:
            kind = Operation.DELETE if match[2].lower() == "no " else Operation.DONTCARE
            return SlotPrediction(kind, probability)
        if not match[3]:
            return None
        if match[3] == "as before" and item.previous_turn is not None:
            found = self._find(slot, words, "user", item.previous_turn.user, item)
            return replace(found, evidence=replace(found.evidence, turns_ago=1)) if found and found.evidence else None
        if match[3].startswith("like "):
            other = match[3].removeprefix("like ").replace(" ", "-", 1)
            value = item.state.get(other)
            evidence = Evidence("slot", text=str(value), slot=other)
            return SlotPrediction(Operation.UPDATE, probability, value, evidence)
        evidence = Evidence(source, match.start(3), match.end(3), match[3])  # type: ignore[arg-type]
        return SlotPrediction(Operation.UPDATE, probability, match[3].lower(), evidence)


class AnyRules(RulePredictor):
    """The same for any schema, as models of format 2 do. It has to read a schema once, and counts how often it did."""

    fixed_schema = False

    def __init__(self, schema: Schema | None = None, *, history: int = 1, model_id: str = "rules") -> None:
        super().__init__(schema, history=history, model_id=model_id)
        self.compiled: list[str] = []

    def __reduce__(self) -> tuple[object, ...]:
        return AnyRules, (self.schema,)

    def has_compiled(self, schema: Schema) -> bool:
        return schema.id in self.compiled

    def compile(self, schema: Schema) -> None:
        self.compiled.append(schema.id)


class GoldPredictor(ScriptedPredictor):
    """Knows the dialogues by heart: it asks for whatever leads from the memory to the labelled state of the turn.

    Values have evidence where they stand verbatim: in the user's words, the system's, or in another slot.
    """

    def __init__(self, schema: Schema, dialogues: Iterable[Dialogue], *, model_id: str = "gold") -> None:
        self.gold = {
            (turn.system, turn.user): state
            for dialogue in dialogues
            for turn, state in zip(dialogue.turns, dialogue.states(), strict=True)
        }
        super().__init__(schema, self._recite, model_id=model_id)

    def _recite(self, item: TurnInput) -> Prediction:
        operations, values = FOUR.derive(item.state, self.gold[item.turn.system, item.turn.user])
        return Prediction(
            {
                slot: SlotPrediction(operation, 0.9, values.get(slot), _evidence(values.get(slot), slot, item))
                for slot, operation in operations.items()
            }
        )


def _evidence(value: Value | None, slot: str, item: TurnInput) -> Evidence | None:
    if not isinstance(value, str):
        return None
    for source, text in (("user", item.turn.user), ("system", item.turn.system)):
        if (start := text.lower().find(value)) >= 0:
            return Evidence(source, start, start + len(value), text[start : start + len(value)])  # type: ignore[arg-type]
    other = next((name for name, known in item.state.items() if known == value and name != slot), None)
    return Evidence("slot", text=value, slot=other) if other else None


STOP = "stop here"
"""What a user says to stop the predictors below."""


class StoppingPredictor(RulePredictor):
    """When a user says `STOP`, it is interrupted as by Ctrl-C, or waits for ever, until its process is killed."""

    def __init__(self, how: Literal["interrupt", "hang"]) -> None:
        super().__init__()
        self.how = how

    def predict(
        self, inputs: Sequence[TurnInput], *, operations: Sequence[Mapping[str, Operation]] | None = None
    ) -> list[Prediction]:
        if any(item.turn.user == STOP for item in inputs):
            if self.how == "hang":
                threading.Event().wait()
            signal.raise_signal(signal.SIGINT)
        return super().predict(inputs, operations=operations)


@dataclass(frozen=True)
class RuleOpener:
    """Opens trackers with rules in worker processes, which import this module to unpickle it."""

    model: str = "rules"
    stop: Literal["interrupt", "hang"] | None = None
    threshold: float = 0.5
    schema: str | None = None

    @property
    def identity(self) -> Mapping[str, str]:
        return {"model": self.model, "threshold": str(self.threshold)}

    def __call__(self, *, threads: int | None = None) -> Tracker:
        if self.model == "broken":
            raise ModelError("The model is broken.")
        predictor = StoppingPredictor(self.stop) if self.stop else RulePredictor()
        schema = Schema.load(self.schema) if self.schema else None
        return Tracker(predictor, schema=schema, threshold=self.threshold)
