"""What a measurement was made on, and how busy and how fast it was just then."""

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "torchvision", "triton", "numpy", "numba", "tensorstore", "zarr", "pydantic", "pillow")
WATCHED = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu", "utilization.gpu", "memory.used")


@cache
def facts() -> dict[str, Any]:
    """Device, cores and versions. CUDA is not touched: the process that asks measures nothing."""
    return {
        "device": _smi("name,driver_version,memory.total") or _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def now() -> dict[str, Any]:
    """The GPU's clocks (MHz), power, temperature and use, as nvidia-smi names them; the processor's load."""
    watched = _smi(",".join(WATCHED))
    clocks = dict(zip(WATCHED, watched.split(", "), strict=True)) if watched else {}
    return {"load": round(os.getloadavg()[0], 1), "clocks": clocks}


def _smi(query: str) -> str:
    """Of the first GPU; empty where there is none."""
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader", "--id=0"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"no GPU; {names[0] if names else platform.machine()}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
