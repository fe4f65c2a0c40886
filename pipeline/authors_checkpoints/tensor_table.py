"""Tables of the tensors in checkpoints that authors released, and functions that apply the tables.

A table says how the tensors of a checkpoint file become the weights of our model. Each row has the
form `STORED SHAPE PARAMETER HOW`, for example `logit.weight V,D decoder.vocabulary.weight words`.

STORED is the tensor's name in the file. PARAMETER is its name in our model, or "-" if our model lacks
the tensor. A line `[module]` is a prefix of STORED in the rows below. Both names can be abbreviated.
`{a,b}` stands for two names, one with a and one with b. `<n>` stands for the numbers of n layers. If
STORED ends with G, the row describes two tensors, weight and bias. If STORED ends with A, the row
describes the tensors of torch's attention, which has query, key and value in one tensor.

SHAPE has the dimensions of the tensor. A letter is a size that is read from the file: D is read from
the first row with the dimension D, as in V,D. Rows with 3D or D/2 do not determine D. () is the shape
of a single number; * means any shape.

HOW says how the tensor is converted or checked. HOW is empty, or one of:

    T            transpose
    words        a row per word; put into the order of our vocabulary
    last         use only the last layer
    one          the only member of a stack: add a first dimension
    sinusoids    check: equal to the positions that we compute
    =NAME        check: equal to the tensor NAME
    ignored      may be missing, and is not read
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product, repeat
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.common.decoder import sinusoids
from pipeline.config.store_contents import Spec
from pipeline.io.errors import InputError
from pipeline.text.vocabularies import Vocabulary

FLOATS = (torch.float32, torch.float16, torch.bfloat16)  # float32 represents each exactly
JOINED = ("query", "key", "value")  # their order in torch's single tensor
NONE, IGNORED = "-", "ignored"
BRACES, LAYER = re.compile(r"\{(.*?)\}"), re.compile(r"<(\w+)>")
TERM = re.compile(r"(\d*)([A-Za-z]*)(?:/(\d+))?")  # 4D, D/2, 14

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class TensorRow:
    """Row of a table: one tensor in the file, or one tensor in each of several layers.

    `how` is a conversion or check that the beginning of this file lists, such as "T"; empty: a copy. It
    can also be "third 0", "third 1" or "third 2": the query, key or value part of torch's attention.
    """

    stored: str  # name in the file
    shape: tuple[str | int, ...] | None  # None: any shape
    parameter: str  # name in our model, or NONE
    how: str = ""


@dataclass(frozen=True)
class Match:
    """Tensors of a checkpoint file, after `read` has checked their names and shapes against a table.

    The table lists the tensors of the authors' program (see the beginning of this file).
    """

    sizes: dict[str, int]  # letter of the table -> size
    rows: list[TensorRow]  # one row per tensor, with numbers as shapes
    tensors: dict[str, Tensor]  # name in the file -> tensor, float32


def table(*parts: str) -> list[TensorRow]:
    """Parse the text of a table of tensors, and return its rows.

    The text is given as several strings, because tables of different systems share some rows.
    """
    rows: list[TensorRow] = []
    module = ""
    for line in "".join(parts).split("\n"):
        if not line.strip():
            continue
        if line.startswith("["):
            module = line.strip("[] ")
            continue
        name, shape, target, how = [*line.split(), ""][:4]
        dimensions = None if shape == "*" else () if shape == "()" else tuple(shape.split(","))
        parameters = _expanded(target) if "{" in target else repeat(target)
        for stored, parameter in zip(_expanded(name), parameters, strict=False):
            rows += _parameters(
                TensorRow(f"{module}.{stored}" if module else stored, dimensions, parameter, how)
            )
    return rows


def _expanded(name: str) -> list[str]:
    """Return all names for which `name` stands: each `{a,b}` is replaced with a, and with b."""
    parts = BRACES.split(name)
    choices = [part.split(",") if number % 2 else [part] for number, part in enumerate(parts)]
    return ["".join(choice) for choice in product(*choices)]


def _parameters(row: TensorRow) -> Iterator[TensorRow]:
    """Yield a row for each parameter that a table row stands for.

    A name that ends with G stands for a weight and a bias. A name that ends with A stands for the tensors
    of torch's attention. Any other row is yielded unchanged.
    """
    module, _, kind = row.stored.rpartition(".")
    shape = row.shape or ()
    if kind == "G":
        for name, parameter_shape in (("weight", shape), ("bias", shape[:1])):
            parameter = NONE if row.parameter == NONE else f"{row.parameter}.{name}"
            yield replace(row, stored=f"{module}.{name}", parameter=parameter, shape=parameter_shape)
    elif kind == "A":
        for number, part in enumerate(JOINED):
            yield TensorRow(
                f"{module}.in_proj_weight", shape, f"{row.parameter}.{part}.weight", f"third {number}"
            )
            yield TensorRow(
                f"{module}.in_proj_bias", shape[:1], f"{row.parameter}.{part}.bias", f"third {number}"
            )
        yield from _parameters(
            TensorRow(f"{module}.out_proj.G", (shape[1], shape[1]), f"{row.parameter}.output")
        )
    else:
        yield row


def read(
    path: Path, rows: Sequence[TensorRow], tensors: Mapping[str, Tensor], known: Sizes, remedy: str
) -> Match:
    """Check a file's tensors against a table; return them, and the sizes that they determine.

    `known`: letter -> size that no tensor determines
    """
    try:
        sizes = _sizes(rows, tensors, known)
        expected = expected_rows(rows, sizes)
        return Match(sizes, expected, _checked(expected, tensors))
    except ValueError as error:
        raise InputError(f"{path}: {error}; {remedy}") from None


def _sizes(rows: Sequence[TensorRow], tensors: Mapping[str, Tensor], known: Sizes) -> dict[str, int]:
    """Return the value of each letter in the shapes of the table: letter -> size.

    For example, the shape (D, C) and a tensor of the shape (512, 1024) give D = 512 and C = 1024. The
    sizes in `known` are part of the result, and take precedence over the tensors.
    """
    sizes = dict(known)
    for row in rows:
        if layer := LAYER.search(row.stored):
            sizes.setdefault(layer[1], _layers(row.stored, tensors))
        shape = row.shape or ()
        new = [name for name in shape if isinstance(name, str) and name.isalpha() and name not in sizes]
        if not new or row.how == IGNORED:
            continue
        name = LAYER.sub("0", row.stored)
        tensor = _tensor(name, tensors)
        if len(tensor.shape) != len(shape):
            raise _misshapen(name, tensor, f"({', '.join(map(str, shape))})")
        sizes |= {letter: tensor.shape[shape.index(letter)] for letter in new}
    return sizes


def _layers(name: str, tensors: Mapping[str, Tensor]) -> int:
    """Count the layers by the numbers in names such as "layers.<n>.weight"; at least 1."""
    prefix = LAYER.split(name)[0]
    numbers = {tensor.removeprefix(prefix).split(".")[0] for tensor in tensors if tensor.startswith(prefix)}
    return max(1, sum(number.isdecimal() for number in numbers))


def expected_rows(rows: Sequence[TensorRow], sizes: Sizes) -> list[TensorRow]:
    """Return one row for each tensor that the table describes, with numbers as shapes.

    In the table, a shape can have letters, as in (D, C), and one row can describe a tensor in each of n
    layers. `sizes` gives the values of the letters and of n.
    """
    expanded = []
    for row in rows:
        layer = LAYER.search(row.stored)
        count = sizes[layer[1]] if layer else 1
        shape = None if row.shape is None else tuple(_number(str(size), sizes) for size in row.shape)
        for number in range(count):
            parameter = NONE if row.how == "last" and number < count - 1 else row.parameter
            stored, parameter = (LAYER.sub(str(number), name) for name in (row.stored, parameter))
            expanded.append(TensorRow(stored, shape, parameter, row.how))
    return expanded


def _number(dimension: str, sizes: Sizes) -> int:
    terms = [TERM.fullmatch(term) for term in dimension.split("+")]
    return sum(int(match[1] or 1) * sizes.get(match[2], 1) // int(match[3] or 1) for match in terms if match)


def _checked(rows: Sequence[TensorRow], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return float32 tensors. Raises ValueError naming a missing, surplus, misshapen or non-finite tensor."""
    for row in rows:
        if row.how == IGNORED:
            continue
        tensor = _tensor(row.stored, tensors)
        if row.shape not in (None, tuple(tensor.shape)):
            hint = "; name the vocabulary that it was trained with" if row.how == "words" else ""
            raise _misshapen(row.stored, tensor, f"{row.shape}{hint}")
    how = {row.stored: row.how for row in rows}
    if surplus := [name for name in tensors if name not in how]:
        raise ValueError(f"{surplus[0]} is no tensor of this model")
    return {name: floats(name, tensor) for name, tensor in tensors.items() if how[name] != IGNORED}


