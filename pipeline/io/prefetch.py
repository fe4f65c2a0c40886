"""Work done by threads or processes a few items ahead of the consumer, in order, in bounded memory."""

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
    """Yield function(item) in order; at most `ahead` results are computed before they are asked for.

    An exception of `function` is raised in the place of its result. Leaving the loop stops the workers,
    which are threads or the processes of `pool` (worker_processes.pool).
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
