"""Files of torch.save that others made, read by torch's own reader for them: torch.load(weights_only=True).

That calls what is on torch's list and refuses the rest; ours is shorter, for some of what is on torch's takes
as much memory as the file says. A released checkpoint also names a class of the authors', which holds their
settings: such a name is let in as one of `Empty`, so that nothing that can be called is added by it. So are
torch's own modules, of which a model that was saved whole is made: its tensors come out by name. Nothing is
looked up by a name that a file gives, let alone imported.
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

LARGEST_PICKLE = 2 << 20  # bytes: names and shapes of some ten thousand tensors
WIDEST_TUPLE = 1000  # entries, those of tuples within it too: a key's are all looked at, again and again
# modules that are there wherever this runs, with the names that Python 2 had for some
INSTALLED = sys.stdlib_module_names | set(IMPORT_MAPPING) | {"torch", "torchvision", "numpy"}
# what settings are made of besides: a dictionary with defaults, and functions that make them
HARMLESS = {"collections.defaultdict", *(f"builtins.{name}" for name in ("dict", "list", "int", "float"))}
# what a model that was saved whole is made of, and its optimiser
MODULES = re.compile(r"torch\.(nn\.modules(\.\w+)+|nn\.functional\.\w+|_C\._nn\.\w+|optim(\.\w+)+)")
# what tensors are made of; none of these makes anything larger than the file
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
ENDS = re.compile(r"expected|exhausted|not enough|no newline|not found")  # pickletools of files cut off


class Empty:
    """Stands for a class of which nothing is wanted: with any arguments it makes an empty dictionary."""

    # of OrderedDict alone torch lets a file fill what it made
    def __new__(cls, *_: Any) -> OrderedDict[Any, Any]:  # type: ignore[misc]  # another type is what it is for
        return OrderedDict()


def load(path: Path) -> Any:
    """The file's value: dictionaries, lists, text, numbers and tensors, which hold no more than the file.

    Raises whatever torch does on a damaged file, and ValueError saying what no checkpoint holds.
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
        # mapped, a storage cannot reach beyond the file, whatever length its pickle says
        tree = _loaded(path, zipped)
    return _plain(tree, path.stat().st_size)


def _loaded(path: Path, mapped: bool) -> Any:
    try:
        return torch.load(path, "cpu", weights_only=True, mmap=mapped)
    except Exception as error:
        if "weights_only" in str(error.__context__ or error):  # torch advises to run what the file holds
            raise ValueError("torch reads it only by running it, which is not done here") from None
        raise


def _pickles(path: Path) -> list[bytes]:
    """A zip file's pickles, and what torch does not look at: checksums, and records that it would map."""
    with path.open("rb") as file:
        records = stored_zip.records(file)
        if any(b"/code/" in record.name or record.name.endswith(b"constants.pkl") for record in records):
            raise ValueError(f"it is a TorchScript archive, a program, and is not run; convert it: {CONVERT}")
        if not all(record.stored for record in records):
            raise ValueError("it is a zip file with compressed records, which torch.save does not write")
        for record in records:
            if stored_zip.damaged(file, record):
                raise ValueError(f"its record {record.name.decode(errors='replace')} is damaged")
        # torch's reader does not tell case
        trees = [record for record in records if record.name.lower().endswith(b"data.pkl")]
        if any(record.size > LARGEST_PICKLE for record in trees):
            raise ValueError(f"it has more than {LARGEST_PICKLE >> 20} MB beside its tensors' numbers")
        return [stored_zip.read(file, record) for record in trees]


def _stream(path: Path) -> list[bytes]:
    """The pickles that an old file begins with: magic number, version, machine's facts, tree, storages."""
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
    """What pickles name, in Python 3's words. Raises ValueError for tuples that grow within each other."""
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
    """How many entries the tuples of a pickle have: of two of one tuple within each other twice as many."""

    def __init__(self) -> None:
        self.stack: list[int] = []
        self.marks: list[int] = []
        self.memo: dict[Any, int] = {}

    def take(self, opcode: pickletools.OpcodeInfo, argument: Any) -> None:
        """Follow one operation. Raises ValueError where a tuple becomes too wide."""
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
                raise ValueError(f"it has a tuple of more than {WIDEST_TUPLE} entries, within each other")
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
    """A module's parameters, buffers and modules by name, as an `Empty` has them; None of anything else."""
    kept = getattr(value, "__dict__", {})
    parts = [kept.get(key) for key in ("_parameters", "_buffers", "_modules")]
    if not all(isinstance(part, dict) for part in parts):
        return None
    return {key: entry for part in parts if part for key, entry in dict.items(part) if entry is not None}


def _plain(tree: Any, size: int) -> Any:
    """Without the attributes that a file may give to a dictionary or tensor, in a method's place.

    Dictionaries that hold one another are made once. Raises ValueError where the tensors have more numbers
    than a file of `size` bytes, few of them spread without end.
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