def _tensor(name: str, tensors: Mapping[str, Tensor]) -> Tensor:
    if name not in tensors:
        raise ValueError(f"{name} is missing")
    return tensors[name]


def _misshapen(name: str, tensor: Tensor, shape: str) -> ValueError:
    return ValueError(f"{name} is {tuple(tensor.shape)}, where the model has {shape}")


def floats(name: str, tensor: Tensor) -> Tensor:
    """Convert a tensor to float32. Raises ValueError if it is not finite, or float32 cannot represent it."""
    if tensor.layout is not torch.strided or tensor.dtype not in FLOATS:
        raise ValueError(f"{name} is {tensor.layout}, {tensor.dtype}, not of floats of at most 32 bits")
    if not tensor.isfinite().all():
        raise ValueError(f"{name} has a number that is not finite")
    return tensor.to(torch.float32, copy=True, memory_format=torch.contiguous_format)


def converted(match: Match, order: Sequence[int] | None) -> dict[str, Tensor]:
    """Convert a checkpoint's tensors to parameters, by name. Tensors of the same parameter are stacked.

    order: for each word of our vocabulary, its row in the authors' word tables; None: same order
    """
    parts: dict[str, list[Tensor]] = {}
    for row in match.rows:
        if row.parameter != NONE and row.how != IGNORED:
            tensor = _converted(match.tensors[row.stored], row.how, order)
            parts.setdefault(row.parameter, []).append(tensor)
    return {name: torch.stack(part) if len(part) > 1 else part[0] for name, part in parts.items()}


