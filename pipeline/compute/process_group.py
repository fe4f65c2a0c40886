"""Group of processes that share the work of a stage, started by torchrun or by our launcher.

Without torchrun and the launcher, a single process does all work. If several processes raise an
InputError, only one error is printed.

The launcher is the function `start`. It starts the processes on this machine. If a process fails or is
killed, the launcher ends the others. If the launcher is killed, the pipes to the processes' standard
input close, and the processes exit. Torch's launchers are not used, because their processes survive when
the launcher gets SIGKILL (tried with torch 2.15).
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import distributed, nn

from pipeline.compute.waiting import interruptible
from pipeline.io.errors import InputError
from pipeline.io.source_code import ROOT

# time limit of communication: a finished process may wait long; if a process fails, the launcher ends all
LONG = timedelta(days=7)
START = timedelta(minutes=10)  # time limit of the meeting of all processes, if a launcher started this one
UNLAUNCHED = timedelta(minutes=1)  # the same without a launcher: its variables may be left over from another
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
        """Call `make` in process 0 first, so that the others find its files; return this process's result."""
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
        """Return this process's slice of a batch's scenes (as in models/common/distributed_batch.py)."""
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

    `rank` is the number of the process, from 0. The method `first` does its work inside the context
    manager that `turn()` returns, for example a shared lock. By default, there is no lock.
    """

    # returns a context manager: a lock that the processes share, or nullcontext (no lock)
    turn: Callable[[], AbstractContextManager[None]] = nullcontext

    def wait(self) -> None:
        """Do nothing: independent processes do not wait for each other."""

    def first(self, make: Callable[[], Made]) -> Made:
        """Call `make`, in turn with a lock, so that a process finds the files of an earlier one."""
        with self.turn():
            return make()

    def share(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return the numbers n with n modulo `world` = `rank`: a result does not depend on other numbers."""
        return [item for item in items if item % self.world == self.rank]  # type: ignore[operator]

    def agree(self, network: nn.Module) -> None:
        """Do nothing, because every independent process computes the same weights of `network` itself."""


@contextmanager
def joined() -> Iterator[Ranks]:
    """Join the group of processes (one GPU each) for the `with` block, and leave the group afterwards.

    If several processes raise InputError in the block, only the first reports it. The others wait PATIENCE
    seconds before they exit, so that the launcher can end them.
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
    """Return True if this is the first process with an error; False also if the store cannot be reached."""
    with suppress(distributed.DistError):
        return store.add("errors", 1) == 1
    return False


def _meet() -> tuple[Ranks, distributed.Store | None]:
    rank, world = rank_and_world()
    if world == 1:
        return ALONE, None
    gpu = _gpu(rank)
    backend = "gloo" if gpu is None or not distributed.is_nccl_available() else "cpu:gloo,cuda:nccl"
    limit = START if is_launched() else min(START, UNLAUNCHED)

    def meet() -> distributed.Store:
        if gpu is not None:
            torch.cuda.set_device(gpu)  # of this thread
        store: distributed.Store
        store, *_ = next(distributed.rendezvous("env://", timeout=limit))
        store.set_timeout(LONG)
        distributed.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=LONG)
        return store

    others = f"{world - 1} more process(es) of {world} (WORLD_SIZE)"
    waiting = f"waiting for {others}, for at most {limit.total_seconds():.0f} seconds; {REMEDY}"
    try:
        store = interruptible(meet, waiting)
    except (ValueError, distributed.DistError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"the {world} processes cannot meet: {reason}; {REMEDY}") from None
    if gpu is not None:
        torch.cuda.set_device(gpu)
    return Ranks(rank, world), store


def _gpu(rank: int) -> int | None:
    """Return the number of this process's GPU on its machine, or None if there are no GPUs."""
    gpus, local = torch.cuda.device_count(), os.environ.get("LOCAL_RANK", str(rank))
    if not gpus:
        return None
    if not local.isdecimal():
        raise InputError(f"the environment has LOCAL_RANK={local!r}; {REMEDY}")
    if int(local) >= gpus:
        raise InputError(f"torchrun: process {local} of this machine has no GPU, there are {gpus}")
    return int(local)


def rank_and_world() -> tuple[int, int]:
    """Return (this process's number, number of processes), which is (0, 1) without a launcher."""
    world = os.environ.get("WORLD_SIZE", "1")
    rank = "0" if world == "1" else os.environ.get("RANK", "")
    if not rank.isdecimal() or not world.isdecimal() or int(rank) >= int(world):
        raise InputError(f"the environment has RANK={rank!r} and WORLD_SIZE={world!r}; {REMEDY}")
    return int(rank), int(world)


def is_launched() -> bool:
    """Return True if `start` or torchrun started this process; else WORLD_SIZE may be left over."""
    return STARTED in os.environ or "TORCHELASTIC_RUN_ID" in os.environ


POLL = 0.1  # seconds between checks of the processes
STARTED = "STARTED_BY_LAUNCH"  # environment variable of a process that `start` has started


def processes(settings: dict[str, Any]) -> int:
    count, batch = settings["processes"], settings["batch"]
    if batch % count:
        raise InputError(f"train.processes, {count}, does not divide train.batch, {batch}; change one")
    return count


def check_group(settings: dict[str, Any], ranks: Ranks) -> None:
    """Raise InputError if the number of processes that torchrun started is not train.processes."""
    if (count := processes(settings)) != ranks.world:
        raise InputError(
            f"torchrun started {ranks.world} processes, train.processes is {count}; change one, "
            "or `unset RANK WORLD_SIZE` if they are left over"
        )


def start(module: str, arguments: Sequence[str], count: int) -> int:
    """Run `python -m module arguments` as `count` processes; return the exit code of one that failed, or 0.

    Each process gets its own GPU; without GPUs, the processes divide this process's threads.
    """
    gpus = torch.cuda.device_count()
    if gpus and count > gpus:
        raise InputError(f"train.processes is {count}, but this machine has {gpus} GPU(s); lower it")
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    command = [sys.executable, "-m", module, *arguments]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(count):
            environment = _environment(rank, count, store.port)
            # in a process group of its own, so that Ctrl-C reaches only the launcher
            process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, process_group=0)
            started.append(process)
        while None in (codes := [process.poll() for process in started]) and not any(codes):
            time.sleep(POLL)
    finally:
        _end_processes(started)
    rank, code = next(((rank, code) for rank, code in enumerate(codes) if code), (0, 0))
    if code < 0:
        raise InputError(
            f"process {rank} of {count} was ended by {signal.Signals(-code).name} (where memory is short, "
            "lower train.batch or train.processes); run again to go on from the last validation"
        )
    return code


def end_with_starter() -> None:
    """Make this process end when the process that called `start` ends, if there is one."""
    if STARTED in os.environ:
        threading.Thread(target=_end_with_pipe, daemon=True).start()


def _end_with_pipe() -> None:
    os.read(0, 1)  # waits until the pipe closes, because nothing is ever written to it
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PATIENCE)
    os._exit(143)


def _environment(rank: int, count: int, port: int) -> dict[str, str]:
    threads = max(1, torch.get_num_threads() // count)
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    variables: dict[str, object] = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, STARTED: 1}
    # torch's processes then use the launcher's store
    variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": True}
    variables |= {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "PYTHONPATH": path}
    return os.environ | {key: str(value) for key, value in variables.items()}


def _end_processes(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
        process.kill()
        with process:  # waits, and closes its standard input
            pass
