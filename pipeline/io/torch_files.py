"""Read untrusted files of torch.save with torch.load(weights_only=True).

torch calls only functions on its allow-list. This module allows fewer functions, because some functions on
torch's list allocate as much memory as the file claims to need. The class `Empty` replaces classes of other
projects, such as classes of settings. If the file has a whole model, `Empty` also replaces torch's modules,
and only the tensors are returned, by their names. No name in a file is looked up or imported.
"""

import io
import pickletools
import re
import sys
import warnings
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pipeline.io import stored_zip

LARGEST_PICKLE = 2 << 20  # maximum size of a pickle, enough for names and shapes of ten thousand tensors
WIDEST_TUPLE = 1000  # maximum number of entries of a tuple, nested ones included; hashing visits every entry
# modules that are always installed, also under their names in Python 2
INSTALLED = sys.stdlib_module_names | set(IMPORT_MAPPING) | {"torch", "torchvision", "numpy"}
# further names that settings in a file may use: a dictionary with defaults, and factories of its values
HARMLESS = {"collections.defaultdict", *(f"builtins.{name}" for name in ("dict", "list", "int", "float"))}
# names that a file may use if a whole model was saved, or an optimiser
MODULES = re.compile(r"torch\.(nn\.modules(\.\w+)+|nn\.functional\.\w+|_C\._nn\.\w+|optim(\.\w+)+)")
# names that tensors need; none of these functions allocates more memory than the file has bytes
NEEDED = re.compile(
    r"collections\.OrderedDict|builtins\.set|torch\.(Size|Tensor|device|nn\.parameter\.Parameter)"
    r"|torch\.(bfloat|float|u?int|complex)\d+|torch\.bool|torch\.(cuda\.|storage\.)?\w+Storage"
    r"|torch\._utils\._rebuild_(tensor|tensor_v2|parameter|parameter_with_state|sparse_tensor)"
    r"|torch\._tensor\._rebuild_from_type_v2|torch\.serialization\._get_layout"
)
CONVERT = (
    'python -c "import sys, torch; '
    "torch.save(torch.jit.load(sys.argv[1], 'cpu').state_dict(), sys.argv[2])\" IN.pt OUT.pth"
)
ENDS = re.compile(r"expected|exhausted|not enough|no newline|not found")  # pickletools' errors for cut files


class Empty:
    """Replacement for a class that is not needed. A call, with any arguments, gives an empty OrderedDict."""

    # torch permits a file to fill an object only if this is an OrderedDict
    def __new__(cls, *_: Any) -> OrderedDict[Any, Any]:  # type: ignore[misc]  # returns another type on purpose
        return OrderedDict()


def load(path: Path) -> Any:
    """Return the content of a file: dictionaries, lists, texts, numbers and tensors.

    The size of the content is bounded by the size of the file. Raises ValueError naming content that no
    checkpoint has. For a damaged file, torch's own exceptions are raised.
    """
    with path.open("rb") as file:
        head = file.read(4)
    if zipped := head == b"PK\x03\x04":
        names = _names(*_pickles(path))
    elif head[:1] == b"\x80":
        names = _names(*_stream(path))
    else:
        raise ValueError("it is not a file of torch.save")
    foreign = {name for name in names if name.split(".")[0] not in INSTALLED}
    modules = {name for name in names if MODULES.fullmatch(name)}
    for name in sorted(names - foreign - HARMLESS - modules):
        if not NEEDED.fullmatch(name):
            raise ValueError(f"it names {name}, which no checkpoint needs; nothing of it was executed")
    empty: list[Callable[..., Any] | tuple[Callable[..., Any], str]]
    empty = [(Empty, name) for name in foreign | HARMLESS | modules]
    with torch.serialization.safe_globals(empty), warnings.catch_warnings(action="ignore"):
        # a mapped storage cannot reach beyond the file, whatever length its pickle claims
        tree = _loaded(path, zipped)
    return _plain(tree, path.stat().st_size)


def _loaded(path: Path, mapped: bool) -> Any:
    try:
        return torch.load(path, "cpu", weights_only=True, mmap=mapped)
    except Exception as error:
        if "weights_only" in str(error.__context__ or error):  # torch advises to execute the file
            raise ValueError("torch reads it only by running it, which is not done here") from None
        raise


