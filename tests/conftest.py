"""What tests share: where the corpora are, and real databases."""

import os
import signal
from pathlib import Path

import pytest
from databases import database, postgres  # noqa: F401
from hypothesis import HealthCheck, settings

# Some virtual machines announce matrix instructions that do not work (`learn/machine.py`); tests do without them.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
# Threads that wait for each other by spinning are a hundred times slower on a busy machine, and tiny models need one.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A shell ignores Ctrl-C in what it runs in the background, and processes inherit that; tests interrupt themselves.
signal.signal(signal.SIGINT, signal.default_int_handler)
# No example of Hypothesis fails because the machine is busy, or by chance. To look for new ones:
# HYPOTHESIS_PROFILE=hunting.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("hunting", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "patient"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first, so that no worker begins a long one when the others are done."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder with real corpora; tests that need it are skipped where it is absent."""
    path = Path(os.environ.get("SOMDST_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"no corpora at {path}: set SOMDST_DATA to a folder with multiwoz-2.1/ and woz-2.0/")
    return path
