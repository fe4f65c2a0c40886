"""Gradients added up over the processes (GPUs) that share a batch.

Not DistributedDataParallel, which averages over processes and wants one forward call: the losses of a batch
are sums over processes (models/common/distributed_batch.py), and so are their gradients.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, distributed

from models.common.distributed_batch import processes


def add_gradients(parameters: Iterable[Tensor]) -> None:
    """Make each parameter's gradient the sum over processes: one message, and the same bits in all.

    A parameter without a gradient has none in any process, for all build the same graph, and keeps none.
    """
    trained = [(parameter, parameter.grad) for parameter in parameters if parameter.grad is not None]
    if processes() == 1 or not trained:
        return
    flat = torch.cat([gradient.flatten() for _, gradient in trained])
    distributed.all_reduce(flat)
    sizes = [parameter.numel() for parameter, _ in trained]
    for (parameter, _), summed in zip(trained, flat.split(sizes), strict=True):
        parameter.grad = summed.view_as(parameter)
