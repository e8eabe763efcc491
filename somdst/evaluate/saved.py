"""Predictions in a file, to be measured again and compared: `save` and `load`.

JSON lines: the first line has the model, the corpus, the operation set, the schema and the oracles; then one dialogue
per line. Evidence is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from somdst.corpora.reading import parse_json, reading
from somdst.errors import CorpusError, SomdstError
from somdst.evaluate.metrics import Metrics, measure
from somdst.evaluate.run import DialogueRun, TurnRun, run
from somdst.files import replacing
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.operations import Operation, OperationSet
from somdst.memory.schema import Schema
from somdst.memory.state import State, value_from_json, value_to_json
from somdst.model.prediction import Prediction, Predictor, SlotPrediction

VERSION = 1


@dataclass(frozen=True, slots=True)
class Saved:
    model: str
    corpus: str
    schema: Schema
    operation_set: OperationSet
    runs: tuple[DialogueRun, ...]
    oracle: tuple[str, ...] = ()
    threshold: float = 0.0

    @property
    def name(self) -> str:
        """The model, and what was done to its predictions."""
        more = [f"gold {', '.join(self.oracle)}"] if self.oracle else []
        more += [f"threshold {self.threshold:g}"] if self.threshold else []
        return f"{self.model} ({', '.join(more)})" if more else self.model

    def metrics(self) -> Metrics:
        return measure(self.runs, schema=self.schema, operation_set=self.operation_set)


def predictions(
    folder: Path,
    predictor: Predictor,
    dialogues: Sequence[Dialogue],
    *,
    part: str,
    schema: Schema | None = None,
    progress: Callable[[int], None] | None = None,
) -> Saved:
    """A model's predictions on a part of a corpus. Kept in a folder, so that a resumed run has them at once.

    `schema`: the slots to track, by default the model's own.
    """
    file, slots = folder / f"{part}.predictions.jsonl", schema or predictor.schema
    if file.exists():
        saved = load(file)
        if saved.model == predictor.model_id and saved.schema == slots and _same(saved.runs, dialogues, slots):
            return saved
    runs = run(predictor, dialogues, schema=schema, progress=progress)
    saved = Saved(predictor.model_id, part, slots, predictor.operation_set, tuple(runs))
    save(file, saved)
    return saved


def _same(runs: Sequence[DialogueRun], dialogues: Sequence[Dialogue], schema: Schema) -> bool:
    """Whether these are runs of these dialogues, with the same texts and labels."""
    before = [(run.id, [(turn.turn.system, turn.turn.user, turn.gold) for turn in run.turns]) for run in runs]
    slots = [run.schema or schema for run in runs]
    return len(runs) == len(dialogues) and before == [
        (one.id, [(turn.system, turn.user, (turn.state or State()).within(own)) for turn in one.turns])
        for one, own in zip(dialogues, slots, strict=True)
    ]


def save(path: str | Path, saved: Saved) -> None:
    """Write the file all or not at all."""
    header = {
        "somdst_predictions": VERSION,
        "model": saved.model,
        "corpus": saved.corpus,
        "operation_set": saved.operation_set.name,
        "schema": saved.schema.to_json(),
        "oracle": list(saved.oracle),
        "threshold": saved.threshold,
    }
    runs = (_run_to_json(run) for run in saved.runs)
    with replacing(Path(path)) as stream:
        for line in (header, *runs):
            stream.write(json.dumps(line).encode() + b"\n")


def load(path: str | Path) -> Saved:
    path = Path(path)
    with reading(path) as stream:
        lines = [parse_json(line, f"{path}, line {number}") for number, line in enumerate(stream, start=1)]
    header = lines[0] if lines else None
    if not isinstance(header, dict) or header.get("somdst_predictions") != VERSION:
        raise CorpusError(f"{path} holds no saved predictions: write some with `somdst evaluate --save {path.name}`.")
    try:
        return Saved(
            model=str(header["model"]),
            corpus=str(header["corpus"]),
            schema=Schema.from_json(header["schema"]),
            operation_set=OperationSet.named(header["operation_set"]),
            runs=tuple(map(_run_from_json, lines[1:])),
            oracle=tuple(map(str, header.get("oracle", ()))),
            threshold=float(header.get("threshold", 0.0)),
        )
    except (KeyError, TypeError, ValueError, AttributeError, SomdstError) as error:
        raise CorpusError(f"The predictions in {path} are damaged ({error}): save them again.") from error


def _run_to_json(run: DialogueRun) -> dict[str, Any]:
    schema = {"schema": run.schema.to_json()} if run.schema else {}
    return {"id": run.id, **schema, "turns": [_turn_to_json(turn) for turn in run.turns]}


def _turn_to_json(turn: TurnRun) -> dict[str, Any]:
    return {
        "system": turn.turn.system,
        "user": turn.turn.user,
        "domain": turn.turn.domain,
        "fed": turn.fed.to_json(),
        "predicted": turn.predicted.to_json(),
        "gold": turn.gold.to_json(),
        "slots": {slot: _slot_to_json(predicted) for slot, predicted in turn.prediction.slots.items()},
        "carryover": {slot: round(p, 4) for slot, p in turn.prediction.carryover.items()},
        "predicted_domain": turn.prediction.domain,
    }


def _slot_to_json(predicted: SlotPrediction) -> dict[str, Any]:
    value = None if predicted.value is None else value_to_json(predicted.value)
    return {"operation": str(predicted.operation), "probability": predicted.probability, "value": value}


def _run_from_json(data: Any) -> DialogueRun:
    schema = Schema.from_json(data["schema"]) if "schema" in data else None
    return DialogueRun(data["id"], tuple(map(_turn_from_json, data["turns"])), schema)


def _turn_from_json(data: Any) -> TurnRun:
    gold = State.from_json(data["gold"])
    slots = {slot: _slot_from_json(entry) for slot, entry in data["slots"].items()}
    return TurnRun(
        turn=Turn(data["system"], data["user"], gold, data["domain"]),
        fed=State.from_json(data["fed"]),
        prediction=Prediction(slots, data["carryover"], data["predicted_domain"]),
        predicted=State.from_json(data["predicted"]),
        gold=gold,
    )


def _slot_from_json(data: Any) -> SlotPrediction:
    value = None if data["value"] is None else value_from_json(data["value"])
    return SlotPrediction(Operation(data["operation"]), float(data["probability"]), value)
