"""The other systems: each learns, is a predictor like any other, and says what it cannot do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiny
from typer.testing import CliRunner

torch = pytest.importorskip("torch")

from small_runs import assert_same, weights  # noqa: E402
from small_systems import DIALOGUES, SMALL, settings, untrained  # noqa: E402

from somdst import Tracker  # noqa: E402
from somdst.baselines.catalogue import SYSTEMS  # noqa: E402
from somdst.baselines.ds_dst import DsDst  # noqa: E402
from somdst.baselines.hyst import Hyst  # noqa: E402
from somdst.baselines.system_predictor import SystemPredictor  # noqa: E402
from somdst.cli.main import app  # noqa: E402
from somdst.corpora.synthetic import SYNTHETIC_SCHEMA, synthetic_dialogues  # noqa: E402
from somdst.errors import InputError, ModelError  # noqa: E402
from somdst.evaluate.efficiency import values_generated  # noqa: E402
from somdst.evaluate.metrics import joint_goal_accuracy, measure  # noqa: E402
from somdst.evaluate.run import ORACLES, run  # noqa: E402
from somdst.learn.batches import Examples  # noqa: E402
from somdst.learn.kinds import kind_of  # noqa: E402
from somdst.learn.settings import load_settings  # noqa: E402
from somdst.learn.trainer import Trainer  # noqa: E402
from somdst.learn.training import train  # noqa: E402
from somdst.memory.dialogue import Turn  # noqa: E402
from somdst.memory.operations import FOUR, Operation  # noqa: E402
from somdst.memory.state import State  # noqa: E402
from somdst.model.config import SOM_DST  # noqa: E402
from somdst.model.folder import ModelFolder, open_predictor  # noqa: E402

OTHERS = [name for name in SYSTEMS if name != SOM_DST]
EPOCHS = {"trade": 150.0, "ml-bst": 150.0, "comer": 150.0, "hyst": 120.0}
"""Those that learn to write, or two methods, take longer; all others learn the 24 turns in 60."""
BOUND, UNTRAINED = 50.0, 25.0
"""Percent of the turns that are right: at least with training, at most without."""


def predictor(name: str, **changes: Any) -> SystemPredictor:
    return SystemPredictor(untrained(name, **changes))


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_it_learns(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "ds-dst":
        monkeypatch.setattr(DsDst, "few", 2)  # so few values that most slots have to be spans
    chosen = load_settings("cpu", **SMALL | {"epochs": EPOCHS.get(name, 60.0), "system": name})
    dev = DIALOGUES if name == "hyst" else None
    result = train(DIALOGUES, tmp_path, dev=dev, settings=chosen)
    folder = ModelFolder.open(tmp_path)
    assert result.finished and folder.config.system == name and folder.config.name == name
    trained = open_predictor(tmp_path)
    assert isinstance(trained, SystemPredictor) and trained.model_id.startswith(f"{name}-")
    accuracy = joint_goal_accuracy(run(trained, DIALOGUES))
    assert accuracy >= BOUND
    assert joint_goal_accuracy(run(predictor(name), DIALOGUES)) <= UNTRAINED


@pytest.mark.parametrize("name", OTHERS)
def test_oracles_and_empty_inputs(name: str) -> None:
    system = predictor(name)
    assert system.predict([]) == []
    (nothing,) = system.predict([tiny.turn_input("")])
    assert set(nothing.slots) <= set(SYNTHETIC_SCHEMA)
    dialogues = DIALOGUES[:2]
    for oracle in (frozenset(ORACLES), frozenset({"operations", "values"})):
        assert joint_goal_accuracy(run(system, dialogues, oracle=oracle)) == 100.0
    forced = {"hotel-area": Operation.UPDATE, "hotel-name": Operation.DONTCARE, "cafe-name": Operation.CARRYOVER}
    (said,) = system.predict([tiny.turn_input("north please")], operations=[forced])
    assert said.operations == {"hotel-area": Operation.UPDATE, "hotel-name": Operation.DONTCARE}
    (every,) = system.predict([tiny.turn_input("x")], operations=[dict.fromkeys(SYNTHETIC_SCHEMA, Operation.UPDATE)])
    assert set(every.slots) == set(SYNTHETIC_SCHEMA)


@pytest.mark.parametrize("name", OTHERS)
def test_many_turns_together_are_as_each_alone(name: str) -> None:
    system = predictor(name)
    turns = DIALOGUES[1].turns
    inputs = [
        tiny.turn_input(turns[0].user),
        tiny.turn_input(turns[2].user, turns[2].system, previous=turns[1], older=(turns[0],), state=turns[1].state),
        tiny.turn_input(DIALOGUES[2].turns[0].user),
    ]
    together = system.predict(inputs)
    for one, both in zip(inputs, together, strict=True):
        system.forget()
        (alone,) = system.predict([one])
        assert alone.operations == both.operations and alone.values == both.values
        for slot, said in alone.slots.items():
            assert said.probability == pytest.approx(both.slots[slot].probability, abs=1e-4)


def test_operations_are_those_that_lead_to_the_state() -> None:
    """Of a system that predicts from scratch: what it no longer says is deleted, what it says again is carried over."""
    system = predictor("fjst")
    before = tiny.turn_input("hello")
    (first,) = system.predict([before])
    state = system.operation_set.apply(State(), first.operations, first.values)
    (again,) = system.predict([tiny.turn_input("hello", state=state)])
    assert again.slots == {}
    slot = next(slot for slot in SYNTHETIC_SCHEMA if slot not in state)
    (cleared,) = system.predict([tiny.turn_input("hello", state=state.with_values({slot: "x"}))])
    assert cleared.operations == {slot: Operation.DELETE}


@pytest.mark.parametrize("name", OTHERS)
def test_lower_precision(name: str) -> None:
    """In mixed precision the losses are nearly the same, and it still decides."""
    system = untrained(name)
    batches = kind_of(name).batches(
        kind_of(name).source(DIALOGUES, SYNTHETIC_SCHEMA) or Examples(DIALOGUES, SYNTHETIC_SCHEMA),
        system.encoder,
        settings(name),
        system,
    )
    batch: Any = batches.tensors([0, 1, 2], 0)
    losses = []
    for enabled in (False, True):
        torch.manual_seed(0)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            losses.append(system.train()(batch).total)
    losses[1].backward()
    assert float(losses[1].detach()) == pytest.approx(float(losses[0].detach()), rel=0.1)
    (said,) = SystemPredictor(system, precision="bf16").predict([tiny.turn_input("north please")])
    assert set(said.slots) <= set(SYNTHETIC_SCHEMA)


@pytest.mark.parametrize("name", ["trade", "sumbt", "comer"])
def test_a_resumed_run_is_the_same(name: str, tmp_path: Path) -> None:
    chosen = settings(name, epochs=2.0, word_dropout=0.1, wrong_states=0.5, perturb=0.3, dropout=0.1, average=0.9)
    kind = kind_of(name)

    def trainer(out: Path, **options: Any) -> Trainer:
        model, encoder = kind.new_model(chosen, SYNTHETIC_SCHEMA, DIALOGUES)
        return Trainer(
            model, encoder, chosen, DIALOGUES, out, source=kind.source(DIALOGUES, SYNTHETIC_SCHEMA), **options
        )

    whole = trainer(tmp_path / "whole").run()
    assert not trainer(tmp_path / "parts", stop_after=whole.step // 2).run().finished
    assert trainer(tmp_path / "parts").run().finished
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    with pytest.raises(InputError, match="was started with another system"):
        train(DIALOGUES, tmp_path / "whole", settings=chosen.model_copy(update={"system": "fjst"}))


def test_a_systems_folder(tmp_path: Path) -> None:
    train(DIALOGUES, tmp_path, settings=load_settings("cpu", **SMALL | {"system": "fjst", "epochs": 1.0}))
    tracker = Tracker.from_pretrained(tmp_path)
    tracker.start().update("a cheap hotel please")
    metrics = measure(run(tracker.predictor, DIALOGUES), schema=tracker.schema, operation_set=FOUR)
    assert metrics.turns == 24
    with pytest.raises(ModelError, match="is a fjst, which runs on torch only"):
        open_predictor(tmp_path, engine="onnx")
    with pytest.raises(ModelError, match="not exported or trained further"):
        train(DIALOGUES, tmp_path / "next", start_from=tmp_path)
    done = CliRunner().invoke(app, ["evaluate", str(tmp_path), "synthetic:5", "--json"])
    assert done.exit_code == 0 and json.loads(done.stdout)["model"].startswith("fjst-"), done.output
    (tmp_path / "ontology.json").unlink()
    with pytest.raises(ModelError, match=r"ontology.json is missing or damaged"):
        open_predictor(tmp_path)


def test_values_per_turn() -> None:
    """TRADE writes every slot, COMER the filled ones, a reader those that change."""
    (one,) = run(predictor("comer"), DIALOGUES[:1])
    for turn in one.turns:
        assert values_generated("every", turn, SYNTHETIC_SCHEMA) == len(SYNTHETIC_SCHEMA)
        assert values_generated("every-non-null", turn, SYNTHETIC_SCHEMA) == len(turn.predicted)
    assert {SYSTEMS[name].writes for name in ("trade", "ml-bst")} == {"every"}
    assert SYSTEMS["comer"].writes == "every-non-null" and SYSTEMS["dst-reader"].writes == "ours"


def test_hyst_chooses_for_each_slot_on_dev() -> None:
    system = untrained("hyst")
    assert isinstance(system, Hyst) and not system.use_open.any()
    system.choose(SystemPredictor(system), DIALOGUES)
    wrong = []
    kept = system.use_open.clone()
    for use_open in (False, True):
        system.use_open.fill_(use_open)
        metrics = measure(
            run(SystemPredictor(system), DIALOGUES),
            schema=SYNTHETIC_SCHEMA,
            operation_set=SystemPredictor(system).operation_set,
        )
        wrong.append({row.slot: row.wrong for row in metrics.slots})
    assert kept.tolist() == [wrong[1][slot] < wrong[0][slot] for slot in system.slot_names]


def test_a_slot_that_was_not_trained() -> None:
    from dataclasses import replace

    with pytest.raises(Exception, match='There is no slot "hotel-stars" in the schema'):
        predictor("trade").predict([replace(tiny.turn_input("x"), schema=_with_stars())])


def _with_stars() -> Any:
    from somdst.memory.schema import Schema, Slot

    return Schema([*SYNTHETIC_SCHEMA.slots, Slot.of("hotel", "stars")])


def test_training_says_what_the_ontology_lacks(tmp_path: Path) -> None:
    options = ["--system", "fjst", "--encoder", "tiny", "--epochs", "1", "--set", "precision=fp32", "--limit", "2"]
    done = CliRunner().invoke(app, ["train", "synthetic:5", str(tmp_path), *options])
    assert done.exit_code == 0, done.output
    assert "values are not in the ontology, because they never occur in training" in done.stderr
    unknown = CliRunner().invoke(app, ["train", "synthetic:5", str(tmp_path / "x"), "--system", "trad"])
    assert 'There is no system "trad"' in str(unknown.exception)


def test_systems_are_listed() -> None:
    done = CliRunner().invoke(app, ["systems", "--json"])
    rows = {row["name"]: row for row in json.loads(done.stdout)["systems"]}
    assert list(rows) == list(SYSTEMS) and rows["nadst"]["published"] == [50.52, 49.04]
    assert "DST-picklist" in CliRunner().invoke(app, ["systems"]).stdout


def test_dialogues_longer_than_the_memory(tmp_path: Path) -> None:
    """A recurrent system learns from the first turns of a long dialogue, and forgets the oldest when it runs."""
    from dataclasses import replace

    (one,) = synthetic_dialogues(dialogues=1)
    long = replace(one, turns=tuple(Turn(t.system, t.user, t.state) for t in (one.turns * 4)[:20]))
    train([long], tmp_path, settings=load_settings("cpu", **SMALL | {"system": "hjst", "epochs": 1.0}))
    (done,) = run(open_predictor(tmp_path), [long])
    assert len(done.turns) == 20
