"""A predictor that knows the gold states and errs at a chosen rate: for tests of everything that measures.

A turn's mistakes depend on its texts alone, so that it errs in the same way in every batch.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.operations import FOUR, Operation, OperationSet
from somdst.memory.schema import Schema
from somdst.memory.state import State
from somdst.model.prediction import Prediction, SlotPrediction, TurnInput

AREAS, DAYS = ("north", "south", "centre"), ("monday", "tuesday", "friday")
SCHEMA = Schema.from_json({"domains": {"hotel": {"area": None, "name": None, "stars": None}, "train": {"day": None}}})


def dialogues(count: int, *, seed: int = 0) -> list[Dialogue]:
    """Dialogues with every operation; each turn's text is unique."""
    rng = random.Random(seed)
    return [_dialogue(f"D{i}", rng) for i in range(count)]


def _dialogue(name: str, rng: random.Random) -> Dialogue:
    state: dict[str, str] = {}
    turns = []
    for t in range(rng.randint(1, 6)):
        slot = rng.choice(["hotel-area", "hotel-name", "hotel-stars", "train-day"])
        value = {"hotel-area": AREAS, "train-day": DAYS}.get(slot, ("3", "4", "dontcare"))[rng.randrange(3)]
        if slot in state and rng.random() < 0.3:
            del state[slot]
        else:
            state[slot] = value
        text = f"{name} turn {t}: {slot} {state.get(slot, 'never mind')}"
        turns.append(Turn("" if t == 0 else f"Anything else in {name}?", text, State.from_json(state), slot[:5]))
    return Dialogue(name, tuple(turns))


class NoisyPredictor:
    """Says the gold operations between gold states, but forgets, invents and garbles a share of them."""

    def __init__(
        self,
        dialogues: Sequence[Dialogue],
        *,
        noise: float = 0.0,
        schema: Schema = SCHEMA,
        operation_set: OperationSet = FOUR,
    ) -> None:
        self.schema, self.operation_set, self.history, self.model_id = schema, operation_set, 1, f"noisy-{noise}"
        self.noise = noise
        self.batches: list[int] = []
        self.generated = 0
        self._gold: dict[tuple[str, str], tuple[State, State]] = {}
        for dialogue in dialogues:
            before = State()
            for turn, after in zip(dialogue.turns, dialogue.states(), strict=True):
                self._gold[turn.system, turn.user] = before, after
                before = after

    def predict(
        self, inputs: Sequence[TurnInput], *, operations: Sequence[Mapping[str, Operation]] | None = None
    ) -> list[Prediction]:
        self.batches.append(len(inputs))
        given = operations if operations is not None else [None] * len(inputs)
        return [self._one(turn, wanted) for turn, wanted in zip(inputs, given, strict=True)]

    def _one(self, given: TurnInput, wanted: Mapping[str, Operation] | None) -> Prediction:
        assert given.turn.state is None, "the gold state must not reach the predictor"
        rng = random.Random(given.turn.system + given.turn.user)
        before, after = self._gold[given.turn.system, given.turn.user]
        known = {slot: value for slot, value in after.items() if slot in self.schema}
        chosen = dict(wanted) if wanted is not None else self._operations(before, State(known), rng)
        slots = {}
        for slot, operation in chosen.items():
            value = None
            if operation is Operation.UPDATE:
                self.generated += 1
                # every slot draws, so that a slot's value is the same whatever else is generated
                garbled = random.Random(slot + given.turn.user).random() < self.noise
                value = "garbled" if garbled else known.get(slot)
            slots[slot] = SlotPrediction(operation, round(1.0 - self.noise * rng.random(), 3), value)
        return Prediction(slots, {str(slot): 0.9 for slot in self.schema if slot not in slots}, None)

    def _operations(self, before: State, after: State, rng: random.Random) -> dict[str, Operation]:
        chosen = {
            slot: operation
            for slot, operation in self.operation_set.derive(before, after).operations.items()
            if slot in self.schema and rng.random() >= self.noise
        }
        if rng.random() < self.noise:
            chosen[str(rng.choice(self.schema.slots))] = Operation.DONTCARE
        return chosen
