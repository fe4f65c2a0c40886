"""Group of processes that share the work of a stage, started by torchrun or by launch.py.

Without torchrun or launch.py, a single process does all work. The group uses torch.distributed, but not its
barrier, because a waiting barrier keeps GPUs busy. If several processes raise an InputError, only one error
is printed.
"""

import os
import socket
import sys
import threading
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
PATIENCE = 3.0  # seconds within which the launcher ends all processes after one has failed
POLL = 0.02  # seconds between checks while waiting
SILENT = 1.0  # seconds of waiting without a message, because a launcher starts processes one after the other
HANDSHAKE = timedelta(seconds=20)  # time limit for the store's first answer
STORE = "RANKS_STORE"  # environment variable with the port of launch.py's store
REMEDY = "`unset RANK WORLD_SIZE` runs it alone, torchrun starts it as several processes"
Item = TypeVar("Item")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Ranks:
    """Number of this process in its group, and the size of the group."""

    rank: int  # number of this process, from 0
    world: int  # number of processes

    def wait(self) -> None:
        """Wait until all processes have called this method."""
        if self.world > 1:
            # a sum of a CPU tensor, because a barrier would keep GPUs busy
            work = distributed.all_reduce(torch.zeros(()), async_op=True)
            while not work.is_completed():  # work.wait() alone would block signals
                time.sleep(POLL)
            work.wait()  # raises if a process has gone

    def first(self, make: Callable[[], Made]) -> Made:
        """Call `make` in process 0 first, then in the other processes; return the result.

        So the other processes find the files that process 0 has made.
        """
        if self.rank:
            self.wait()
            return make()
        made = make()
        self.wait()
        return made

    def share(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return the items that this process has to do (round-robin); all processes pass the same `items`."""
        return items[self.rank :: self.world]

    def part(self, batch: int) -> slice:
        """Return the slice of a batch of `batch` scenes that this process has to do.

        `world` must divide `batch`. models/common/distributed_batch.py uses the same order.
        """
        each = batch // self.world
        return slice(self.rank * each, (self.rank + 1) * each)

    def agree(self, network: nn.Module) -> None:
        """Copy the network's weights from process 0 to every process."""
        for tensor in network.state_dict().values() if self.world > 1 else ():
            distributed.broadcast(tensor, 0)

    def leave(self) -> None:
        """Leave the group; called when the work is done."""
        if self.world > 1:
            distributed.destroy_process_group()


ALONE = Ranks(0, 1)


@dataclass(frozen=True)
class Part(Ranks):
    """One shard of a job: a process that does not communicate with the other shards.

    `world` is the number of all shards. The items of the job are whole numbers. The number alone determines
    the shard of an item, so the progress of other shards has no influence.
    """

    # returns a context in which only one shard can be at a time
    turn: Callable[[], AbstractContextManager[None]] = nullcontext

    def wait(self) -> None:
        """Do nothing: shards do not wait for each other."""

    def first(self, make: Callable[[], Made]) -> Made:
        """Call `make` and return its result; only one shard at a time is in this call.

        So later shards find the files that the first shard has made.
        """
        with self.turn():
            return make()

    def share(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return the items, which are numbers, whose remainder modulo `world` is `rank`."""
        return [item for item in items if item % self.world == self.rank]  # type: ignore[operator]

    def agree(self, network: nn.Module) -> None:
        """Do nothing: every shard computes the same weights."""

    def leave(self) -> None:
        """Do nothing: there is no group."""


def join() -> Ranks:
    """Join the group of processes. Return this process's number in the group, and the group's size.

    If there are GPUs, each process gets one. Raises InputError if there are too few GPUs, if the launcher's
    environment variables are incomplete or not numbers, or if no process answers at the address in them.
    """
    return _meet()[0]


@contextmanager
def joined() -> Iterator[Ranks]:
    """Join the group for the block, as `join` does, and leave the group afterwards.

    If several processes raise InputError in the block, only the first process passes the error on, so that it
    is printed once. The other processes wait for the launcher to end them. A process that raises another
    error waits before passing it on, because the error may only be a consequence of another process's end.
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
    """Return True if no process raised an error before; False also if the store's process has ended."""
    try:
        return store.add("errors", 1) == 1
    except distributed.DistError:
        return False


def _meet() -> tuple[Ranks, distributed.Store | None]:
    rank, world = place()
    if world == 1:
        return ALONE, None
    if gpus := torch.cuda.device_count():
        if (local := _number("LOCAL_RANK")) >= gpus:
            raise InputError(f"torchrun: process {local} of this machine has no GPU, there are {gpus}")
        torch.cuda.set_device(local)
    store = _store(rank)
    _gather(store, rank, world)
    backend = "cpu:gloo,cuda:nccl" if gpus and distributed.is_nccl_available() else "gloo"
    distributed.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=LONG)
    return Ranks(rank, world), store


def place() -> tuple[int, int]:
    """Return (this process's number, number of processes), which is (0, 1) without a launcher.

    Raises InputError if the launcher's variables are incomplete or not numbers.
    """
    if not {"RANK", "WORLD_SIZE"} & os.environ.keys() or os.environ.get("WORLD_SIZE") == "1":
        return 0, 1
    rank, world = _number("RANK"), _number("WORLD_SIZE")
    if rank >= world:
        raise InputError(f"the environment has RANK={rank}, but WORLD_SIZE={world}; {REMEDY}")
    return rank, world


def _number(name: str) -> int:
    text = os.environ.get(name)
    if text is None:
        raise InputError(f"the environment has some of a launcher's variables, but no {name}; {REMEDY}")
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise InputError(f"the environment has {name}={text!r}, which is not a whole number; {REMEDY}")
    return int(text)


def _store(rank: int) -> distributed.TCPStore:
    """Return the group's key-value store, which is opened by launch.py, by torchrun or by process 0."""
    if STORE in os.environ:
        address, port, serves = "127.0.0.1", _number(STORE), False
    else:
        port, address = _number("MASTER_PORT"), os.environ.get("MASTER_ADDR", "")
        serves = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    if not address or not 0 < port <= 65_535:
        raise InputError(f"the environment has MASTER_ADDR={address!r} and MASTER_PORT={port}; {REMEDY}")
    if not serves:
        _find(address, port)
    # the store listens at all addresses of this machine, whatever name other machines use
    met = _opened("127.0.0.1" if serves else address, port, serves)
    if isinstance(met, str):
        raise InputError(
            f"no meeting of processes at {address}:{port} (MASTER_ADDR, MASTER_PORT): {met}; {REMEDY}"
        )
    met.set_timeout(LONG)
    return met


def _opened(address: str, port: int, serves: bool) -> distributed.TCPStore | str:
    """Return the store at an address, or a text with the reason why the store cannot be opened.

    With `serves`, this process is the store's server. The store is opened in another thread, because torch
    waits without end for a server that does not answer, and the calling thread must still handle signals.
    """
    found: list[distributed.TCPStore | str] = []

    def ask() -> None:
        try:
            found.append(
                distributed.TCPStore(
                    address,
                    port,
                    is_master=serves,
                    timeout=HANDSHAKE,
                    wait_for_workers=False,
                    multi_tenant=True,
                )
            )
        except distributed.DistError as error:
            found.append(str(error).partition("\n")[0][:200])

    with _without_torch_messages():
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        until = time.monotonic() + HANDSHAKE.total_seconds() + 1  # torch's limit ends first
        while asking.is_alive() and time.monotonic() < until:
            time.sleep(POLL)
    return found[0] if found else "the program that listens there does not answer"


@contextmanager
def _without_torch_messages() -> Iterator[None]:
    """Suppress standard error in the block, because torch prints a backtrace for each failed attempt."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _find(address: str, port: int) -> None:
    for wait in _waits():
        try:
            socket.create_connection((address, port), timeout=1).close()
            return
        except (OSError, UnicodeError):  # UnicodeError: not a host name
            wait(f"process 0 at {address}:{port} (MASTER_ADDR, MASTER_PORT)")


def _gather(store: distributed.Store, rank: int, world: int) -> None:
    """Wait until all processes have joined; meanwhile process 0 prints how many are missing."""
    store.add("here", 1)
    for wait in _waits():
        if (missing := world - store.add("here", 0)) <= 0:
            return
        wait("" if rank else f"{missing} more process{'es'[: 2 * (missing > 1)]} of {world} (WORLD_SIZE)")


def _waits() -> Iterator[Callable[[str], None]]:
    """Yield the same function `wait(what)` without end, for loops that wait for an event.

    The loop calls `wait` in each round. `wait` sleeps briefly. If the loop has lasted longer than SILENT,
    `wait` also prints what the loop waits for.
    """
    begun, said = time.monotonic(), ""

    def wait(what: str) -> None:
        nonlocal said
        if what != said and time.monotonic() - begun > SILENT:
            print(f"waiting for {what}; Ctrl-C ends it, and {REMEDY}", file=sys.stderr, flush=True)
            said = what
        time.sleep(POLL)

    while True:
        yield wait
