"""What a model costs besides a turn's time: throughput in batches, cold start, peak memory, size on disk.

Cold start and memory are taken in a new process, as a user meets them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from somdst.model.prediction import Predictor, TurnInput

_COLD_START = """
import time; start = time.perf_counter()
import sys
from somdst import Tracker
conversation = Tracker.from_pretrained(sys.argv[1]).start()
conversation.update(user="I need a cheap hotel in the north for two nights.")
seconds = time.perf_counter() - start
import json, resource
from pathlib import Path
kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
status = Path("/proc/self/status")
if status.exists():  # ru_maxrss also counts the process that started this one
    kilobytes = int(next(line for line in status.read_text().splitlines() if line.startswith("VmHWM")).split()[1])
print(json.dumps({"seconds": seconds, "megabytes": kilobytes / 1024}))
"""


def batch_throughput(predictor: Predictor, inputs: Sequence[TurnInput], *, batch: int = 32, repeats: int = 5) -> float:
    """Turns a second, in batches."""
    rates = []
    for _ in range(repeats):
        start = time.perf_counter()
        for first in range(0, len(inputs), batch):
            predictor.predict(inputs[first : first + batch])
        rates.append(len(inputs) / (time.perf_counter() - start))
    return median(rates)


def cold_start(model: str, *, repeats: int = 5) -> tuple[float, float]:
    """Seconds from import to the first answer (median), and the most memory in megabytes, in new processes."""
    runs: list[dict[str, Any]] = []
    for _ in range(repeats):
        done = subprocess.run([sys.executable, "-c", _COLD_START, model], capture_output=True, text=True, check=True)
        runs.append(json.loads(done.stdout))
    return median(run["seconds"] for run in runs), max(run["megabytes"] for run in runs)


class Installed(NamedTuple):
    """Megabytes on disk."""

    files: float
    """The package, its model and everything that it needs to run, without extras."""
    bytecode: float
    """Caches beside them, which pip writes ahead for everything, and Python otherwise for what is used."""


def installed(name: str = "somdst") -> Installed:
    package = Path(__file__).parents[1]  # counted here, because an editable install lists none of its files
    files = [file for file in package.rglob("*") if file.is_file()]
    seen, waiting = {canonicalize_name(name)}, [name]
    while waiting:
        for needed in metadata.requires(waiting.pop()) or ():
            requirement = Requirement(needed)
            if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
                continue
            if (key := canonicalize_name(requirement.name)) not in seen:
                seen.add(key)
                waiting.append(requirement.name)
                files += [Path(str(file.locate())) for file in metadata.files(requirement.name) or ()]
    sizes = {file: file.stat().st_size for file in files if file.is_file()}
    caches = sum(size for file, size in sizes.items() if file.suffix == ".pyc")
    return Installed((sum(sizes.values()) - caches) / 1e6, caches / 1e6)
