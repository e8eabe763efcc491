"""The public API: `Tracker` opens a model and steps conversations, `Conversation` is one of them in memory.

    tracker = Tracker.from_pretrained()
    conversation = tracker.start()
    result = conversation.update(user="a cheap hotel in the north, please")
    result.state, result.changes

`Tracker.step` and the other methods that take a snapshot are pure: they give a `Result` with the entry to append and
keep nothing. The service uses them on conversations in a database; `Conversation` (`conversation.py`) uses them on one
in memory. The step itself is in `step.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from somdst.errors import InputError, ModelError, did_you_mean
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.schema import Schema
from somdst.memory.state import DONTCARE, Value, value_from_json
from somdst.model.prediction import Predictor
from somdst.model.values import nearest
from somdst.tracking import edits
from somdst.tracking.conversation import Conversation
from somdst.tracking.log import Result
from somdst.tracking.questions import Question, what_to_ask
from somdst.tracking.records import WINDOW, Snapshot, Source
from somdst.tracking.step import Rules, Step, broken, check_turn, reads_schemas, step

MAX_VALUE = 500
"""Longest value that a person may write, in characters."""


class Tracker:
    """Steps conversations with a predictor. It holds no conversation itself and can be shared by threads."""

    def __init__(self, predictor: Predictor, *, schema: Schema | None = None, threshold: float | None = None) -> None:
        """`schema` is what to track: any slots, or, with a model of a fixed schema, some of its own. Writes less
        probable than `threshold` are held back as pending."""
        self.predictor = predictor
        self.schema = schema or predictor.schema
        self.threshold = 0.0 if threshold is None else threshold
        if not 0 <= self.threshold <= 1:
            raise InputError(f"The threshold must be a probability between 0 and 1, not {threshold}.")
        if not reads_schemas(predictor):
            self._refuse_unknown_slots()
        if predictor.history > WINDOW:
            raise ModelError(
                f'The model "{predictor.model_id}" reads {predictor.history} turns before the current one; '
                f"a conversation keeps {WINDOW}: train it with a shorter history."
            )
        self.rules = Rules(self.schema, predictor.operation_set, self.threshold)

    @classmethod
    def from_pretrained(
        cls,
        path_or_name: str | Path = "default",
        *,
        schema: Schema | str | Path | None = None,
        threshold: float | None = None,
        precision: str = "int8",
        threads: int | None = None,
    ) -> Tracker:
        """Open a model by its folder or its name; without an argument, the one that comes with the package.

        It runs on ONNX Runtime. A folder that training has just made, and nobody has exported yet, runs on torch.
        """
        from somdst.model.folder import ModelFolder

        folder = ModelFolder.open(path_or_name)
        return cls(
            folder.predictor(precision=precision, threads=threads),
            schema=Schema.load(schema) if isinstance(schema, (str, Path)) else schema,
            threshold=folder.config.pending_threshold if threshold is None else threshold,
        )

    def start(self) -> Conversation:
        """A new, empty conversation."""
        return Conversation(self)

    def under(self, schema: Schema) -> Tracker:
        """The same model and threshold with another schema."""
        try:
            return Tracker(self.predictor, schema=schema, threshold=self.threshold)
        except ModelError as error:  # here the schema is the input, and the model was there first
            raise InputError(str(error)) from error

    def for_dialogue(self, dialogue: Dialogue) -> Tracker:
        """The tracker with the dialogue's own schema. This one, if the dialogue has none, or if this one was given a
        schema or its model has a fixed one."""
        if dialogue.schema is None or self.schema is not self.predictor.schema or not reads_schemas(self.predictor):
            return self
        return self.under(dialogue.schema)

    @property
    def compiled(self) -> bool:
        """Whether the model has this schema ready. If not, the next turn takes longer, or `compile` does it now."""
        found: bool = getattr(self.predictor, "has_compiled", lambda _: True)(self.schema)
        return found

    def compile(self) -> None:
        """Have the model read the schema, as the first turn would."""
        getattr(self.predictor, "compile", lambda _: None)(self.schema)

    # Pure steps: a snapshot in, a result out

    def step(self, snapshot: Snapshot, turn: Turn) -> Result:
        """What a turn does to a conversation."""
        return self.step_many([(snapshot, turn)])[0]

    def step_many(self, steps: Sequence[Step], *, under: Sequence[Tracker] | None = None) -> list[Result]:
        """What turns do to as many conversations, in one run of the model. If one turn is bad, none is tracked. With
        `under`, each has the schema of its own tracker, which `Tracker.under` made of this one."""
        for _, turn in steps:
            check_turn(turn)
        rules = self.rules if under is None else [tracker.rules for tracker in under]
        return step(self.predictor, steps, rules)

    def correct(
        self,
        snapshot: Snapshot,
        values: Mapping[str, Value | None],
        *,
        pin: bool = False,
        source: Source = "person",
    ) -> Result:
        """Write values by hand; None deletes. The next turn starts from them."""
        checked = {self.slot(slot): self._checked(slot, value) for slot, value in values.items()}
        if not checked:
            raise InputError("A correction needs at least one slot.")
        return edits.correct(snapshot, checked, pin=pin, schema=self.schema, source=source)

    def pin(self, snapshot: Snapshot, slots: Sequence[str], *, source: Source = "person") -> Result:
        """From now on only new evidence in a later utterance changes these slots."""
        return edits.pin(snapshot, [self.slot(slot) for slot in slots], source=source)

    def what_to_ask(self, snapshot: Snapshot, slots: Sequence[str] = ()) -> tuple[Question, ...]:
        """What to ask next: writes to confirm, then empty slots: these, or the required ones (`questions.py`)."""
        return what_to_ask(snapshot, self.schema, [self.slot(slot) for slot in slots] or None)

    def slot(self, name: str) -> str:
        """The name, if the schema has that slot; else an error with the nearest one."""
        if not isinstance(name, str):
            raise InputError(f"A slot is named by text such as hotel-area, not by {type(name).__name__}.")
        if name not in self.schema:
            hint = did_you_mean(name, self.schema)
            raise InputError(f'There is no slot "{name}" among the {len(self.schema)} of this tracker.{hint}')
        return str(name)

    def _checked(self, slot: str, value: Value | None) -> Value | None:
        """A person's value, in the form the memory keeps."""
        if value is None or value is DONTCARE:
            return value
        if not isinstance(value, str):
            raise InputError(f'The value of "{slot}" must be text, None or DONTCARE, not {type(value).__name__}.')
        if not value.strip() or len(value) > MAX_VALUE or broken(value):
            raise InputError(f'The value of "{slot}" must be 1 to {MAX_VALUE} characters of text; None deletes it.')
        allowed = self.schema[slot].values
        known = value_from_json(value.strip())
        if allowed is None or not isinstance(known, str):
            return known
        if (near := nearest(known, allowed, whole=True)) is None:
            more = f" and {len(allowed) - 20:,} more" if len(allowed) > 20 else ""
            raise InputError(f'"{value}" is not among the values of "{slot}": {", ".join(allowed[:20])}{more}.')
        return near

    def _refuse_unknown_slots(self) -> None:
        unknown = [slot for slot in self.schema if slot not in self.predictor.schema]
        if unknown:
            more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
            raise ModelError(
                f'The model "{self.predictor.model_id}" was not trained on the slot "{unknown[0]}"{more}: train one '
                "with this schema (`somdst train --help`), or leave the slot out of the schema."
                f"{did_you_mean(unknown[0], self.predictor.schema)}"
            )

    # Conversations in memory

    def update_many(self, turns: Sequence[tuple[Conversation, Turn]]) -> list[Result]:
        """One turn for each of many conversations, in one run of the model: all of them, or on an error none."""
        conversations = [conversation for conversation, _ in turns]
        if not all(isinstance(conversation, Conversation) and isinstance(turn, Turn) for conversation, turn in turns):
            raise InputError("A batch is a list of pairs, each a Conversation and a Turn.")
        if any(conversation.tracker is not self for conversation in conversations):
            raise InputError("A batch holds conversations of one tracker, the one that steps it.")
        if len(set(map(id, conversations))) < len(conversations):
            raise InputError("A conversation can have only one turn in a batch: send its next turn in the next batch.")
        with ExitStack() as locks:
            for conversation in sorted(conversations, key=id):  # one order for all, so that nobody waits in a circle
                locks.enter_context(conversation.lock)
            steps = [(conversation.snapshot, turn) for conversation, turn in turns]
            results = self.step_many(steps, under=[conversation.now for conversation in conversations])
            for conversation, result in zip(conversations, results, strict=True):
                conversation.take(result)
            return results

    async def update_many_async(self, turns: Sequence[tuple[Conversation, Turn]]) -> list[Result]:
        """`update_many` in a thread, so that an event loop goes on meanwhile."""
        return await asyncio.to_thread(self.update_many, turns)
