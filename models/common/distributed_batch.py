"""A batch that several processes share: what one of them needs of the others' pairs, with its gradients.

Every process holds as many pairs, b of the batch's B, in the order of ranks. A loss of the batch is the SUM
over processes of what each returns, and so are its gradients. Alone, a process holds the whole batch.
"""

from typing import Any

import torch
from torch import Tensor, distributed


def processes() -> int:
    """How many share the batch."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def own(rows: int) -> slice:
    """Where this process's `rows` pairs stand among everyone's."""
    first = distributed.get_rank() * rows if processes() > 1 else 0
    return slice(first, first + rows)


def everyone(x: Tensor) -> Tensor:
    """The pairs of all processes: (b, ...) -> (B, ...)"""
    return _Everyone.apply(x) if processes() > 1 else x


def total(x: Tensor) -> Tensor:
    """The sum over processes, in each of them."""
    return _Total.apply(x) if processes() > 1 else x


# torch.distributed.nn has the same; torch 2.14 warns that it will go, and 2.11 lacks what follows it
class _Everyone(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        found = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(processes())]
        distributed.all_gather(found, x.contiguous())
        return torch.cat(found)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        summed = _summed(grad)  # every process's loss depends on these pairs
        return summed[own(len(grad) // processes())]


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return _summed(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return _summed(grad)


def _summed(x: Tensor) -> Tensor:
    summed = x.clone(memory_format=torch.contiguous_format)
    distributed.all_reduce(summed)
    return summed
