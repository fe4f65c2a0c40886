"""What a result was made with: kept beside it, a dependency of nothing."""

import hashlib
import platform
import subprocess
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from pipeline import outputs, scratch_folders

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    "torch",
    "torchvision",
    "numpy",
    "zarr",
    "tensorstore",
    "pillow",
    "opencv-python-headless",
    "pycocoevalcap",
)


def sha256(*parts: bytes | str) -> str:
    """One hash over several byte strings, each with its length."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(f"{len(data)}:".encode() + data)
    return digest.hexdigest()


def code() -> str:
    """A hash of the source of pipeline/ and models/: scratch work of other code is not taken up."""
    files = sorted(path for package in ("pipeline", "models") for path in (ROOT / package).rglob("*.py"))
    parts = [part for path in files for part in (str(path.relative_to(ROOT)), path.read_bytes())]
    return sha256(*parts, torch.__version__)


def scratch(out: Path, *inputs: bytes | str) -> Path:
    """The folder where a long stage keeps its work on `out`, keyed by its inputs and the code."""
    return scratch_folders.scratch(out, sha256(code(), *inputs)[:16])


def write(path: str | Path, seconds: float, **facts: Any) -> None:
    """Write when, where, how long and with which versions and revision a result was made."""
    record = {
        "finished": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "seconds": round(seconds, 3),
        "host": platform.node(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "threads": torch.get_num_threads(),
        "versions": {name: _version(name) for name in PACKAGES},
        "code": code(),
        "git": _revision(),
    }
    outputs.write_json(path, record | facts)


def _version(package: str) -> str | None:
    """None where it is not installed: extraction and training run without the metrics' library."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _revision() -> str | None:
    """The checkout's commit, with `+changes` where files differ from it; None outside git."""
    described = subprocess.run(
        ["git", "describe", "--always", "--abbrev=40", "--dirty=+changes"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or None
