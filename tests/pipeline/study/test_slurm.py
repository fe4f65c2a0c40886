"""Jobs on a real SLURM of two nodes: cancelled, out of time, a dead node, a cluster that refuses."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from pipeline.io.errors import InputError
from pipeline.study import jobs, slurm
from pipeline.study.jobs import Queue, cancel
from pipeline.study.slurm import Cluster, Slurm
from tests.cluster_jobs import HOLDS, Shell
from tests.two_nodes import needs_slurm, two_nodes

pytestmark = [needs_slurm, pytest.mark.slow]
CLUSTER = Cluster(minutes=10, warned=60)
RUN = f"hostname >> ran; echo $SLURMD_NODENAME >> node; {HOLDS}"


@pytest.fixture(scope="module")
def nodes():
    with two_nodes() as folder:
        yield folder


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(jobs, "POLL", 0.3)
    monkeypatch.setattr(Slurm, "grace", 1.0)


def until(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, Path(os.environ["SLURM_CONF"]).with_name("slurmctld.log").read_text()
        time.sleep(0.2)


def number(task: Shell) -> str:
    """The id of the task's job."""
    command = ["squeue", "--noheader", "--format=%i", f"--name={slurm.name(task.folder)}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def soon(job_id: str, task: Shell, lines: int) -> None:
    """Wait until the task has run so often; a requeued job would begin only after two minutes."""
    time.sleep(2)  # a node refuses a job that begins again in the second in which it ended there

    def has_run():
        subprocess.run(["scontrol", "update", f"JobId={job_id}", "StartTime=now"], capture_output=True)
        return len(task.ran()) == lines

    until(has_run)


def go(*tasks: Shell) -> None:
    for task in tasks:
        (task.folder / "go").touch()


def test_jobs_run_on_both_nodes_and_cancel_ends_one(nodes, tmp_path):
    tasks = [Shell(tmp_path / name, RUN) for name in "abc"]
    queue = Queue(Slurm(CLUSTER), tasks)
    until(lambda: queue.turn() and all(task.ran() for task in tasks[:2]))
    assert {(task.folder / "node").read_text().strip() for task in tasks[:2]} == {"n1", "n2"}
    assert cancel(Slurm(CLUSTER), [tasks[0].folder]) == 1
    go(*tasks[1:])
    (line,) = queue.run()
    assert line.startswith("a: it was ended from outside")
    assert [task.taken for task in tasks] == [0, 1, 1]


def test_a_job_out_of_time_is_requeued_and_continues(nodes, tmp_path):
    task = Shell(tmp_path / "a", RUN)
    queue = Queue(Slurm(CLUSTER), [task])
    until(lambda: queue.turn() and task.ran())
    job_id = number(task)
    time.sleep(2)  # a job is not requeued in the second in which it began
    # the signal that SLURM sends to the batch script before the time limit
    subprocess.run(["scancel", "--batch", "--signal=USR2", job_id], check=True)
    soon(job_id, task, 2)
    assert number(task) == job_id
    go(task)
    assert queue.run() == []
    assert task.taken == 1


def test_a_partition_that_does_not_exist_is_one_line(nodes, tmp_path):
    queue = Queue(Slurm(CLUSTER.model_copy(update={"partition": "nowhere"})), [Shell(tmp_path / "a", "true")])
    with pytest.raises(InputError, match=r"SLURM refused the job: .*invalid partition") as refused:
        queue.run()
    assert "\n" not in str(refused.value)


# the last test, because a node is gone after it
def test_a_job_of_a_dead_node_runs_elsewhere(nodes, tmp_path):
    tasks = [Shell(tmp_path / name, RUN) for name in "ab"]
    queue = Queue(Slurm(CLUSTER), tasks)
    until(lambda: queue.turn() and all(task.ran() for task in tasks))
    (lost,) = [task for task in tasks if (task.folder / "node").read_text().strip() == "n2"]
    job_id = number(lost)
    os.kill(int((nodes / "n2.pid").read_text()), signal.SIGKILL)
    command = ["scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=dead"]
    subprocess.run(command, check=True)
    go(*(task for task in tasks if task is not lost))
    soon(job_id, lost, 2)
    go(lost)
    assert queue.run() == []
    assert [task.taken for task in tasks] == [1, 1]
