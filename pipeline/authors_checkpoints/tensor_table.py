"""Tables of tensors: names and shapes in a released file, our names, and conversions.

A row is `THEIRS SHAPE OURS HOW`; OURS is "-" if our model lacks the tensor. In names, `{a,b}` expands to two
names, with a and with b, and `<n>` expands to the numbers of n layers. A line `[module]` is a prefix for the
rows below the line. At the end of a name, G expands to weight and bias, and A to torch's attention: query,
key and value in one tensor. Letters in shapes are sizes. The first row in which a dimension is the letter
alone (D, not 3D) sets the letter's size. The shape of a single number is (); * is any shape. HOW is empty, or
one of:

    T            transpose
    words        a row per word; put into the order of our vocabulary
    first        use the first rows, as many as the grid of the features has
    last         use only the last layer
    sinusoids    check: equal to the positions that we compute
    =NAME        check: equal to the tensor NAME
    ignored      may be missing, and is not read
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product, repeat
from pathlib import Path

import torch
from torch import Tensor

from pipeline.io.errors import InputError

FLOATS = (torch.float32, torch.float16, torch.bfloat16)  # float32 represents each exactly
JOINED = ("query", "key", "value")  # their order in torch's single tensor
NONE, IGNORED = "-", "ignored"
BRACES, LAYER = re.compile(r"\{(.*?)\}"), re.compile(r"<(\w+)>")
TERM = re.compile(r"(\d*)([A-Za-z]*)(?:/(\d+))?")  # 4D, D/2, 14

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Row:
    """Row of a table: one tensor in the file, or one tensor in each of several layers."""

    theirs: str
    shape: tuple[str, ...] | None  # None: any shape
    ours: str
    how: str = ""


@dataclass(frozen=True)
class Wanted:
    """A tensor that the authors' file must contain, and the parameter of our model that it becomes."""

    theirs: str
    shape: tuple[int, ...] | None
    ours: str
    how: str


def table(*parts: str) -> list[Row]:
    """Parse a table that is given in several parts."""
    found: list[Row] = []
    module = ""
    for line in "".join(parts).split("\n"):
        if not line.strip():
            continue
        if line.startswith("["):
            module = line.strip("[] ")
            continue
        name, shape, ours, how = [*line.split(), ""][:4]
        for one, other in zip(_each(name), _each(ours) if "{" in ours else repeat(ours), strict=False):
            row = Row(f"{module}.{one}" if module else one, _dimensions(shape), other, how)
            found += _parameters(row)
    return found


def _each(name: str) -> list[str]:
    """Expand `{a,b}` in a name. Return all names."""
    parts = BRACES.split(name)
    choices = [part.split(",") if number % 2 else [part] for number, part in enumerate(parts)]
    return ["".join(each) for each in product(*choices)]


def _dimensions(shape: str) -> tuple[str, ...] | None:
    if shape == "*":
        return None
    return () if shape == "()" else tuple(shape.split(","))


def _parameters(row: Row) -> Iterator[Row]:
    """Expand G and A at the end of a row's names. Yield a row per parameter."""
    module, _, kind = row.theirs.rpartition(".")
    shape = row.shape or ()
    if kind == "G":
        yield replace(row, theirs=f"{module}.weight", ours=_within(row.ours, "weight"))
        yield replace(row, theirs=f"{module}.bias", ours=_within(row.ours, "bias"), shape=shape[:1])
    elif kind == "A":
        for number, part in enumerate(JOINED):
            yield Row(f"{module}.in_proj_weight", shape, f"{row.ours}.{part}.weight", f"third {number}")
            yield Row(f"{module}.in_proj_bias", shape[:1], f"{row.ours}.{part}.bias", f"third {number}")
        yield from _parameters(Row(f"{module}.out_proj.G", (shape[1], shape[1]), f"{row.ours}.output"))
    else:
        yield row


def _within(module: str, name: str) -> str:
    return NONE if module == NONE else f"{module}.{name}"


def sizes_of(
    path: Path, rows: Sequence[Row], found: Mapping[str, Tensor], known: Sizes, remedy: str
) -> dict[str, int]:
    """Return letter -> size: the sizes in `known`, and the sizes that the file's tensors determine.

    Raises InputError if a tensor is missing or has another number of dimensions. The message names the
    tensor.
    """
    sizes = dict(known)
    for row in rows:
        if layer := LAYER.search(row.theirs):
            sizes.setdefault(layer[1], _layers(row.theirs, found))
        named = [name for name in row.shape or () if name.isalpha() and name not in sizes]
        if not named or row.how == IGNORED:
            continue
        tensor = _tensor(path, LAYER.sub("0", row.theirs), found, remedy)
        if len(tensor.shape) != len(row.shape or ()):
            raise _misshapen(
                path, LAYER.sub("0", row.theirs), tensor, f"({', '.join(row.shape or ())})", remedy
            )
        sizes |= {name: tensor.shape[(row.shape or ()).index(name)] for name in named}
    return sizes


