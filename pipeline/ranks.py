"""Several processes over one piece of work, as torchrun starts them; alone without it."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
from torch import distributed, nn

from pipeline.errors import InputError

LONG = timedelta(days=7)  # a process that is done waits for the others; torchrun ends all where one fails
Item = TypeVar("Item")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Ranks:
    """This process among `world` ones, numbered from 0."""

    rank: int
    world: int

    def wait(self) -> None:
        """Until all processes are here."""
        if self.world > 1:
            distributed.barrier()

    def first(self, make: Callable[[], Made]) -> Made:
        """make() in process 0, and then in the others, which find what it left on disk."""
        if self.rank:
            self.wait()
            return make()
        made = make()
        self.wait()
        return made

    def share(self, items: Sequence[Item]) -> Sequence[Item]:
        """This process's part of `items`, which are the same in all."""
        return items[self.rank :: self.world]

    def agree(self, network: nn.Module) -> None:
        """Give every process the weights of process 0, to the bit."""
        for tensor in network.state_dict().values() if self.world > 1 else ():
            distributed.broadcast(tensor, 0)

    def leave(self) -> None:
        """The work is done."""
        if self.world > 1:
            distributed.destroy_process_group()


def join() -> Ranks:
    """Meet the other processes that torchrun started, each with a GPU of its own where there are GPUs.

    Raises InputError where there are GPUs, but too few.
    """
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world == 1:
        return Ranks(0, 1)
    if gpus := torch.cuda.device_count():
        if (local := int(os.environ["LOCAL_RANK"])) >= gpus:
            raise InputError(f"torchrun: process {local} of this machine has no GPU, there are {gpus}")
        torch.cuda.set_device(local)
    distributed.init_process_group("gloo", timeout=LONG)
    return Ranks(rank, world)
