"""Tensors that may come from anybody, held against what they should be by their file's header alone.

It says names, shapes and kinds: nothing of the size that a stranger names is made before these fit.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from models.captioner import Captioner
from pipeline.errors import InputError
from pipeline.inputs import check_regular
from pipeline.recipes import recipe_file
from pipeline.recipes.trained_model import Trained

LARGEST = 1 << 30  # bytes of a file: 268 million numbers
FLOATS = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
KINDS = FLOATS | {"I64": torch.int64}  # batch norms count in it
LOOKS = 1 << 28  # numbers of an attention's weights, of a pair: 1 GiB


def read(path: Path, named: str, remedy: str) -> dict[str, Tensor]:
    """Name -> a tensor of that shape and kind without numbers (torch.device("meta")).

    Raises InputError, naming the file as `named`, where it does not open, or has tensors of other kinds.
    """
    try:
        check_regular(path, LARGEST)
        with safe_open(path, "pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  # no dictionary
            said = {name: (each.get_dtype(), each.get_shape()) for name, each in slices.items()}
    except (OSError, SafetensorError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{named} does not load ({reason}); {remedy}") from None
    for name, (kind, _) in said.items():
        if kind not in KINDS:
            raise InputError(f"{named}: {name} is of {kind}, not of floats of at most 32 bits; {remedy}")
    return {
        name: torch.empty(shape, dtype=KINDS[kind], device="meta") for name, (kind, shape) in said.items()
    }


def check_model(path: Path, named: str, trained: Trained, source: Path, remedy: str) -> None:
    """Raises InputError where the weights are not those of the model that `source` describes."""
    found = read(path, named, remedy)
    sizes = trained.recipe.sizes_for(trained.shape, trained.vocabulary, trained.longest)
    with torch.device("meta"):  # names and shapes only
        model = recipe_file.build(trained.recipe, sizes, source)
    _check_looks(model, source, remedy)
    check(found, model.state_dict(), named, remedy)


def _check_looks(model: Captioner, source: Path, remedy: str) -> None:
    """What no tensor tells: a picture of many cells, each of which looks at all."""
    rows, columns = model.cells
    heads: int = model.sizes.heads  # type: ignore[attr-defined]  # of every class of sizes
    if heads * (rows * columns) ** 2 > LOOKS:
        raise InputError(
            f"{source}: {heads} heads of {rows} x {columns} cells would take more than "
            f"{LOOKS >> 28} GB a pair; {remedy}"
        )


def check(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor], named: str, remedy: str) -> None:
    """Raises InputError naming the first tensor that is missing, surplus, or of another shape or kind."""
    for name, own in wanted.items():
        if name not in found:
            raise InputError(f"{named} does not load (the tensor {name} is missing); {remedy}")
        if found[name].shape != own.shape:
            shapes = f"{tuple(found[name].shape)}, where the model has {tuple(own.shape)}"
            raise InputError(f"{named} does not load ({name} is {shapes}); {remedy}")
        if found[name].is_floating_point() != own.is_floating_point():
            raise InputError(f"{named} does not load ({name} is of {found[name].dtype}); {remedy}")
    if surplus := next((name for name in found if name not in wanted), None):
        raise InputError(f"{named} does not load ({surplus} is no tensor of the model); {remedy}")


def check_finite(tensors: Mapping[str, Tensor], named: str, remedy: str) -> None:
    """Raises InputError naming the first tensor with a number that is none, or without end."""
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise InputError(f"{named}: {name} has a number that is not finite; {remedy}")
