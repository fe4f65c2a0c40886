"""Group of processes that share the work of a stage, started by torchrun or by launch.py.

Without torchrun or launch.py, a single process does all work. If several processes raise an InputError, only
one error is printed.
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

from pipeline.io.errors import InputError

# time limit of communication: a finished process may wait long for the others; if a process fails, the
# launcher ends all
LONG = timedelta(days=7)
START = timedelta(minutes=10)  # time limit of the meeting of all processes
PATIENCE = 3.0  # seconds within which the launcher ends all processes after one has failed
REMEDY = "`unset RANK WORLD_SIZE` runs it alone, torchrun starts it as several processes"
Item = TypeVar("Item")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Ranks:
    """A process in a group: its number `rank`, from 0, and the number `world` of processes in the group."""

    rank: int
    world: int

    def wait(self) -> None:
        """Wait until all processes have called this method."""
        if self.world > 1:
            distributed.all_reduce(torch.zeros(()))  # on the CPU: a barrier would keep GPUs busy

    def first(self, make: Callable[[], Made]) -> Made:
        """Call `make` in process 0 first, then in the other processes. Return this process's result.

        The other processes find the files that process 0 has made.
        """
        if self.rank:
            self.wait()
            return make()
        result = make()
        self.wait()
        return result

    def share(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return the items that this process has to do (round-robin); all processes pass the same `items`."""
        return items[self.rank :: self.world]

    def part(self, batch: int) -> slice:
        """Return the slice of a batch that this process computes. `batch` is the number of scenes in it.

        `world` must divide `batch`. models/common/distributed_batch.py divides batches in the same way.
        """
        size = batch // self.world
        return slice(self.rank * size, (self.rank + 1) * size)

    def agree(self, network: nn.Module) -> None:
        """Copy the network's weights from process 0 to every process."""
        for tensor in network.state_dict().values() if self.world > 1 else ():
            distributed.broadcast(tensor, 0)


ALONE = Ranks(0, 1)


@dataclass(frozen=True)
class Part(Ranks):
    """One of `world` independent processes that share a job. It does not communicate with the others.

    `rank` is the number of the process, from 0.
    """

    # returns a context in which only one process at a time is
    turn: Callable[[], AbstractContextManager[None]] = nullcontext

    def wait(self) -> None:
        """Do nothing: independent processes do not wait for each other."""

    def first(self, make: Callable[[], Made]) -> Made:
        """Call `make` and return its result. Only one process at a time calls `make`.

        Later processes find the files that the first process has made.
        """
        with self.turn():
            return make()

    def share(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return those of the numbers `items` that belong to this process.

        A number n belongs to this process if n modulo `world` equals `rank`. So the result for a number
        does not depend on the other numbers in `items`.
        """
        return [item for item in items if item % self.world == self.rank]  # type: ignore[operator]

    def agree(self, network: nn.Module) -> None:
        """Do nothing: every process computes the same weights."""


@contextmanager
def joined() -> Iterator[Ranks]:
    """Join the group of processes for the `with` block, and leave it afterwards; one GPU per process.

    Raises InputError if there are too few GPUs, or if environment variables of the launcher are wrong.
    If several processes raise InputError in the block, only the first of them reports it, so that the
    message is printed once. The others, and processes with another error, wait for the launcher to end
    them, for at most PATIENCE seconds.
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
    if store:
        distributed.destroy_process_group()


def _is_first(store: distributed.Store) -> bool:
    """Return True if this process is the first one with an error.

    Return False if another process was first, or if the store cannot be reached.
    """
    try:
        return store.add("errors", 1) == 1
    except distributed.DistError:
        return False


def _meet() -> tuple[Ranks, distributed.Store | None]:
    rank, world = rank_and_world()
    if world == 1:
        return ALONE, None
    if gpus := torch.cuda.device_count():
        if (local := int(os.environ.get("LOCAL_RANK", rank))) >= gpus:
            raise InputError(f"torchrun: process {local} of this machine has no GPU, there are {gpus}")
        torch.cuda.set_device(local)
    backend = "cpu:gloo,cuda:nccl" if gpus and distributed.is_nccl_available() else "gloo"
    try:
        store, *_ = next(distributed.rendezvous("env://", timeout=START))
        store.set_timeout(LONG)
        distributed.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=LONG)
    except (ValueError, distributed.DistError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"the {world} processes cannot meet: {reason}; {REMEDY}") from None
    return Ranks(rank, world), store


def rank_and_world() -> tuple[int, int]:
    """Return (this process's number, number of processes), which is (0, 1) without a launcher."""
    world = os.environ.get("WORLD_SIZE", "1")
    rank = "0" if world == "1" else os.environ.get("RANK", "")
    if not rank.isdecimal() or not world.isdecimal() or int(rank) >= int(world):
        raise InputError(f"the environment has RANK={rank!r} and WORLD_SIZE={world!r}; {REMEDY}")
    return int(rank), int(world)
