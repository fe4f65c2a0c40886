"""Work on the cores of a CPU: tasks that threads share, and the compiler of their inner loops (Numba)."""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

import torch
from numba import njit

_alone = Lock()  # one user at a time of the process's number of threads
Task = TypeVar("Task")


def compiled(function: Callable[..., Any]) -> Any:
    """Compile with Numba: cached on disk where there is a folder to write to, in memory where not."""
    options: dict[str, Any] = {"nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # numba: "no locator available"
        return njit(**options)(function)


def share(tasks: Iterable[Task], work: Callable[[deque[Task]], None]) -> None:
    """Let as many threads as torch uses `work` on the tasks until none is left.

    Inside the threads, torch's own operations use one thread. So the results do not depend on which thread
    does a task, and no thread waits after each small product for a thread that lost its core.
    """
    left = deque(tasks)
    with _alone:
        threads = torch.get_num_threads()
        if threads == 1:  # another one would only have to be waited for
            work(left)
            return
        try:
            with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
                for done in [pool.submit(work, left) for _ in range(min(threads, len(left)))]:
                    done.result()
        finally:
            torch.set_num_threads(threads)


def taken(tasks: deque[Task]) -> Iterable[Task]:
    """The tasks that this thread takes from the queue before others do."""
    while True:
        try:
            yield tasks.popleft()
        except IndexError:
            return
