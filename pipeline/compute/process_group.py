"""Several processes over one piece of work, as torchrun or launch.py starts them; else alone.

torch.distributed does the work; its barrier would keep GPUs busy, and it has no way to say once an error that
all processes have.
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

# a process that is done waits for the others; whoever started them ends all where one fails
LONG = timedelta(days=7)
PATIENCE = 3.0  # seconds in which whoever started the processes ends them after one has failed
POLL = 0.02  # seconds between two looks at what other processes have done
SILENT = 1.0  # seconds of waiting without a word: processes of one launcher start one after the other
HANDSHAKE = timedelta(seconds=20)  # in which whoever listens must answer
STORE = "RANKS_STORE"  # the port where pipeline/compute/launch.py lets them meet
REMEDY = "`unset RANK WORLD_SIZE` runs it alone, torchrun starts it as several processes"
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
            # on the processor: a barrier would keep GPUs busy
            work = distributed.all_reduce(torch.zeros(()), async_op=True)
            while not work.is_completed():  # work.wait() alone would hear no signal
                time.sleep(POLL)
            work.wait()  # raises where a process is gone

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
        """Its own scenes of a batch, as distributed_batch.py counts them; `world` divides it."""
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

    Raises InputError where there are GPUs, but too few, and where the launcher's variables are incomplete,
    not numbers, or lead to no process.
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
    """This process's number, and how many there are; alone where the environment names no launcher, or one.

    Raises InputError where the launcher's variables are incomplete, or not numbers.
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
    """The table where the processes meet: of launch.py, of torchrun, or else of process 0."""
    if STORE in os.environ:
        address, port, serves = "127.0.0.1", _number(STORE), False
    else:
        port, address = _number("MASTER_PORT"), os.environ.get("MASTER_ADDR", "")
        serves = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    if not address or not 0 < port <= 65_535:
        raise InputError(f"the environment has MASTER_ADDR={address!r} and MASTER_PORT={port}; {REMEDY}")
    if not serves:
        _find(address, port)
    # the store listens at all addresses of this machine, whatever name the others know it by
    met = _opened("127.0.0.1" if serves else address, port, serves)
    if isinstance(met, str):
        raise InputError(
            f"no meeting of processes at {address}:{port} (MASTER_ADDR, MASTER_PORT): {met}; {REMEDY}"
        )
    met.set_timeout(LONG)
    return met


def _opened(address: str, port: int, serves: bool) -> distributed.TCPStore | str:
    """The store, or why there is none.

    A thread asks for it, so that this one hears signals: torch waits for ever for a listener that is silent.
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
        until = time.monotonic() + HANDSHAKE.total_seconds() + 1  # torch, which says more, comes first
        while asking.is_alive() and time.monotonic() < until:
            time.sleep(POLL)
    return found[0] if found else "who listens there does not answer"


@contextmanager
def _without_torch_messages() -> Iterator[None]:
    """Drop what torch's C++ writes to standard error: pages of addresses for each try."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _find(address: str, port: int) -> None:
    """Wait until somebody listens there."""
    for wait in _waits():
        try:
            socket.create_connection((address, port), timeout=1).close()
            return
        except (OSError, UnicodeError):  # the latter: a name that is no host's
            wait(f"process 0 at {address}:{port} (MASTER_ADDR, MASTER_PORT)")


def _gather(store: distributed.Store, rank: int, world: int) -> None:
    """Wait until all processes are here; the first one says how many are missing."""
    store.add("here", 1)
    for wait in _waits():
        if (missing := world - store.add("here", 0)) <= 0:
            return
        wait("" if rank else f"{missing} more process{'es'[: 2 * (missing > 1)]} of {world} (WORLD_SIZE)")


def _waits() -> Iterator[Callable[[str], None]]:
    """Endless tries. Between two of them Python hears signals; what is awaited is said after a second."""
    begun, said = time.monotonic(), ""

    def wait(what: str) -> None:
        nonlocal said
        if what != said and time.monotonic() - begun > SILENT:
            print(f"waiting for {what}; Ctrl-C ends it, and {REMEDY}", file=sys.stderr, flush=True)
            said = what
        time.sleep(POLL)

    while True:
        yield wait
