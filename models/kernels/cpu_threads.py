"""Work on a processor's cores: tasks that threads share, and Numba's compiled loops for within them."""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

import torch
from numba import njit

_alone = Lock()  # on the process's number of threads
Task = TypeVar("Task")


FAST = {"contract", "nsz"}
SUMMING = FAST | {"reassoc"}  # sums in the order that suits the processor's vectors: always the same one


def compiled(function: Callable[..., Any], fastmath: set[str] = FAST) -> Any:
    """Numba's compiler, cached on disk where there is a folder to write to and in memory where not."""
    options: dict[str, Any] = {"nogil": True, "fastmath": fastmath, "error_model": "numpy"}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # numba: "no locator available"
        return njit(**options)(function)


def share(tasks: Iterable[Task], work: Callable[[deque[Task]], None]) -> None:
    """Let as many threads as torch uses each `work` through tasks until none is left.

    Within them torch's own operations are single-threaded: whoever does a task, its numbers are the
    same, and no thread waits at the end of every small product for one that has lost its core.
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
    """The tasks that this thread comes to before the others."""
    while True:
        try:
            yield tasks.popleft()
        except IndexError:
            return
