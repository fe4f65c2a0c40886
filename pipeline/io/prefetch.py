"""Compute results in threads or processes, a few items ahead of the consumer, in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def prefetch(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    workers: int,
    ahead: int,
    pool: Callable[[int], Executor] = ThreadPoolExecutor,
) -> Iterator[Result]:
    """Yield function(item) for each item, in order. At most `ahead` results are computed in advance.

    If `function` raises an exception for an item, it is raised when this item's result would be yielded.
    `pool` makes the workers: threads, or processes (worker_processes.pool). They stop when the consumer
    leaves the loop.
    """
    pending: deque[Future[Result]] = deque()
    executor = pool(workers)
    try:
        for item in items:
            pending.append(executor.submit(function, item))
            if len(pending) > ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