def _layers(name: str, found: Mapping[str, Tensor]) -> int:
    """Count the layers in the file. The count is at least 1, so that a later check names a missing tensor."""
    before = LAYER.split(name)[0]
    numbers = {each.removeprefix(before).split(".")[0] for each in found if each.startswith(before)}
    return max(1, sum(number.isdecimal() for number in numbers))


def wanted(rows: Sequence[Row], sizes: Sizes) -> list[Wanted]:
    """Return the tensors that a file with these sizes must contain."""
    return list(chain.from_iterable(_of_layers(row, sizes) for row in rows))


def _of_layers(row: Row, sizes: Sizes) -> Iterator[Wanted]:
    layer = LAYER.search(row.theirs)
    count = sizes[layer[1]] if layer else 1
    shape = None if row.shape is None else tuple(_number(each, sizes) for each in row.shape)
    for number in map(str, range(count)):
        ours = NONE if row.how == "last" and number != str(count - 1) else row.ours
        yield Wanted(LAYER.sub(number, row.theirs), shape, LAYER.sub(number, ours), row.how)


def _number(dimension: str, sizes: Sizes) -> int:
    terms = [TERM.fullmatch(each) for each in dimension.split("+")]
    return sum(int(t[1] or 1) * sizes.get(t[2], 1) // int(t[3] or 1) for t in terms if t)


def checked(
    path: Path, found: Mapping[str, Tensor], rows: Sequence[Wanted], whose: str, remedy: str
) -> dict[str, Tensor]:
    """Check the file's tensors against the table, and return them as float32.

    Raises InputError if a tensor is missing, unknown, not finite, or has another shape or type. The message
    names the first such tensor.
    """
    for row in rows:
        if row.how == IGNORED:
            continue
        tensor = _tensor(path, row.theirs, found, remedy)
        if row.shape not in (None, tuple(tensor.shape)):
            hint = "name the vocabulary that it was trained with, or " if row.how == "words" else ""
            raise _misshapen(path, row.theirs, tensor, str(row.shape), hint + remedy)
    ignored = {row.theirs for row in rows if row.how == IGNORED}
    named = {row.theirs for row in rows}
    if surplus := [name for name in found if name not in named]:
        raise InputError(f"{path}: {surplus[0]} is no tensor of {whose}; {remedy}")
    tensors = {name: floats(path, name, each, remedy) for name, each in found.items() if name not in ignored}
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise InputError(f"{path}: {name} has a number that is not finite; download the file again")
    return tensors


def _tensor(path: Path, name: str, found: Mapping[str, Tensor], remedy: str) -> Tensor:
    if name not in found:
        raise InputError(f"{path}: {name} is missing; {remedy}")
    return found[name]


def _misshapen(path: Path, name: str, tensor: Tensor, shape: str, remedy: str) -> InputError:
    return InputError(f"{path}: {name} is {tuple(tensor.shape)}, where the model has {shape}; {remedy}")


def floats(path: Path, name: str, tensor: Tensor, remedy: str) -> Tensor:
    """Convert a tensor to float32. Raises InputError if float32 cannot represent it exactly."""
    if tensor.layout is not torch.strided or tensor.device.type != "cpu" or tensor.dtype not in FLOATS:
        kind = f"{tensor.layout}, {tensor.dtype}"
        raise InputError(f"{path}: {name} is {kind}, not of floats of at most 32 bits; {remedy}")
    # strides of 0 could expand a few numbers to any size
    if tensor.numel() * tensor.itemsize > tensor.untyped_storage().nbytes():
        raise InputError(f"{path}: {name} has more elements than the file has numbers; {remedy}")
    return tensor.to(torch.float32, copy=True, memory_format=torch.contiguous_format)


def taken(
    rows: Sequence[Wanted], tensors: Mapping[str, Tensor], order: Sequence[int] | None, side: int
) -> dict[str, Tensor]:
    """Return name -> parameter of our model. Tensors that become the same parameter are stacked.

    order: for each word of our vocabulary, its row in the authors' word tables; None: the rows are the same
    side: number of cells along a side of the grid
    """
    found: dict[str, list[Tensor]] = {}
    for row in rows:
        if row.ours != NONE and row.how != IGNORED:
            part = _changed(tensors[row.theirs], row.how, order, side)
            found.setdefault(row.ours, []).append(part)
    return {name: parts[0] if len(parts) == 1 else torch.stack(parts) for name, parts in found.items()}


def _changed(tensor: Tensor, how: str, order: Sequence[int] | None, side: int) -> Tensor:
    if how == "T":
        return tensor.T.contiguous()
    if how.startswith("third"):
        return tensor.chunk(len(JOINED))[int(how[-1])].clone()
    if how == "first":
        return tensor[:side].clone()
    return tensor[list(order)] if how == "words" and order is not None else tensor
