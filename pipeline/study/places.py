"""Where jobs run: this machine, some at a time, or a SLURM cluster, through submitit.

submitit starts local jobs, too (LocalExecutor, 1.5.4), but sets CUDA_VISIBLE_DEVICES to numbers of devices,
or to none, knows nothing of a job that an earlier process started, and limits neither how many run at once
nor, without a guess, how long. The job itself is the same in both places (job.py).
"""

import io
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import redirect_stderr, suppress
from pathlib import Path

from pipeline.io.errors import InputError
from pipeline.io.provenance import sha256
from pipeline.study import job as jobs
from pipeline.study.cluster_settings import Cluster
from pipeline.study.job import LOG, STATE, Job

CANCELLED = "cancelled"  # the file that says: do not start it again
TURNS = 1000  # that a job may take, each as long as the cluster's settings say
QUEUED, RUNNING = "queued", "running"
PATIENCE = 20.0  # seconds in which a job that is told to end does


Seen = tuple[str, str]  # QUEUED | RUNNING, and the node


class Local:
    """This machine: a process for each job, which lives on where the front is killed, and is found again."""

    grace = 0.0  # seconds after which a job that is no longer seen has ended

    def __init__(self, at_once: int):
        self.at_once: int | None = at_once
        self.processes: dict[Path, subprocess.Popen[bytes]] = {}

    def start(self, job: Job) -> None:
        """Start a job, which is known by its folder from then on."""
        folder = ready(job)
        with (folder / LOG).open("a") as log:
            self.processes[folder] = subprocess.Popen(
                [sys.executable, "-m", "commands.job", job.place, job.folder, job.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def seen(self, folders: Iterable[Path]) -> dict[Path, Seen]:
        """Return those of these jobs that wait or run."""
        return {folder: (RUNNING, jobs.node()) for folder in folders if self._process(folder)}

    def end(self, folder: Path) -> bool:
        """End a job that waits or runs; return whether there was one."""
        if not (process := self._process(folder)):
            return False
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGTERM)
        until = time.monotonic() + PATIENCE
        while self._process(folder) and time.monotonic() < until:
            time.sleep(0.05)
        return True

    def leave(self, folders: Iterable[Path]) -> str:
        """Return in a line what becomes of these jobs when the front ends."""
        ended = sum([self.end(folder) for folder in folders])
        return f"ended {ended} job(s); start it again to go on where they were"

    def _process(self, folder: Path) -> int | None:
        started = self.processes.get(folder)
        if started is not None and started.poll() is None:
            return started.pid
        return jobs.holder(folder)


class Slurm:
    """A cluster; who is in its queue is asked of squeue, so that no accounting is needed."""

    grace = 10.0  # shared disks tell late

    def __init__(self, cluster: Cluster, at_once: int | None = None):
        if shutil.which("sbatch") is None:
            raise InputError("--on slurm: there is no SLURM here (no sbatch); take --on local")
        if (said := _asked()).returncode:  # at the start alone: later it may be away for a while
            why = _refusal(said.stderr or "squeue failed")
            raise InputError(f"--on slurm: SLURM does not answer ({why}); take --on local")
        self.cluster, self.at_once = cluster, at_once or cluster.at_once

    def start(self, job: Job) -> None:
        """Submit a job. Raises InputError where it is refused."""
        try:
            from submitit import SlurmExecutor
            from submitit.core.utils import FailedJobError
        except ModuleNotFoundError:
            raise InputError("--on slurm needs submitit; install the dependency group `cluster`") from None
        folder = ready(job)
        executor = SlurmExecutor(folder / "submitit", max_num_timeout=TURNS)
        executor.update_parameters(**self.cluster.of_submitit(name(folder), Path(job.folder)))
        try:
            with redirect_stderr(io.StringIO()):  # where submitit repeats what sbatch says
                executor.submit(job)
        except FailedJobError as error:
            raise InputError(
                f"SLURM refused the job: {_refusal(str(error))}; mend the cluster's file"
            ) from None

    def seen(self, folders: Iterable[Path]) -> dict[Path, Seen] | None:
        """Return those of these jobs that wait or run; None where squeue does not answer now."""
        if (queue := self._queue()) is None:
            return None
        waiting = {name(folder): folder for folder in folders}
        return {waiting[each]: seen for each, (_, seen) in queue.items() if each in waiting}

    def end(self, folder: Path) -> bool:
        queue = self._queue()
        if queue is None:
            raise InputError("squeue does not answer, so nothing was cancelled; try again")
        if (found := queue.get(name(folder))) is None:
            return False
        subprocess.run(["scancel", found[0]], check=False)
        return True

    def leave(self, folders: Iterable[Path]) -> str:
        return "the jobs go on: start it again to look at them, or with --cancel to end them"

    def _queue(self) -> dict[str, tuple[str, Seen]] | None:
        """Name of a job -> its number, and where it is."""
        if (said := _asked()).returncode:
            return None
        rows = [line.split("|") for line in said.stdout.splitlines()]
        return {
            name: (number, (QUEUED if state == "PENDING" else RUNNING, node))
            for number, state, node, name in rows
        }


Place = Local | Slurm


def name(folder: Path) -> str:
    """What a job is called in the queue: no other folder's has this name."""
    return f"{folder.name[:16]}-{sha256(str(folder))[:12]}"


def ready(job: Job) -> Path:
    """Make the folder of a job, which has no verdict yet."""
    folder = Path(job.place)
    folder.mkdir(parents=True, exist_ok=True)
    for left in (STATE, CANCELLED):
        (folder / left).unlink(missing_ok=True)
    return folder


def _asked() -> subprocess.CompletedProcess[str]:
    """What squeue says of this user's jobs."""
    command = ["squeue", "--me", "--noheader", "--format=%i|%T|%N|%j"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _refusal(text: str) -> str:
    """What sbatch or squeue said, of all that is said around it."""
    lines = [line.partition("error: ")[2] for line in text.splitlines() if "error: " in line]
    return lines[0] if lines else text.strip().splitlines()[-1]
