"""Show the progress of all jobs: as a live table on a terminal, else as a line for each change."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table

from pipeline.io.errors import printable
from pipeline.io.progress import PlainConsole
from pipeline.study import job
from pipeline.study.places import RUNNING, Place
from pipeline.study.queue import Entry, Queue, Task

HEADINGS = ("", "state", "on", "at", "done", "validation", "left", "")
SECONDS_BETWEEN_LINES = 60.0


def run(place: Place, tasks: Sequence[Task]) -> list[str]:
    """Run all tasks and show their progress. Return a line for each task that failed or was cancelled."""
    queue = Queue(place, tasks)
    with watched(queue) as watch:
        return [f"{entry.task.name}: {entry.line or entry.state}" for entry in queue.run(watch)]


@contextmanager
def watched(queue: Queue, console: Console | None = None) -> Iterator["Watch"]:
    """Show the progress of the queue during the block."""
    console = console or PlainConsole()
    if console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            yield Watch(queue, console, live)
    else:
        yield Watch(queue, console, None)


class Watch:
    """Display of a queue's progress. The queue calls this object after every turn."""

    def __init__(self, queue: Queue, console: Console, live: Live | None):
        self.queue, self.console, self.live, self.said = queue, console, live, time.monotonic()
        queue.changed = self.changed

    def changed(self, entry: Entry) -> None:
        """Print a task's new state, unless a live table shows it."""
        if self.live is None:
            on = f" on {entry.node}" if entry.node else ""
            self._line(f"{entry.task.name}: {entry.state}{on}" + (f": {entry.line}" if entry.line else ""))

    def __call__(self) -> None:
        if self.live is not None:
            self.live.update(table(self.queue.entries), refresh=True)
        elif time.monotonic() - self.said >= SECONDS_BETWEEN_LINES:
            self.said = time.monotonic()
            for entry in self.queue.entries:
                if entry.state == RUNNING:
                    self._line(" ".join(filter(None, told(entry))))

    def _line(self, text: str) -> None:
        self.console.print(printable(text), highlight=False, markup=False, soft_wrap=True)


def table(entries: Sequence[Entry]) -> Table:
    """Return a table with a row per task. Its title has the number of tasks in each state."""
    counts = Counter(entry.state for entry in entries)
    title = ", ".join(f"{count} {state}" for state, count in counts.items())
    found = Table(*HEADINGS, title=f"{len(entries)} jobs: {title}", box=SIMPLE_HEAD, title_justify="left")
    for entry in entries:
        found.add_row(*map(printable, told(entry)))
    return found


def told(entry: Entry) -> list[str]:
    """Return the row of a task in the table."""
    row = [entry.task.name, entry.state, entry.node]
    if entry.state != RUNNING:
        return [*row, "", "", "", "", entry.line]
    return [*row, job.stage(entry.task.folder), *entry.task.shown(), ""]
