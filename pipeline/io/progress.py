"""Progress of long work: a rich bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from pipeline.io.console import PlainConsole

Item = TypeVar("Item")
SECONDS_BETWEEN_LINES = 10.0


def track(items: Iterable[Item], description: str, unit: str, total: int, done: int = 0) -> Iterator[Item]:
    """Yield `items`, showing how many of `total` are done (`done` at first), the rate and the time left.

    Of several processes (pipeline/compute/process_group.py) the first one shows its own.
    """
    console = PlainConsole(stderr=True)
    if _is_later():
        yield from items
    elif console.is_terminal:
        yield from _bar(items, description, unit, total, done, console)
    else:
        yield from _lines(items, description, unit, total, done, console)


def _is_later() -> bool:
    """Whether this is another than the first of several processes; their launcher's variables may be old."""
    distributed = sys.modules.get("torch.distributed")  # without it there are not several
    return distributed is not None and distributed.is_initialized() and distributed.get_rank() > 0


class _Rate(TextColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed or 0:.1f} {task.fields['unit']}/s")


def _bar(
    items: Iterable[Item], description: str, unit: str, total: int, done: int, console: PlainConsole
) -> Iterator[Item]:
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), _Rate(""), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(description, total=total, completed=done, unit=unit)
        for item in items:
            yield item
            progress.advance(task)


def _lines(
    items: Iterable[Item], description: str, unit: str, total: int, done: int, console: PlainConsole
) -> Iterator[Item]:
    start = said = time.monotonic()
    for count, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if now - said >= SECONDS_BETWEEN_LINES or done + count == total:
            said = now
            rate = count / max(now - start, 1e-9)
            left = (total - done - count) / rate
            console.print(
                f"{description}: {done + count}/{total} {unit}, {rate:.1f} {unit}/s, {left:.0f} s left",
                highlight=False,
                soft_wrap=True,
            )
