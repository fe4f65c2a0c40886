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


def tensors_said(path: Path, named: str, remedy: str) -> dict[str, Tensor]:
    """Read a file's header; return tensor name -> tensor without values (on the meta device)."""
    try:
        check_regular(path, MOST_BYTES)
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


def check_attention(model: Trainable, source: Path, remedy: str) -> None:
    """Raise InputError if the attention weights between all cells of an image take too much memory.

    The limit MOST_WEIGHTS is for one pair. Checks of the tensors' sizes do not limit this memory.
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


def check_tensors(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor], named: str, remedy: str) -> None:
    """Raise InputError if the tensors in a file, `found`, differ from the tensors `wanted`.

    Names, shapes and types are compared. Two types differ if only one of them is floating-point.
    """
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
    """Raise InputError if a tensor contains NaN or infinity. The message names the first such tensor."""
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise InputError(f"{named}: {name} has a number that is not finite; {remedy}")
