"""A stage as several processes on this machine, started and ended together: torchrun with shorter words.

The program that is called starts them and waits; it computes nothing itself. Where one of them fails or is
killed it ends the others; where it is killed itself, its end of their standard input closes, and they go.
torch's own launchers lack that: tried (torch 2.15), the processes of `python -m torch.distributed.run` and
of torch.multiprocessing.spawn lived on when the launcher was killed (SIGKILL). The former also ends by Ctrl-C
with a page, not a line; the latter waits 30 seconds for a process that does not listen.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import distributed

from pipeline.compute.process_group import PATIENCE, STORE, Ranks
from pipeline.io.errors import InputError
from pipeline.io.source_code import ROOT

POLL = 0.1  # seconds


def processes(settings: dict[str, Any]) -> int:
    """`train.processes` of a recipe's train settings. Raises InputError where they cannot share a batch."""
    count, batch = settings["processes"], settings["batch"]
    if batch % count:
        raise InputError(
            f"train.processes is {count}, which does not divide train.batch, {batch}; change one"
        )
    return count


def check_group(settings: dict[str, Any], ranks: Ranks) -> None:
    """Raise InputError where torchrun started another number of processes than the recipe, which decides."""
    if (count := processes(settings)) != ranks.world:
        raise InputError(
            f"torchrun started {ranks.world} process(es), but train.processes is {count}; make them equal"
        )


def start(module: str, arguments: Sequence[str], count: int) -> int:
    """Run `python -m module arguments` as `count` processes; returns the exit code of one that fails, else 0.

    They share the GPUs, one each, or the threads of this process. Raises InputError where there are GPUs,
    but too few, and where a process was killed.
    """
    gpus = torch.cuda.device_count()
    if gpus and count > gpus:
        raise InputError(f"train.processes is {count}, but this machine has {gpus} GPU(s); lower it")
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    command = [sys.executable, "-m", module, *arguments]
    with _running(command, [_environment(rank, count, store.port) for rank in range(count)]) as started:
        while None in (codes := [process.poll() for process in started]) and not any(codes):
            time.sleep(POLL)
    rank, code = next(((rank, code) for rank, code in enumerate(codes) if code), (0, 0))
    if code < 0:
        raise InputError(
            f"process {rank} of {count} was ended by {signal.Signals(-code).name} (where memory is short, "
            "lower train.batch or train.processes); run again to go on from the last validation"
        )
    return code


def end_with_starter() -> None:
    """In a process that `start` started: end when the starter does, however it ends."""
    if {STORE, "RANK"} <= os.environ.keys():
        threading.Thread(target=_follow, daemon=True).start()


def _follow() -> None:
    os.read(0, 1)  # nothing is ever written to it
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PATIENCE)
    os._exit(143)


def _environment(rank: int, count: int, port: int) -> dict[str, str]:
    threads = max(1, torch.get_num_threads() // count)
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    own: dict[str, object] = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, STORE: port}
    own |= {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "PYTHONPATH": path}
    return os.environ | {key: str(value) for key, value in own.items()}


@contextmanager
def _running(
    command: list[str], environments: list[dict[str, str]]
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes; none of them outlives the block."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        for environment in environments:
            # a group of its own: Ctrl-C is for the starter
            process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, process_group=0)
            started.append(process)
        yield started
    finally:
        for process in started:
            process.terminate()
        for process in started:
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
            process.kill()
            with process:  # waits, and closes its standard input
                pass
