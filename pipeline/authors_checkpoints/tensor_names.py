"""Where our parameters stand in a released checkpoint, and whether its tensors are those of the model.

Each system is a table of names (scorer_dirl.py, clip.py, clip4idc.py, idc_pcl.py); what is here reads it.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.common.grid_embedding import DataSizes
from models.common.trainable import Trainable
from pipeline.config import recipe_file, resolving
from pipeline.config.recipe_file import Recipe
from pipeline.config.store_contents import IMPORTED, PixelSpec, Spec
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_json
from pipeline.text.vocabularies import Vocabulary, words_identity
from pipeline.weights.model_description import Part, Trained

JOINED = ("query", "key", "value")  # the order in one tensor of torch's nn.MultiheadAttention
FLOATS = (torch.float32, torch.float16, torch.bfloat16)  # each is some float32, exactly
DATA = tuple(each.name for each in fields(DataSizes))
KEYS = tuple(each.name for each in fields(Spec))

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Place:
    """Where a parameter of ours stands: a tensor, one third of its rows, or its transpose."""

    name: str
    third: int | None = None
    transposed: bool = False

    def shape(self, ours: tuple[int, ...]) -> tuple[int, ...]:
        """Of the whole tensor, where our parameter has the shape `ours`."""
        ours = ours[::-1] if self.transposed else ours
        return ours if self.third is None else (len(JOINED) * ours[0], *ours[1:])

    def of(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Our parameter, from their tensors by name."""
        tensor = tensors[self.name].T.contiguous() if self.transposed else tensors[self.name]
        return tensor if self.third is None else tensor.chunk(len(JOINED))[self.third].clone()


@dataclass(frozen=True)
class Names:
    """Patterns of our modules or parameters -> theirs, by the first that fits; {0} is a pattern's group."""

    table: dict[str, str]
    joined: bool = False  # an attention's query, key and value are one tensor
    transposed: tuple[str, ...] = field(default=())  # ours that are theirs transposed

    def place(self, ours: str) -> Place:
        """Where our parameter of that name stands. Raises KeyError where nowhere."""
        for pattern, theirs in self.table.items():
            if match := re.match(rf"(?:{pattern})(?=\.|$)", ours):
                module, rest = theirs.format(*match.groups()), ours[match.end() :]
                return self._within(module, rest, ours)
        raise KeyError(ours)

    def _within(self, module: str, rest: str, ours: str) -> Place:
        part, _, kind = rest[1:].rpartition(".")
        if self.joined and part in JOINED:
            return Place(f"{module}.in_proj_{kind}", JOINED.index(part))
        if self.joined and part == "output":
            return Place(f"{module}.out_proj.{kind}")
        return Place(module + rest, transposed=ours in self.transposed)


