"""Read and hash checkpoint files, which torch.save or safetensors wrote (pipeline/io/torch_files.py)."""

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

STATE = "model_state_dict"  # entry with the tensors of IDC-PCL's pretraining
# entries with the tensors of the other models' checkpoints
PARTS = ("change_detector_state", "speaker_state", "encoder", "decoder")
MOST = 100_000  # limit of entries
LARGEST = 16 << 30  # limit of bytes
REMEDY = "download it again, or save it again with torch.save"
CONVERT = (
    "import torch, sys; from safetensors.torch import save_file; "
    "save_file({k: v.contiguous() for k, v in torch.jit.load(sys.argv[1], 'cpu').state_dict().items()}, "
    "sys.argv[2])"
)


@dataclass(frozen=True)
class CheckpointFile:
    """Content of a checkpoint file; `tree` consists of dictionaries, lists, text, numbers and tensors."""

    path: Path
    sha256: str
    tree: Any


def read(path: str | Path) -> CheckpointFile:
    """Read a file that torch.save wrote, in its old or new format.

    Raises InputError if the file is missing or damaged, or if it contains something other than data.
    """
    path = Path(path)
    sha256 = _hashed(path, "name a checkpoint's file")
    try:
        return CheckpointFile(path, sha256, torch_files.load(path))
    except Exception as error:  # torch raises exceptions of many kinds for damaged files
        raise InputError(f"{path} cannot be read as a checkpoint: {_reason(error)}; {REMEDY}") from None


def tensors_of(file: CheckpointFile) -> dict[str, Tensor]:
    """Return path -> tensor, for the tensors at the file's top level and in the entries that PARTS names.

    A path is the keys of all levels, joined by dots. If the file has the entry STATE, only STATE is searched.
    Raises InputError if there are more than MOST entries, for example in dictionaries that contain each
    other.
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
    """Read a safetensors file. Raises InputError if it is missing, damaged, or a TorchScript archive."""
    sha256 = _hashed(path, remedy)
    try:
        with path.open("rb") as file:
            zipped = file.read(4) == b"PK\x03\x04"
        if zipped:
            raise InputError(f"{path} is {_kind_of(path, remedy)}")
        return CheckpointFile(path, sha256, load_file(path))
    except SafetensorError as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path} is not a complete safetensors file ({reason}); download it again") from None


def _hashed(path: Path, remedy: str) -> str:
    try:
        check_regular(path, LARGEST)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); {remedy}") from None


def _reason(error: Exception) -> str:
    said = str(error.__context__ or error).strip()  # without torch's advice to trust the file
    if named := re.search(r"\bGLOBAL (\S+)", said):
        return f"it names {named[1]}, which no checkpoint needs; nothing of it was executed"
    return said.split("\n")[0].rstrip(".") or "it is cut off"


def _kind_of(path: Path, remedy: str) -> str:
    """Return the end of an error message: the kind of the zip file, and what the user can do."""
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
