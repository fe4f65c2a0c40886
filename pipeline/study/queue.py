"""Run a queue of jobs.

A job that ends without a result is started again; a failed job does not stop others.
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pipeline.io.errors import InputError
from pipeline.study import job as jobs
from pipeline.study.job import DONE, FAILED, LOG, Job
from pipeline.study.places import CANCELLED, RUNNING, Place

POLL = 1.0  # seconds
TRIES = 3  # limit of starts, for a job that ends each time without a result and without progress
WAITING, LEFT = "waiting", "cancelled"
OVER = (DONE, FAILED, LEFT)


class Task(Protocol):
    """A piece of work for one job. The task's folder identifies the task."""

    @property
    def name(self) -> str: ...

    @property
    def folder(self) -> Path: ...

    def begin(self, others: Collection["Task"]) -> Job | None:
        """Return the job, or None if this task must wait for another task.

        `others`: the tasks whose jobs are queued or running.
        """

    def finish(self) -> None:
        """Take over the job's results.

        If the process is killed meanwhile, the next study repeats this call.
        """

    def reached(self) -> str:
        """Return a text that changes whenever the job makes progress."""

    def shown(self) -> tuple[str, str, str]:
        """Return three texts to display while the job runs: finished work, scores, remaining time."""


@dataclass
class Entry:
    """A task and its state."""

    task: Task
    state: str = WAITING  # WAITING | places.QUEUED | places.RUNNING | one of OVER
    node: str = ""
    line: str = ""  # why the job failed or is started again
    begun: float = 0.0  # time.monotonic() at the job's start, or when the job was last seen
    tries: int = 0
    reached: str = field(default="")


class Queue:
    """A queue of tasks at one place. `changed` is called with each entry whose state changes."""

    def __init__(
        self, place: Place, tasks: Sequence[Task], changed: Callable[[Entry], None] = lambda _: None
    ):
        self.place, self.changed = place, changed
        self.entries = [Entry(task) for task in tasks]

    def run(self, shown: Callable[[], None] = lambda: None) -> list[Entry]:
        """Run until all tasks are over. Return the entries that failed or were cancelled.

        `shown` is called after every turn. If the loop is interrupted, jobs on this machine are ended, and
        jobs on a cluster continue.
        """
        try:
            while self.turn():
                shown()
                time.sleep(POLL)
            shown()
        except BaseException:
            if self._at_work:
                print(f"\n{self.place.leave(entry.task.folder for entry in self._at_work)}", flush=True)
            raise
        return [entry for entry in self.entries if entry.state in (FAILED, LEFT)]

    def turn(self) -> bool:
        """Check all jobs once; finish and start tasks.

        Return True if the queue still has unfinished tasks.
        """
        left = [entry for entry in self.entries if entry.state not in OVER]
        seen = self.place.seen([entry.task.folder for entry in left])
        if seen is None:
            return True
        for entry in left:
            if found := seen.get(entry.task.folder):
                entry.begun = time.monotonic()
                self._set(entry, *found)
            elif entry.state != WAITING or jobs.state(entry.task.folder).get("state") == DONE:
                self._ended(entry)
        for entry in left:
            if entry.state == WAITING and not self._full:
                self._begin(entry)
        return any(entry.state not in OVER for entry in self.entries)

    @property
    def _at_work(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.state not in (WAITING, *OVER)]

    @property
    def _full(self) -> bool:
        return self.place.at_once is not None and len(self._at_work) >= self.place.at_once

    def _begin(self, entry: Entry) -> None:
        try:
            job = entry.task.begin([other.task for other in self._at_work])
        except InputError as error:
            self._set(entry, FAILED, line=str(error))
            return
        if job is not None:
            entry.begun = time.monotonic()
            self.place.start(job)
            self._set(entry, "queued" if self.place.grace else RUNNING)

    def _ended(self, entry: Entry) -> None:
        """Set the state of a job that is no longer seen: done, failed, cancelled, or to be started again."""
        folder = entry.task.folder
        said = jobs.state(folder)
        if said.get("state") == DONE:
            entry.task.finish()
            self._set(entry, DONE, entry.node)
        elif said.get("state") == FAILED:
            self._set(entry, FAILED, said.get("node", ""), said.get("line", ""))
        elif (folder / CANCELLED).exists():
            self._set(entry, LEFT)
        elif time.monotonic() - entry.begun >= self.place.grace:
            self._lost(entry, said.get("line", ""), began=bool(said))

    def _lost(self, entry: Entry, line: str, began: bool) -> None:
        reached = entry.task.reached()
        entry.tries = 1 if reached != entry.reached else entry.tries + 1
        entry.reached = reached
        if entry.tries < TRIES:
            self._set(entry, WAITING, line=line or "its job ended without a message; it is started again")
        elif began:
            why = f"its job was ended {TRIES} times without coming further ({line or 'killed'})"
            self._set(entry, FAILED, line=f"{why}; see {entry.task.folder / LOG}")
        else:
            why = f"its job ended {TRIES} times before it began; do all nodes see {entry.task.folder}?"
            self._set(entry, FAILED, line=f"{why} put the repository on a disk that all share")

    def _set(self, entry: Entry, state: str, node: str = "", line: str = "") -> None:
        other = (entry.state, entry.node) != (state, node)
        entry.state, entry.node, entry.line = state, node, line
        if other:
            self.changed(entry)


def cancel(place: Place, folders: Collection[Path]) -> int:
    """End the queued and running jobs in these folders, and return how many were ended.

    A study that still runs in another process does not start these jobs again.
    """
    ended = 0
    for folder in folders:
        if folder.exists():
            (folder / CANCELLED).touch()
            if place.end(folder):
                ended += 1
            else:
                (folder / CANCELLED).unlink()
    return ended
