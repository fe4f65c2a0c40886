"""Work done by threads, or processes, a few items ahead of the consumer, in order, in bounded memory."""

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
    """Yield function(item) in order, at most `ahead` results before they are asked for.

    An exception of `function` is raised in its item's place; leaving the loop stops the workers, which are
    threads or what `pool` makes (worker_processes.pool).
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
