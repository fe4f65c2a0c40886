"""Several processes over one piece of work, as torchrun or launch.py starts them; else alone.

torch.distributed does the work; its barrier would keep GPUs busy, and it has no way to say once an error that
all processes have.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
from torch import distributed, nn

from pipeline.errors import InputError

# a process that is done waits for the others; whoever started them ends all where one fails
LONG = timedelta(days=7)
PATIENCE = 3.0  # seconds in which whoever started the processes ends them after one has failed
STORE = "RANKS_STORE"  # the port where pipeline/compute/launch.py lets them meet
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
            distributed.all_reduce(torch.zeros(()))  # on the processor: a barrier would keep GPUs busy

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

    def part(self, batch: int) -> slice:
        """Its own scenes of a batch, as models/distributed_batch.py counts them; `world` divides it."""
        each = batch // self.world
        return slice(self.rank * each, (self.rank + 1) * each)

    def agree(self, network: nn.Module) -> None:
        """Give every process the weights of process 0, to the bit."""
        for tensor in network.state_dict().values() if self.world > 1 else ():
            distributed.broadcast(tensor, 0)

    def leave(self) -> None:
        """The work is done."""
        if self.world > 1:
            distributed.destroy_process_group()


ALONE = Ranks(0, 1)


@dataclass(frozen=True)
class Part(Ranks):
    """One of `world` parts of a work, each a job of its own that never meets the others.

    What is shared by number is always this part's, whatever the others have done; `turn` is entered by one
    at a time.
    """

    turn: Callable[[], AbstractContextManager[None]] = nullcontext

    def wait(self) -> None:
        """Nobody is waited for."""

    def first(self, make: Callable[[], Made]) -> Made:
        """make() in each, one at a time: the others find what the first left on disk."""
        with self.turn():
            return make()

    def share(self, items: Sequence[Item]) -> Sequence[Item]:
        """Of numbers those of this part."""
        return [item for item in items if item % self.world == self.rank]  # type: ignore[operator]

    def agree(self, network: nn.Module) -> None:
        """Each part computes the same, on the same kind of machine."""

    def leave(self) -> None:
        """There is no group."""


def join() -> Ranks:
    """Meet the other processes, each with a GPU of its own where there are GPUs.

    Raises InputError where there are GPUs, but too few.
    """
    return _meet()[0]


@contextmanager
def joined() -> Iterator[Ranks]:
    """The same for as long as the block lasts. Of errors that many processes make, one is said.

    A process that is not the first with an InputError, or that may have lost its partner, waits to be ended.
    """
    ranks, store = _meet()
    try:
        yield ranks
    except InputError:
        if store is None or _is_first(store):
            raise
        time.sleep(PATIENCE)
        sys.exit(2)
    except Exception:
        time.sleep(PATIENCE if store else 0)
        raise
    ranks.leave()


def _is_first(store: distributed.Store) -> bool:
    """Whether no other process had an error before. Where the store ended with a process, that one had."""
    try:
        return store.add("errors", 1) == 1
    except distributed.DistError:
        return False


def _meet() -> tuple[Ranks, distributed.Store | None]:
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world == 1:
        return ALONE, None
    if gpus := torch.cuda.device_count():
        if (local := int(os.environ["LOCAL_RANK"])) >= gpus:
            raise InputError(f"torchrun: process {local} of this machine has no GPU, there are {gpus}")
        torch.cuda.set_device(local)
    if STORE in os.environ:
        store = distributed.TCPStore("127.0.0.1", int(os.environ[STORE]), timeout=LONG)
    else:
        store = next(distributed.rendezvous("env://", timeout=LONG))[0]
    backend = "cpu:gloo,cuda:nccl" if gpus and distributed.is_nccl_available() else "gloo"
    distributed.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=LONG)
    return Ranks(rank, world), store
