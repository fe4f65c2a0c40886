"""Provenance of a result: versions, machine, time and code. Nothing depends on it."""

import hashlib
import json
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from pipeline.io import outputs, scratch_folders, source_code
from pipeline.io.source_code import ROOT

PACKAGES = (
    *("torch", "torchvision", "numpy", "zarr", "tensorstore"),
    *("pillow", "opencv-python-headless", "pycocoevalcap"),
)


def sha256(*parts: bytes | str) -> str:
    """Return one hash of several byte strings, each with its length."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(f"{len(data)}:".encode() + data)
    return digest.hexdigest()


def code(stage: str, root: Path = ROOT) -> str:
    """Return a hash of the source files that a stage runs and of torch's version.

    A stage resumes only unfinished work with the same hash.
    For stages with a recipe, the recipe has the hashes of the model's files instead.
    """
    return sha256(json.dumps(source_code.of_stage(stage, root)), torch.__version__)


def scratch(stage: str, out: Path, *inputs: bytes | str) -> Path:
    """Return the folder of a long stage's unfinished work on `out`, keyed by its inputs and code."""
    return scratch_folders.scratch(out, sha256(code(stage), *inputs)[:16])


def write(stage: str, path: str | Path, seconds: float, **facts: Any) -> None:
    """Write when, where, for how long, and with which versions and revision a stage made a result."""
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