def shapes_of(model: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a model's parameters, ours."""
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def theirs(ours: Shapes, place: Callable[[str], Place]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors that parameters of ours stand in."""
    places = {name: place(name) for name in ours}
    return {places[name].name: places[name].shape(shape) for name, shape in ours.items()}


def checked(
    path: Path, found: Mapping[str, Tensor], wanted: Shapes, whose: str, remedy: str
) -> dict[str, Tensor]:
    """All tensors of a file in 32-bit floats.

    Raises InputError naming the first that is missing, of another shape or kind, not the model's, or not
    finite.
    """
    for name, shape in wanted.items():
        if name not in found:
            raise InputError(f"{path}: {name} is missing; {remedy}")
        if (size := tuple(found[name].shape)) != shape:
            raise InputError(f"{path}: {name} is {size}, where the model has {shape}; {remedy}")
    if surplus := next((name for name in found if name not in wanted), None):
        raise InputError(f"{path}: {surplus} is no tensor of {whose}; {remedy}")
    tensors = {name: floats(path, name, tensor, remedy) for name, tensor in found.items()}
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise InputError(f"{path}: {name} has a number that is not finite; download the file again")
    return tensors


def floats(path: Path, name: str, tensor: Tensor, remedy: str) -> Tensor:
    """Raises InputError where 32-bit floats cannot hold it exactly."""
    if tensor.layout is not torch.strided or tensor.device.type != "cpu" or tensor.dtype not in FLOATS:
        kind = f"{tensor.layout}, {tensor.dtype}"
        raise InputError(f"{path}: {name} is {kind}, not of floats of at most 32 bits; {remedy}")
    # few numbers can be spread over a shape without end
    if tensor.numel() * tensor.itemsize > tensor.untyped_storage().nbytes():
        raise InputError(f"{path}: {name} has more elements than the file has numbers; {remedy}")
    return tensor.to(torch.float32, copy=True, memory_format=torch.contiguous_format)


def dimensions(
    path: Path, found: Mapping[str, Tensor], name: str, count: int, remedy: str
) -> tuple[int, ...]:
    """A tensor's shape. Raises InputError where it is missing, or has another number of dimensions."""
    if name not in found:
        raise InputError(f"{path}: {name} is missing; {remedy}")
    if len(size := tuple(found[name].shape)) != count:
        raise InputError(f"{path}: {name} is {size}, and has not {count} dimensions")
    return size


def layers(names: Iterable[str], pattern: str) -> int:
    """How many layers the names speak of; at least one, whose absence is told by name."""
    return max(1, len({match[1] for name in names if (match := re.match(pattern, name))}))


def bare(
    dataset: str,
    model: str,
    settings: dict[str, Any],
    sizes: DataSizes,
    features: Spec | PixelSpec,
    first: bool,
) -> tuple[Recipe, Trainable]:
    """How the model is built, and it without numbers; `first`: of the phase before captioning.

    How it was trained is not in a checkpoint: no loss and no training.
    """
    own = {name: value for name, value in asdict(sizes).items() if name not in DATA}
    recipe = Recipe(dataset, model, settings, own, {}, {}, asdict(features), resolving.code_of(model))
    with torch.device("meta"):
        phase = recipe.entry.phases[-1].settings if first else None
        made: Trainable = recipe_file.build(recipe, sizes, phase=phase)
    return recipe, made


def check_features(wanted: Spec, trained_on: Spec, keys: Iterable[str] = KEYS) -> None:
    """Raises InputError where params.yaml's features are others, by these keys, than the program read.

    Features that their extractor made, and we imported, are what they are.
    """
    for key in keys:
        found, theirs = getattr(wanted, key), getattr(trained_on, key)
        if found != theirs and not (key in ("weights", "resize") and found == IMPORTED):
            raise InputError(
                f"params.yaml: features.{key} is {found!r}, the checkpoint was trained with {theirs!r}; "
                f"set it, or the dataset's features.npy"
            )


def check_words(path: Path, name: str, count: int, vocabulary: Vocabulary) -> None:
    """Raises InputError where the table of that name has other rows than the vocabulary words."""
    if count != len(vocabulary):
        raise InputError(
            f"{path}: {name} is of {count} words, the vocabulary of {len(vocabulary)}; "
            "give the one that it was trained with"
        )


def check_sinusoids(path: Path, name: str, saved: Tensor, computed: Tensor, of: str = "words") -> None:
    """Raises InputError where the positions that theirs saves, be it in 16 bits, are not those we compute."""
    if not torch.allclose(saved, computed, atol=1e-3):
        raise InputError(f"{path}: {name} is not the sinusoids that the model adds to {of}")


def uneven(path: Path, width: int, heads: int) -> InputError:
    """What to say where heads, which stand in no tensor, do not divide the width."""
    return InputError(f"{path}: its width, {width}, is not a multiple of {heads} heads; mend --heads")


def rows_of(path: Path, words: Iterable[str], title: str) -> list[int]:
    """The row of each of those words in tables of theirs, by their vocabulary in that file.

    Raises InputError where the file is no vocabulary of theirs.
    """
    ids: Mapping[str, int] = read_json(path, "name a JSON file of word -> id")
    named = list(words)
    if lacking := [word for word in named if word not in ids]:
        raise InputError(f"{path} lacks {lacking[0]}; name the vocabulary of the checkpoint of {title}")
    if sorted(rows := [ids[word] for word in named]) != list(range(len(ids))):
        raise InputError(f"{path}: ids must run from 0 without gaps; name the checkpoint's own vocabulary")
    return rows


def trained(
    recipe: Recipe, seed: int, shape: tuple[int, int, int], vocabulary: Vocabulary, longest: int
) -> Trained:
    """What is known of a checkpoint's weights; iteration and validation are not in it: 0 and NaN."""
    words: dict[Part, str] = {"words": words_identity(vocabulary)}
    return Trained(recipe, seed, shape, len(vocabulary), longest, 0, math.nan, words)