def _pickles(path: Path) -> list[bytes]:
    """Return the pickles in a zip file. Raises ValueError if a record is damaged or compressed.

    torch itself does not check this.
    """
    with path.open("rb") as file:
        records = stored_zip.records(file)
        if any(b"/code/" in record.name or record.name.endswith(b"constants.pkl") for record in records):
            raise ValueError(f"it is a TorchScript archive, a program, and is not run; convert it: {CONVERT}")
        if not all(record.stored for record in records):
            raise ValueError("it is a zip file with compressed records, which torch.save does not write")
        for record in records:
            if stored_zip.damaged(file, record):
                raise ValueError(f"its record {record.name.decode(errors='replace')} is damaged")
        # for torch, upper and lower case are equal
        trees = [record for record in records if record.name.lower().endswith(b"data.pkl")]
        if any(record.size > LARGEST_PICKLE for record in trees):
            raise ValueError(f"it has more than {LARGEST_PICKLE >> 20} MB besides the numbers of its tensors")
        return [stored_zip.read(file, record) for record in trees]


def _stream(path: Path) -> list[bytes]:
    """Return the five pickles at the start of a file in torch's old form.

    They are the magic number, the version, the machine, the tree of objects, and the storages.
    """
    with path.open("rb") as file:
        data = io.BytesIO(file.read(LARGEST_PICKLE))
    found = []
    for _ in range(5):
        start = data.tell()
        for _ in _operations(data):
            pass
        found.append(data.getvalue()[start : data.tell()])
    return found


def _operations(data: io.BytesIO) -> Iterator[tuple[pickletools.OpcodeInfo, Any, int | None]]:
    fault = None
    try:
        yield from pickletools.genops(data)
    except ValueError as error:
        fault = str(error)
    if fault is not None:
        raise ValueError("it is cut off" if ENDS.search(fault) else fault)


def _names(*pickles: bytes) -> set[str]:
    """Return the names of the functions and classes that pickles use. Python 2's names become Python 3's.

    Raises ValueError if a pickle makes a tuple with too many entries, nested tuples included.
    """
    found = set()
    for data in pickles:
        tuples = _Tuples()
        for opcode, argument, _ in _operations(io.BytesIO(data)):
            tuples.take(opcode, argument)
            if opcode.name == "GLOBAL":
                module, _, name = str(argument).partition(" ")
                module, name = NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
                found.add(f"{module}.{name}")
    return found


class _Tuples:
    """Counts the entries of a pickle's tuples, nested tuples included. The number may grow exponentially."""

    def __init__(self) -> None:
        self.stack: list[int] = []
        self.marks: list[int] = []
        self.memo: dict[Any, int] = {}

    def take(self, opcode: pickletools.OpcodeInfo, argument: Any) -> None:
        """Process one pickle operation. Raises ValueError if a tuple has more than WIDEST_TUPLE entries."""
        name = opcode.name
        if name == "MARK":
            self.marks.append(len(self.stack))
        elif name.endswith("PUT"):
            self.memo[argument] = self.stack[-1] if self.stack else 0
        elif name.endswith("GET"):
            self.stack.append(self.memo.get(argument, 0))
        else:
            width = 1 + sum(self._taken(opcode)) if "TUPLE" in name else 0
            if width > WIDEST_TUPLE:
                raise ValueError(
                    f"it has a tuple of more than {WIDEST_TUPLE} entries, with its nested tuples"
                )
            self.stack += [width] * len(opcode.stack_after)

    def _taken(self, opcode: pickletools.OpcodeInfo) -> list[int]:
        before = opcode.stack_before
        if pickletools.markobject in before:
            start = self.marks.pop() if self.marks else 0
            start -= before.index(pickletools.markobject)
        else:
            start = len(self.stack) - len(before)
        taken = self.stack[max(0, start) :]
        del self.stack[max(0, start) :]
        return taken


def _module(value: dict[Any, Any]) -> dict[Any, Any] | None:
    """Return the content of a torch module that `Empty` has replaced; None if `value` is no such module.

    The content is a dictionary: name -> parameter, buffer or module.
    """
    kept = getattr(value, "__dict__", {})
    parts = [kept.get(key) for key in ("_parameters", "_buffers", "_modules")]
    if not all(isinstance(part, dict) for part in parts):
        return None
    return {key: entry for part in parts if part for key, entry in dict.items(part) if entry is not None}


def _plain(tree: Any, size: int) -> Any:
    """Copy a tree of dictionaries and tensors without their attributes, which could replace their methods.

    Each dictionary is copied once. Raises ValueError if the tensors have more elements than a file of `size`
    bytes can have, for example because of a stride of 0.
    """
    made: dict[int, Any] = {}
    numbers = 0

    def plain(value: Any) -> Any:
        nonlocal numbers
        if isinstance(value, Tensor):
            numbers += Tensor.numel(value)
            if numbers > 2 * size:
                raise ValueError("its tensors have more elements than the file has numbers")
            return Tensor.detach(value)
        if not isinstance(value, dict):
            return value
        if id(value) not in made:
            entries = dict.items(value) if (module := _module(value)) is None else module.items()
            made[id(value)] = {key: plain(entry) for key, entry in entries}
        return made[id(value)]

    return plain(tree)
