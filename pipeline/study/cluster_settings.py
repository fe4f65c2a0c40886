"""What a cluster is asked for each job: studies/cluster.yaml, or another file of the same keys."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from pipeline.config.dataset_params import Count, Positive, Strict
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_yaml
from pipeline.io.records import first_fault

FILE = Path("studies/cluster.yaml")
REMEDY = "name a file of a cluster's settings by --cluster, such as the repository's own"
Line = Annotated[str, Field(min_length=1)]


class Cluster(Strict):
    """One job's share of a SLURM cluster."""

    partition: Line | None = None  # null: the cluster's default
    minutes: Count  # that a job may run; one that needs longer goes on in another turn
    warned: Count = 90  # seconds before that end, at which the job puts itself into the queue again
    gpus: Annotated[int, Field(ge=0)] = 0
    cpus: Count = 1
    memory: Positive | None = None  # GB; null: the cluster's default
    flags: dict[Line, str | int | bool] = Field(
        default_factory=dict
    )  # further ones of sbatch: {account: vision}
    setup: tuple[Line, ...] = Field((), strict=False)  # lines of shell before the job: module load cuda
    at_once: Count | None = None  # jobs in SLURM's queue at most

    def of_submitit(self, name: str, folder: Path) -> dict[str, Any]:
        """The same in submitit's words, of a job `name` that starts in `folder`."""
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
            # since SLURM 22.05 a step does not take this from its job
            "srun_args": [f"--cpus-per-task={self.cpus}"],
        }
        flags = {"chdir": str(folder)} | self.flags
        return {key: value for key, value in found.items() if value is not None} | {
            "additional_parameters": flags
        }


def read(path: Path = FILE) -> Cluster:
    """Such a file. Raises InputError naming the key that is wrong."""
    try:
        return Cluster.model_validate(read_yaml(path, REMEDY))
    except ValidationError as error:
        raise InputError(f"{path}: {first_fault(error)}; mend it") from None
