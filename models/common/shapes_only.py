"""Models whose tensors have shapes but no values, to read names, shapes and attributes.

Tensors without values are on the device "meta". There, torch finds out the shape of most results by Python
code of its compiler, whose import takes seconds. Operations on small tensors are therefore computed with
zeros on the CPU, and only the shape and type of the result are kept.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

DRAW, FILL = (torch.randn, torch.rand), (Tensor.normal_, Tensor.uniform_, Tensor.fill_, Tensor.zero_)
# methods that read or change an attribute of the tensor itself; initialisations call them for every layer
ATTRIBUTES = (Tensor.requires_grad_, Tensor.dim, Tensor.size, Tensor.numel, Tensor.t_)
LARGEST = 1 << 24  # elements: operations on more are not computed, because a file may claim any size


@contextmanager
def shapes_only() -> Iterator[None]:
    """Put the tensors that are made in the `with` block on the device "meta", without values.

    No random numbers are drawn.
    """
    with torch.random.fork_rng(devices=[]), torch.device("meta"), _WithoutValues():
        yield


class _WithoutValues(TorchFunctionMode):
    """Mode of torch in which operations only make tensors of the right shape and type.

    Functions of torch.nn.init return the tensor that they would fill, unchanged.
    """

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Collection[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        if function in DRAW:
            return torch.empty(*args, **options)
        if function is torch.eye:
            return torch.empty(args[0], args[-1], **options)
        if function in FILL or getattr(function, "__module__", None) == "torch.nn.init":
            return args[0] if args else options["tensor"]
        is_attribute = function in ATTRIBUTES or getattr(function, "__name__", "") in ("__get__", "__set__")
        if is_attribute or not 0 < sum(tensor.numel() for tensor in _bare([args, options])) <= LARGEST:
            return function(*args, **options)
        return _computed(function, args, options)


def _computed(function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Call a function with zeros in place of tensors without values; return tensors without values.

    An argument that the function returns is returned itself.
    """
    bare = _bare([args, options])
    zeros = [torch.zeros(tensor.shape, dtype=tensor.dtype, device="cpu") for tensor in bare]
    values = {id(tensor): zero for tensor, zero in zip(bare, zeros, strict=True)}
    with torch.no_grad(), torch.device("cpu"):
        result = function(*_replaced(args, values), **_replaced(options, values))
    found = {id(zero): tensor for tensor, zero in zip(bare, zeros, strict=True)}
    found |= {id(tensor): tensor.to("meta") for tensor in _tensors(result) if id(tensor) not in found}
    return _replaced(result, found)


def _tensors(value: Any) -> list[Tensor]:
    """Return the tensors in a value, and in its lists, tuples and dictionaries."""
    if isinstance(value, Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [tensor for part in parts for tensor in _tensors(part)]


def _bare(value: Any) -> list[Tensor]:
    return [tensor for tensor in _tensors(value) if tensor.is_meta]


def _replaced(value: Any, found: Mapping[int, Tensor]) -> Any:
    """Copy a value; a tensor whose id is a key of `found` is replaced by the tensor there."""
    if isinstance(value, Tensor):
        return found.get(id(value), value)
    if isinstance(value, dict):
        return {key: _replaced(part, found) for key, part in value.items()}
    if isinstance(value, list | tuple):
        parts = [_replaced(part, found) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value
