"""Worker processes, for work in which threads would wait for each other's turn in Python."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from types import ModuleType

ONE_THREAD = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def pool(count: int) -> ProcessPoolExecutor:
    """So many processes with one thread each, started at once; they end with this one, however it ends.

    What they are given and give back is pickled. They import the modules of that, and not the program that
    runs here, which would be seconds of torch in each. Where one is killed, the others end too, and what is
    waited for raises BrokenProcessPool.
    """
    workers = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), initializer=_start)
    with _one_thread_each(), _no_program():  # they inherit the environment
        for _ in range(count):
            workers.submit(os.getpid)
    return workers


@contextmanager
def _one_thread_each() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _no_program() -> Iterator[None]:
    """A main module of no file and no name, which a process that is started does not import."""
    program = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = program


def _start() -> None:
    """Leave Ctrl-C to the parent, and do not outlive it (a killed parent would leave us waiting for ever)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None  # this runs in a worker

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
