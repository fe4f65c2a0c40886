"""One look at all jobs while they run: a live table, or a line for each change where no terminal is."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table

from pipeline.io.console import PlainConsole
from pipeline.io.errors import printable
from pipeline.study import job
from pipeline.study.places import RUNNING
from pipeline.study.queue import Entry, Queue

HEADINGS = ("", "state", "on", "at", "done", "validation", "left", "")
SECONDS_BETWEEN_LINES = 60.0


@contextmanager
def watched(queue: Queue, console: Console | None = None) -> Iterator["Watch"]:
    """Show the queue for as long as the block lasts."""
    console = console or PlainConsole()
    if console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            yield Watch(queue, console, live)
    else:
        yield Watch(queue, console, None)


class Watch:
    """Called after every turn of the queue."""

    def __init__(self, queue: Queue, console: Console, live: Live | None):
        self.queue, self.console, self.live, self.said = queue, console, live, time.monotonic()
        queue.changed = self.changed

    def changed(self, entry: Entry) -> None:
        """A task's state is another."""
        if self.live is None:
            told = [entry.task.name, entry.state, entry.node and f"on {entry.node}", entry.line]
            self._line(
                ": ".join(
                    filter(
                        None, [" ".join(filter(None, told[:1])), " ".join(filter(None, told[1:3])), told[3]]
                    )
                )
            )

    def __call__(self) -> None:
        if self.live is not None:
            self.live.update(table(self.queue.entries), refresh=True)
        elif time.monotonic() - self.said >= SECONDS_BETWEEN_LINES:
            self.said = time.monotonic()
            for row in map(told, self.queue.entries):
                if row[1] == RUNNING:
                    self._line(" ".join(filter(None, row)))

    def _line(self, text: str) -> None:
        self.console.print(printable(text), highlight=False, markup=False, soft_wrap=True)


def table(entries: Sequence[Entry]) -> Table:
    """All tasks, and how many are where."""
    counts = {
        state: sum(entry.state == state for entry in entries)
        for state in dict.fromkeys(e.state for e in entries)
    }
    title = ", ".join(f"{count} {state}" for state, count in counts.items())
    found = Table(*HEADINGS, title=f"{len(entries)} jobs: {title}", box=SIMPLE_HEAD, title_justify="left")
    for entry in entries:
        found.add_row(*map(printable, told(entry)))
    return found


def told(entry: Entry) -> list[str]:
    """A row of the table."""
    row = [entry.task.name, entry.state, entry.node]
    if entry.state != RUNNING:
        return [*row, "", "", "", "", entry.line]
    return [*row, str(job.state(entry.task.folder).get("step", "")), *entry.task.shown(), ""]
