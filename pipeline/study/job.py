"""One job: a command of the shell, with a folder that says where it is and outlives its starter.

    lock         locked by the process at work, whose number and node are its text
    state.json   running, done, ended, or failed with the last line of the error
    log          what the command said

A job that is ended from outside (killed, out of time, its node gone) is neither done nor failed, and whoever
starts it again has it go on: its command does nothing twice. A second process on the same job waits for the
first: SLURM may start one elsewhere while the first still lives.
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
# seconds in which the signal that ended a command comes here, too: SLURM sends it to each process in turn;
# whoever leaves before it came would not be put into the queue again
SIGNALLED = 1.0
TAIL = 20_000  # bytes of the log, of which the last error line is one
RUNNING, DONE, FAILED, LOST = "running", "done", "failed", "ended"
# exit codes of what was ended from outside, by itself or through the shell
_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)
ENDED = {sign * number + more for number in _SIGNALS for sign, more in ((-1, 0), (1, 128))}
BY_DVC = re.compile(r"ERROR: failed to reproduce .* exited with (-?\d+)")  # of the command of a stage


class State(TypedDict, total=False):
    """The state of a job."""

    state: Literal["running", "done", "failed", "ended"]
    node: str
    line: str  # of a job that failed or was ended: why


@dataclass(frozen=True)
class Job:
    """A command, started in `folder`; `place` has the job's files. submitit calls it, and so it runs."""

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
        """Return what submitit puts into the queue again where the time is over: the same job."""
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
    """Return where a job is; empty where it never ran. Raises InputError naming the key that is wrong."""
    if not (place / STATE).exists():
        return {}
    return read_record(place / STATE, State, f"remove {STATE}, and start the job again", "ignore")


def holder(place: Path) -> int | None:
    """Return the process on this machine that works on a job, if there is one."""
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
    """Return the last line `error: …`, else the last line, and the exit code of a stage that DVC names."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL))
        text = "\n" + file.read().decode("utf-8", "replace")
    text = text.rpartition("\n$ ")[2].partition("\n")[2]  # of the last start, without its command
    lines = [line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()]
    by_dvc = [found for found in map(BY_DVC.match, lines[-1:]) if found]
    own = lines[: -1 if by_dvc else None]
    errors = [line for line in own if line.startswith("error: ")]
    line = (errors or own or ["it said nothing"])[-1].removeprefix("error: ")
    return line, int(by_dvc[0][1]) if by_dvc else 0


def stage(place: Path) -> str:
    """Return the stage that DVC runs, of a job that has some."""
    log = (place / LOG).read_bytes() if (place / LOG).exists() else b""
    _, found, rest = log.rpartition(b"Running stage '")
    return rest.partition(b"@")[0].decode() if found else ""


def node() -> str:
    """Return this node's name, as SLURM calls it, else the machine's."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """While no other process works on the job; waits for one that does."""
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
