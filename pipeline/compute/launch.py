"""Launcher that runs a stage as several processes on this machine, and ends them together.

If a process fails or is killed, the launcher ends the others. If the launcher is killed, the pipes to the
processes' standard input close, and the processes exit. Torch's launchers are not used, because their
processes survive when the launcher gets SIGKILL (tried with torch 2.15).
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import distributed

from pipeline.compute.process_group import PATIENCE, Ranks
from pipeline.io.errors import InputError
from pipeline.io.source_code import ROOT

POLL = 0.1  # seconds between checks of the processes
STARTED = "STARTED_BY_LAUNCH"  # environment variable of a process that `start` has started


def processes(settings: dict[str, Any]) -> int:
    """Return the number of training processes in a recipe's `train`.

    Raises InputError if the number does not divide the batch.
    """
    count, batch = settings["processes"], settings["batch"]
    if batch % count:
        raise InputError(f"train.processes, {count}, does not divide train.batch, {batch}; change one")
    return count


def check_group(settings: dict[str, Any], ranks: Ranks) -> None:
    """Raise InputError if the number of processes that torchrun started is not train.processes."""
    if (count := processes(settings)) != ranks.world:
        raise InputError(f"torchrun started {ranks.world} processes, train.processes is {count}; change one")


def start(module: str, arguments: Sequence[str], count: int) -> int:
    """Run `python -m module arguments` as `count` processes, and wait for their end.

    Returns the exit code of a process that failed, or 0. Each process gets its own GPU; without GPUs, the
    processes divide this process's threads. Raises InputError for too few GPUs or a killed process.
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
    """Make this process end when the process that called `start` ends or is killed."""
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
