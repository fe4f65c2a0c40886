"""Run a job: a shell command that outlives the process that started it. A folder has the job's files:

    lock         locked by the running process; its text is the process's id and node
    state.json   running, done, ended, or failed with the last line of the error
    log          output of the command

A job that was ended from outside (killed, out of time, its node lost) is neither done nor failed. Such a job
can be started again and continues, because its command repeats no finished work. SLURM may start a job on
another node while the first process of the job still runs; the second process then waits for the first.
"""

import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from typing_extensions import TypedDict

from pipeline.io.outputs import write_json
from pipeline.io.records import read_record

LOCK, STATE, LOG = "lock", "state.json", "log"
POLL = 1.0  # seconds
# seconds until the signal that ended the command reaches this process too: SLURM signals the processes in
# turn, and a job that exits before its signal is not requeued
SIGNALLED = 1.0
TAIL = 20_000  # last bytes of the log, which have the last error line
RUNNING, DONE, FAILED, LOST = "running", "done", "failed", "ended"
# exit codes of a command that was ended from outside, directly or through the shell
_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)
ENDED = {sign * number + more for number in _SIGNALS for sign, more in ((-1, 0), (1, 128))}
BY_DVC = re.compile(r"ERROR: failed to reproduce .* exited with (-?\d+)")  # exit code of a stage


class State(TypedDict, total=False):
    """The state of a job."""

    state: Literal["running", "done", "failed", "ended"]
    node: str
    line: str  # why a job failed or was ended


@dataclass(frozen=True)
class Job:
    """A command that starts in `folder`. `place` is the folder of the job's files.

    Calling the object runs the job.
    """

    place: str
    folder: str
    command: str

    def __call__(self) -> None:
        place = Path(self.place)
        with _alone(place):
            if state(place).get("state") == DONE:
                return
            _tell(place, RUNNING)
            code = self._code(place / LOG)
            line, of_stage = last_error(place / LOG)
            if code == 0:
                _tell(place, DONE)
            elif (code := of_stage or code) in ENDED:
                time.sleep(SIGNALLED)
                _tell(place, LOST, line=f"it was ended from outside (exit code {code})")
            else:
                _tell(place, FAILED, line=line)

    def checkpoint(self) -> Any:
        """Return this job as the object that submitit requeues at the time limit."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)

    def _code(self, path: Path) -> int:
        python = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        with path.open("a", encoding="utf-8") as log:
            print(f"$ {self.command}", file=log, flush=True)
            return subprocess.run(
                self.command,
                shell=True,
                cwd=self.folder,
                env=os.environ | {"PATH": python},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
            ).returncode


def state(place: Path) -> State:
    """Return a job's state, which is empty if the job never ran.

    Raises InputError if the file has a wrong key.
    """
    if not (place / STATE).exists():
        return {}
    return read_record(place / STATE, State, f"remove {STATE}, and start the job again", "ignore")


def holder(place: Path) -> int | None:
    """Return the id of the process on this machine that runs a job, or None if no process runs it."""
    try:
        file = os.open(place / LOCK, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return int(os.read(file, 20).split()[0] or 0)
    finally:
        os.close(file)
    return None


def last_error(log: Path) -> tuple[str, int]:
    """Return a line of a log that explains the failure, and the exit code of the failed DVC stage.

    The line is the last line that begins with `error: `, or else the last line. The exit code is 0 if DVC
    reports no failed stage.
    """
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL))
        text = "\n" + file.read().decode("utf-8", "replace")
    text = text.rpartition("\n$ ")[2].partition("\n")[2]  # output after the last start
    lines = [line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()]
    by_dvc = [found for found in map(BY_DVC.match, lines[-1:]) if found]
    own = lines[: -1 if by_dvc else None]
    errors = [line for line in own if line.startswith("error: ")]
    line = (errors or own or ["it said nothing"])[-1].removeprefix("error: ")
    return line, int(by_dvc[0][1]) if by_dvc else 0


def stage(place: Path) -> str:
    """Return the stage that DVC runs in a job, or "" if DVC has started no stage."""
    log = (place / LOG).read_bytes() if (place / LOG).exists() else b""
    _, found, rest = log.rpartition(b"Running stage '")
    return rest.partition(b"@")[0].decode() if found else ""


def node() -> str:
    """Return this machine's name: the node's name in SLURM, else the host name."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Wait until no other process runs the job, then hold the job's lock during the block."""
    file = os.open(place / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(POLL)
        os.truncate(file, 0)
        os.pwrite(file, f"{os.getpid()} {node()}".encode(), 0)
        yield
    finally:
        os.close(file)


def _tell(place: Path, what: str, **more: Any) -> None:
    write_json(place / STATE, {"state": what, "node": node()} | more)
