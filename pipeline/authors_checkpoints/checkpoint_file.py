"""Checkpoints that others made, with hashes: torch.save's (pipeline/io/torch_files.py) and safetensors'."""

import hashlib
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from pipeline.io import torch_files
from pipeline.io.errors import InputError
from pipeline.io.inputs import check_regular

STATE = "model_state_dict"  # what holds IDC-PCL's tensors before the last phase
PARTS = ("change_detector_state", "speaker_state", "encoder", "decoder")  # what holds the others' tensors
MOST = 100_000  # entries of those
LARGEST = 16 << 30  # bytes of a checkpoint
REMEDY = "download it again, or save it anew with torch.save"
CONVERT = (
    "import torch, sys; from safetensors.torch import save_file; "
    "save_file({k: v.contiguous() for k, v in torch.jit.load(sys.argv[1], 'cpu').state_dict().items()}, "
    "sys.argv[2])"
)


@dataclass(frozen=True)
class CheckpointFile:
    """What the file holds: `tree` is of dictionaries, lists, text, numbers and tensors."""

    path: Path
    sha256: str
    tree: Any


def read(path: str | Path) -> CheckpointFile:
    """Read a file of torch.save, also of before torch 1.6. Raises InputError saying what is wrong with it."""
    path = Path(path)
    sha256 = _hashed(path, "name a checkpoint's file")
    try:
        return CheckpointFile(path, sha256, torch_files.load(path))
    except Exception as error:  # what torch raises on damaged files is of any kind
        raise InputError(f"{path} cannot be read as a checkpoint: {_reason(error)}; {REMEDY}") from None


def tensors_of(file: CheckpointFile) -> dict[str, Tensor]:
    """Return the tensors by name: those of the file itself, and those within its PARTS, by their path.

    Raises InputError where it has entries without end, as dictionaries that hold one another may have.
    """
    tree = file.tree if isinstance(file.tree, dict) else {}
    if isinstance(state := tree.get(STATE), dict):
        tree = state
    left = [(str(name), value) for name, value in reversed(tree.items())]
    left = [(name, value) for name, value in left if isinstance(value, Tensor) or name in PARTS]
    found: dict[str, Tensor] = {}
    for _ in range(MOST):
        if not left:
            return found
        name, value = left.pop()
        if isinstance(value, Tensor):
            found[name] = value
        elif isinstance(value, dict):
            left += [(f"{name}.{key}", entry) for key, entry in reversed(value.items())]
    raise InputError(f"{file.path} has more than {MOST:,} entries; {REMEDY}")


def read_safetensors(path: Path, remedy: str) -> CheckpointFile:
    """Read a safetensors file. Raises InputError where it is missing, damaged, or a TorchScript archive."""
    sha256 = _hashed(path, remedy)
    try:
        with path.open("rb") as file:
            zipped = file.read(4) == b"PK\x03\x04"
        if zipped:
            raise InputError(f"{path} is {_kind_of(path, remedy)}")
        return CheckpointFile(path, sha256, load_file(path))
    except SafetensorError as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path} is no whole safetensors file ({reason}); download it again") from None


def _hashed(path: Path, remedy: str) -> str:
    try:
        check_regular(path, LARGEST)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); {remedy}") from None


def _reason(error: Exception) -> str:
    """What is wrong with the file, in one line."""
    said = str(error.__context__ or error).strip()  # torch surrounds it by advice, to trust the file
    if named := re.search(r"\bGLOBAL (\S+)", said):
        return f"it names {named[1]}, which no checkpoint needs; nothing of it was executed"
    return said.split("\n")[0].rstrip(".") or "it is cut off"


def _kind_of(path: Path, remedy: str) -> str:
    """What a zip file is, and what to do with a TorchScript archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            scripted = any("/code/" in name for name in archive.namelist())
    except zipfile.BadZipFile:
        return f"a damaged zip file; {remedy}"
    if not scripted:
        return f"a file of torch.save; {remedy}"
    return (
        "a TorchScript archive, a program that is not run here; convert it where you downloaded it: "
        f'python -c "{CONVERT}" {path.name} clip.safetensors'
    )
