"""One job: commands one after another, in a folder that tells where it is and outlives its starter.

    job.json     what to run; written by who wants it done
    lock         locked by the process at work, whose number and node stand in it
    state.json   where it is: running, done, or failed with the last line of the error
    log          what the commands said

A job that is ended from outside (killed, out of time, its node gone) leaves no verdict: it is not done and
has not failed, and whoever runs it again goes on behind the last command whose outputs are all there. A
second process on the same job waits for the first: SLURM may start one elsewhere while the first still lives.
"""

import fcntl
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import StringConstraints
from typing_extensions import TypedDict

from pipeline.io.errors import InputError
from pipeline.io.outputs import write_json
from pipeline.io.records import read_record

JOB, LOCK, STATE, LOG = "job.json", "lock", "state.json", "log"
POLL = 1.0  # seconds
# seconds in which the signal that ended a command comes here, too: SLURM sends it to each process in turn;
# whoever leaves before it came would not be put into the queue again
SIGNALLED = 1.0
REMEDY = "start again what wrote it"
Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]  # the system takes no other
TAIL = 20_000  # bytes of the log, of which the last error line is one
RUNNING, DONE, FAILED, LOST = "running", "done", "failed", "ended"
# exit codes of what was ended from outside, by itself or through the shell
_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)
ENDED = {sign * number + more for number in _SIGNALS for sign, more in ((-1, 0), (1, 128))}


@dataclass(frozen=True)
class Step:
    """A command of the shell, and what it leaves; it is not run where all of that is there."""

    name: Text
    command: Text
    outs: tuple[Text, ...] = ()  # below the job's folder; none: it is always run


@dataclass(frozen=True)
class Job:
    """What runs in `folder`, and beside which environment. Called, it runs: submitit starts it so.

    `place` has the job's files, `folder` is where its commands start.
    """

    place: Text
    folder: Text
    steps: tuple[Step, ...]
    environment: dict[Text, Text] = field(default_factory=dict)

    def write(self) -> None:
        """Put it down, for `read`."""
        Path(self.place).mkdir(parents=True, exist_ok=True)
        write_json(Path(self.place) / JOB, asdict(self))

    def __call__(self) -> None:
        place = Path(self.place)
        with _alone(place):
            for step in self.steps:
                if not self._made(step) and not self._ran(step):
                    return
            _tell(place, DONE)

    def checkpoint(self) -> Any:
        """What submitit puts into the queue again where the time is over: the same."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)

    def _made(self, step: Step) -> bool:
        return bool(step.outs) and all((Path(self.folder) / out).exists() for out in step.outs)

    def _ran(self, step: Step) -> bool:
        place = Path(self.place)
        _tell(place, RUNNING, step=step.name)
        with (place / LOG).open("a", encoding="utf-8") as log:
            print(f"$ {step.command}", file=log, flush=True)
            code = subprocess.run(
                step.command,
                shell=True,
                cwd=self.folder,
                env=os.environ | self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
            ).returncode
        if code in ENDED:
            time.sleep(SIGNALLED)
            _tell(place, LOST, step=step.name, line=f"{step.name} was ended from outside (exit code {code})")
        elif code:
            _tell(place, FAILED, step=step.name, line=last_error(place / LOG))
        return code == 0


def read(place: Path) -> Job:
    """Return what `write` put down. Raises InputError naming the key that is wrong."""
    found = read_record(place / JOB, Job, REMEDY)
    if not Path(found.folder).is_dir():
        raise InputError(f"{place / JOB}: folder: {found.folder} is no folder; {REMEDY}")
    return found


class State(TypedDict, total=False):
    """The state of a job."""

    state: Literal["running", "done", "failed", "ended"]
    step: str
    node: str
    time: float
    line: str  # of a job that failed or was ended: why


def state(place: Path) -> State:
    """Return where a job is; empty where it never ran. Raises InputError naming the key that is wrong."""
    if not (place / STATE).exists():
        return {}
    return read_record(place / STATE, State, f"remove {STATE}, and start the job again", "ignore")


def holder(place: Path) -> int | None:
    """The process on this machine that works on a job, if one does."""
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


def last_error(log: Path) -> str:
    """The last line that says `error: …`, else the last line."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL))
        text = file.read().decode("utf-8", "replace")
    lines = [line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()]
    errors = [line for line in lines if line.startswith("error: ")]
    return (errors or lines or ["it said nothing"])[-1].removeprefix("error: ")


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


def node() -> str:
    """As SLURM calls it, else the machine's name."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def _tell(place: Path, what: str, **more: Any) -> None:
    write_json(place / STATE, {"state": what, "node": node(), "time": round(time.time(), 1)} | more)
