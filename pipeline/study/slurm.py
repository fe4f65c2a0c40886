"""Run jobs on a SLURM cluster, with the resources of studies/cluster.yaml or of a file with the same keys."""

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import Field

from pipeline.config.dataset_params import Count, Positive, Strict
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_yaml
from pipeline.io.provenance import sha256
from pipeline.io.records import checked
from pipeline.study.jobs import EXIT, LOG, environment

FILE = Path("studies/cluster.yaml")
REMEDY = "name a file of a cluster's settings by --cluster, such as the repository's own"
Line = Annotated[str, Field(min_length=1)]
# the signal comes before the time limit: the job goes back to the queue, and then continues its work
SCRIPT = """#!/bin/bash
trap 'scontrol requeue $SLURM_JOB_ID; exit' USR2
{setup}
( {command} ) &
wait $!
echo $? >{exit}
"""


class Cluster(Strict):
    """Resources of each job on a SLURM cluster, and a limit on the number of jobs.

    `at_once` is the maximum number of jobs that one command has in SLURM's queue; null: no limit.
    """

    partition: Line | None = None  # null: the cluster's default
    minutes: Count  # time limit; a job that needs longer is queued again
    warned: Count = 90  # seconds before the limit at which the job is queued again
    gpus: Annotated[int, Field(ge=0)] = 0
    cpus: Count = 1
    memory: Positive | None = None  # GiB; null: the cluster's default
    # further options of sbatch: {account: vision}
    flags: dict[Line, str | int | bool] = Field(default_factory=dict)
    setup: tuple[Line, ...] = Field((), strict=False)  # shell lines before the job: module load cuda
    at_once: Count | None = None  # greatest number of this command's jobs in SLURM's queue

    def options(self) -> list[str]:
        """Return the options of sbatch."""
        options = {
            "partition": self.partition,
            "time": self.minutes,
            "signal": f"B:USR2@{self.warned}",
            "cpus-per-task": self.cpus,
            "mem": None if self.memory is None else f"{round(1024 * self.memory)}M",
            "gpus-per-node": self.gpus or None,
            "requeue": True,
            **self.flags,
        }
        used_options = {name: value for name, value in options.items() if value not in (None, False)}
        return [f"--{name}" if value is True else f"--{name}={value}" for name, value in used_options.items()]


def read(path: Path = FILE) -> Cluster:
    return checked(Cluster, read_yaml(path, REMEDY), str(path), "correct it")


class Slurm:
    """A SLURM cluster. Jobs are watched with the program squeue; SLURM's accounting may be off."""

    grace = 10.0  # shared disks show files late

    def __init__(self, cluster: Cluster, at_once: int | None = None):
        if shutil.which("sbatch") is None:
            raise InputError("--on slurm: there is no SLURM here (no sbatch); take --on local")
        if (squeue := _queue()).returncode:  # an error only at the start: later, squeue may fail for a while
            reason = _refusal(squeue.stderr)
            raise InputError(f"--on slurm: SLURM does not answer ({reason}); take --on local")
        self.cluster, self.at_once = cluster, at_once or cluster.at_once

    def start(self, folder: Path, command: str) -> None:
        """Submit a job. Raises InputError if SLURM refuses the job."""
        job_options = [f"--job-name={name(folder)}", f"--chdir={folder}", f"--output={folder / LOG}"]
        script = SCRIPT.format(setup="\n".join(self.cluster.setup), command=command, exit=EXIT)
        submit = ["sbatch", *job_options, "--open-mode=append", *self.cluster.options()]
        sbatch = subprocess.run(submit, input=script, env=environment(), capture_output=True, text=True)
        if sbatch.returncode:
            raise InputError(f"SLURM refused the job: {_refusal(sbatch.stderr)}; correct the cluster's file")

    def active(self, folders: Iterable[Path]) -> set[Path] | None:
        if (squeue := _queue()).returncode:
            return None
        queued = set(squeue.stdout.split())
        return {folder for folder in folders if name(folder) in queued}

    def end(self, folder: Path) -> None:
        subprocess.run(["scancel", "--me", f"--name={name(folder)}"], check=False)

    def leave(self, folders: Iterable[Path]) -> str:
        return "the jobs continue: start the command again to watch them, or with --cancel to end them"


def name(folder: Path) -> str:
    """Return the name that a job has in SLURM's queue. Different folders give different names."""
    return f"{folder.name[:16]}-{sha256(str(folder))[:12]}"


def _queue() -> subprocess.CompletedProcess[str]:
    command = ["squeue", "--me", "--noheader", "--format=%j"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _refusal(text: str) -> str:
    lines = [line.partition("error: ")[2] for line in text.splitlines() if "error: " in line]
    return lines[0] if lines else (text.strip().splitlines() or ["it printed nothing"])[-1]
