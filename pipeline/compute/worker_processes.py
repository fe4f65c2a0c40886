"""Pools of worker processes, for work in which threads would block each other by Python's global lock."""

import multiprocessing
import os
import signal
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from types import ModuleType

ONE_THREAD = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pool(count: int) -> ProcessPoolExecutor:
    """Return a pool of `count` worker processes, each with one thread, which end with this process.

    A worker imports the modules of its functions, but not the main program, because that would load torch. If
    a worker is killed, all workers end, and the pool's results raise BrokenProcessPool.
    """
    workers = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), initializer=_prepare_worker)
    program = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")  # it has no file, so new processes do not import it
    try:
        for _ in range(count):
            workers.submit(os.getpid)
    finally:
        sys.modules["__main__"] = program
    return workers


def _prepare_worker() -> None:
    """Prepare a worker: one thread; ignore Ctrl-C, which the parent handles; exit if the parent ends."""
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))  # before a task imports numpy
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None  # this runs in a worker

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
