"""Read untrusted files of torch.save with torch.load(weights_only=True), which executes no code.

torch loads tensors, dictionaries, lists, texts and numbers. Numbers and arrays of NumPy are loaded, too
(numpy_pickles.py). Any other class or function that a file names, such as a class of settings, is replaced by
an empty dictionary. No name in a file is looked up or imported. If the file has a whole model, only its
tensors are returned, in nested dictionaries with one level per module.
"""

import pickletools
import warnings
import zipfile
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING  # names of Python 2
from collections import OrderedDict, deque
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from pipeline.io import numpy_pickles

WHOLE_MODEL = (
    "it holds a whole model, as torch before 1.6 saved it; load it in its own program, and save the state "
    "dict: torch.save(model.state_dict(), PATH)"
)
LEGACY_PICKLES = 5  # magic number, version, machine, tree of objects, names of the storages
CONVERT = (
    'python -c "import sys, torch; '
    "torch.save(torch.jit.load(sys.argv[1], 'cpu').state_dict(), sys.argv[2])\" IN.pt OUT.pth"
)


class WholeModelError(ValueError):
    """A file holds a whole model in a form from which the tensors cannot be read."""


class Empty:
    """Replacement for classes and functions that a file names and that torch refuses to load.

    torch.load uses Empty in their place, so that no code of theirs is run. A call of Empty, with any
    arguments, returns an empty OrderedDict.
    """

    # torch permits a file to fill an object only if this is an OrderedDict
    def __new__(cls, *_: Any) -> OrderedDict[Any, Any]:  # type: ignore[misc]  # returns another type on purpose
        return OrderedDict()


def load(path: Path) -> Any:
    """Return the content of a file: dictionaries, lists, texts, numbers and tensors.

    Raises ValueError for a file that torch.save did not write, WholeModelError for a whole model that a torch
    before 1.6 saved, and torch's own exceptions for a damaged file.
    """
    with path.open("rb") as file:
        head = file.read(4)
    if is_zip := head == b"PK\x03\x04":
        _check_records(path)
    elif head[:1] != b"\x80":
        raise ValueError("it is not a file of torch.save")
    # torch prefers its own functions to these, if it has one of that name
    replacements: list[Any] = [
        (numpy_pickles.replacement(name) or Empty, name) for name in _global_names(path, is_zip)
    ]
    with torch.serialization.safe_globals(replacements), warnings.catch_warnings(action="ignore"):
        return _without_attributes(torch.load(path, "cpu", weights_only=True, mmap=is_zip), {})


def _check_records(path: Path) -> None:
    """Raise ValueError if a record of a zip file is damaged or compressed, which torch does not check."""
    if not zipfile.is_zipfile(path):
        raise ValueError("it is cut off")
    with zipfile.ZipFile(path) as archive:
        records = archive.infolist()
        if any("/code/" in record.filename for record in records):
            raise ValueError(f"it is a TorchScript archive, a program, and is not run; convert it: {CONVERT}")
        if any(record.compress_type for record in records):
            raise ValueError("it is a zip file with compressed records, which torch.save does not write")
        if damaged := archive.testzip():
            raise ValueError(f"its record {damaged} is damaged")


def _global_names(path: Path, is_zip: bool) -> set[str]:
    if is_zip:
        return set(torch.serialization.get_unsafe_globals_in_checkpoint(path))
    try:
        with path.open("rb") as file:
            return set().union(*(_names_in_pickle(file) for _ in range(LEGACY_PICKLES)))
    except WholeModelError:
        raise
    except ValueError:  # of pickletools
        pass
    raise ValueError("it is cut off")


def _names_in_pickle(file: BinaryIO) -> set[str]:
    """Return the names of classes and functions in the next pickle of a file, without executing it.

    Raises WholeModelError if an object of the pickle is the tuple ("module", class, file, source).
    """
    names = set()
    recent: deque[object] = deque(maxlen=5)  # arguments of the last operations
    for operation, argument, _ in pickletools.genops(file):
        if operation.name == "GLOBAL":
            module, _, name = str(argument).partition(" ")
            module, name = NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
            names.add(f"{module}.{name}")
        if operation.name == "BINPERSID" and len(recent) == 5 and recent[0] == "module":
            raise WholeModelError(WHOLE_MODEL)
        if "PUT" not in operation.name:
            recent.append(argument)
    return names


def _without_attributes(value: Any, copies: dict[int, Any]) -> Any:
    """Return a copy of nested dictionaries and tensors, without the Python attributes of these objects.

    `copies`: id of a dictionary -> its copy.
    """
    if isinstance(value, Tensor):
        return Tensor.detach(value)
    if not isinstance(value, dict):
        return numpy_pickles.plain(value)
    if id(value) not in copies:
        copies[id(value)] = {
            key: _without_attributes(entry, copies) for key, entry in _entries(value).items()
        }
    return copies[id(value)]


def _entries(value: dict[Any, Any]) -> dict[Any, Any]:
    """Return the entries of a dictionary that was loaded from a file.

    If the dictionary stands for a torch module, return the module's parameters, buffers and sub-modules
    instead, in one dictionary: name -> value.
    """
    attributes = getattr(value, "__dict__", {})
    parts = [
        attributes[key]
        for key in ("_parameters", "_buffers", "_modules")
        if isinstance(attributes.get(key), dict)
    ]
    if len(parts) < 3:
        return value
    return {key: entry for part in parts for key, entry in part.items() if entry is not None}
