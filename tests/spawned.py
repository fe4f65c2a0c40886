"""Functions in several processes that form a group, as with torchrun."""

import os
import socket
from multiprocessing import get_context

import torch

CONTEXT = get_context("forkserver")
CONTEXT.set_forkserver_preload(["torch", "models", "pipeline.training.loop", "pipeline.features.extraction"])


def spawn(function, world, *arguments):
    """Call function(*arguments) in `world` processes of one thread each, and check that all succeed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [
        CONTEXT.Process(target=_call, args=(rank, world, port, function, arguments)) for rank in range(world)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * world


def _call(rank, world, port, function, arguments):
    addresses = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "LOCAL_RANK": rank}
    os.environ.update({k: str(v) for k, v in (addresses | {"RANK": rank, "WORLD_SIZE": world}).items()})
    torch.set_num_threads(1)
    function(*arguments)
