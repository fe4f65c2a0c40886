"""Run CPU kernels in several threads, and compile the inner loops of the kernels with Numba."""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

import torch
from numba import njit

_alone = Lock()  # only one call at a time changes torch's number of threads
Task = TypeVar("Task")


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function with Numba; the result is cached on disk if possible, else in memory."""
    options: dict[str, Any] = {"nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # numba: "no locator available"
        return njit(**options)(function)


def share(tasks: Iterable[Task], work: Callable[[deque[Task]], None]) -> None:
    """Run `work` on the tasks in as many threads as torch uses.

    `work` takes tasks from a shared queue, see `taken`. In these threads, each operation of torch uses only a
    single thread. So results do not depend on the distribution of tasks, and threads do not wait for each
    other after each small product.
    """
    left = deque(tasks)
    with _alone:
        threads = torch.get_num_threads()
        if threads == 1:
            work(left)
            return
        try:
            with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
                for done in [pool.submit(work, left) for _ in range(min(threads, len(left)))]:
                    done.result()
        finally:
            torch.set_num_threads(threads)


def taken(tasks: deque[Task]) -> Iterable[Task]:
    """Yield tasks from the shared queue until it is empty."""
    while True:
        try:
            yield tasks.popleft()
        except IndexError:
            return
