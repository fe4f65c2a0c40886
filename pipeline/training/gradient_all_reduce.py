"""Sum gradients over the processes (GPUs) that share a batch.

DistributedDataParallel does not fit: it averages over processes and needs a single forward call. Here the
losses of a batch are sums over processes (models/common/distributed_batch.py), and so are the gradients.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, distributed

from models.common.distributed_batch import processes


def add_gradients(parameters: Iterable[Tensor]) -> None:
    """Replace each gradient by its sum over processes, in one message; all processes get the same bits.

    All processes build the same graph. So a parameter without a gradient has none in any process, and keeps
    none.
    """
    trained = [(parameter, parameter.grad) for parameter in parameters if parameter.grad is not None]
    if processes() == 1 or not trained:
        return
    flat = torch.cat([gradient.flatten() for _, gradient in trained])
    distributed.all_reduce(flat)
    sizes = [parameter.numel() for parameter, _ in trained]
    for (parameter, _), summed in zip(trained, flat.split(sizes), strict=True):
        parameter.grad = summed.view_as(parameter)
