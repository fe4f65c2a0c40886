"""Show the progress of long work: a bar of the package rich on a terminal, else plain lines."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from pipeline.io.errors import printable

Item = TypeVar("Item")
SECONDS_BETWEEN_LINES = 10.0


class PlainConsole(Console):
    """A rich console that prints texts literally and escapes control characters: texts may be untrusted."""

    def __init__(self, stderr: bool = False, **options: Any) -> None:
        stream = sys.stderr if stderr else sys.stdout
        raw = getattr(stream, "raw", stream)
        super().__init__(file=raw, markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


def track(items: Iterable[Item], description: str, unit: str, total: int, done: int = 0) -> Iterator[Item]:
    """Yield `items`, and show how many of `total` items are done, the rate, and the time left.

    `done` items were done before this call. In a process group, only process 0 shows its progress.
    """
    console = PlainConsole(stderr=True)
    if _is_other_process():
        yield from items
    elif console.is_terminal:
        columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), _Rate(""), TimeRemainingColumn())
        with Progress(*columns, console=console) as progress:
            task = progress.add_task(description, total=total, completed=done, unit=unit)
            for item in items:
                yield item
                progress.advance(task)
    else:
        yield from _lines(items, description, unit, total, done, console)


def _is_other_process() -> bool:
    """Return True if this is not process 0 of torch's group; variables may be of an earlier launch."""
    distributed = sys.modules.get("torch.distributed")  # if it is not loaded, there is no group
    return distributed is not None and distributed.is_initialized() and distributed.get_rank() > 0


def rate_of(rate: float, unit: str) -> str:
    return f"{rate:.1f} {unit}/s" if rate >= 1 else f"{rate:.2g} {unit}/s"


class _Rate(TextColumn):
    def render(self, task: Task) -> Text:
        return Text(rate_of(task.speed, task.fields["unit"]) if task.speed else "")


def _lines(
    items: Iterable[Item], description: str, unit: str, total: int, done: int, console: PlainConsole
) -> Iterator[Item]:
    start = last_print = time.monotonic()
    for count, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if now - last_print >= SECONDS_BETWEEN_LINES or done + count == total:
            last_print = now
            rate = count / max(now - start, 1e-9)
            seconds = (total - done - count) / rate
            state = f"{done + count}/{total} {unit}, {rate_of(rate, unit)}, {seconds:.0f} s left"
            console.print(f"{description}: {state}", soft_wrap=True)
