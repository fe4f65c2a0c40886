"""What a released checkpoint must fit: the tensors that a model wants, finite numbers, features as theirs."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path

from torch import Tensor

from pipeline.errors import InputError
from pipeline.features.store_contents import IMPORTED, Spec

KEYS = tuple(field.name for field in fields(Spec))

Shapes = Mapping[str, tuple[int, ...]]
"""Name -> shape, theirs."""


def check_tensors(path: Path, found: Mapping[str, Tensor], wanted: Shapes, whose: str, remedy: str) -> None:
    """Raises InputError naming the first tensor that is missing, of another shape, or not the model's."""
    for name, shape in wanted.items():
        if name not in found:
            raise InputError(f"{path}: {name} is missing; {remedy}")
        if (size := tuple(found[name].shape)) != shape:
            raise InputError(f"{path}: {name} is {size}, where the model has {shape}; {remedy}")
    if surplus := next((name for name in found if name not in wanted), None):
        raise InputError(f"{path}: {surplus} is no tensor of {whose}; {remedy}")


def check_finite(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Raises InputError naming the first tensor with a number that is not finite."""
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise InputError(f"{path}: {name} has a number that is not finite; download the file again")


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
