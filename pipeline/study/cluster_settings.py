"""Read the resources that each job requests from a cluster.

They are in studies/cluster.yaml, or in another file with the same keys.
"""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from pipeline.config.dataset_params import Count, Positive, Strict
from pipeline.io.inputs import read_yaml
from pipeline.io.records import checked

FILE = Path("studies/cluster.yaml")
REMEDY = "name a file of a cluster's settings by --cluster, such as the repository's own"
Line = Annotated[str, Field(min_length=1)]


class Cluster(Strict):
    """Resources of one job on a SLURM cluster."""

    partition: Line | None = None  # null: the cluster's default
    minutes: Count  # time limit; a job that needs longer is requeued
    warned: Count = 90  # seconds before the limit at which the job requeues itself
    gpus: Annotated[int, Field(ge=0)] = 0
    cpus: Count = 1
    memory: Positive | None = None  # GB; null: the cluster's default
    # further options of sbatch: {account: vision}
    flags: dict[Line, str | int | bool] = Field(default_factory=dict)
    setup: tuple[Line, ...] = Field((), strict=False)  # shell lines before the job: module load cuda
    at_once: Count | None = None  # greatest number of jobs in SLURM's queue

    def of_submitit(self, name: str, folder: Path) -> dict[str, Any]:
        """Return submitit's parameters for a job with this name, which starts in `folder`."""
        found: dict[str, Any] = {
            "job_name": name,
            "partition": self.partition,
            "time": self.minutes,
            "signal_delay_s": self.warned,
            "cpus_per_task": self.cpus,
            "mem": None if self.memory is None else f"{round(1024 * self.memory)}M",
            "gpus_per_node": self.gpus or None,
            "setup": list(self.setup) or None,
            "stderr_to_stdout": True,
            # since SLURM 22.05, a step does not inherit this from its job
            "srun_args": [f"--cpus-per-task={self.cpus}"],
        }
        given = {key: value for key, value in found.items() if value is not None}
        return given | {"additional_parameters": {"chdir": str(folder)} | self.flags}


def read(path: Path = FILE) -> Cluster:
    """Read a cluster's settings. Raises InputError if a key is wrong. The message names the key."""
    return checked(Cluster, read_yaml(path, REMEDY), str(path), "correct it")
