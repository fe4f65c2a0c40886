"""Places that run jobs: this machine, with a limited number of jobs at a time, or a SLURM cluster (submitit).

A job is the same object in both places (job.py). submitit's LocalExecutor (1.5.4) is not used on this
machine: it sets CUDA_VISIBLE_DEVICES, does not know jobs of an earlier process, does not limit the number of
running jobs, and requires a time limit.
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

CANCELLED = "cancelled"  # file in a job's folder: do not start it again
TURNS = 1000  # most requeues of a job, each up to the cluster's time limit
QUEUED, RUNNING = "queued", "running"
PATIENCE = 20.0  # seconds until a job has ended after SIGTERM

Seen = tuple[str, str]  # QUEUED | RUNNING, and the node


class Local:
    """This machine. A job is a process that survives the command that started it.

    The job's folder identifies the job.
    """

    grace = 0.0  # seconds until a job that is no longer seen counts as ended

    def __init__(self, at_once: int):
        self.at_once: int | None = at_once
        self.processes: dict[Path, subprocess.Popen[bytes]] = {}

    def start(self, job: Job) -> None:
        """Start a job. The job's folder identifies the job from then on."""
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
        """Return folder -> state and node, for the jobs that are queued or running."""
        return {folder: (RUNNING, jobs.node()) for folder in folders if self._process(folder)}

    def end(self, folder: Path) -> bool:
        """End a queued or running job. Return True if there was such a job."""
        if not (process := self._process(folder)):
            return False
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGTERM)
        until = time.monotonic() + PATIENCE
        while self._process(folder) and time.monotonic() < until:
            time.sleep(0.05)
        return True

    def leave(self, folders: Iterable[Path]) -> str:
        """End these jobs, because the command that watches them stops. Return the message to print."""
        ended = sum([self.end(folder) for folder in folders])
        return f"ended {ended} job(s); start the command again to continue them"

    def _process(self, folder: Path) -> int | None:
        started = self.processes.get(folder)
        if started is not None and started.poll() is None:
            return started.pid
        return jobs.holder(folder)


class Slurm:
    """A SLURM cluster. Jobs are looked up by squeue, so no accounting is needed."""

    grace = 10.0  # shared disks show files late

    def __init__(self, cluster: Cluster, at_once: int | None = None):
        if shutil.which("sbatch") is None:
            raise InputError("--on slurm: there is no SLURM here (no sbatch); take --on local")
        if (said := _asked()).returncode:  # an error only at the start: later, squeue may fail for a while
            why = _refusal(said.stderr or "squeue failed")
            raise InputError(f"--on slurm: SLURM does not answer ({why}); take --on local")
        self.cluster, self.at_once = cluster, at_once or cluster.at_once

    def start(self, job: Job) -> None:
        """Submit a job. Raises InputError if SLURM refuses the job."""
        try:
            from submitit import SlurmExecutor
            from submitit.core.utils import FailedJobError
        except ModuleNotFoundError:
            raise InputError("--on slurm needs submitit; install the extra `cluster`") from None
        folder = ready(job)
        executor = SlurmExecutor(folder / "submitit", max_num_timeout=TURNS)
        executor.update_parameters(**self.cluster.of_submitit(name(folder), Path(job.folder)))
        try:
            with redirect_stderr(io.StringIO()):  # submitit repeats sbatch's messages there
                executor.submit(job)
        except FailedJobError as error:
            why = _refusal(str(error))
            raise InputError(f"SLURM refused the job: {why}; correct the cluster's file") from None

    def seen(self, folders: Iterable[Path]) -> dict[Path, Seen] | None:
        """Return folder -> state and node, for queued and running jobs; None if squeue does not answer."""
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
        return "the jobs go on: start the command again to watch them, or with --cancel to end them"

    def _queue(self) -> dict[str, tuple[str, Seen]] | None:
        """Return job name -> (id, (state, node)), for this user's jobs; None if squeue does not answer."""
        if (said := _asked()).returncode:
            return None
        rows = [line.split("|") for line in said.stdout.splitlines()]
        return {
            name: (number, (QUEUED if state == "PENDING" else RUNNING, node))
            for number, state, node, name in rows
        }


Place = Local | Slurm


def name(folder: Path) -> str:
    """Return the name that a job has in SLURM's queue. Different folders give different names."""
    return f"{folder.name[:16]}-{sha256(str(folder))[:12]}"


def ready(job: Job) -> Path:
    """Make a job's folder, remove the state of an earlier start, and return the folder."""
    folder = Path(job.place)
    folder.mkdir(parents=True, exist_ok=True)
    for left in (STATE, CANCELLED):
        (folder / left).unlink(missing_ok=True)
    return folder


def _asked() -> subprocess.CompletedProcess[str]:
    """Run squeue for this user's jobs."""
    command = ["squeue", "--me", "--noheader", "--format=%i|%T|%N|%j"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _refusal(text: str) -> str:
    """Return the line of sbatch's or squeue's output that contains the error."""
    lines = [line.partition("error: ")[2] for line in text.splitlines() if "error: " in line]
    return lines[0] if lines else text.strip().splitlines()[-1]
