"""Provenance of a result: versions, machine, time and code. No stage depends on this record."""

import hashlib
import json
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pipeline.io import outputs, scratch_folders, source_code
from pipeline.io.source_code import ROOT

PACKAGES = (
    *("torch", "torchvision", "numpy", "zarr", "tensorstore"),
    *("pillow", "opencv-python-headless", "pycocoevalcap"),
)


def sha256(*parts: bytes | str) -> str:
    """Return one SHA-256 of several byte strings and their lengths. Texts are encoded as UTF-8."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(f"{len(data)}:".encode() + data)
    return digest.hexdigest()


def code(stage: str, root: Path = ROOT) -> str:
    """Return a hash of a stage's source files and torch's version; unfinished work resumes only with it."""
    import torch

    return sha256(json.dumps(source_code.of_stage(stage, root)), torch.__version__)


def scratch(stage: str, out: Path, *inputs: bytes | str) -> Path:
    return scratch_folders.scratch(out, sha256(code(stage), *inputs)[:16])


def write(stage: str, path: str | Path, seconds: float, **facts: Any) -> None:
    """Write the provenance of a stage's result, with `seconds` and further `facts`, to a JSON file."""
    import torch

    record = {
        "finished": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "seconds": round(seconds, 3),
        "host": platform.node(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "threads": torch.get_num_threads(),
        "versions": {name: _version(name) for name in PACKAGES},
        "code": code(stage),
        "git": source_code.revision(),
    }
    outputs.write_json(path, record | facts)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # extraction and training run without the metrics' library
        return None
