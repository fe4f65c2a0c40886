"""Checks of a weights file, which is untrusted input, before and after its tensors are loaded.

Sizes and types are checked by the file's header only, before memory is allocated for tensors.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from models.common.captioner import Captioner
from models.common.trainable import Trainable
from pipeline.io.errors import InputError
from pipeline.io.inputs import check_regular

MOST_BYTES = 1 << 30  # largest size of a file, which is 268 million numbers
FLOATS = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
KINDS = FLOATS | {"I64": torch.int64}  # batch norms have integer counters
MOST_WEIGHTS = 1 << 28  # largest number of attention weights per pair, which take 1 GiB


def tensors_in_header(path: Path, remedy: str) -> dict[str, Tensor]:
    """Read only the header of a .safetensors file: tensor name -> tensor without values."""
    try:
        check_regular(path, MOST_BYTES)
        with safe_open(path, "pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  # no dictionary
            types = {name: (entry.get_dtype(), entry.get_shape()) for name, entry in slices.items()}
    except (OSError, SafetensorError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path} does not load ({reason}); {remedy}") from None
    for name, (dtype, _) in types.items():
        if dtype not in KINDS:
            raise InputError(f"{path}: {name} is of {dtype}, not of floats of at most 32 bits; {remedy}")
    return {
        name: torch.empty(shape, dtype=KINDS[dtype], device="meta") for name, (dtype, shape) in types.items()
    }


def check_attention(model: Trainable, source: Path, remedy: str) -> None:
    """Raise InputError if attention between all cells would take over MOST_WEIGHTS weights per pair.

    The sizes of the tensors in a weights file do not limit this number. Models of pre-training are not
    checked.
    """
    if not isinstance(model, Captioner):
        return
    rows, columns = model.cells
    heads = getattr(model.sizes, "heads", 1)
    if heads * (rows * columns) ** 2 > MOST_WEIGHTS:
        raise InputError(
            f"{source}: {heads} heads of {rows} x {columns} cells would take more than "
            f"{MOST_WEIGHTS >> 28} GB a pair; {remedy}"
        )


def check_tensors(
    tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor], path: Path, remedy: str
) -> None:
    """Raise InputError if names, shapes or kinds of types (floating-point or not) differ from `expected`."""
    for name, tensor in expected.items():
        if name not in tensors:
            raise InputError(f"{path} does not load (the tensor {name} is missing); {remedy}")
        if tensors[name].shape != tensor.shape:
            shapes = f"{tuple(tensors[name].shape)}, where the model has {tuple(tensor.shape)}"
            raise InputError(f"{path} does not load ({name} is {shapes}); {remedy}")
        if tensors[name].is_floating_point() != tensor.is_floating_point():
            raise InputError(f"{path} does not load ({name} is of {tensors[name].dtype}); {remedy}")
    if unexpected := next((name for name in tensors if name not in expected), None):
        raise InputError(f"{path} does not load ({unexpected} is no tensor of the model); {remedy}")


def check_finite(tensors: Mapping[str, Tensor], path: Path, remedy: str) -> None:
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise InputError(f"{path}: {name} has a number that is not finite; {remedy}")