def _converted(tensor: Tensor, how: str, order: Sequence[int] | None) -> Tensor:
    if how == "T":
        return tensor.T.contiguous()
    if how == "one":
        return tensor[None]
    if how.startswith("third"):
        return tensor.chunk(len(JOINED))[int(how[-1])].clone()
    return tensor[list(order)] if how == "words" and order is not None else tensor


# letters in the tables -> fields of our models' sizes
FIELDS = {"D": "width", "e": "word_width", "n": "layers", "m": "decoder_layers", "M": "maps", "H": "hidden"}
FIELDS |= {"R": "router", "S": "slots"}


def sizes_by_name(_: Path, sizes: Sizes, intra: int) -> dict[str, int]:
    """Rename sizes by FIELDS, from "D" to "width"; `intra` is unused, as in System.our_sizes."""
    return {FIELDS.get(letter, letter): size for letter, size in sizes.items()}


@dataclass(frozen=True)
class System:
    """Description of a paper's program, and of the checkpoint files from one of its training phases."""

    title: str
    model: str  # name of our model
    marks: tuple[str, ...]  # patterns; a file of this system has tensors that match each of them
    table: list[TensorRow]
    settings: Mapping[str, Any]  # settings of our model; dropout is not used
    features: Spec | None  # features that the program reads; None: pixels
    unknown: tuple[str, ...] = ()  # keys of `features` that may have any value
    phase: str | None = None  # pre-training phase; None: captioning
    heads: int = 8  # default of --heads
    longest: int = 0  # default of --longest
    switches: Callable[[Sizes], dict[str, Any]] = lambda sizes: {}
    # file of the authors' vocabulary, our vocabulary -> row of each of our words in the authors' tables
    order: Callable[[Path, Vocabulary], Sequence[int] | None] = lambda path, vocabulary: None
    waves: Callable[[int, int], Tensor] = sinusoids  # length, width -> fixed position embeddings
    alias: Callable[[str], str] = str  # name of a parameter -> its name in the table
    # sizes of the table, --intra -> sizes of our model
    our_sizes: Callable[[Path, Sizes, int], dict[str, int]] = sizes_by_name

    @property
    def remedy(self) -> str:
        return f"name a released checkpoint of {self.title}"

    def is_of(self, names: Iterable[str]) -> bool:
        """Return True if each pattern in `marks` matches one of `names`, the names of a file's tensors."""
        names = list(names)
        return all(any(re.match(mark, name) for name in names) for mark in self.marks)
