"""Read and hash checkpoint files, which torch.save or safetensors wrote (pipeline/io/torch_files.py)."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from pipeline.io import torch_files
from pipeline.io.content_hashes import sha256
from pipeline.io.errors import InputError
from pipeline.io.inputs import check_regular

STATE = "model_state_dict"  # entry with the tensors of IDC-PCL's pretraining
PARTS = ("change_detector_state", "speaker_state")  # entries with the tensors of most other checkpoints
LARGEST = 16 << 30  # limit of bytes
REMEDY = "download it again, or save it again with torch.save"


@dataclass(frozen=True)
class CheckpointFile:
    """Content of a checkpoint file; `tree` consists of dictionaries, lists, text, numbers and tensors."""

    path: Path
    sha256: str
    tree: Any


def read(path: str | Path) -> CheckpointFile:
    """Read a file that safetensors (suffix .safetensors) or torch.save (old or new format) wrote.

    Raises InputError if the file is missing or damaged, or if it contains something other than data.
    """
    path = Path(path)
    try:
        check_regular(path, LARGEST)
        digest = sha256(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); name a checkpoint's file") from None
    try:
        tree = load_file(path) if path.suffix == ".safetensors" else torch_files.load(path)
    except torch_files.WholeModelError as error:
        raise InputError(f"{path} cannot be read as a checkpoint: {error}") from None
    except Exception as error:  # both readers raise exceptions of many kinds for damaged files
        raise InputError(f"{path} cannot be read as a checkpoint: {_reason(error)}; {REMEDY}") from None
    return CheckpointFile(path, digest, tree)


def _reason(error: Exception) -> str:
    message = str(error.__context__ or error).strip()  # without torch's advice to trust the file
    if forbidden := re.search(r"\bGLOBAL (\S+)", message):
        return f"it names {forbidden[1]}, which no checkpoint needs; nothing of it was executed"
    return message.split("\n")[0].rstrip(".") or "it is cut off"


def tensors_of(file: CheckpointFile) -> dict[str, Tensor]:
    """Return name -> tensor of a file, or of its STATE, and <entry>.<name> -> tensor of its PARTS."""
    tree = _dictionary(file.tree)
    tree = _dictionary(tree.get(STATE)) or tree
    parts = {f"{part}.{name}": value for part in PARTS for name, value in _dictionary(tree.get(part)).items()}
    return {str(name): value for name, value in (tree | parts).items() if isinstance(value, Tensor)}


def _dictionary(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}
