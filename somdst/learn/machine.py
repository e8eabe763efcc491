"""What makes torch fast, and safe, on this CPU. Call `prepare` before the first computation.

Three facts, all measured. A processor without instructions for bfloat16 emulates them, and trains 26 times slower than
in float32: `computes_in_bf16` says whether it has them. The C library gives memory back to the system after every step
and fetches it again, which makes training about 1.6 times slower, so it is told to keep memory: the same gain as
preloading jemalloc, without a preload. And some virtual machines announce matrix instructions (AMX) that do not work,
so that the first bfloat16 product kills the process: this is tried in a process of its own, and if that dies, AMX is
switched off.
"""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4  # malloc.h
_TRY_BF16 = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); print(float((a @ a).sum()))"


def prepare() -> None:
    """Set this process up for training. It changes how the whole process gets memory."""
    keep_memory()
    if "ONEDNN_MAX_CPU_ISA" not in os.environ and not bf16_works():
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16"


def keep_memory() -> None:
    """Tell glibc to keep freed memory. Any other C library is left as it is."""
    if (libc := _glibc()) is not None:
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
        libc.mallopt(_M_TOP_PAD, 256 << 20)


def release_memory() -> None:
    """Give the memory that was kept back to the system, as between two runs: each keeps 6 GB or more."""
    gc.collect()
    if (libc := _glibc()) is not None:
        libc.malloc_trim(0)


def _glibc() -> Any:
    try:
        libc = ctypes.CDLL("libc.so.6")
        return libc if libc.mallopt and libc.malloc_trim else None
    except (OSError, AttributeError):
        return None


def computes_in_bf16() -> bool:
    """Whether bfloat16 is faster than float32 here: the GPU or the processor has instructions for it."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if not hasattr(torch.cpu, "get_capabilities"):
        return False  # an older torch does not say, and a wrong guess costs more than float32
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def precision_in(setting: str) -> str:
    """bf16 or fp32: what a setting of `precision` means on this machine."""
    if setting == "auto":
        return "bf16" if computes_in_bf16() else "fp32"
    return setting


def bf16_works() -> bool:
    """Whether a bfloat16 product works. It is only tried if the processor announces AMX."""
    try:
        announced = "amx_bf16" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return True
    if not announced:
        return True
    tried = subprocess.run([sys.executable, "-c", _TRY_BF16], capture_output=True, check=False)
    return tried.returncode == 0
