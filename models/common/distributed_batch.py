"""Operations on a batch that several processes (GPUs) share.

Each process holds b of the batch's B pairs, in the order of ranks. A process can use the pairs of all other
processes, and gradients flow back to these processes. The loss of the batch is the SUM of the losses that the
processes return, and the gradient is the sum of their gradients. A single process holds the whole batch.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, distributed


def processes() -> int:
    return distributed.get_world_size() if distributed.is_initialized() else 1


def process_slice(rows: int) -> slice:
    """Return this process's slice of the batch; `rows` is the number of pairs of each process."""
    first = distributed.get_rank() * rows if processes() > 1 else 0
    return slice(first, first + rows)


def join_processes(x: Tensor) -> Tensor:
    """Join the tensors `x`, (b, ...), of all processes to one tensor, (B, ...), in the order of ranks."""
    return _JoinProcesses.apply(x) if processes() > 1 else x


def total(x: Tensor) -> Tensor:
    return _Total.apply(x) if processes() > 1 else x


def add_gradients(parameters: Iterable[Tensor]) -> None:
    """Sum each parameter's gradient over all processes.

    DistributedDataParallel cannot be used, because it averages gradients and needs a single forward call.
    """
    trained = [(parameter, parameter.grad) for parameter in parameters if parameter.grad is not None]
    if processes() == 1 or not trained:
        return
    flat = torch.cat([gradient.flatten() for _, gradient in trained])
    distributed.all_reduce(flat)
    sizes = [parameter.numel() for parameter, _ in trained]
    for (parameter, _), summed in zip(trained, flat.split(sizes), strict=True):
        parameter.grad = summed.view_as(parameter)


# torch.distributed.nn has the same functions, but torch 2.14 deprecates them, and 2.11 lacks their successor
class _JoinProcesses(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(processes())]
        distributed.all_gather(parts, x.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        summed = _summed(grad)  # the loss of every process depends on these pairs
        return summed[process_slice(len(grad) // processes())]


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
