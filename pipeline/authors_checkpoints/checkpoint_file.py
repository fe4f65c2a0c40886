"""Files of torch.save that others made, read by torch's own reader for them: torch.load(weights_only=True).

That calls what is on torch's list and refuses the rest. A released checkpoint also names a class of the
authors', which holds their settings: such a name is let in as one of `Empty`, so that nothing that can be
called is added by it. Nothing is looked up by a name that a file gives, let alone imported.
"""

import hashlib
import pickletools
import re
import sys
import warnings
import zipfile
from _compat_pickle import IMPORT_MAPPING
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pipeline.errors import InputError

REMEDY = "download it again, or save it anew with torch.save"
# modules that are there wherever this runs, with the names that Python 2 had for some
INSTALLED = sys.stdlib_module_names | set(IMPORT_MAPPING) | {"torch", "torchvision", "numpy"}
# what settings are made of besides: a dictionary with defaults, and functions that make them
HARMLESS = {"collections.defaultdict", *(f"builtins.{name}" for name in ("dict", "list", "int", "float"))}
FLOATS = (torch.float32, torch.float16, torch.bfloat16)  # each is some float32, exactly


class Empty:
    """Stands for a class of which nothing is wanted: with any arguments it makes an empty dictionary."""

    # of OrderedDict alone torch lets a file fill what it made
    def __new__(cls, *_: Any) -> OrderedDict[Any, Any]:  # type: ignore[misc]  # another type is what it is for
        return OrderedDict()


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
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); name a checkpoint's file") from None
    try:
        return CheckpointFile(path, sha256, _plain(_load(path)))
    except Exception as error:  # what torch raises on damaged files is of any kind
        raise InputError(f"{path} cannot be read as a checkpoint: {_reason(error)}; {REMEDY}") from None


def _reason(error: Exception) -> str:
    """What is wrong with the file, in one line."""
    said = str(error.__context__ or error).strip()  # torch surrounds it by advice, to trust the file
    if named := re.search(r"\bGLOBAL (\S+)", said):
        return f"it names {named[1]}, which no checkpoint needs; nothing of it was executed"
    return said.split("\n")[0].rstrip(".") or "it is cut off"


def _load(path: Path) -> Any:
    with path.open("rb") as file:
        head = file.read(4)
    if zipped := head == b"PK\x03\x04":
        _check(path)
        names = set(torch.serialization.get_unsafe_globals_in_checkpoint(path))
    elif head[:1] == b"\x80":
        names = _names(path)
    else:
        raise ValueError("it is not a file of torch.save")
    foreign = {name for name in names if name.split(".")[0] not in INSTALLED}
    empty: list[Callable[..., Any] | tuple[Callable[..., Any], str]]
    empty = [(Empty, name) for name in foreign | HARMLESS]
    with torch.serialization.safe_globals(empty), warnings.catch_warnings(action="ignore"):
        # mapped, a storage cannot reach beyond the file, whatever length its pickle says
        return torch.load(path, "cpu", weights_only=True, mmap=zipped)


def _check(path: Path) -> None:
    """What torch does not look at: the checksums; and records that it would take as they stand, mapped."""
    with zipfile.ZipFile(path) as archive:
        if any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
            raise ValueError("it is a zip file with compressed records, which torch.save does not write")
        if damaged := archive.testzip():
            raise ValueError(f"its record {damaged} is damaged")


def _names(path: Path) -> set[str]:
    """What the stream of an old file names; torch lists that of zip files alone.

    It has pickles of a magic number, a version, a machine's facts and the tree.
    """
    with path.open("rb") as stream:
        operations = (operation for _ in range(4) for operation in pickletools.genops(stream))
        return {str(name).replace(" ", ".") for opcode, name, _ in operations if opcode.name == "GLOBAL"}


def _plain(value: Any) -> Any:
    """Without the attributes that a file may give to a dictionary or tensor, in a method's place."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in dict.items(value)}
    return Tensor.detach(value) if isinstance(value, Tensor) else value
