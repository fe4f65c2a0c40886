"""The same on a real SLURM of two nodes: cancelled, out of time, a dead node, a cluster that refuses."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from pipeline.io.errors import InputError
from pipeline.study import job, places, queue
from pipeline.study.cluster_settings import Cluster
from pipeline.study.places import Slurm
from pipeline.study.queue import Queue, cancel
from tests.cluster_jobs import Shell, once
from tests.two_nodes import needs_slurm, two_nodes

pytestmark = [needs_slurm, pytest.mark.slow]
HOLDS = "while [ ! -e go ]; do sleep 0.1; done"
CLUSTER = Cluster(minutes=10, warned=60)


@pytest.fixture(scope="module")
def slurm():
    with two_nodes() as folder:
        yield folder


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(queue, "POLL", 0.3)
    monkeypatch.setattr(job, "POLL", 0.2)
    monkeypatch.setattr(Slurm, "grace", 1.0)


def until(there, seconds=30.0):
    end = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < end, Path(os.environ["SLURM_CONF"]).with_name("slurmctld.log").read_text()
        time.sleep(0.2)


def number(task: Shell) -> str:
    """Its job's, in the queue."""
    return Slurm(CLUSTER)._queue()[places.name(task.folder)][0]


def soon(own: str, task: Shell, lines: int) -> None:
    """Until the task has run so often; SLURM has what it puts back wait two minutes.

    A node refuses a job that begins again in the second in which it was ended there.
    """
    time.sleep(2)

    def there():
        subprocess.run(["scontrol", "update", f"JobId={own}", "StartTime=now"], capture_output=True)
        return len(task.ran()) == lines

    until(there)


def go(*tasks: Shell) -> None:
    for task in tasks:
        (task.folder / "go").touch()


def test_jobs_run_on_both_nodes_and_one_that_is_cancelled_by_hand_runs_again(slurm, tmp_path):
    tasks = [Shell(tmp_path / name, once("x", HOLDS)) for name in "abc"]
    found = Queue(Slurm(CLUSTER), tasks)
    until(lambda: found.turn() and {entry.node for entry in found.entries} == {"n1", "n2", ""})
    until(lambda: tasks[0].ran())
    subprocess.run(["scancel", number(tasks[0])], check=True)
    go(*tasks[1:])
    until(lambda: found.turn() and len(tasks[0].ran()) == 2)
    go(tasks[0])
    assert found.run() == []
    assert [task.taken for task in tasks] == [1, 1, 1]
    assert tasks[0].ran() == ["x", "x"]


def test_out_of_time_it_goes_into_the_queue_again_and_goes_on(slurm, tmp_path):
    task = Shell(tmp_path / "a", once("first"), f"echo second >> ran; {HOLDS}; touch out1")
    found = Queue(Slurm(CLUSTER), [task])
    until(lambda: found.turn() and task.ran() == ["first", "second"])
    own = number(task)
    time.sleep(2)  # a job is not put back in the second in which it began
    # the signal that SLURM sends before the end of the time, or where another job takes the node
    subprocess.run(["scancel", "--signal=USR2", own], check=True)
    soon(own, task, 3)
    assert number(task) == own  # the same job, which the front did not start again
    go(task)
    assert found.run() == []
    assert found.entries[0].tries == 0


def test_cancel_ends_its_own_jobs_and_no_other(slurm, tmp_path):
    tasks = [Shell(tmp_path / name, once("x", HOLDS)) for name in "ab"]
    found = Queue(Slurm(CLUSTER), tasks)
    until(lambda: found.turn() and {entry.state for entry in found.entries} <= {"queued", "running"})
    assert cancel(Slurm(CLUSTER), [tasks[0].folder]) == 1
    until(lambda: found.turn() and found.entries[0].state == "cancelled")
    go(*tasks)
    assert [entry.task.name for entry in found.run()] == ["a"]
    assert tasks[1].taken == 1


def test_a_partition_that_does_not_exist_is_one_line(slurm, tmp_path, capfd):
    found = Queue(Slurm(CLUSTER.model_copy(update={"partition": "nowhere"})), [Shell(tmp_path / "a", "true")])
    with pytest.raises(InputError) as refused:
        found.run()
    assert capfd.readouterr() == ("", "")
    assert str(refused.value) == (
        "SLURM refused the job: invalid partition specified: nowhere; correct the cluster's file"
    )


def test_a_folder_that_nodes_do_not_see_is_one_line(slurm, tmp_path):
    task = Shell(tmp_path / "a", "true")
    begin = task.begin

    def elsewhere(others):
        # where the nodes start it, there is no such folder
        made = begin(others)
        return job.Job(made.place, "/only/here", made.command)

    task.begin = elsewhere
    (entry,) = Queue(Slurm(CLUSTER), [task]).run()
    assert "its job ended 3 times before it began; do all nodes see" in entry.line


def children(process: int) -> list[int]:
    found = [path.read_text().split() for path in Path(f"/proc/{process}/task").glob("*/children")]
    return [int(child) for own in found for child in own]


def die(slurm: Path, name: str, own: str) -> None:
    """Kill all that a node is: its daemon, what watches over the job, so that none reports, and the job."""
    daemon = int((slurm / f"{name}.pid").read_text())
    beside = children(int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1]))
    watches = {each: Path(f"/proc/{each}/cmdline").read_bytes() for each in beside}
    steps = [each for each, line in watches.items() if line.startswith(f"slurmstepd: [{own}.".encode())]
    assert len(steps) == 2  # the batch script's, and that of what it started by srun
    groups = [child for step in steps for child in children(step)]
    for process in (daemon, *sorted(steps, key=lambda each: b".batch" not in watches[each])):
        os.kill(process, signal.SIGKILL)
    for group in groups:
        os.killpg(group, signal.SIGKILL)
    # as SLURM does by itself, when the daemon has not answered for a while
    subprocess.run(
        ["scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=it does not answer"], check=True
    )


# the last, for a node is gone after it
def test_cells_of_a_node_that_dies_run_elsewhere(slurm, tmp_path):
    tasks = [Shell(tmp_path / name, once("x", HOLDS)) for name in "ab"]
    found = Queue(Slurm(CLUSTER), tasks)
    until(lambda: found.turn() and {entry.node for entry in found.entries} == {"n1", "n2"})
    until(lambda: all(task.ran() for task in tasks))
    (on_two,) = [entry.task for entry in found.entries if entry.node == "n2"]
    (other,) = [task for task in tasks if task is not on_two]
    die(slurm, "n2", number(on_two))
    go(other)
    soon(number(on_two), on_two, 2)
    go(on_two)
    assert found.run() == []
    assert [entry.node for entry in found.entries] == ["n1", "n1"]
