"""The real service in a process of its own, with the rule-based predictor instead of a model: no weights, no waiting.

    python tests/serve_scripted.py --port 8000 --database /tmp/conversations.sqlite

It tracks any schema; `--model fixed` only MultiWOZ's. Type "hotel area north" to write, "maybe hotel area north" for a
pending write, "no hotel area", "any hotel area". `--gate FOLDER` makes the predictor wait until there is a file `open`
in a folder, so that a test decides when a turn is done; a file `entered` says that it waits. `--other` adds the model
"shouting", which writes every value in capitals, to replay conversations under. For the torture:
`--clock FILE` has the seconds that the store's clock is ahead, `--disk FOLDER` puts SQLite on a bad disk
(`benchmarks/disk.py`), and `--plant NAME` plants a bug (`benchmarks/planted.py`).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import disk
from planted import PLANTS
from scripted import AnyRules, RulePredictor
from waiting import until

from somdst.errors import ModelError
from somdst.memory.operations import Operation
from somdst.model.prediction import Prediction, TurnInput
from somdst.service.api_keys import load_keys
from somdst.service.app import create_app
from somdst.service.configuration import Limits, Settings
from somdst.service.server import bind, serve
from somdst.store import Store
from somdst.tracking.tracker import Tracker


class Gated(AnyRules):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def predict(
        self, inputs: Sequence[TurnInput], *, operations: Sequence[Mapping[str, Operation]] | None = None
    ) -> list[Prediction]:
        (self.folder / "entered").touch()
        until((self.folder / "open").exists, what="the opening of the gate")
        return super().predict(inputs, operations=operations)


class Shouting(AnyRules):
    def __init__(self) -> None:
        super().__init__(model_id="shouting")

    def predict(
        self, inputs: Sequence[TurnInput], *, operations: Sequence[Mapping[str, Operation]] | None = None
    ) -> list[Prediction]:
        return [
            replace(
                prediction,
                slots={
                    slot: replace(said, value=said.value.upper() if isinstance(said.value, str) else said.value)
                    for slot, said in prediction.slots.items()
                },
            )
            for prediction in super().predict(inputs, operations=operations)
        ]


def opener(*, threshold: float = 0.5, gate: Path | None = None):  # type: ignore[no-untyped-def]
    def open_tracker(name: str) -> Tracker:
        if name == "broken":
            raise ModelError("The model folder broken is missing: run `somdst models`.")
        if name == "shouting":
            return Tracker(Shouting(), threshold=threshold)
        if name == "fixed":
            return Tracker(RulePredictor(), threshold=threshold)
        return Tracker(Gated(gate) if gate else AnyRules(), threshold=threshold)

    return open_tracker


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--database", default="scripted.sqlite")
    parser.add_argument("--model", default="rules")
    parser.add_argument("--other", action="store_true")
    parser.add_argument("--keys")
    parser.add_argument("--threshold", type=float, default=0.5)
    parser.add_argument("--gate", type=Path, metavar="FOLDER")
    parser.add_argument("--max-batch", type=int, default=32)
    parser.add_argument("--max-turns", type=int, default=256)
    parser.add_argument("--body-timeout", type=float, default=300.0)
    parser.add_argument("--turn-timeout", type=float, default=300.0)
    parser.add_argument("--retention-seconds", type=float)
    parser.add_argument("--turns-per-second", type=float)
    parser.add_argument("--max-conversations", type=int)
    parser.add_argument("--max-bytes", type=int)
    parser.add_argument("--clock", type=Path, metavar="FILE")
    parser.add_argument("--disk", type=Path, metavar="FOLDER")
    parser.add_argument("--plant", choices=PLANTS)
    parser.add_argument("--reborn", action="store_true", help="print the process id of a child that may be killed")
    parser.add_argument("--log-level", default="WARNING")
    parser.add_argument("--log-utterances", action="store_true")
    options = parser.parse_args()
    settings = Settings(
        database=options.database,
        model=options.model,
        other_models={"shouting": "shouting"} if options.other else {},
        keys=load_keys(options.keys, os.environ),
        limits=Limits(options.turns_per_second, options.max_conversations, options.max_bytes),
        retention=None if options.retention_seconds is None else timedelta(seconds=options.retention_seconds),
        max_batch=options.max_batch,
        max_turns=options.max_turns,
        body_timeout=options.body_timeout,
        header_timeout=options.body_timeout,
        turn_timeout=options.turn_timeout,
        log_utterances=options.log_utterances,
    )
    if options.clock:
        defaults = Store.__init__.__kwdefaults__
        assert defaults is not None
        defaults["clock"] = clock(options.clock)
    if options.disk:
        disk.install(options.disk)
    if options.plant:
        PLANTS[options.plant].install()
    listener = bind("127.0.0.1", options.port, keys=settings.keys is not None, insecure=False)

    def run() -> None:
        app = create_app(settings, opener(threshold=options.threshold, gate=options.gate))
        serve(app, settings, sockets=[listener], log_level=options.log_level)

    if options.reborn:
        _be_reborn(run)
    else:
        run()


def clock(path: Path) -> Callable[[], float]:
    def now() -> float:
        return time.time() + (float(path.read_text()) if path.exists() else 0.0)

    return now


def _be_reborn(run: Callable[[], None]) -> None:
    """Serve in a child, and in a new one when that is killed. Nothing is imported again, so that it takes no time."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    listening = True
    while listening:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            run()
            os._exit(0)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        listening = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


if __name__ == "__main__":
    main()
