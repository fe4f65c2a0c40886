"""Checkpoints that others made with torch.save: what pipeline/torch_files.py reads, with its hash."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pipeline import torch_files
from pipeline.errors import InputError
from pipeline.inputs import check_regular

LARGEST = 16 << 30  # bytes of a checkpoint
REMEDY = "download it again, or save it anew with torch.save"
FLOATS = (torch.float32, torch.float16, torch.bfloat16)  # each is some float32, exactly


@dataclass(frozen=True)
class CheckpointFile:
    """What the file holds: `tree` is of dictionaries, lists, text, numbers and tensors."""

    path: Path
    sha256: str
    tree: Any

    def floats(self, name: str, tensor: Tensor) -> Tensor:
        """A tensor of it in 32-bit floats. Raises InputError naming it where these cannot hold it exactly."""
        if tensor.layout is not torch.strided or tensor.device.type != "cpu" or tensor.dtype not in FLOATS:
            kind = f"{tensor.layout}, {tensor.dtype}"
            raise InputError(f"{self.path}: {name} is {kind}, not of floats of at most 32 bits; {REMEDY}")
        # few numbers can be spread over a shape without end
        if tensor.numel() * tensor.itemsize > tensor.untyped_storage().nbytes():
            raise InputError(f"{self.path}: {name} has more elements than the file has numbers; {REMEDY}")
        return tensor.to(torch.float32, copy=True, memory_format=torch.contiguous_format)


def read(path: str | Path) -> CheckpointFile:
    """Read a file of torch.save, also of before torch 1.6. Raises InputError saying what is wrong with it."""
    path = Path(path)
    try:
        check_regular(path, LARGEST)
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); name a checkpoint's file") from None
    try:
        return CheckpointFile(path, sha256, torch_files.load(path))
    except Exception as error:  # what torch raises on damaged files is of any kind
        raise InputError(f"{path} cannot be read as a checkpoint: {_reason(error)}; {REMEDY}") from None


def _reason(error: Exception) -> str:
    """What is wrong with the file, in one line."""
    said = str(error.__context__ or error).strip()  # torch surrounds it by advice, to trust the file
    if named := re.search(r"\bGLOBAL (\S+)", said):
        return f"it names {named[1]}, which no checkpoint needs; nothing of it was executed"
    return said.split("\n")[0].rstrip(".") or "it is cut off"
