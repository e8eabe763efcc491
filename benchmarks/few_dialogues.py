#!/usr/bin/env python
"""What a few labelled dialogues are worth: the shipped tracker on something new, before and after it learned from some.

    python benchmarks/few_dialogues.py runs/few woz-2.0 sgd-dev.zip --services Flights_3,Banks_2 --picture curve.svg

A corpus with one schema is learned from its train part and measured on dev. For a corpus whose dialogues have schemas
of their own, name services: each is learned and measured over its own slots, on different dialogues about it. As many
turns are learned from however few dialogues there are, but never in more than 40 epochs. What was known before is
measured too: on dialogues of `domains`, which none of these models saw. Every figure is kept in OUT, so that a stopped
command resumes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Annotated

import typer

from somdst.cli import learning, options
from somdst.cli.main import run_alone
from somdst.cli.output import print_json, print_tables
from somdst.corpora import open_corpus
from somdst.corpora.opening import schema_for
from somdst.errors import InputError
from somdst.evaluate.metrics import Metrics, measure
from somdst.evaluate.run import run
from somdst.evaluate.tables import Table
from somdst.files import make_folder, write_text
from somdst.learn.progress import Listener, Phase, within
from somdst.learn.settings import Settings
from somdst.learn.task import Task
from somdst.learn.training import train
from somdst.learn.zero_shot import only
from somdst.memory.dialogue import Dialogue, count_turns
from somdst.memory.schema import Schema
from somdst.memory.state import State
from somdst.model.folder import open_predictor
from somdst.model.prediction import Predictor

MOST_EPOCHS = 40


@dataclass(frozen=True, slots=True)
class Part:
    """Something to learn: a whole corpus, or one service of it."""

    name: str
    schema: Schema
    to_learn: Sequence[Dialogue]
    to_measure: Sequence[Dialogue]


@dataclass(frozen=True, slots=True)
class Point:
    part: str
    dialogues: int
    """Learned from."""
    epochs: float
    minutes: float
    joint_accuracy: float
    turns_right: float
    empty_state: float
    """Joint accuracy of a tracker that never writes."""
    others: float
    """Turns right on dialogues about other things."""


def main(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the runs.")],
    corpora: Annotated[list[str], typer.Argument(metavar="CORPUS...", help="What to learn.")],
    services: Annotated[str, typer.Option(help="Comma-separated services of a corpus with many schemas.")] = "",
    sizes: Annotated[str, typer.Option(help="Comma-separated numbers of dialogues to learn from.")] = "0,5,20,100",
    turns: Annotated[int, typer.Option(min=1, help="Turns to learn from, repeats included.")] = 4000,
    measured: Annotated[int, typer.Option(min=1, help="Most dialogues to measure on.")] = 100,
    model: options.ModelOption = "default",
    seed: Annotated[int, typer.Option(help="Which dialogues are learned from, and the seed of training.")] = 0,
    picture: Annotated[Path | None, typer.Option(help="SVG file to write; needs matplotlib.")] = None,
    as_json: options.JsonOption = False,
) -> None:
    if picture is not None and picture.suffix != ".svg":
        raise InputError(f"The picture is an SVG file, not {picture.name}.")
    if not all(size.isdecimal() for size in options.listed(sizes)):
        raise InputError(f"Sizes are numbers of dialogues, such as 0,5,20, not {sizes}.")
    numbers = sorted(map(int, options.listed(sizes)))
    asked = {"turns": turns, "measured": measured, "model": model, "seed": seed, "most": numbers[-1]}
    sizing = {"most": numbers[-1], "measured": measured, "seed": seed}
    parts = [part for corpus in corpora for part in read_parts(corpus, options.listed(services), **sizing)]
    others = open_corpus("domains", split="dev").dialogues[:measured]
    points: list[Point] = []
    make_folder(out)
    with learning.ProgressBars() as bars:
        for part in parts:
            for size in numbers:
                listener = within(bars, f"{part.name}, {size} dialogues")
                kept = out / f"{part.name}-{size}.json"
                if not kept.exists():
                    folder = out / f"{part.name}-{size}"
                    point = learn_from(part, size, folder, others, turns, model, seed, listener)
                    write_text(kept, json.dumps({"asked": asked, "point": asdict(point)}, indent=1))
                found = json.loads(kept.read_text())
                if found["asked"] != asked:
                    raise InputError(f"{kept} was measured with other options: give another folder.")
                points.append(Point(**found["point"]))
    if picture is not None:
        draw(points, picture)
    if as_json:
        print_json({"points": [asdict(point) for point in points]})
    else:
        print_tables([table(points)])


def read_parts(corpus: str, services: Sequence[str], *, most: int, measured: int, seed: int) -> list[Part]:
    dialogues, parts = open_corpus(corpus).dialogues, list[Part]()
    if not any(dialogue.schema for dialogue in dialogues):
        learned, dev = (open_corpus(corpus, split=split) for split in ("train", "dev"))
        to_learn = shuffled(learned.dialogues, seed)[:most]
        return [Part(Path(corpus).name, schema_for([learned]), to_learn, dev.dialogues[:measured])]
    if not services:
        raise InputError(f"The dialogues of {corpus} have schemas of their own: name --services.")
    for service in services:
        about = shuffled([about_service(one, service) for one in dialogues if has_service(one, service)], seed)
        if len(about) <= most:
            raise InputError(f"{corpus} has {len(about)} dialogues about {service}: give smaller --sizes.")
        assert about[0].schema is not None
        parts.append(Part(service, about[0].schema, about[:most], about[most:][:measured]))
    return parts


def shuffled(dialogues: Sequence[Dialogue], seed: int) -> list[Dialogue]:
    return Random(seed).sample(list(dialogues), len(dialogues))


def has_service(dialogue: Dialogue, service: str) -> bool:
    return dialogue.schema is not None and service in dialogue.schema.domains


def about_service(dialogue: Dialogue, service: str) -> Dialogue:
    """The dialogue with the slots of one service only."""
    assert dialogue.schema is not None
    schema = only(dialogue.schema, service)
    turns = (replace(turn, state=(turn.state or State()).within(schema), frames=None) for turn in dialogue.turns)
    return replace(dialogue, turns=tuple(turns), schema=schema)


def learn_from(
    part: Part,
    size: int,
    folder: Path,
    others: Sequence[Dialogue],
    turns: int,
    model: str,
    seed: int,
    listener: Listener,
) -> Point:
    """Go on from the model with so many dialogues, and measure."""
    learned = list(part.to_learn[:size])
    epochs, minutes = 0.0, 0.0
    if learned:
        epochs = round(min(float(MOST_EPOCHS), turns / count_turns(learned)), 1)
        task = Task(tuple(learned), (), part.schema)
        settings = Settings(epochs=epochs, seed=seed)
        trained = train(task, folder, start_from=model, settings=settings, progress=listener)
        if not trained.finished:
            raise learning.stopped()
        minutes = round(trained.minutes, 1)
    predictor = open_predictor(folder if learned else model)
    own = measure_on(predictor, part.to_measure, part.schema, listener)
    rest = measure_on(predictor, others, Schema.multiwoz(), listener)
    empty = own.empty_state.joint_goal_accuracy
    figures = own.joint_goal_accuracy, own.turns_right, empty, rest.turns_right
    return Point(part.name, size, epochs, minutes, *(round(figure, 1) for figure in figures))


def measure_on(predictor: Predictor, dialogues: Sequence[Dialogue], schema: Schema, listener: Listener) -> Metrics:
    phase = Phase("measuring", count_turns(dialogues), listener)
    runs = run(predictor, dialogues, schema=schema, progress=phase.advance)
    return measure(runs, schema=schema, operation_set=predictor.operation_set)


def table(points: Sequence[Point]) -> Table:
    figures = "joint accuracy", "turns right", "empty state", "other domains"
    columns = "learned", "dialogues", "epochs", "minutes", *figures
    rows = tuple(tuple(asdict(point).values()) for point in points)
    note = "Empty state: the joint accuracy of a tracker that never writes. Other domains: turns right there."
    return Table("few_dialogues", "What a few dialogues are worth", columns, rows, note)


def draw(points: Sequence[Point], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(8, 4))
    places = sorted({point.dialogues for point in points})
    for part in dict.fromkeys(point.part for point in points):
        own = [point for point in points if point.part == part]
        axis.plot([places.index(point.dialogues) for point in own], [point.joint_accuracy for point in own], "o-")
        axis.lines[-1].set_label(f"{part} (empty state {own[0].empty_state:g})")
    axis.set_xticks(range(len(places)), map(str, places))
    axis.set_xlabel("dialogues learned from")
    axis.set_ylabel("joint accuracy, %")
    axis.set_ylim(0, 100)
    axis.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


if __name__ == "__main__":
    run_alone(main)
