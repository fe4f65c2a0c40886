"""Run shell commands as jobs, on this machine or on a cluster (slurm.py).

A job's folder identifies the job. The command starts in this folder, which gets the files LOG (the output)
and EXIT (the exit code). A job that was ended from outside has no exit code. Its command can be started
again, because it repeats no finished work.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import psutil

from pipeline.io.errors import InputError, printable

LOG, EXIT, PROCESS = "log", "exit", "process"
POLL = 1.0  # seconds
PATIENCE = 20.0  # seconds until a job has ended after SIGTERM
TAIL = 20_000  # last characters of the log, which have the last error line


class Task(Protocol):
    """A piece of work for one job."""

    @property
    def name(self) -> str: ...

    @property
    def folder(self) -> Path: ...

    def begin(self, running: Collection["Task"]) -> str | None:
        """Make the task's folder and return its job's command; None: it must wait for a task in `running`."""

    def finish(self) -> None:
        """Store the results of the job, which ended without error, and remove the task's folder."""


class Executor(Protocol):
    """A place where jobs run: this machine (class Local) or a cluster (class Slurm).

    If the process that started a job is killed, the job continues. If the process is interrupted or has
    an error, the class Queue calls `leave`, which decides whether the jobs end.

    `at_once` is None if the number of jobs is not limited. A shared disk can show the file EXIT late.
    So a job without this file counts as failed only `grace` seconds after it was last active.
    """

    at_once: int | None  # greatest number of jobs at a time
    grace: float  # seconds in which the files of an ended job may still be missing

    def start(self, folder: Path, command: str) -> None: ...

    def active(self, folders: Iterable[Path]) -> set[Path] | None:
        """Return those of `folders` whose jobs are queued or running; None if this is unknown now."""

    def end(self, folder: Path) -> None: ...

    def leave(self, folders: Iterable[Path]) -> str:
        """End the jobs in `folders` (Local), or let them continue (Slurm), and return a message to print."""


class Local:
    """Runs jobs on this machine.

    The file PROCESS in a job's folder identifies the job's process, so that later commands find it.
    """

    grace = 0.0

    def __init__(self, at_once: int):
        self.at_once: int | None = at_once
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, folder: Path, command: str) -> None:
        script = ["bash", "-c", f"( {command} ) >>{LOG} 2>&1; echo $? >{EXIT}"]
        process = subprocess.Popen(
            script, cwd=folder, env=environment(), stdin=subprocess.DEVNULL, start_new_session=True
        )
        self.started.append(process)
        with suppress(psutil.NoSuchProcess):
            start_time = psutil.Process(process.pid).create_time()
            (folder / PROCESS).write_text(f"{process.pid} {start_time!r}")

    def active(self, folders: Iterable[Path]) -> set[Path]:
        running = {folder for folder in folders if _process(folder)}
        for process in self.started:
            process.poll()  # the system forgets the ended ones
        return running

    def end(self, folder: Path) -> None:
        if process := _process(folder):
            processes = [process, *process.children(recursive=True)]
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            psutil.wait_procs(processes, PATIENCE)

    def leave(self, folders: Iterable[Path]) -> str:
        for folder in folders:
            self.end(folder)
        return "ended the running jobs; start the command again to continue them"


def _process(folder: Path) -> psutil.Process | None:
    """Return the process of the job in this folder; None if it does not run."""
    try:
        pid, start_time = (folder / PROCESS).read_text().split()
        process = psutil.Process(int(pid))
        has_ended = process.create_time() != float(start_time) or process.status() == psutil.STATUS_ZOMBIE
    except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
        return None
    return None if has_ended else process


def environment() -> dict[str, str]:
    return os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}


class Queue:
    """A queue of tasks; each becomes a job, a process at a Place (this machine or a cluster).

    A failed job does not stop others.
    """

    def __init__(self, place: Executor, tasks: Iterable[Task]):
        self.place = place
        self.waiting = {task.folder: task for task in tasks}
        self.running: dict[Path, Task] = {}
        self.last_seen: dict[Path, float] = {}  # when a running job was last seen
        self.failed: list[str] = []

    def run(self) -> list[str]:
        """Run all tasks; return a line for each that failed. An interrupt ends only jobs on this machine."""
        try:
            while self.turn():
                time.sleep(POLL)
        except BaseException:
            if self.running:
                print(f"\n{self.place.leave([*self.running])}", flush=True)
            raise
        return self.failed

    def turn(self) -> bool:
        """Check all jobs once, collect and start what is due; return True if a task still waits or runs.

        If the state of the jobs is unknown, do nothing and return True.
        """
        active = self.place.active([*self.waiting, *self.running])
        if active is None:
            return True
        for folder in active:
            self.last_seen[folder] = time.monotonic()
            if folder in self.waiting:  # an earlier process started the job
                self.running[folder] = self.waiting.pop(folder)
        for folder in [folder for folder in self.running if folder not in active]:
            self._end(folder)
        for folder in [*self.waiting]:
            if self.place.at_once is None or len(self.running) < self.place.at_once:
                self._start(folder)
        return bool(self.waiting or self.running)

    def _start(self, folder: Path) -> None:
        task = self.waiting[folder]
        try:
            if (command := task.begin([*self.running.values()])) is None:
                return
        except InputError as error:
            self._fail(self.waiting.pop(folder), str(error))
            return
        for name in (LOG, EXIT):
            (folder / name).unlink(missing_ok=True)
        self.place.start(folder, command)
        self.running[folder] = self.waiting.pop(folder)
        self.last_seen[folder] = time.monotonic()
        print(f"{printable(task.name)}: started", flush=True)

    def _end(self, folder: Path) -> None:
        code = _exit_code(folder)
        if code is None and time.monotonic() - self.last_seen[folder] < self.place.grace:
            return
        task = self.running.pop(folder)
        if code == 0:
            task.finish()
            print(f"{printable(task.name)}: done", flush=True)
        else:
            self._fail(task, _reason(folder, code))

    def _fail(self, task: Task, reason: str) -> None:
        self.failed.append(f"{task.name}: {reason}")
        print(printable(f"{task.name}: failed: {reason}"), flush=True)


def _exit_code(folder: Path) -> int | None:
    try:
        return int((folder / EXIT).read_text())
    except (FileNotFoundError, ValueError):  # ValueError: the file is not yet written
        return None


def _reason(folder: Path, code: int | None) -> str:
    """Return why a job failed: the last line of its log that begins with `error: `, or else the last line."""
    log = folder / LOG
    if not log.exists():
        return f"it never began; does every node see {folder}? put the repository on a disk that all share"
    if code is None:
        return f"it was ended from outside; start the command again to continue it (output: {log})"
    lines = log.read_text(encoding="utf-8", errors="replace")[-TAIL:].strip().splitlines()
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return errors[-1] if errors else f"{(lines or ['it printed nothing'])[-1].strip()} (output: {log})"


def cancel(place: Executor, folders: Collection[Path]) -> int:
    """End the queued and running jobs in these folders, and return their number."""
    active = place.active(folders)
    if active is None:
        raise InputError("the cluster does not answer, so nothing was cancelled; try again")
    for folder in active:
        place.end(folder)
    return len(active)
