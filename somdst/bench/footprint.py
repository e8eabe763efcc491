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
from typing import Any

from packaging.requirements import Requirement

from somdst.prediction import Predictor, TurnInput

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


def installed_megabytes(name: str = "somdst") -> float:
    """The package, its model and everything that it needs to run, without extras."""
    package = Path(__file__).parents[1]  # counted here, because an editable install lists none of its files
    sizes = {"somdst": sum(file.stat().st_size for file in package.rglob("*") if file.is_file())}
    waiting = [name]
    while waiting:
        current = waiting.pop()
        for needed in metadata.requires(current) or ():
            requirement = Requirement(needed)
            if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
                continue
            if requirement.name not in sizes:
                sizes[requirement.name] = _size(requirement.name)
                waiting.append(requirement.name)
    return sum(sizes.values()) / 1e6


def _size(name: str) -> int:
    files = metadata.files(name) or ()
    paths = (Path(str(file.locate())) for file in files)
    return sum(path.stat().st_size for path in paths if path.is_file())
